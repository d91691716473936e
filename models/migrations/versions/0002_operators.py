"""Operators: pauses of all groups, what they did, what they are told; callbacks, expiry, why a worker does not consume."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from models.migrations.functions import install

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: None = None
depends_on: None = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
MOMENT = sa.TIMESTAMP(timezone=True).with_variant(sa.BigInteger(), "sqlite")
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
EXPIRES = "status = 'queued' AND expires_at IS NOT NULL"
TO_SEND = "callbacks IS NOT NULL AND callbacks_sent_at IS NULL AND status IN ('done', 'failed', 'cancelled')"


def only(condition: str) -> dict[str, Any]:
    """Return what makes an index partial on both databases."""
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


def upgrade() -> None:
    """Add the columns and tables; on PostgreSQL the functions that know them stand beside those of the release before."""
    op.add_column("jobs", sa.Column("callbacks", JSON))
    op.add_column("jobs", sa.Column("callbacks_sent_at", MOMENT))
    op.create_index("ix_jobs_expires", "jobs", ["expires_at"], **only(EXPIRES))
    op.create_index("ix_jobs_callbacks", "jobs", ["seq"], **only(TO_SEND))
    op.create_index("ix_jobs_run", "jobs", ["run_id", "seq"])
    op.create_index("ix_jobs_site_code", "jobs", ["site_code", "seq"])
    op.add_column("rate_groups", sa.Column("operator_paused_at", MOMENT))
    op.add_column("workers", sa.Column("trouble", sa.String(40), nullable=False, server_default=""))
    _fleet()
    _operations()
    _notices()
    _marks()
    install(op.get_bind())


def downgrade() -> None:
    """Refuse: going back would delete what operators did."""
    raise NotImplementedError("this schema cannot be undone: restore a backup instead")


def _fleet() -> None:
    op.create_table(
        "fleet",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False), sa.Column("operator_pause_until", MOMENT),
        sa.Column("operator_pause_reason", sa.Text()), sa.Column("operator_pause_by", sa.Text()),
        sa.Column("operator_paused_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fleet")),
    )
    op.execute("INSERT INTO fleet (id) VALUES (1)")


def _operations() -> None:
    op.create_table(
        "operations",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False), sa.Column("at", MOMENT, nullable=False),
        sa.Column("who", sa.String(200), nullable=False), sa.Column("surface", sa.String(20), nullable=False),
        sa.Column("action", sa.String(40), nullable=False), sa.Column("group_key", sa.String(200)),
        sa.Column("job_id", sa.String(64)), sa.Column("target_code", sa.String(200)),
        sa.Column("entry", sa.String(100)), sa.Column("reason", sa.Text(), nullable=False, server_default=""),
        sa.Column("details", JSON),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
    )
    op.create_index("ix_operations_at", "operations", ["at"])
    op.create_index("ix_operations_group_key_at", "operations", ["group_key", "at"])
    op.create_index("ix_operations_job_id", "operations", ["job_id"])


def _notices() -> None:
    op.create_table(
        "notices",
        sa.Column("key", sa.String(300), nullable=False), sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("at", MOMENT, nullable=False), sa.Column("document", JSON, nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("next_try_at", MOMENT, nullable=False), sa.Column("sent_at", MOMENT),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_notices")),
    )
    op.create_index("ix_notices_next_try_at", "notices", ["next_try_at"])


def _marks() -> None:
    op.create_table(
        "marks",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_marks")),
    )
