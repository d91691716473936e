"""What each route does: the same reads and actions as the command line's, and its refusals as answers of HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from config.errors import RatelaneError, Unknown
from console import actions, answers
from console.actions import schedule as entries
from console.flower.api.asked import Request, aware, wait_or_moment
from models import queries
from models.queries.board import jobs as job_pages
from models.queries.board import lanes as lane_pages
from models.queries.board import lists, paging
from models.queries.board.paging import Page
from routing.broker import broker_problem


class Refused(RatelaneError):
    """The state of things does not allow it (409)."""


def targets(asked: Request) -> Page:
    """Targets by site and code."""
    with asked.db.look() as conn:
        return lists.targets(conn, site=asked.query.site, **asked.listing())


def run_target(asked: Request) -> dict[str, Any]:
    """Queue a crawl; needs no broker."""
    wanted = asked.body
    return actions.submit(
        asked.db, asked.settings, asked.path["target_code"], by=asked.by, again=wanted.again, force=wanted.force,
        dedupe_key=wanted.dedupe_key, run_after=wait_or_moment(wanted.run_after), priority=wanted.priority,
        resume_from_page=wanted.resume_from_page, max_attempts=wanted.max_attempts, deadline_sec=wanted.deadline)


def jobs(asked: Request) -> Page:
    """Jobs by filter."""
    wanted = asked.query.job_filter(include_history=asked.query.include_history)
    with asked.db.look() as conn:
        return job_pages.page(conn, wanted, sort=asked.query.sort, **asked.listing())


def job(asked: Request) -> dict[str, Any]:
    """One job."""
    with asked.db.look() as conn:
        found = queries.job(conn, asked.path["job_id"])
    if found is None:
        raise Unknown(f"no job has the id {asked.path['job_id']!r}")
    return found


def why(asked: Request) -> dict[str, Any]:
    """Why a job is not running."""
    with asked.db.look() as conn:
        return answers.why(conn, asked.path["job_id"])


def find(asked: Request) -> list[dict[str, str]]:
    """Jobs of a dedupe key, newest first, or the active one alone."""
    with asked.db.look() as conn:
        if not asked.query.active:
            return queries.find_latest(conn, asked.query.dedupe_key)
        found = queries.find_active(conn, asked.query.dedupe_key)
    return [] if found is None else [found]


def cancel(asked: Request) -> dict[str, Any]:
    """Cancel a job, or ask a running one to stop."""
    return _unless_refused(actions.cancel(asked.db, asked.settings, [asked.path["job_id"]], asked.by))


def requeue(asked: Request) -> dict[str, Any]:
    """Bring a failed or cancelled job back."""
    return _unless_refused(actions.requeue(
        asked.db, asked.settings, [asked.path["job_id"]], asked.by, restart=asked.body.restart))


def cancel_matching(asked: Request) -> dict[str, Any]:
    """Cancel every queued or running job that the filter lets through."""
    return actions.cancel_matching(asked.db, asked.settings, asked.body.job_filter(), asked.by)


def requeue_matching(asked: Request) -> dict[str, Any]:
    """Bring back every failed or cancelled job that the filter lets through."""
    return actions.requeue_matching(
        asked.db, asked.settings, asked.body.job_filter(), asked.by, restart=asked.body.restart)


def _unless_refused(document: dict[str, Any]) -> dict[str, Any]:
    for one in document["refused"]:
        if one["reason"] == "not_found":
            raise Unknown(f"no job has the id {one['job_id']!r}")
        raise Refused(one["reason"])
    return document


def lanes(asked: Request) -> Page:
    """Lanes with work or a pause, the paused and the busiest first."""
    with asked.db.look() as conn:
        found = lane_pages.places(conn)
        some, follows = lane_pages.cut(found, **asked.listing())
        return Page(queries.lanes(conn, some), follows)


def lane(asked: Request) -> dict[str, Any]:
    """One lane, whether it has work or not."""
    actions.require_group(asked.db, asked.path["group"])
    with asked.db.look() as conn:
        return queries.lane(conn, asked.path["group"])


def _end(asked: Request) -> dict[str, Any]:
    length = wait_or_moment(asked.body.duration)
    return {"until": None if asked.body.until is None else aware(asked.body.until), "for_sec": length}


def pause(asked: Request) -> dict[str, Any]:
    """Pause a lane."""
    return actions.pause(asked.db, asked.path["group"], asked.by, **_end(asked))


def resume(asked: Request) -> dict[str, Any]:
    """Lift an operator's pause of a lane, and its cooldown if asked to."""
    return actions.resume(asked.db, asked.path["group"], asked.by, cooldown=asked.body.cooldown)


def pause_all(asked: Request) -> Page:
    """Pause all lanes, those that are made later included; answers the first lanes of the list."""
    return _of_all(asked, lambda: actions.pause_all(asked.db, asked.by, **_end(asked)))


def resume_all(asked: Request) -> Page:
    """Lift the pause of all lanes; those that were paused one by one stay paused."""
    return _of_all(asked, lambda: actions.resume_all(asked.db, asked.by, cooldown=asked.body.cooldown))


def _of_all(asked: Request, act: Callable[[], object]) -> Page:
    act()
    return lanes(asked)


def schedule(asked: Request) -> Page:
    """Entries by name."""
    limit, cursor = asked.listing().values()
    found = entries.entries(asked.db, asked.settings)
    behind = paging.decode(cursor, str)[0] if cursor is not None else ""
    left = [one for one in found if one["name"] > behind]
    return Page(left[:limit], paging.encode(left[limit - 1]["name"]) if len(left) > limit else None)


def preview(asked: Request) -> list[dict[str, Any]]:
    """What would fire, be deferred, made up or skipped."""
    where = entries.zone(asked.db)
    return entries.preview(asked.db, asked.settings, aware(asked.query.start, where), aware(asked.query.end, where))


def runs(asked: Request) -> Page:
    """Runs of one entry or of all, newest first."""
    with asked.db.look() as conn:
        return lists.runs(conn, name=asked.query.name, **asked.listing())


def run_entry(asked: Request) -> dict[str, Any]:
    """Start a run of an entry at once."""
    try:
        return entries.run_entry(asked.db, asked.settings, asked.path["name"], asked.by, force=asked.body.force,
                                 stat_date=asked.body.date)
    except entries.ScheduleRefused as error:
        raise Refused(str(error)) from error


def pause_entry(asked: Request) -> dict[str, Any]:
    """Pause an entry: what comes due is skipped."""
    return entries.pause_entry(asked.db, asked.settings, asked.path["name"], asked.by)


def resume_entry(asked: Request) -> dict[str, Any]:
    """Lift the pause of an entry; nothing past fires."""
    return entries.resume_entry(asked.db, asked.settings, asked.path["name"], asked.by)


def ops(asked: Request) -> dict[str, Any]:
    """How the whole installation stands."""
    with asked.db.look() as conn:
        found = queries.ops(conn)
    return found | {"broker_ok": broker_problem(asked.settings) is None}


def counts(asked: Request) -> dict[str, int]:
    """How many jobs there are in each status."""
    with asked.db.look() as conn:
        return queries.counts(conn)


def system(asked: Request) -> dict[str, Any]:
    """When each entry is due next."""
    return {"next_runs": {one["name"]: one["due_at"] for one in entries.entries(asked.db, asked.settings)}}


def workers(asked: Request) -> list[dict[str, Any]]:
    """Workers that live, and what they serve."""
    with asked.db.look() as conn:
        return queries.workers(conn)
