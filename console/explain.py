"""Why a job is not running, in words: every reason that holds now, the decisive ones first (rule J16). Pure.

It never answers "unknown": a job that nothing holds up is `starting`. What closes the lane for good until somebody acts
comes first, then what has an end (the latest first), then who is before it, then who would take it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from config.moments import is_endless, iso
from console.explain_workers import workforce
from console.forecast import expected_start
from console.reasons import BLOCKING, Reason, at, until, who
from console.wording import count, span
from models.facts import Facts, JobFacts, RunningFacts

#: why a job was parked, by the word that its row holds
_PARKED = {
    "parked": "its next request is due then",
    "soft_stop": "its worker stopped at a stop point",
    "paused": "its lane was paused while it ran",
    "robots_unreachable": "robots.txt of its site could not be had and is asked again then",
    "storage": "nothing could be stored (disk full, or the database is read-only)",
    "quiet_window": "a quiet window began while it ran",
}
_RANK = ("finished", "no_worker", "broker_down", "paused", "cooldown", "quiet_window", "parked", "handed_back", "not_due",
         "site_busy_elsewhere", "worker_lost", "group_running", "behind", "interval", "no_free_slot", "starting", "running")
#: these have an end each, and the latest decides
_TIMED = frozenset({"paused", "cooldown", "quiet_window", "parked", "handed_back", "not_due"})
#: the most words of an error that a reason repeats
_ERROR_LENGTH = 160


@dataclass(frozen=True)
class Answer:
    """What `why` says of one job."""

    job_id: str
    status: str
    reasons: tuple[Reason, ...]
    position: int | None
    expected_start: datetime | None

    @property
    def is_held_up(self) -> bool:
        """Whether anything keeps it from being taken now."""
        return any(reason.code in BLOCKING for reason in self.reasons)

    def document(self, zone: tzinfo) -> dict[str, Any]:
        """Return the document of the command line contract."""
        return {
            "job_id": self.job_id, "status": self.status, "reasons": [one.document(zone) for one in self.reasons],
            "position": self.position,
            "expected_start": None if self.expected_start is None else iso(self.expected_start, zone)}


def explain(facts: Facts, zone: tzinfo) -> Answer:
    """Return every reason that holds now, the job's place in line and when it will probably start."""
    job = facts.job
    if job.status != "queued":
        found = _running(facts, zone) if job.status == "running" else [_finished(job, zone)]
        return Answer(job.job_id, job.status, tuple(found), None, None)
    if job.expires_at is not None and job.expires_at <= facts.now:
        text = (f"it expired at {at(job.expires_at, zone)} before it was started: no worker takes it any more, and the "
                "next sweep cancels it")
        return Answer(job.job_id, job.status, (Reason("finished", text),), None, None)
    held = sorted(_held(facts, zone), key=_place)
    if not held:
        held = [_starting(facts)]
    held[0] = held[0].with_note(_note(job))
    tellable = not any(one.code in {"no_worker", "broker_down", "no_free_slot"} for one in held) and job.home is None
    ahead = facts.line.ahead
    return Answer(job.job_id, job.status, tuple(held), None if ahead is None else ahead + 1,
                  expected_start(facts) if tellable else None)


def _place(reason: Reason) -> tuple[int, float, int]:
    rank = _RANK.index(reason.code)
    if reason.code not in _TIMED:
        return (2 if rank > _RANK.index("not_due") else 0), 0.0, rank
    # without a moment it holds until somebody lifts it
    return 1, float("-inf") if reason.until is None else -reason.until.timestamp(), rank


def _held(facts: Facts, zone: tzinfo) -> Iterator[Reason]:
    yield from _pauses(facts, zone)
    yield from _due(facts, zone)
    yield from _lane(facts, zone)
    yield from workforce(facts)


def _pauses(facts: Facts, zone: tzinfo) -> Iterator[Reason]:
    for what, hold in (("the lane", facts.operator), ("every lane", facts.fleet)):
        if hold is not None:
            why = f": {hold.reason}" if hold.reason else ""
            yield Reason("paused", f"{what} is paused by {hold.by or 'an operator'} {until(hold.until, facts.now, zone)}{why}",
                         _end(hold.until), hold.by or "operator")
    if facts.cooldown is not None:
        why = f" because the site objected: {facts.cooldown.reason}" if facts.cooldown.reason else ""
        yield Reason("cooldown", f"the lane cools down {until(facts.cooldown.until, facts.now, zone)}{why}",
                     _end(facts.cooldown.until), facts.cooldown.by)
    if facts.quiet_until is not None:
        yield Reason("quiet_window", f"a quiet window holds {until(facts.quiet_until, facts.now, zone)}", facts.quiet_until,
                     "schedule")


def _due(facts: Facts, zone: tzinfo) -> Iterator[Reason]:
    job, now = facts.job, facts.now
    if job.run_after is None or job.run_after <= now:
        return
    when = until(job.run_after, now, zone)
    if job.given_back:
        text = f"its last claim was given back unstarted, nothing is spent; it waits {when}"
        yield Reason("handed_back", text, _end(job.run_after), job.worker)
    elif job.wait_reason in _PARKED:
        yield Reason("parked", f"parked {when}: {_PARKED[job.wait_reason]}", _end(job.run_after), job.group)
    elif job.wait_reason == "backoff":
        text = (f"not due {when}: it is tried again after failure {job.failures} of {job.max_attempts}"
                + (f" ({_brief(job.error_msg)})" if job.error_msg else ""))
        yield Reason("not_due", text, _end(job.run_after))
    else:
        yield Reason("not_due", f"not due {when}", _end(job.run_after))


