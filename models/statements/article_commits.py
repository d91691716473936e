"""The commit that a crawl makes most: one new article with its progress and its request-log rows (rule P5).

On PostgreSQL it is one statement, which is one round trip and one transaction; on SQLite three statements of the
driver's own inside a transaction that the caller has begun. Both write only if the attempt is current **and** the article
is new: `store` tells whether they did. Whatever else there is to do, or to find out, is the business of the longer way
(`models.ledger.running`), which nothing was taken from then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from models.base import to_micros
from models.direct import Direct

#: the columns of an article that a commit brings, with what PostgreSQL calls their types
_ARTICLE = {
    "target_code": "text", "site_code": "text", "url": "text", "own_id": "text", "final_url": "text", "title": "text",
    "published_at": "timestamptz", "text": "text", "sha256": "text", "source_page": "text", "external": "boolean",
    "marked": "boolean", "facts": "jsonb", "etag": "text", "last_modified": "text", "generation": "integer", "job_id": "text"}
#: a row that lacks one of them is not for this way
COLUMNS = frozenset(_ARTICLE)
#: the parameters of a request-log row; `b_started` and `b_ended` are ages in seconds
_REQUEST = {
    "b_number": "integer", "b_host": "text", "b_url": "text", "b_started": "float8", "b_ended": "float8",
    "b_status": "integer", "b_bytes": "bigint", "b_error": "text", "b_interval": "float8"}

_POSTGRESQL = f"""
    WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
    fenced AS (
        UPDATE jobs SET progress = %(progress)s::jsonb, current_page = coalesce(%(page)s::integer, current_page),
            last_response_at = coalesce(clock.now - make_interval(secs => %(age)s::float8), last_response_at),
            last_interval_sec = coalesce(%(gap)s::float8, last_interval_sec),
            busy_until = clock.now + make_interval(secs => %(busy)s::float8), updated_at = clock.now
        FROM clock
        WHERE job_id = %(job)s::text AND attempt = %(attempt)s::integer AND status = 'running' AND NOT EXISTS (
            SELECT 1 FROM articles a WHERE a.target_code = %(target_code)s::text AND a.url = %(url)s::text)
        RETURNING clock.now),
    kept AS (
        INSERT INTO articles ({", ".join(_ARTICLE)}, fetched_at)
        SELECT {", ".join(f"%({name})s::{kind}" for name, kind in _ARTICLE.items())}, fenced.now FROM fenced),
    logged AS (
        INSERT INTO requests (group_key, job_id, attempt, number, host, url, started_at, ended_at, status, bytes, error,
                              interval_sec)
        SELECT %(group)s::text, %(job)s::text, %(attempt)s::integer, r.number, r.host, r.url,
               fenced.now - make_interval(secs => r.started), fenced.now - make_interval(secs => r.ended), r.status, r.bytes,
               r.error, r.gap
        FROM fenced, unnest({", ".join(f"%({name})s::{kind}[]" for name, kind in _REQUEST.items())})
            AS r (number, host, url, started, ended, status, bytes, error, gap)
        ON CONFLICT (job_id, attempt, number) DO NOTHING),
    void AS (
        DELETE FROM validators v USING fenced
        WHERE v.target_code = %(target_code)s::text AND v.url = ANY(%(answered)s::text[]))
    SELECT count(*) FROM fenced"""

_SQLITE_JOB = """
    UPDATE jobs SET progress = :progress, current_page = coalesce(:page, current_page),
        last_response_at = coalesce(:now - CAST(:age * 1000000 AS INTEGER), last_response_at),
        last_interval_sec = coalesce(:gap, last_interval_sec), busy_until = :now + CAST(:busy * 1000000 AS INTEGER),
        updated_at = :now
    WHERE job_id = :job AND attempt = :attempt AND status = 'running' AND NOT EXISTS (
        SELECT 1 FROM articles a WHERE a.target_code = :target_code AND a.url = :url)"""
_SQLITE_ARTICLE = (f"INSERT INTO articles ({', '.join(_ARTICLE)}, fetched_at) "
                   f"VALUES ({', '.join(f':{name}' for name in _ARTICLE)}, :now)")
_SQLITE_REQUEST = """
    INSERT INTO requests (group_key, job_id, attempt, number, host, url, started_at, ended_at, status, bytes, error,
                          interval_sec)
    VALUES (:group, :job, :attempt, :b_number, :b_host, :b_url, :now - CAST(:b_started * 1000000 AS INTEGER),
            :now - CAST(:b_ended * 1000000 AS INTEGER), :b_status, :b_bytes, :b_error, :b_interval)
    ON CONFLICT (job_id, attempt, number) DO NOTHING"""
_SQLITE_VOID = "DELETE FROM validators WHERE target_code = ? AND url = ?"


def store(
    conn: Direct, job: Mapping[str, Any], article: Mapping[str, Any], requests: Sequence[Mapping[str, Any]],
    now: datetime | None,
) -> bool:
    """Write an attempt's new article; returns False, having written nothing, if it is stale or the article is known.

    `job` has `job`, `attempt`, `group`, `progress` (a document), `page`, `age` and `gap` of the last response, `busy`
    (seconds) and `answered`, the list pages of which what is kept for asking again is void. `article` has the columns of
    its row, `requests` are the parameters of request-log rows. `now` is the moment to which the ages belong: on PostgreSQL
    None means its own, and a moment is for tests.
    """
    values = {**article, **job, "progress": _text(job["progress"]), "facts": _text(article["facts"] or None)}
    if conn.dialect == "postgresql":
        columns = {name: [row[name] for row in requests] for name in _REQUEST}
        return bool(conn.exec_driver_sql(_POSTGRESQL, {**values, **columns, "now": now}).scalar_one())
    published = article["published_at"]
    values["published_at"] = None if published is None else to_micros(published)
    assert now is not None, "SQLite has no clock of its own"
    values["now"] = at = to_micros(now)
    if not conn.change(_SQLITE_JOB, values):
        return False
    conn.change(_SQLITE_ARTICLE, values)
    fence = {"job": job["job"], "attempt": job["attempt"], "group": job["group"], "now": at}
    for row in requests:
        conn.change(_SQLITE_REQUEST, {**fence, **row})
    for url in job["answered"]:
        conn.change(_SQLITE_VOID, (article["target_code"], url))
    return True


def _text(document: Any) -> str | None:
    return None if document is None else json.dumps(document, ensure_ascii=False)
