"""Pauses of groups and grown intervals of targets: the statements of `models.pacing`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, String, bindparam, case, func, insert, select, update

from models.base import db_now, plus_seconds, seconds_from
from models.groups import cooldowns, rate_groups
from models.jobs import jobs
from models.sites import interval_history, sites, targets

LEVEL = select(
    rate_groups.c.cooldown_level, seconds_from(rate_groups.c.pause_until, db_now()).label("since_pause_sec")
).where(rate_groups.c.key == bindparam("b_group", type_=String()))

#: the group that a site belongs to now
HOME = select(sites.c.group_key).where(sites.c.site_code == bindparam("b_site", type_=String()))

CHECKPOINT = select(jobs.c.last_completed_page).where(jobs.c.job_id == bindparam("b_job", type_=String()))


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
            paused_at=db_now(), cooldown_level=level,
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


def set_crawl_delay(group: str, seconds: float) -> Any:
    """Keep the largest crawl-delay that robots.txt of a group's hosts asked for as its lower bound (rule P4)."""
    return update(rate_groups).where(rate_groups.c.key == group).values(
        crawl_delay_sec=case((rate_groups.c.crawl_delay_sec > seconds, rate_groups.c.crawl_delay_sec),
                             else_=func.coalesce(seconds, 0.0)))
