"""What people are to be told of: found in the database as it stands, one row a matter, claimed before it is sent."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Float,
    Integer,
    Select,
    String,
    Update,
    bindparam,
    case,
    cast,
    func,
    literal,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from models.base import EPOCH, Json, UtcDateTime, db_now, plus_seconds, seconds_from
from models.groups import fleet, rate_groups
from models.jobs import in_state, jobs
from models.operations import notices
from models.schedules import entries

#: characters of an error that a notice carries
ERROR_CHARACTERS = 500
#: `b_since`: what happened before is not told
SINCE: ColumnElement[Any] = bindparam("b_since", type_=UtcDateTime())


def _facts(conn: Connection, **facts: ColumnElement[Any]) -> ColumnElement[Any]:
    make = func.jsonb_build_object if conn.dialect.name == "postgresql" else func.json_object
    pairs = [part for name, value in facts.items() for part in (literal(name, String()), value)]
    return make(*pairs, type_=Json)


def _epoch(moment: ColumnElement[Any]) -> ColumnElement[float]:
    return seconds_from(literal(EPOCH, UtcDateTime()), moment)


def _second(moment: ColumnElement[Any]) -> ColumnElement[str]:
    return cast(cast(_epoch(moment), BigInteger), String())


def _store(conn: Connection, found: Select[Any], limit: int) -> Any:
    """Insert what was found and has no row yet; a matter that another worker finds too is stored once."""
    make = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    news = found.subquery()
    fresh = select(news.c.key, news.c.kind, news.c.at, news.c.document, db_now()).where(
        ~select(notices.c.key).where(notices.c.key == news.c.key).exists()).limit(limit)
    return make(notices).from_select(
        ["key", "kind", "at", "document", "next_try_at"], fresh).on_conflict_do_nothing().returning(notices.c.key)


def dead_letters(conn: Connection, limit: int) -> Any:
    """Note the jobs that failed, whoever wrote their end; one that needs a person is a kind of its own."""
    kind: ColumnElement[str] = case(
        (jobs.c.error_msg.startswith("needs_operator", autoescape=True), literal("needs_operator", String())),
        else_=literal("dead_letter", String()))
    found = select(
        (kind + ":" + jobs.c.job_id + ":" + cast(jobs.c.attempt, String())).label("key"), kind.label("kind"),
        jobs.c.finished_at.label("at"),
        _facts(conn, job_id=jobs.c.job_id, job_kind=jobs.c.kind, target_code=jobs.c.target_code,
               site_code=jobs.c.site_code, group=jobs.c.group_key, attempt=jobs.c.attempt,
               error=func.substr(jobs.c.error_msg, 1, ERROR_CHARACTERS)).label("document"),
    ).where(in_state("failed"), jobs.c.finished_at >= SINCE)
    return _store(conn, found, limit)


def paused_groups(conn: Connection, after_sec: float, limit: int) -> list[Any]:
    """Note the groups, or all of them together, that have been paused for `after_sec` and still are."""
    of_group, of_all = rate_groups.c, fleet.c
    return [
        _paused(conn, of_group.key, "cooldown", of_group.paused_at, of_group.pause_until, of_group.pause_reason,
                after_sec, limit),
        _paused(conn, of_group.key, "operator", of_group.operator_paused_at, of_group.operator_pause_until,
                of_group.operator_pause_reason, after_sec, limit),
        _paused(conn, literal("*", String()), "operator", of_all.operator_paused_at, of_all.operator_pause_until,
                of_all.operator_pause_reason, after_sec, limit),
    ]


def _paused(
    conn: Connection, group: ColumnElement[Any], kind: str, began: ColumnElement[Any], until: ColumnElement[Any],
    reason: ColumnElement[Any], after_sec: float, limit: int,
) -> Any:
    found = select(
        (literal(f"group_paused:{kind}:", String()) + group + ":" + _second(began)).label("key"),
        literal("group_paused", String()).label("kind"), began.label("at"),
        _facts(conn, group=group, pause_kind=literal(kind, String()), reason=func.coalesce(reason, ""),
               paused_at_sec=_epoch(began), paused_until_sec=_epoch(until)).label("document"),
    ).where(until > db_now(), began <= plus_seconds(db_now(), -after_sec), began >= plus_seconds(SINCE, -after_sec))
    return _store(conn, found, limit)


def stale_entries(conn: Connection, limit: int) -> Any:
    """Note the entries of the schedule that had no success for too long; paused ones are somebody's wish."""
    found = select(
        (literal("entry_stale:", String()) + entries.c.name + ":" + _second(entries.c.stale_at)).label("key"),
        literal("entry_stale", String()).label("kind"), entries.c.stale_at.label("at"),
        _facts(conn, entry=entries.c.name, status=entries.c.status, last_success_at_sec=_epoch(entries.c.last_success_at),
               due_at_sec=_epoch(entries.c.due_at),
               reason=func.coalesce(entries.c.last_outcome["reason"].as_string(), "")).label("document"),
    ).where(entries.c.enabled, ~entries.c.paused, entries.c.stale_at <= db_now(), entries.c.stale_at >= SINCE)
    return _store(conn, found, limit)


def take(pause_sec: float, longest_sec: float, age_sec: float) -> Update:
    """Claim the notice that is due first: its next try is put off before it is sent, further with each one.

    Nobody else sends it meanwhile; if its sender dies it is due again. What is older than `age_sec` is no longer sent.
    """
    due = (notices.c.sent_at.is_(None), notices.c.next_try_at <= db_now(), notices.c.at > plus_seconds(db_now(), -age_sec))
    first = select(notices.c.key).where(*due).order_by(notices.c.next_try_at, notices.c.at).limit(1).with_for_update(
        skip_locked=True)
    most = int(longest_sec // max(pause_sec, 0.001))
    # a shift, because SQLite may have been built without power()
    doubled = literal_column("1", Integer()).op("<<")(case((notices.c.tries > 20, 20), else_=notices.c.tries))
    factor = cast(case((doubled > most, most), else_=doubled), Float())
    return (
        update(notices).where(notices.c.key == first.scalar_subquery(), *due)
        .values(tries=notices.c.tries + 1, next_try_at=plus_seconds(db_now(), factor * pause_sec))
        .returning(notices.c.key, notices.c.kind, notices.c.at, notices.c.document, notices.c.tries)
    )


def sent(key: str, tries: int) -> Update:
    """Note that a notice has arrived, unless somebody else tries it again already."""
    return update(notices).where(notices.c.key == key, notices.c.tries == tries, notices.c.sent_at.is_(None)).values(
        sent_at=db_now())
