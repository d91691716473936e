"""What a crawl reads: its target, what is known of it, and what lies behind its frontier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Float, String, Text, bindparam, cast, func, or_, select, true, union_all

from models.articles import article_aliases, articles, failed_items, validators
from models.base import UtcDateTime, db_now, seconds_from
from models.jobs import attempts, jobs
from models.requests import robots_copies
from models.sites import IN_FORCE, sites, targets

_AT_ONCE = 500
#: made once, for each list page of each crawl asks them; one statement for articles and aliases
_KNOWN = union_all(*(
    select(table.c.url, table.c.generation).where(
        table.c.target_code == bindparam("b_target", type_=String()), table.c.url.in_(bindparam("b_urls", expanding=True)))
    for table in (articles, article_aliases)))

_READ_AT = select(articles.c.final_url, articles.c.url).where(
    articles.c.target_code == bindparam("b_target", type_=String()), ~articles.c.external,
    articles.c.final_url.in_(bindparam("b_urls", expanding=True))).order_by(articles.c.id)
_FAILED = select(failed_items.c.url).where(
    failed_items.c.target_code == bindparam("b_target", type_=String()),
    failed_items.c.url.in_(bindparam("b_urls", expanding=True)))
_RESTING = _FAILED.where(
    failed_items.c.given_up_at.is_not(None),
    seconds_from(failed_items.c.last_at, db_now()) < bindparam("b_rest", type_=Float()))


@dataclass(frozen=True)
class TargetFacts:
    """A target with its site, as they stand; `interval_sec` is the one in force (the larger of file and growth)."""

    target_code: str
    site_code: str
    base_url: str
    adapter: str
    options: dict[str, Any]
    options_hash: str
    site_options: dict[str, Any]
    interval_sec: float
    track_checkpoint: bool
    frontier_gen: int
    lone_403_weak: bool
    group_urls: tuple[str, ...]


def target_facts(conn: Connection, target_code: str) -> TargetFacts | None:
    """Return what a crawl of the target needs to know, None if the target is gone."""
    row = conn.execute(
        select(targets, sites.c.base_url, sites.c.cms_adapter, sites.c.group_key,
               sites.c.options.label("site_options"), IN_FORCE.label("in_force"))
        .join_from(targets, sites, sites.c.site_code == targets.c.site_code)
        .where(targets.c.target_code == target_code)).first()
    if row is None:
        return None
    urls = conn.scalars(select(sites.c.base_url).where(sites.c.group_key == row.group_key)).all()
    return TargetFacts(
        target_code=row.target_code, site_code=row.site_code, base_url=row.base_url, adapter=row.cms_adapter,
        options=row.options or {}, options_hash=row.options_hash, site_options=row.site_options or {},
        interval_sec=row.in_force, track_checkpoint=bool(row.track_checkpoint),
        frontier_gen=row.frontier_gen, lone_403_weak=bool(row.lone_403_weak), group_urls=tuple(urls))


def site_facts(conn: Connection, site_code: str) -> TargetFacts | None:
    """Return what a job for a whole site needs to know, as facts of a target without a code; None if the site is gone.

    Its interval is the largest of the site's targets (rule R8).
    """
    row = conn.execute(
        select(sites, select(func.max(IN_FORCE)).where(targets.c.site_code == sites.c.site_code).scalar_subquery()
               .label("in_force")).where(sites.c.site_code == site_code)).first()
    if row is None:
        return None
    urls = conn.scalars(select(sites.c.base_url).where(sites.c.group_key == row.group_key)).all()
    return TargetFacts(
        target_code="", site_code=row.site_code, base_url=row.base_url, adapter=row.cms_adapter, options={},
        options_hash="", site_options=row.options or {}, interval_sec=row.in_force or 0.0, track_checkpoint=True,
        frontier_gen=0, lone_403_weak=False, group_urls=tuple(urls))


def options_of_site(conn: Connection, site_code: str) -> list[tuple[str, dict[str, Any]]]:
    """Return adapter and options of every target of a site, disabled ones included, in the order of their codes."""
    rows = conn.execute(
        select(sites.c.cms_adapter, targets.c.options).join_from(targets, sites, sites.c.site_code == targets.c.site_code)
        .where(targets.c.site_code == site_code).order_by(targets.c.target_code))
    return [(row.cms_adapter, row.options or {}) for row in rows]


def stored_of_site(conn: Connection, site_code: str, urls: Sequence[str]) -> set[str]:
    """Return those of the URLs that are stored as articles of any target of a site."""
    codes = select(targets.c.target_code).where(targets.c.site_code == site_code)
    return {url for part in parts(urls) for url in conn.scalars(
        select(articles.c.url).where(articles.c.target_code.in_(codes), articles.c.url.in_(part)))}


def allowed_hosts(conn: Connection, group: str) -> set[str]:
    """Return the hosts that the targets of a group may fetch from beside its sites' own (rule P3)."""
    found = conn.scalars(
        select(targets.c.options).join_from(targets, sites, sites.c.site_code == targets.c.site_code)
        .where(sites.c.group_key == group, cast(targets.c.options, Text).like('%"allowed_hosts"%')))
    return {host for options in found for host in (options or {}).get("allowed_hosts") or ()}


