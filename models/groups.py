"""Rate groups: the unit of politeness. One row each; it is locked before any of its jobs (design, lock order)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table, Text

from models.base import BigId, UtcDateTime, metadata

rate_groups = Table(
    "rate_groups",
    metadata,
    Column("key", String(200), primary_key=True),
    # The earliest moment at which a queued job may be taken; NULL while a job runs or nothing is queued. Its age orders
    # the groups (rule R5), so a group that stays ready keeps it.
    Column("ready_at", UtcDateTime),
    Column("next_request_at", UtcDateTime),
    Column("last_response_at", UtcDateTime),
    Column("last_interval_sec", Float),
    Column("crawl_delay_sec", Float, nullable=False, server_default="0"),
    # how long an answer of its hosts usually takes: one that takes five times as long is the politest sign (rule C1)
    Column("usual_latency_sec", Float),
    # the cooldown after an objection
    Column("pause_until", UtcDateTime),
    Column("pause_kind", String(20)),
    Column("pause_reason", Text),
    Column("paused_at", UtcDateTime),
    Column("cooldown_level", Integer, nullable=False, server_default="0"),
    # the operator's pause, independent of the cooldown (rule R9)
    Column("operator_pause_until", UtcDateTime),
    Column("operator_pause_reason", Text),
    Column("operator_pause_by", Text),
    Column("operator_paused_at", UtcDateTime),
    # counts the claims of the lane; a message that carries a lower number was left by a dead worker
    Column("claim_no", BigInteger, nullable=False, server_default="0"),
    Column("created_at", UtcDateTime, nullable=False),
)
Index("ix_rate_groups_ready_at", rate_groups.c.ready_at)

#: One row, `id` 1: the pause of all groups at once, those that are made later included. A group's own pause stays beside it.
fleet = Table(
    "fleet",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("operator_pause_until", UtcDateTime),
    Column("operator_pause_reason", Text),
    Column("operator_pause_by", Text),
    Column("operator_paused_at", UtcDateTime),
)

#: Insert-only: "something of this group may be due at `at`". A submit writes here instead of locking the group's row.
lane_wake = Table(
    "lane_wake",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("group_key", String(200), nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

#: Every pause that an objection caused, with what the site sent.
cooldowns = Table(
    "cooldowns",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("group_key", String(200), nullable=False),
    Column("job_id", String(64)),
    Column("attempt", Integer),
    Column("target_code", String(200)),
    Column("kind", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("until", UtcDateTime, nullable=False),
)
Index("ix_cooldowns_group_key_at", cooldowns.c.group_key, cooldowns.c.at)