def _lane(facts: Facts, zone: tzinfo) -> Iterator[Reason]:
    job, running, other = facts.job, facts.running, facts.elsewhere
    if job.home is not None:
        text = f"its site belongs to the lane {job.home} now; the next sweep (at most 30 s) moves the job there"
        yield Reason("site_busy_elsewhere", text, None, job.home)
    if other is not None:
        whose = "its site" if other.site_code == job.site_code else f"site {other.site_code} of its lane"
        text = f"{whose} is busy in lane {other.group}: job {_named(other)} runs there since {at(other.since, zone)}"
        yield Reason("site_busy_elsewhere", text, None, other.job_id)
    for one in (running, other):
        if one is not None and one.lease_until <= facts.now:
            yield _lost(one, facts, zone)
    if running is not None:
        asked = ", and was asked to stop" if running.stop_requested else ""
        text = (f"job {_named(running)} runs in its lane since {at(running.since, zone)} "
                f"({_for(running.since, facts.now)}) on {running.worker or 'a worker'}{asked}")
        yield Reason("group_running", text, None, running.job_id)
    yield from _behind(facts)
    if facts.next_request_at is not None and facts.next_request_at > facts.now:
        gap = max(facts.gap_sec, facts.crawl_delay_sec)
        text = (f"the interval of its lane{f' ({gap:g} s)' if gap else ''} allows the next request in "
                f"{span((facts.next_request_at - facts.now).total_seconds())}, at {at(facts.next_request_at, zone)}")
        yield Reason("interval", text, facts.next_request_at, job.group)


def _behind(facts: Facts) -> Iterator[Reason]:
    line = facts.line
    if line.ahead == 0 or (line.ahead is None and line.head == facts.job.job_id):
        return
    if line.ahead is not None:
        first = line.first[0] if line.first else None
        whom = f", the first of them {who(first.job_id, first.target_code)}" if first is not None else ""
        yield Reason("behind", f"behind {count(line.ahead, 'job')} of its lane{whom}", None,
                     first.job_id if first is not None else None)
    elif line.head is not None and (facts.job.run_after is None or facts.job.run_after <= facts.now):
        yield Reason("behind", f"behind other jobs of its lane, the first of them {line.head}", None, line.head)


def _running(facts: Facts, zone: tzinfo) -> list[Reason]:
    job, now = facts.job, facts.now
    worker = job.worker or "a worker"
    asked = "; it was asked to stop and ends at its next stop point" if job.stop_requested else ""
    lease = "" if job.lease_until is None else f"; its lease lasts until {at(job.lease_until, zone)}"
    lost = job.lease_until is not None and job.lease_until <= now
    if lost:
        lease = ""
    if job.started_at is None:
        since = job.claimed_at or now
        text = f"claimed by {worker} {span((now - since).total_seconds())} ago (attempt {job.attempt}), about to start"
    else:
        text = (f"running since {at(job.started_at, zone)} ({_for(job.started_at, now)}) on {worker}, "
                f"attempt {job.attempt}")
    found = [Reason("running", f"{text}{lease}{asked}", None, job.worker)]
    if lost and facts.running is not None:
        found.insert(0, _lost(facts.running, facts, zone))
    return found


def _lost(running: RunningFacts, facts: Facts, zone: tzinfo) -> Reason:
    alive = any(worker.alive for worker in facts.workers)
    next_step = "a live worker takes the job from it" if alive else "no worker lives that could take the job from it"
    text = (f"the worker {running.worker or 'of it'} of job {running.job_id} has not renewed its lease, which ended at "
            f"{at(running.lease_until, zone)} ({span((facts.now - running.lease_until).total_seconds())} ago); {next_step}")
    return Reason("worker_lost", text, None, running.worker)


def _finished(job: JobFacts, zone: tzinfo) -> Reason:
    outcome = f" ({job.outcome})" if job.outcome else ""
    when = f" at {at(job.finished_at, zone)}" if job.finished_at is not None else ""
    why = f": {_brief(job.error_msg)}" if job.error_msg and job.error_msg != job.status else ""
    again = "; `requeue` gives it new life" if job.status in {"failed", "cancelled"} else ""
    return Reason("finished", f"{job.status}{outcome}{when}{why}{again}")


def _starting(facts: Facts) -> Reason:
    ready = next(worker for worker in facts.serving if worker.consuming)
    gave = "its last claim was given back unstarted; " if facts.job.given_back else ""
    return Reason("starting", f"{gave}due now; a worker takes it at its next look", None, ready.name)


def _note(job: JobFacts) -> str:
    if job.target == "disabled":
        return f"target {job.target_code} is disabled, which stops no job that was submitted by hand"
    if job.target == "gone":
        return f"target {job.target_code} is gone: the job will fail when it starts"
    return ""


def _named(running: RunningFacts) -> str:
    return who(running.job_id, running.target_code)


def _for(since: datetime, now: datetime) -> str:
    return f"for {span(max(0.0, (now - since).total_seconds()))}"


def _end(moment: datetime) -> datetime | None:
    return None if is_endless(moment) else moment


def _brief(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _ERROR_LENGTH else line[: _ERROR_LENGTH - 1] + "…"