def known(conn: Connection, target_code: str, urls: Sequence[str]) -> dict[str, int]:
    """Return those of the URLs that are stored, each with the generation in which it was first seen."""
    found: dict[str, int] = {}
    for part in parts(urls):
        for url, generation in conn.execute(_KNOWN, {"b_target": target_code, "b_urls": list(part)}):
            found[url] = min(generation, found.get(url, generation))
    return found


def read_at(conn: Connection, target_code: str, urls: Sequence[str]) -> dict[str, list[str]]:
    """Return for each of the URLs at which articles of the target were read the URLs of those articles."""
    found: dict[str, list[str]] = {}
    for part in parts(urls):
        for final_url, url in conn.execute(_READ_AT, {"b_target": target_code, "b_urls": list(part)}):
            found.setdefault(final_url, []).append(url)
    return found


def failed_among(conn: Connection, target_code: str, urls: Sequence[str]) -> set[str]:
    """Return those of the URLs whose item could not be read so far."""
    return {url for part in parts(urls)
            for url in conn.scalars(_FAILED, {"b_target": target_code, "b_urls": list(part)})}


def same_document(conn: Connection, target_code: str, own_id: str, sha256: str) -> str | None:
    """Return the URL of an article of the target with this id of the site's and this hash, None without one (W37)."""
    found: str | None = conn.execute(select(articles.c.url).where(
        articles.c.target_code == target_code, articles.c.own_id == own_id, articles.c.sha256 == sha256,
        ~articles.c.external).limit(1)).scalar()
    return found


def stale(conn: Connection, target_code: str, urls: Sequence[str], days: float, job_id: str) -> set[str]:
    """Return those of the URLs whose article was read, or found unchanged, more than `days` days ago (rule P2).

    None that this job has stored, or that was looked at since it was submitted. What is only marked as known was never
    read: at 0 days it is.
    """
    table, found = articles.c, set[str]()
    looked = func.coalesce(table.checked_at, table.fetched_at, type_=UtcDateTime())
    submitted = select(jobs.c.enqueued_at).where(jobs.c.job_id == job_id).scalar_subquery()
    for part in parts(urls):
        found.update(conn.scalars(select(table.url).where(
            table.target_code == target_code, table.url.in_(part), ~table.external,
            table.job_id.is_distinct_from(job_id), true() if days == 0 else ~table.marked,
            or_(submitted.is_(None), table.checked_at.is_(None), table.checked_at < submitted),
            seconds_from(looked, db_now()) >= days * 86_400.0)))
    return found


def is_of_job(conn: Connection, target_code: str, url: str, job_id: str) -> bool:
    """Tell whether a job has stored, or read again, the article at `url`."""
    return conn.execute(select(articles.c.id).where(
        articles.c.target_code == target_code, articles.c.url == url, articles.c.job_id == job_id)).first() is not None


def article_validators(conn: Connection, target_code: str, url: str) -> tuple[str, str]:
    """Return what the page of a stored article gave for asking again: its etag and last-modified, empty where none."""
    row = conn.execute(select(articles.c.etag, articles.c.last_modified).where(
        articles.c.target_code == target_code, articles.c.url == url, articles.c.sha256 != "")).first()
    return ("", "") if row is None else (row.etag or "", row.last_modified or "")


