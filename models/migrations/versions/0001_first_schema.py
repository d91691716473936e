"""The first schema: groups, sites, jobs, articles, requests, workers.

A migration is history: it spells its tables itself, so that a later change of the models cannot change what it did.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from models.migrations.functions import install

revision: str = "0001"
down_revision: str | None = None
branch_labels: None = None
depends_on: None = None

INT, BIG, FLOAT, TEXT, FLAG = sa.Integer(), sa.BigInteger(), sa.Float(), sa.Text(), sa.Boolean()
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")
#: microseconds since 1970 on SQLite
MOMENT = sa.TIMESTAMP(timezone=True).with_variant(sa.BigInteger(), "sqlite")

RUNNING, QUEUED, ACTIVE = "status = 'running'", "status = 'queued'", "status IN ('queued', 'running')"


def must(name: str, kind: sa.types.TypeEngine[Any], default: Any = None) -> sa.Column[Any]:
    """Return a column that is never NULL."""
    return sa.Column(name, kind, nullable=False, server_default=default)


def may(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    """Return a column that may be NULL."""
    return sa.Column(name, kind)


def serial(name: str) -> sa.Column[Any]:
    """Return a column that the database numbers."""
    return sa.Column(name, BIG_ID, autoincrement=True, nullable=False)


def only(condition: str) -> dict[str, Any]:
    """Return what makes an index partial on both databases."""
    return {"postgresql_where": sa.text(condition), "sqlite_where": sa.text(condition)}


def upgrade() -> None:
    """Create every table and, on PostgreSQL, the functions."""
    _groups()
    _sites()
    _jobs()
    _articles()
    _requests()
    _workers()
    install(op.get_bind())


def downgrade() -> None:
    """Refuse: going back would delete every job and article."""
    raise NotImplementedError("the first schema cannot be undone: drop the database instead")


def _groups() -> None:
    op.create_table(
        "rate_groups",
        must("key", sa.String(200)), may("ready_at", MOMENT), may("next_request_at", MOMENT),
        may("last_response_at", MOMENT), may("last_interval_sec", FLOAT), must("crawl_delay_sec", FLOAT, "0"),
        may("pause_until", MOMENT), may("pause_kind", sa.String(20)), may("pause_reason", TEXT),
        may("paused_at", MOMENT), must("cooldown_level", INT, "0"), may("operator_pause_until", MOMENT),
        may("operator_pause_reason", TEXT), may("operator_pause_by", TEXT), must("claim_no", BIG, "0"),
        must("created_at", MOMENT),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_rate_groups")),
    )
    op.create_index("ix_rate_groups_ready_at", "rate_groups", ["ready_at"])
    op.create_table(
        "lane_wake",
        serial("id"), must("group_key", sa.String(200)), must("at", MOMENT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lane_wake")),
    )
    op.create_table(
        "cooldowns",
        serial("id"), must("group_key", sa.String(200)), may("job_id", sa.String(64)), may("attempt", INT),
        may("target_code", sa.String(200)), must("kind", sa.String(20)), must("reason", TEXT),
        must("at", MOMENT), must("until", MOMENT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cooldowns")),
    )
    op.create_index("ix_cooldowns_group_key_at", "cooldowns", ["group_key", "at"])


def _sites() -> None:
    op.create_table(
        "sites",
        must("site_code", sa.String(200)), must("name", TEXT, ""), must("base_url", TEXT),
        must("cms_adapter", sa.String(100)), must("group_key", sa.String(200)), must("group_rule", TEXT),
        may("assigned_group", sa.String(200)), must("options", JSON), must("created_at", MOMENT),
        must("updated_at", MOMENT),
        sa.PrimaryKeyConstraint("site_code", name=op.f("pk_sites")),
    )
    op.create_index("ix_sites_group_key", "sites", ["group_key"])
    op.create_table(
        "targets",
        must("target_code", sa.String(200)), must("site_code", sa.String(200)), must("name", TEXT, ""),
        must("interval_sec", FLOAT), may("grown_interval_sec", FLOAT), must("track_checkpoint", FLAG),
        must("enabled", FLAG), must("options", JSON), must("options_hash", sa.String(64)),
        must("frontier_gen", INT, "0"), may("frontier_at", MOMENT), must("lone_403_weak", FLAG, sa.false()),
        may("last_crawl_at", MOMENT), may("last_outcome", sa.String(20)), may("last_job_id", sa.String(64)),
        must("created_at", MOMENT), must("updated_at", MOMENT),
        sa.PrimaryKeyConstraint("target_code", name=op.f("pk_targets")),
    )
    op.create_index("ix_targets_site_code", "targets", ["site_code"])
    op.create_table(
        "interval_history",
        serial("id"), must("target_code", sa.String(200)), must("old_interval_sec", FLOAT),
        must("new_interval_sec", FLOAT), must("cause", TEXT), must("at", MOMENT), may("job_id", sa.String(64)),
        may("attempt", INT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interval_history")),
    )
    op.create_index("ix_interval_history_target_code_at", "interval_history", ["target_code", "at"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        serial("seq"), must("job_id", sa.String(64)), must("kind", sa.String(40)),
        may("site_code", sa.String(200)), may("target_code", sa.String(200)),
        must("group_key", sa.String(200)), must("source", sa.String(20), "manual"),
        must("status", sa.String(10)), must("priority", INT, "100"), may("dedupe_key", sa.String(300)),
        may("run_id", BIG), must("force", FLAG, sa.false()), may("options", JSON), must("attempt", INT, "0"),
        must("claim_no", BIG, "0"), must("failures", INT, "0"), must("max_attempts", INT, "3"),
        must("recoveries", INT, "0"), must("recoveries_row", INT, "0"), must("cooldown_retries", INT, "0"),
        must("cooldown_row", INT, "0"), must("deadlines", INT, "0"), must("deadlines_row", INT, "0"),
        must("js_challenges", INT, "0"), may("deadline_sec", FLOAT), must("resume_from_page", INT, "0"),
        must("current_page", INT, "0"), must("last_completed_page", INT, "0"), may("checkpoint", JSON),
        must("row_page", INT, "0"), may("progress", JSON), may("result", JSON), may("outcome", sa.String(20)),
        must("error_msg", TEXT, ""), must("wait_reason", sa.String(40), ""), may("cooldown_seen", JSON),
        must("enqueued_at", MOMENT), must("queue_at", MOMENT), may("run_after", MOMENT),
        may("expires_at", MOMENT), may("claimed_at", MOMENT), may("started_at", MOMENT),
        may("finished_at", MOMENT), must("updated_at", MOMENT), may("worker", sa.String(200)),
        may("boot_id", sa.String(40)), may("lease_until", MOMENT), may("busy_until", MOMENT),
        may("last_response_at", MOMENT), may("last_interval_sec", FLOAT),
        must("stop_requested", FLAG, sa.false()), must("park_requested", FLAG, sa.false()),
        sa.UniqueConstraint("job_id", name=op.f("uq_jobs_job_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_jobs")),
        sa.CheckConstraint("status IN ('queued', 'running', 'done', 'failed', 'cancelled')", name=op.f("ck_jobs_status")),
        sa.CheckConstraint("(status = 'running') = (lease_until IS NOT NULL)", name=op.f("ck_jobs_lease_while_running")),
        sa.CheckConstraint(
            "(status IN ('done', 'failed', 'cancelled')) = (finished_at IS NOT NULL)", name=op.f("ck_jobs_finished")
        ),
    )
    _job_indexes()
    _attempts()


def _job_indexes() -> None:
    op.create_index("ix_jobs_boot", "jobs", ["boot_id"], **only(RUNNING))
    op.create_index("ix_jobs_dedupe", "jobs", ["dedupe_key", "seq"])
    op.create_index("ix_jobs_due", "jobs", ["group_key", "run_after"], **only(QUEUED))
    op.create_index("ix_jobs_head", "jobs", ["group_key", "priority", "queue_at", "seq"], **only(QUEUED))
    op.create_index("ix_jobs_lease", "jobs", ["lease_until"], **only(RUNNING))
    op.create_index("ix_jobs_status_finished", "jobs", ["status", "finished_at"])
    op.create_index("ix_jobs_target_code", "jobs", ["target_code", "seq"])
    op.create_index("uq_jobs_active_dedupe", "jobs", ["dedupe_key"], unique=True, **only(ACTIVE))
    op.create_index("uq_jobs_running_group", "jobs", ["group_key"], unique=True, **only(RUNNING))
    op.create_index("uq_jobs_running_site", "jobs", ["site_code"], unique=True, **only(RUNNING))


def _attempts() -> None:
    op.create_table(
        "attempts",
        must("job_id", sa.String(64)), must("attempt", INT), must("group_key", sa.String(200)),
        may("site_code", sa.String(200)), must("worker", sa.String(200)), must("boot_id", sa.String(40)),
        must("source", sa.String(20)), must("claimed_at", MOMENT), may("started_at", MOMENT),
        may("finished_at", MOMENT), may("outcome", sa.String(40)), must("error", TEXT, ""),
        must("traceback", TEXT, ""), may("evidence", JSON), must("from_page", INT, "0"),
        must("last_completed_page", INT, "0"),
        sa.PrimaryKeyConstraint("job_id", "attempt", name=op.f("pk_attempts")),
    )
    op.create_index("ix_attempts_group_key_claimed_at", "attempts", ["group_key", "claimed_at"])


def _articles() -> None:
    op.create_table(
        "articles",
        serial("id"), must("target_code", sa.String(200)), must("site_code", sa.String(200)),
        must("url", TEXT), may("own_id", sa.String(200)), must("final_url", TEXT, ""), must("title", TEXT, ""),
        may("published_at", MOMENT), must("text", TEXT, ""), must("sha256", sa.String(64), ""),
        must("source_page", TEXT, ""), must("external", FLAG, sa.false()), must("generation", INT),
        may("job_id", sa.String(64)), must("fetched_at", MOMENT),
        sa.UniqueConstraint("target_code", "url", name=op.f("uq_articles_target_code_url")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_articles")),
    )
    op.create_index("ix_articles_target_code_final_url", "articles", ["target_code", "final_url"])
    op.create_index("ix_articles_target_code_generation", "articles", ["target_code", "generation"])
    op.create_table(
        "article_aliases",
        must("target_code", sa.String(200)), must("url", TEXT), must("article_url", TEXT),
        must("title", TEXT, ""), must("source_page", TEXT, ""), must("generation", INT),
        sa.PrimaryKeyConstraint("target_code", "url", name=op.f("pk_article_aliases")),
    )
    op.create_table(
        "failed_items",
        must("target_code", sa.String(200)), must("url", TEXT), must("title", TEXT, ""),
        must("source_page", TEXT, ""), must("error", TEXT), must("forbidden", FLAG, sa.false()),
        must("tries", INT), must("first_at", MOMENT), must("last_at", MOMENT), may("job_id", sa.String(64)),
        sa.PrimaryKeyConstraint("target_code", "url", name=op.f("pk_failed_items")),
    )


def _requests() -> None:
    op.create_table(
        "requests",
        serial("id"), must("group_key", sa.String(200)), must("host", sa.String(300)),
        must("job_id", sa.String(64)), must("attempt", INT), must("number", INT), must("url", TEXT), must("started_at", MOMENT),
        must("ended_at", MOMENT), may("status", INT), must("bytes", BIG, "0"), must("error", TEXT, ""),
        must("interval_sec", FLOAT, "0"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
        sa.UniqueConstraint("job_id", "attempt", "number", name=op.f("uq_requests_job_id_attempt_number")),
    )
    op.create_index("ix_requests_group_key_started_at", "requests", ["group_key", "started_at"])
    op.create_table(
        "robots_copies",
        must("host", sa.String(300)), must("fetched_at", MOMENT), may("status", INT),
        must("decision", sa.String(40)), must("wait_sec", FLOAT, "0"), must("body", TEXT, ""),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_robots_copies")),
    )


def _workers() -> None:
    op.create_table(
        "workers",
        must("boot_id", sa.String(40)), must("name", sa.String(200)), must("host", sa.String(200)),
        must("pid", INT), must("pool", sa.String(20)), must("concurrency", INT), may("lanes", JSON),
        must("started_at", MOMENT), must("heartbeat_at", MOMENT), may("consuming_at", MOMENT),
        may("stopped_at", MOMENT), must("heartbeat_sec", FLOAT),
        sa.PrimaryKeyConstraint("boot_id", name=op.f("pk_workers")),
    )
    op.create_index("ix_workers_heartbeat_at", "workers", ["heartbeat_at"])
    op.create_table(
        "counters",
        must("name", sa.String(60)), must("value", BIG, "0"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
