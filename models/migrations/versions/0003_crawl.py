"""The crawl whole: what is exported, what was marked or given up, validators, the usual latency, the internal lanes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: None = None
depends_on: None = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
MOMENT = sa.TIMESTAMP(timezone=True).with_variant(sa.BigInteger(), "sqlite")
PENDING = "NOT external AND NOT marked AND (exported_sha256 IS NULL OR exported_sha256 <> sha256)"


def upgrade() -> None:
    """Add the columns, the table of validators, and the rows of the internal lanes."""
    _articles()
    op.add_column("failed_items", sa.Column("crawls", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("failed_items", sa.Column("days", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("failed_items", sa.Column("given_up_at", MOMENT))
    op.add_column("rate_groups", sa.Column("usual_latency_sec", sa.Float()))
    op.create_table(
        "validators",
        sa.Column("target_code", sa.String(200), nullable=False), sa.Column("url", sa.Text(), nullable=False),
        sa.Column("etag", sa.Text()), sa.Column("last_modified", sa.Text()),
        sa.Column("fetched_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("target_code", "url", name=op.f("pk_validators")),
    )
    _internal_lanes()


def downgrade() -> None:
    """Refuse: going back would forget what was exported."""
    raise NotImplementedError("this schema cannot be undone: restore a backup instead")


def _articles() -> None:
    for column in (
        sa.Column("facts", JSON), sa.Column("marked", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("etag", sa.Text()), sa.Column("last_modified", sa.Text()), sa.Column("checked_at", MOMENT),
        sa.Column("exported_sha256", sa.String(64)), sa.Column("exported_at", MOMENT),
    ):
        op.add_column("articles", column)
    op.create_index("ix_articles_pending", "articles", ["target_code", "id"], postgresql_where=sa.text(PENDING),
                    sqlite_where=sa.text(PENDING))
    op.create_index("ix_articles_target_code_own_id", "articles", ["target_code", "own_id"])


def _internal_lanes() -> None:
    """Insert the groups of jobs that send no request to any site (design, section 2: group rows are made, not found)."""
    now = "CAST(strftime('%s', 'now') AS INTEGER) * 1000000" if op.get_bind().dialect.name == "sqlite" else "now()"
    for key in ("_cleanup", "_export", "_seed"):
        op.execute(f"INSERT INTO rate_groups (key, created_at) SELECT '{key}', {now} "
                   f"WHERE NOT EXISTS (SELECT 1 FROM rate_groups WHERE key = '{key}')")
