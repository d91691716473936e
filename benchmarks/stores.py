"""Databases with so many lanes and jobs, filled set-based: what a fleet of that size has stored before a measurement.

A lane `lane7` has the site `lane7` and the targets `lane7-0`, `lane7-1`, …; a waiting job is the crawl of one of them.
The lanes have become ready in an order of their own, which is not that of their jobs in the table.
"""

from __future__ import annotations

from models import migrate
from models.db import Database

#: the tables that a claim or a settle writes
HOT = ("rate_groups", "jobs", "attempts", "lane_wake")

_LANES = "(SELECT %(lane)s::text || n AS lane FROM generate_series(0, %(lanes)s - 1) n) l"
_GROUPS = f"INSERT INTO rate_groups (key, created_at) SELECT lane, now() FROM {_LANES}"
_SITES = f"""
    INSERT INTO sites (site_code, base_url, cms_adapter, group_key, group_rule, options, created_at, updated_at)
    SELECT lane, 'http://' || lane || '.example', 'list', lane, 'host', '{{}}', now(), now() FROM {_LANES}"""
_TARGETS = f"""
    INSERT INTO targets (target_code, site_code, interval_sec, track_checkpoint, enabled, options, options_hash, created_at,
                         updated_at)
    SELECT lane || '-' || i, lane, 0, false, true, '{{}}', '', now(), now()
    FROM generate_series(0, %(each)s - 1) i, {_LANES}"""
_JOBS = f"""
    INSERT INTO jobs (job_id, kind, site_code, target_code, group_key, status, dedupe_key, enqueued_at, queue_at, updated_at)
    SELECT substr(md5(lane || '/' || i), 1, 12), %(kind)s, lane, lane || '-' || i, lane, 'queued', 'crawl:' || lane || '-' || i,
           now(), now(), now()
    FROM generate_series(0, %(each)s - 1) i, {_LANES}"""
_READY = """
    UPDATE rate_groups SET ready_at = now() - interval '1 day'
        + interval '1 hour' * (('x' || substr(md5(key), 1, 7))::bit(28)::int / 268435456.0)
    WHERE key LIKE %(lane)s::text || '%%'"""


def fill(url: str, lanes: int, each: int, *, waiting: bool, kind: str = "crawl", vacuum: bool = True,
         lane: str = "lane") -> None:
    """Migrate the database `url` and store `lanes` lanes of `each` targets; with `waiting` a job of every target waits.

    It may be called again for lanes of another sort: `lane` is the word in front of their numbers.
    Without `vacuum` nothing ever collects the dead rows of the hot tables. The rest is as autovacuum would leave a
    database that was just filled: analysed.
    """
    db = Database(url, reports=True)
    migrate.migrate(db)
    size = {"lanes": lanes, "each": each, "kind": kind, "lane": lane}
    with db.write() as conn:
        for table in HOT if not vacuum else ():
            conn.exec_driver_sql(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        for statement in (_GROUPS, _SITES, _TARGETS, *((_JOBS, _READY) if waiting else ())):
            conn.exec_driver_sql(statement, size)
    with db.read() as conn:
        conn.exec_driver_sql("ANALYZE")
    db.dispose()
