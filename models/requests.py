"""The request log (rule P5): every request that was put on the wire, in the database's time. Never sampled."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table, Text, UniqueConstraint

from models.base import BigId, UtcDateTime, metadata

requests = Table(
    "requests",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("group_key", String(200), nullable=False),
    Column("host", String(300), nullable=False),
    Column("job_id", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    # counts the attempt's requests: a commit that is repeated after a lost answer logs none of them twice
    Column("number", Integer, nullable=False),
    Column("url", Text, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime, nullable=False),
    Column("status", Integer),
    Column("bytes", BigInteger, nullable=False, server_default="0"),
    Column("error", Text, nullable=False, server_default=""),
    # the gap that was required before this request
    Column("interval_sec", Float, nullable=False, server_default="0"),
    UniqueConstraint("job_id", "attempt", "number"),
)
Index("ix_requests_group_key_started_at", requests.c.group_key, requests.c.started_at)

#: robots.txt as it was last read, per host, at most a day old when used (rule P4).
robots_copies = Table(
    "robots_copies",
    metadata,
    Column("host", String(300), primary_key=True),
    Column("fetched_at", UtcDateTime, nullable=False),
    Column("status", Integer),
    Column("decision", String(40), nullable=False),
    # for how long "not now" holds
    Column("wait_sec", Float, nullable=False, server_default="0"),
    Column("body", Text, nullable=False, server_default=""),
)
