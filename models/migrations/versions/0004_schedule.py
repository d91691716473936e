"""The schedule: entries, runs, which jobs they count, snapshots, candidates, vitals, and when a job may not be taken."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from models.migrations.functions import install

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: None = None
depends_on: None = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
MOMENT = sa.TIMESTAMP(timezone=True).with_variant(sa.BigInteger(), "sqlite")
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
HELD = "status = 'queued' AND hold_from IS NOT NULL"


def only(condition: str) -> dict[str, Any]:
    """Return what makes an index partial on both databases."""
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


def upgrade() -> None:
    """Add tables and columns; on PostgreSQL the functions that know them stand beside those of the release before."""
    op.add_column("jobs", sa.Column("hold_from", MOMENT))
    op.add_column("jobs", sa.Column("hold_until", MOMENT))
    op.create_index("ix_jobs_hold", "jobs", ["hold_from"], **only(HELD))
    _entries()
    _runs()
    _run_job()
    _snapshots()
    _candidates()
    _vitals()
    _lane_of_calls()
    install(op.get_bind())


def downgrade() -> None:
    """Refuse: going back would forget what ran."""
    raise NotImplementedError("this schema cannot be undone: restore a backup instead")


def _entries() -> None:
    op.create_table(
        "entries",
        sa.Column("name", sa.String(100), nullable=False), sa.Column("rules", JSON, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("status", sa.String(10), nullable=False), sa.Column("due_at", MOMENT),
        sa.Column("plan", JSON, nullable=False), sa.Column("run_id", sa.BigInteger()),
        sa.Column("stat_date", sa.Date()), sa.Column("progress", JSON), sa.Column("last_run_at", MOMENT),
        sa.Column("last_success_at", MOMENT), sa.Column("last_outcome", JSON), sa.Column("stale_at", MOMENT),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_entries")),
        sa.CheckConstraint("status IN ('pending', 'running', 'done', 'failed', 'deferred')",
                           name=op.f("ck_entries_status")),
    )
    op.create_index("ix_entries_due_at", "entries", ["due_at"])
    op.create_table(
        "schedule_config",
        sa.Column("name", sa.String(100), nullable=False), sa.Column("document", JSON, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_schedule_config")),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("entry", sa.String(100), nullable=False), sa.Column("occurrence", MOMENT, nullable=False),
        sa.Column("try_no", sa.Integer(), nullable=False), sa.Column("stat_date", sa.Date(), nullable=False),
        sa.Column("source", sa.String(20), nullable=False),
        sa.Column("force", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("failures", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("started_at", MOMENT), sa.Column("ended_at", MOMENT), sa.Column("outcome", sa.String(10)),
        sa.Column("reason", sa.Text(), nullable=False, server_default=""), sa.Column("until", MOMENT),
        sa.Column("by_run", sa.BigInteger()), sa.Column("total", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("progress", JSON), sa.Column("details", JSON), sa.Column("recorded_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
        sa.UniqueConstraint("entry", "occurrence", "try_no", name=op.f("uq_runs_entry_occurrence_try_no")),
        sa.CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name=op.f("ck_runs_ended")),
    )
    op.create_index("ix_runs_open", "runs", ["entry"], **only("outcome IS NULL"))
    op.create_index("ix_runs_entry_run_id", "runs", ["entry", "run_id"])
    op.create_index("ix_runs_recorded_at", "runs", ["recorded_at"])


def _run_job() -> None:
    op.create_table(
        "run_job",
        sa.Column("run_id", sa.BigInteger(), nullable=False), sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("target_code", sa.String(200)), sa.Column("site_code", sa.String(200)),
        sa.PrimaryKeyConstraint("run_id", "job_id", name=op.f("pk_run_job")),
    )
    op.create_index("ix_run_job_job_id", "run_job", ["job_id"])


def _snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("stat_date", sa.Date(), nullable=False), sa.Column("seeded_at", MOMENT),
        sa.Column("seeded_from", sa.Date()), sa.Column("completed_at", MOMENT),
        sa.Column("completed_run_started_at", MOMENT), sa.Column("completed_run", sa.BigInteger()),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("stat_date", name=op.f("pk_snapshots")),
    )
    op.create_index("ix_snapshots_completed", "snapshots", ["stat_date"], **only("completed_at IS NOT NULL"))
    op.create_table(
        "snapshot_items",
        sa.Column("stat_date", sa.Date(), nullable=False), sa.Column("target_code", sa.String(200), nullable=False),
        sa.Column("url", sa.Text(), nullable=False), sa.Column("hash", sa.String(64), nullable=False, server_default=""),
        sa.Column("mark", sa.String(32), nullable=False, server_default=""),
        sa.Column("src", sa.String(10), nullable=False),
        sa.Column("ok", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.Column("seen_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("stat_date", "target_code", "url", name=op.f("pk_snapshot_items")),
    )
    op.create_index("ix_snapshot_items_target_code", "snapshot_items", ["target_code", "stat_date"])


def _candidates() -> None:
    op.create_table(
        "candidates",
        sa.Column("site_code", sa.String(200), nullable=False), sa.Column("url", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False, server_default=""),
        sa.Column("links", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("first_seen_at", MOMENT, nullable=False), sa.Column("last_seen_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("site_code", "url", name=op.f("pk_candidates")),
    )
    op.create_index("ix_candidates_last_seen_at", "candidates", ["last_seen_at"])


def _vitals() -> None:
    op.create_table(
        "vitals",
        sa.Column("site_code", sa.String(200), nullable=False), sa.Column("state", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False, server_default=""), sa.Column("status", sa.Integer()),
        sa.Column("latency_sec", sa.Float()), sa.Column("checked_at", MOMENT, nullable=False),
        sa.Column("reachable_at", MOMENT),
        sa.PrimaryKeyConstraint("site_code", name=op.f("pk_vitals")),
    )


def _lane_of_calls() -> None:
    """Insert the group of jobs that call tasks which the file of sites names."""
    now = "CAST(strftime('%s', 'now') AS INTEGER) * 1000000" if op.get_bind().dialect.name == "sqlite" else "now()"
    op.execute(f"INSERT INTO rate_groups (key, created_at) SELECT '_tasks', {now} "
               "WHERE NOT EXISTS (SELECT 1 FROM rate_groups WHERE key = '_tasks')")
