"""Sites and targets, as the file describes them, and what Ratelane has learned about them."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ColumnElement, Float, Index, Integer, String, Table, Text, case, false

from models.base import BigId, Json, UtcDateTime, metadata

sites = Table(
    "sites",
    metadata,
    Column("site_code", String(200), primary_key=True),
    Column("name", Text, nullable=False, server_default=""),
    Column("base_url", Text, nullable=False),
    Column("cms_adapter", String(100), nullable=False),
    Column("group_key", String(200), nullable=False),
    # the rule that chose the group, in words (rule R1)
    Column("group_rule", Text, nullable=False),
    Column("assigned_group", String(200)),
    Column("options", Json, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)
Index("ix_sites_group_key", sites.c.group_key)

targets = Table(
    "targets",
    metadata,
    Column("target_code", String(200), primary_key=True),
    Column("site_code", String(200), nullable=False),
    Column("name", Text, nullable=False, server_default=""),
    # the file's interval (baseline) and what objections made of it; in force is the larger (rule C5)
    Column("interval_sec", Float, nullable=False),
    Column("grown_interval_sec", Float),
    Column("track_checkpoint", Boolean, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("options", Json, nullable=False),
    Column("options_hash", String(64), nullable=False),
    # every article of a crawl carries the generation of its target; those at or below this one lie behind the frontier
    Column("frontier_gen", Integer, nullable=False, server_default="0"),
    Column("frontier_at", UtcDateTime),
    Column("lone_403_weak", Boolean, nullable=False, server_default=false()),
    Column("last_crawl_at", UtcDateTime),
    Column("last_outcome", String(20)),
    Column("last_job_id", String(64)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)
Index("ix_targets_site_code", targets.c.site_code)

#: the interval in force of a target: the larger of the file's and what objections made of it (rule C5)
IN_FORCE: ColumnElement[float] = case(
    (targets.c.grown_interval_sec > targets.c.interval_sec, targets.c.grown_interval_sec), else_=targets.c.interval_sec)

interval_history = Table(
    "interval_history",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("target_code", String(200), nullable=False),
    Column("old_interval_sec", Float, nullable=False),
    Column("new_interval_sec", Float, nullable=False),
    Column("cause", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("job_id", String(64)),
    Column("attempt", Integer),
)
Index("ix_interval_history_target_code_at", interval_history.c.target_code, interval_history.c.at)
