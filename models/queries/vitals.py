"""What is known of how sites answer without asking them (rule S7: vitals)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Text, exists, or_, select

from models.base import db_now, plus_seconds, seconds_from
from models.given import given
from models.groups import fleet, rate_groups
from models.requests import requests
from models.sites import sites

_SITE = {"site_code": Text(), "group_key": Text(), "host": Text()}


def answers(conn: Connection, asked: Sequence[dict[str, str]], within_sec: float, now: datetime | None = None) -> list[Any]:
    """Return the last answer of each site within so many seconds, by the request log: site_code, status, latency_sec.

    `asked` are sites as ``{"site_code", "group_key", "host"}``; those that have not answered are left out.
    """
    table, of = given(conn, asked, _SITE)
    log = requests.alias()
    last = (
        select(log.c.id)
        .where(log.c.group_key == of("group_key"), log.c.started_at > plus_seconds(db_now(), -within_sec),
               log.c.host == of("host"), log.c.status.is_not(None))
        .order_by(log.c.started_at.desc()).limit(1).correlate(table).scalar_subquery()
    )
    return list(conn.execute(
        select(of("site_code").label("site_code"), requests.c.status,
               seconds_from(requests.c.started_at, requests.c.ended_at).label("latency_sec"))
        .select_from(table).join(requests, requests.c.id == last), {"p_now": now}))


def paused_groups(conn: Connection, now: datetime | None = None) -> set[str]:
    """Return the groups that send nothing just now: cooling, paused by an operator, or all of them."""
    of_all = exists().where(fleet.c.operator_pause_until > db_now())
    held = or_(rate_groups.c.pause_until > db_now(), rate_groups.c.operator_pause_until > db_now(), of_all)
    return set(conn.scalars(select(rate_groups.c.key).where(held), {"p_now": now}))


def base_urls(conn: Connection, codes: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return base URL and group of sites by code."""
    table, of = given(conn, [{"site_code": code} for code in codes], {"site_code": Text()})
    rows = conn.execute(select(sites.c.site_code, sites.c.base_url, sites.c.group_key).select_from(table).join(
        sites, sites.c.site_code == of("site_code")))
    return {row.site_code: (row.base_url, row.group_key) for row in rows}


