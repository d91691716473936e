"""What the scheduled work keeps: items per stat date, candidates for new targets, how sites answered (rule S7)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Date, Float, Index, Integer, String, Table, Text, text, true

from models.base import UtcDateTime, metadata

#: One row a stat date that was seeded or crawled.
snapshots = Table(
    "snapshots",
    metadata,
    Column("stat_date", Date, primary_key=True),
    # the last seed; a snapshot run that started before it does not count as the day's completed one
    Column("seeded_at", UtcDateTime),
    Column("seeded_from", Date),
    Column("completed_at", UtcDateTime),
    # when the run that completed it had started
    Column("completed_run_started_at", UtcDateTime),
    Column("completed_run", BigInteger),
    Column("updated_at", UtcDateTime, nullable=False),
)
COMPLETED = text("completed_at IS NOT NULL")
Index("ix_snapshots_completed", snapshots.c.stat_date, postgresql_where=COMPLETED, sqlite_where=COMPLETED)

#: What was listed on a stat date; `ok`: really seen listed that day, `src`: ``list`` or ``seed``.
snapshot_items = Table(
    "snapshot_items",
    metadata,
    Column("stat_date", Date, primary_key=True),
    Column("target_code", String(200), primary_key=True),
    Column("url", Text, primary_key=True),
    # the hash of its article's text, empty without one
    Column("hash", String(64), nullable=False, server_default=""),
    # a hash of what its list said of it (title, dates): another one than last time means that it has changed
    Column("mark", String(32), nullable=False, server_default=""),
    Column("src", String(10), nullable=False),
    Column("ok", Boolean, nullable=False, server_default=true()),
    Column("seen_at", UtcDateTime, nullable=False),
)
Index("ix_snapshot_items_target_code", snapshot_items.c.target_code, snapshot_items.c.stat_date)

#: Pages that look like lists of articles and belong to no target.
candidates = Table(
    "candidates",
    metadata,
    Column("site_code", String(200), primary_key=True),
    Column("url", Text, primary_key=True),
    Column("title", Text, nullable=False, server_default=""),
    # how many links to articles the page showed when it was seen last
    Column("links", Integer, nullable=False, server_default="0"),
    Column("first_seen_at", UtcDateTime, nullable=False),
    Column("last_seen_at", UtcDateTime, nullable=False),
)
Index("ix_candidates_last_seen_at", candidates.c.last_seen_at)

#: How each site answered last: reachable, unreachable, or unknown with the reason.
vitals = Table(
    "vitals",
    metadata,
    Column("site_code", String(200), primary_key=True),
    Column("state", String(20), nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("status", Integer),
    Column("latency_sec", Float),
    Column("checked_at", UtcDateTime, nullable=False),
    Column("reachable_at", UtcDateTime),
)
