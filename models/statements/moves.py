"""What happens to lanes when sites change their groups (rule R2): new groups, who takes over what, queued jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from models.groups import lane_wake, rate_groups
from models.jobs import IS_QUEUED, jobs
from models.statements.queueing import notify

GroupRow = dict[str, Any]
#: the advisory lock of those who change the catalogue on PostgreSQL
LOCK = 0x7261_7465_6C02


def be_alone(conn: Connection) -> None:
    """Make every other writer of the catalogue wait for this transaction; on SQLite it is alone anyway."""
    if conn.dialect.name == "postgresql":
        conn.execute(select(func.pg_advisory_xact_lock(LOCK)))


def add_groups(conn: Connection, keys: Iterable[str], now: datetime) -> None:
    """Insert the groups that are missing, in key order (design, lock order)."""
    wanted = sorted(set(keys))
    there = set(conn.scalars(select(rate_groups.c.key).where(rate_groups.c.key.in_(wanted)))) if wanted else set()
    rows = [{"key": key, "created_at": now} for key in wanted if key not in there]
    if rows:
        make = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
        conn.execute(make(rate_groups).on_conflict_do_nothing(), rows)


def lock_groups(conn: Connection, keys: Iterable[str]) -> dict[str, GroupRow]:
    """Lock the rows of groups in key order until the transaction ends, and return them by key."""
    wanted = sorted(set(keys))
    if not wanted:
        return {}
    lines = (
        select(rate_groups).where(rate_groups.c.key.in_(wanted)).order_by(rate_groups.c.key)
        .with_for_update(key_share=True)
    )
    return {row["key"]: dict(row) for row in conn.execute(lines).mappings()}


def take_over(conn: Connection, giving: Iterable[GroupRow], receiving: GroupRow) -> None:
    """Give the locked group `receiving` the later pauses and pace of the groups whose sites it gets (rule R2)."""
    values: dict[str, Any] = dict(receiving)
    for row in giving:
        values |= _later(row, values, "pause_until", "pause_kind", "pause_reason", "paused_at")
        values |= _later(row, values, "operator_pause_until", "operator_pause_reason", "operator_pause_by",
                         "operator_paused_at")
        values |= _later(row, values, "next_request_at")
        values |= _later(row, values, "last_response_at")
        values |= _later(row, values, "last_interval_sec")
        values |= _later(row, values, "crawl_delay_sec")
        values |= _later(row, values, "cooldown_level")
    changed = {name: value for name, value in values.items() if value != receiving[name]}
    if changed:
        conn.execute(update(rate_groups).where(rate_groups.c.key == receiving["key"]).values(changed))


def _later(giving: GroupRow, receiving: GroupRow, decides: str, *others: str) -> dict[str, Any]:
    """Return the fields of `giving` if its `decides` is the larger one; NULL is smaller than everything."""
    mine, theirs = receiving[decides], giving[decides]
    if theirs is None or (mine is not None and mine >= theirs):
        return {}
    return {name: giving[name] for name in (decides, *others)}


def move_queued(conn: Connection, site_code: str, group_key: str, now: datetime) -> int:
    """Move the queued jobs of a site to its new group and return how many; running rows keep their group (rule R2).

    The caller has locked both groups. Jobs in internal lanes stay where they are.
    """
    moved = conn.execute(
        update(jobs)
        .where(jobs.c.site_code == site_code, IS_QUEUED, jobs.c.group_key != group_key)
        .where(~jobs.c.group_key.startswith("_", autoescape=True))
        .values(group_key=group_key, updated_at=now)
    )
    return moved.rowcount


def move_queued_target(conn: Connection, target_code: str, site_code: str, group_key: str, now: datetime) -> int:
    """Move the queued jobs of a target that the file now puts under another site; return how many."""
    moved = conn.execute(
        update(jobs)
        .where(jobs.c.target_code == target_code, IS_QUEUED, jobs.c.site_code != site_code)
        .where(~jobs.c.group_key.startswith("_", autoescape=True))
        .values(site_code=site_code, group_key=group_key, updated_at=now)
    )
    return moved.rowcount


def lanes_of_scheduled(conn: Connection, target_codes: Sequence[str]) -> list[str]:
    """Find the groups in which queued scheduled jobs of targets wait."""
    return list(conn.execute(select(jobs.c.group_key).where(*_scheduled(target_codes)).distinct()).scalars())


def cancel_scheduled(conn: Connection, target_codes: Sequence[str], now: datetime) -> int:
    """Cancel the queued scheduled jobs of targets that were disabled and return how many (rule J1).

    The caller has locked their groups; what somebody submitted by hand stays.
    """
    ended = conn.execute(
        update(jobs).where(*_scheduled(target_codes))
        .values(status="cancelled", finished_at=now, updated_at=now, error_msg="target_disabled", wait_reason="")
    )
    return ended.rowcount


def _scheduled(target_codes: Sequence[str]) -> tuple[ColumnElement[bool], ...]:
    return jobs.c.target_code.in_(target_codes), IS_QUEUED, jobs.c.source == "schedule"


def wake(conn: Connection, keys: Iterable[str], now: datetime) -> None:
    """Leave word that something of these groups may be due."""
    rows = [{"group_key": key, "at": now} for key in sorted(set(keys))]
    if rows:
        conn.execute(insert(lane_wake), rows)
        notify(conn)