def list_validators(conn: Connection, target_code: str, url: str, *, most_days: float) -> tuple[str, str]:
    """Return what a list page gave for asking again, empty if its last whole answer is so many days old (rule P4).

    Also empty if the target or its site was changed since: other selectors may find something in an unchanged page.
    """
    given = validators.c
    row = conn.execute(
        select(given.etag, given.last_modified)
        .join(targets, targets.c.target_code == given.target_code).join(sites, sites.c.site_code == targets.c.site_code)
        .where(given.target_code == target_code, given.url == url, targets.c.updated_at < given.fetched_at,
               sites.c.updated_at < given.fetched_at,
               seconds_from(given.fetched_at, db_now()) < most_days * 86_400.0)).first()
    return ("", "") if row is None else (row.etag or "", row.last_modified or "")


def stored_count(conn: Connection, target_code: str) -> int:
    """Return how many items are stored for the target."""
    return int(conn.execute(
        select(func.count()).select_from(articles).where(articles.c.target_code == target_code)).scalar_one())


def failed_item(conn: Connection, target_code: str, url: str) -> bool | None:
    """Return whether an item that could not be read was found forbidden; None if nothing failed there."""
    found = conn.execute(select(failed_items.c.forbidden).where(
        failed_items.c.target_code == target_code, failed_items.c.url == url)).first()
    return None if found is None else bool(found.forbidden)


def resting(conn: Connection, target_code: str, urls: Sequence[str], rest_sec: float) -> set[str]:
    """Return those of the URLs whose item is given up and was tried less than `rest_sec` ago (rule P3)."""
    return {url for part in parts(urls)
            for url in conn.scalars(_RESTING, {"b_target": target_code, "b_urls": list(part), "b_rest": rest_sec})}


def due_again(conn: Connection, target_code: str, rest_sec: float, most: int) -> list[Any]:
    """Return at most so many of the items that are given up and were tried at least `rest_sec` ago, the oldest try first."""
    table = failed_items.c
    return list(conn.execute(
        select(table.url, table.title, table.source_page)
        .where(table.target_code == target_code, table.given_up_at.is_not(None),
               seconds_from(table.last_at, db_now()) >= rest_sec)
        .order_by(table.last_at, table.url).limit(most)))


def given_up_count(conn: Connection, target_code: str) -> int:
    """Return how many items of the target are given up."""
    return int(conn.execute(select(func.count()).select_from(failed_items).where(
        failed_items.c.target_code == target_code, failed_items.c.given_up_at.is_not(None))).scalar_one())


def is_given_up(conn: Connection, target_code: str, url: str) -> bool:
    """Tell whether an item is given up."""
    return conn.execute(select(failed_items.c.url).where(
        failed_items.c.target_code == target_code, failed_items.c.url == url,
        failed_items.c.given_up_at.is_not(None))).first() is not None


def refused_before(conn: Connection, job_id: str) -> set[str]:
    """Return the URLs whose 403 was the evidence of a block in an earlier attempt of this job (rule C1)."""
    rows = conn.scalars(select(attempts.c.evidence).where(
        attempts.c.job_id == job_id, attempts.c.evidence.is_not(None)))
    return {found["url"] for found in rows if found and found.get("status") == 403}


def was_blocked(conn: Connection, job_id: str, attempt: int) -> bool:
    """Tell whether the attempt of this job that ran before `attempt` was ended by a block (rule C1)."""
    before = conn.execute(select(attempts.c.outcome).where(
        attempts.c.job_id == job_id, attempts.c.attempt < attempt, attempts.c.started_at.is_not(None),
    ).order_by(attempts.c.attempt.desc()).limit(1)).scalar()
    return before == "cooldown"


def robots_copy(conn: Connection, host: str) -> Any:
    """Return the stored copy of a host's robots.txt and its `age_sec` by the database's clock, None if there is none."""
    age = seconds_from(robots_copies.c.fetched_at, db_now()).label("age_sec")
    return conn.execute(select(robots_copies, age).where(robots_copies.c.host == host)).first()


def robots_with_delays(conn: Connection, hosts: Sequence[str]) -> list[str]:
    """Return the stored rules of those of the hosts whose robots.txt speaks of a crawl-delay."""
    return [body for part in parts(hosts) for body in conn.scalars(select(robots_copies.c.body).where(
        robots_copies.c.host.in_(part), robots_copies.c.decision == "rules",
        func.lower(robots_copies.c.body).like("%crawl-delay%")))]


def parts(urls: Sequence[str]) -> Iterable[Sequence[str]]:
    return (urls[start : start + _AT_ONCE] for start in range(0, len(urls), _AT_ONCE))
