"""Workers that live or lived, and the counters of what the protocol had to refuse or repair."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table

from models.base import Json, UtcDateTime, metadata

workers = Table(
    "workers",
    metadata,
    # a worker's identity is its name plus a boot id: a restart under the same name inherits nothing
    Column("boot_id", String(40), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("host", String(200), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("pool", String(20), nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("lanes", Json),
    Column("started_at", UtcDateTime, nullable=False),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    # the last moment at which the lane consumer looked for work with a live broker connection
    Column("consuming_at", UtcDateTime),
    Column("stopped_at", UtcDateTime),
    # why it does not consume, in one word; empty while it does
    Column("trouble", String(40), nullable=False, server_default=""),
    Column("heartbeat_sec", Float, nullable=False),
)
Index("ix_workers_heartbeat_at", workers.c.heartbeat_at)

counters = Table(
    "counters",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("value", BigInteger, nullable=False, server_default="0"),
)

#: Moments that workers share: whose turn a chore is, since when something is looked after. What dies leaves a moment behind.
marks = Table(
    "marks",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("value", BigInteger, nullable=False, server_default="0"),
)
