"""Pauses of groups and grown intervals of targets: the statements of `models.pacing`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    String,
    Update,
    bindparam,
    case,
    exists,
    false,
    func,
    insert,
    literal,
    null,
    select,
    update,
)

from models.base import FAR, UtcDateTime, db_now, plus_seconds
from models.groups import cooldowns, fleet, lane_wake, rate_groups
from models.jobs import IS_QUEUED, jobs
from models.requests import requests
from models.sites import interval_history, sites, targets


def level(group: str, job_id: str, attempt: int, forget_sec: float) -> Select[Any]:
    """Read a group's cooldown level, and whether answers have come for `forget_sec` after its pause (rule C3).

    Silence proves nothing. The group's row knows the last response of the attempts before; this one's answers stand in
    the request log, of which its last request is the one that was objected to.
    """
    enough = plus_seconds(rate_groups.c.pause_until, forget_sec)
    last = select(func.max(requests.c.number)).where(
        requests.c.job_id == job_id, requests.c.attempt == attempt).scalar_subquery()
    answered = exists().where(
        requests.c.group_key == rate_groups.c.key, requests.c.started_at >= enough,
        requests.c.status.between(200, 399) | requests.c.status.in_((404, 410)),
        (requests.c.job_id != job_id) | (requests.c.attempt != attempt) | (requests.c.number < last))
    before = func.coalesce(rate_groups.c.last_response_at >= enough, false())
    return select(rate_groups.c.cooldown_level, (before | answered).label("forgotten")).where(rate_groups.c.key == group)


#: the group that a site belongs to now
HOME = select(sites.c.group_key).where(sites.c.site_code == bindparam("b_site", type_=String()))

CHECKPOINT = select(jobs.c.last_completed_page).where(jobs.c.job_id == bindparam("b_job", type_=String()))


def _since(until: ColumnElement[Any], began: ColumnElement[Any]) -> ColumnElement[Any]:
    """Since when a group is paused: a pause that is renewed before its end is one pause, and is told as one."""
    return case((until > db_now(), func.coalesce(began, db_now(), type_=UtcDateTime())), else_=db_now())


def pause(
    conn: Connection, *, group: str, delay_sec: float, kind: str, reason: str, level: int, **at: Any
) -> None:
    """Pause a group until now + `delay_sec`, or as long as it is paused already if that is longer (rule C3)."""
    until = plus_seconds(db_now(), delay_sec)
    longer = rate_groups.c.pause_until > until
    conn.execute(
        update(rate_groups).where(rate_groups.c.key == group).values(
            pause_until=case((longer, rate_groups.c.pause_until), else_=until),
            pause_kind=case((longer, rate_groups.c.pause_kind), else_=kind),
            pause_reason=case((longer, rate_groups.c.pause_reason), else_=reason),
            paused_at=_since(rate_groups.c.pause_until, rate_groups.c.paused_at), cooldown_level=level,
        ), at)


def log_cooldown(
    conn: Connection, *, group: str, job_id: str, attempt: int, target_code: str | None, kind: str, reason: str,
    delay_sec: float, **at: Any,
) -> None:
    """Write the history row of a pause."""
    conn.execute(insert(cooldowns).values(
        group_key=group, job_id=job_id, attempt=attempt, target_code=target_code, kind=kind, reason=reason,
        at=db_now(), until=plus_seconds(db_now(), delay_sec)), at)


def lock_target(target_code: str) -> Select[Any]:
    """Lock and read the interval of a target: last in the order of locks."""
    return select(targets.c.interval_sec, targets.c.grown_interval_sec).where(
        targets.c.target_code == target_code).with_for_update(key_share=True)


def grow(
    conn: Connection, *, target_code: str, old: float, new: float, cause: str, job_id: str, attempt: int, **at: Any
) -> None:
    """Store a grown interval with its history row (rule C5)."""
    conn.execute(update(targets).where(targets.c.target_code == target_code).values(
        grown_interval_sec=new, updated_at=db_now()), at)
    conn.execute(insert(interval_history).values(
        target_code=target_code, old_interval_sec=old, new_interval_sec=new, cause=cause, at=db_now(), job_id=job_id,
        attempt=attempt), at)


def clean(after_sec: float, limit: int, target_code: str | None = None) -> Select[Any]:
    """Find targets above their baseline whose last step, and the last cooldown of whose group, are so long ago (C5)."""
    since = plus_seconds(db_now(), -after_sec)
    stepped = exists().where(interval_history.c.target_code == targets.c.target_code, interval_history.c.at > since)
    blocked = exists().where(
        (cooldowns.c.group_key == sites.c.group_key) | (cooldowns.c.target_code == targets.c.target_code),
        cooldowns.c.at > since)
    found = select(targets.c.target_code).join_from(targets, sites, sites.c.site_code == targets.c.site_code).where(
        targets.c.grown_interval_sec > targets.c.interval_sec, ~stepped, ~blocked)
    if target_code is not None:
        found = found.where(targets.c.target_code == target_code)
    return found.order_by(targets.c.target_code).limit(limit)


def decay(conn: Connection, *, target_code: str, old: float, new: float, at_baseline: bool, **at: Any) -> None:
    """Store one step back of a grown interval with its history row; at the baseline the growth is cleared (rule C5)."""
    conn.execute(update(targets).where(targets.c.target_code == target_code).values(
        grown_interval_sec=null() if at_baseline else new, updated_at=db_now()), at)
    conn.execute(insert(interval_history).values(
        target_code=target_code, old_interval_sec=old, new_interval_sec=new, cause="decay", at=db_now()), at)


def set_pace(group: str, job_id: str, attempt: int, *, crawl_delay_sec: float | None, usual_latency_sec: float | None) -> Any:
    """Keep what an attempt has learned of its group's hosts, if it still runs; None leaves a column as it is.

    The crawl-delay that their robots.txt ask for is the lower bound of its gap (P4); how long an answer usually takes is
    what slowness is measured by (C1).
    """
    runs = exists().where(jobs.c.job_id == job_id, jobs.c.attempt == attempt, jobs.c.status == "running")
    learned = {"crawl_delay_sec": crawl_delay_sec, "usual_latency_sec": usual_latency_sec}
    return update(rate_groups).where(rate_groups.c.key == group, runs).values(
        {name: value for name, value in learned.items() if value is not None})


def _hold(table: Any, until: datetime | None, for_sec: float | None, who: str, reason: str) -> Update:
    end: Any = plus_seconds(db_now(), for_sec) if for_sec is not None else literal(until or FAR, UtcDateTime())
    return update(table).where(end > db_now()).values(
        operator_pause_until=end, operator_pause_reason=reason, operator_pause_by=who,
        operator_paused_at=_since(table.c.operator_pause_until, table.c.operator_paused_at))


def hold(group: str, until: datetime | None, for_sec: float | None, *, who: str, reason: str) -> Update:
    """Set the operator's pause of a group, whatever it was before; no row if the group is unknown or the end is past.

    It ends `for_sec` from now or at `until`; neither means that somebody has to lift it (rule R9).
    """
    return _hold(rate_groups, until, for_sec, who, reason).where(rate_groups.c.key == group)


def hold_all(until: datetime | None, for_sec: float | None, *, who: str, reason: str) -> Update:
    """Set the pause of all groups; as `hold`."""
    return _hold(fleet, until, for_sec, who, reason).where(fleet.c.id == 1)


_NO_HOLD: dict[str, None] = dict.fromkeys(
    ("operator_pause_until", "operator_pause_reason", "operator_pause_by", "operator_paused_at"))

LIFT = (
    update(rate_groups)
    .where(rate_groups.c.key == bindparam("b_group", type_=String()), rate_groups.c.operator_pause_until.is_not(None))
    .values(_NO_HOLD)
)
LIFT_ALL = update(fleet).where(fleet.c.id == 1, fleet.c.operator_pause_until.is_not(None)).values(_NO_HOLD)

EXISTS = select(rate_groups.c.key).where(rate_groups.c.key == bindparam("b_group", type_=String()))

#: Says of every group with queued jobs that it may be due; locks no group.
WAKE_ALL = insert(lane_wake).from_select(
    ["group_key", "at"],
    select(rate_groups.c.key, db_now()).where(
        select(jobs.c.seq).where(jobs.c.group_key == rate_groups.c.key, IS_QUEUED).exists()))


def end_cooldowns(conn: Connection, groups: Sequence[str], **at: Any) -> list[str]:
    """End the cooldowns of locked groups now, in their history too; returns the groups that had one.

    The level stays: whoever objects again soon is believed to mean it.
    """
    ended = sorted(conn.execute(
        update(rate_groups).where(rate_groups.c.key.in_(groups), rate_groups.c.pause_until > db_now())
        .values(pause_until=db_now()).returning(rate_groups.c.key), at).scalars())
    if ended:
        conn.execute(update(cooldowns).where(cooldowns.c.group_key.in_(ended), cooldowns.c.until > db_now()).values(
            until=db_now()), at)
    return ended


def cooling(behind: str, limit: int) -> Select[Any]:
    """Find groups that cool down, by key, those behind the key `behind`."""
    return select(rate_groups.c.key).where(
        rate_groups.c.pause_until > db_now(), rate_groups.c.key > behind).order_by(rate_groups.c.key).limit(limit)


def reset_interval(conn: Connection, target_code: str, *, cause: str, **at: Any) -> bool:
    """Clear what objections made of a target's interval, with its history row; returns whether there was anything."""
    row = conn.execute(lock_target(target_code)).first()
    if row is None or row.grown_interval_sec is None:
        return False
    conn.execute(update(targets).where(targets.c.target_code == target_code).values(
        grown_interval_sec=None, updated_at=db_now()), at)
    conn.execute(insert(interval_history).values(
        target_code=target_code, old_interval_sec=max(row.interval_sec, row.grown_interval_sec),
        new_interval_sec=row.interval_sec, cause=cause, at=db_now()), at)
    return True
