"""A fleet with a past: lanes whose jobs ended in every way, some that run and some that are paused, filled set-based.

It stands upon `stores.fill`: a lane `lane7` has the site `lane7`, the target `lane7-0` and a waiting job.
"""

from __future__ import annotations

from benchmarks.stores import fill
from models.db import Database

#: one finished job in so many has failed, or was cancelled
FAILED_EACH, CANCELLED_EACH = 50, 200
#: one lane in so many runs, or is paused (three of four by a cooldown)
RUNNING_EACH, PAUSED_EACH = 150, 40

# two thirds of the dead letters begin alike, the others differ
_ERROR = """CASE WHEN n %% %(failed)s = 0 THEN CASE WHEN n %% 3 = 0 THEN 'TransportError: ' || lane || ' did not answer'
    ELSE 'HTTPStatusError: 503 from http://' || lane || '.example/index_' || n || '.html' END
    WHEN n %% %(cancelled)s = 1 THEN 'cancelled' ELSE '' END"""
_STATUS = """CASE WHEN n %% %(failed)s = 0 THEN 'failed' WHEN n %% %(cancelled)s = 1 THEN 'cancelled' ELSE 'done' END"""
_PROGRESS = """{"page": 3, "pages_total": 3, "items_new": 4, "items_known": 26, "items_failed": 0, "items_external": 1,
    "bytes": 184220, "rate": 0.4, "eta": null, "steps": [{"name": "prepare", "status": "done"}, {"name": "list",
    "status": "done"}, {"name": "items", "status": "done"}, {"name": "finish", "status": "done"}]}"""
_RESULT = """{"ok": true, "outcome": "complete", "pages": 3, "items_new": 4, "items_known": 26, "last_completed_page": 3}"""
_JOBS = f"""
    INSERT INTO jobs (job_id, kind, site_code, target_code, group_key, source, status, dedupe_key, attempt, failures,
        current_page, last_completed_page, progress, result, outcome, error_msg, enqueued_at, queue_at, claimed_at, started_at,
        finished_at, updated_at, worker)
    SELECT substr(md5('past/' || n), 1, 12), CASE WHEN n %% 20 = 7 THEN 'vitals' WHEN n %% 5000 = 3 THEN 'check' ELSE 'crawl' END,
        lane, lane || '-0', lane, CASE WHEN n %% 10 = 0 THEN 'manual' ELSE 'schedule' END, {_STATUS}, 'crawl:' || lane || '-0',
        1, 0, 3, 3, CAST(%(progress)s AS jsonb), CAST(%(result)s AS jsonb),
        CASE WHEN {_STATUS} = 'done' THEN 'complete' END, {_ERROR}, at - interval '90 s', at - interval '90 s',
        at - interval '60 s', at - interval '60 s', at, at, 'worker-' || n %% 4
    FROM (SELECT n, %(lane)s::text || n %% %(lanes)s AS lane,
            clock_timestamp() - interval '20 s' - n * (interval '29 days' / %(jobs)s) AS at
        FROM generate_series(%(jobs)s, 1, -1) n) past"""
_ATTEMPTS = """
    INSERT INTO attempts (job_id, attempt, group_key, site_code, worker, boot_id, source, claimed_at, started_at, finished_at,
        outcome, error, last_completed_page)
    SELECT job_id, 1, group_key, site_code, worker, 'past', source, claimed_at, started_at, finished_at,
        CASE WHEN seq %% 1000 = 0 THEN 'deadline' ELSE status END, error_msg, 3 FROM jobs WHERE finished_at IS NOT NULL"""
_RUN = """
    UPDATE jobs SET status = 'running', attempt = 1, claimed_at = now(), started_at = now(), worker = 'worker-1', boot_id = 'now',
        lease_until = now() + interval '1 day', progress = CAST(%(progress)s AS jsonb)
    WHERE status = 'queued' AND group_key IN (SELECT %(lane)s::text || n FROM generate_series(0, %(lanes)s - 1, %(running)s) n)"""
_RUN_ATTEMPTS = """
    INSERT INTO attempts (job_id, attempt, group_key, site_code, worker, boot_id, source, claimed_at, started_at)
    SELECT job_id, 1, group_key, site_code, worker, 'now', source, claimed_at, started_at FROM jobs WHERE status = 'running'"""
_PAUSE = """
    UPDATE rate_groups SET pause_until = now() + interval '1 hour', pause_kind = 'rate',
        pause_reason = 'host_cooldown: rate 429 -', paused_at = now(), cooldown_level = 1
    WHERE key IN (SELECT %(lane)s::text || n FROM generate_series(1, %(lanes)s - 1, %(paused)s) n)"""
_HOLD = """
    UPDATE rate_groups SET operator_pause_until = now() + interval '1 hour', operator_pause_reason = 'asked by its owner',
        operator_pause_by = 'eve', operator_paused_at = now()
    WHERE key IN (SELECT %(lane)s::text || n FROM generate_series(3, %(lanes)s - 1, 4 * %(paused)s) n)"""
_COOLDOWNS = """
    INSERT INTO cooldowns (group_key, kind, reason, at, until)
    SELECT key, 'rate', 'host_cooldown: rate 429 -', now(), pause_until FROM rate_groups WHERE pause_until IS NOT NULL"""
# ten requests of every lane in the last hours
_REQUESTS = """
    INSERT INTO requests (group_key, host, job_id, attempt, number, url, started_at, ended_at, status, bytes, interval_sec)
    SELECT key, key || '.example', 'past-' || key, 1, i, 'http://' || key || '.example/' || i, at, at + interval '0.3 s',
        CASE WHEN i = 7 THEN 404 ELSE 200 END, 20000, 5
    FROM rate_groups, generate_series(1, 10) i, LATERAL (SELECT now() - i * interval '10 min' AS at) moment
    WHERE key LIKE %(lane)s || '%%'"""
_WORKERS = """
    INSERT INTO workers (name, boot_id, host, pid, pool, concurrency, started_at, heartbeat_at, consuming_at, heartbeat_sec)
    VALUES ('worker-1', 'now', 'here', 1, 'threads', 64, now(), now() + interval '1 day', now() + interval '1 day', 10)"""
# indexes are made faster than kept; those that a constraint needs stay
_INDEXES = """
    SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid IN ('jobs'::regclass, 'attempts'::regclass, 'requests'::regclass) AND NOT i.indisunique"""
_STEPS = (_JOBS, _ATTEMPTS, _RUN, _RUN_ATTEMPTS, _PAUSE, _HOLD, _COOLDOWNS, _REQUESTS, _WORKERS)


def fill_history(url: str, lanes: int, jobs: int, lane: str = "lane") -> None:
    """Store `lanes` lanes with a waiting job each and `jobs` finished jobs of the last 29 days in the database `url`."""
    fill(url, lanes, 1, waiting=True, lane=lane)
    values = {"lanes": lanes, "jobs": jobs, "lane": lane, "failed": FAILED_EACH, "cancelled": CANCELLED_EACH,
              "running": RUNNING_EACH, "paused": PAUSED_EACH, "progress": _PROGRESS, "result": _RESULT}
    db = Database(url, reports=True)
    with db.write() as conn:
        indexes = conn.exec_driver_sql(_INDEXES).all()
        for name, _ in indexes:
            conn.exec_driver_sql(f"DROP INDEX {name}")
        for statement in _STEPS:
            conn.exec_driver_sql(statement, values)
        for _, definition in indexes:
            conn.exec_driver_sql(definition)
    with db.read() as conn:
        conn.exec_driver_sql("VACUUM ANALYZE")
    db.dispose()
