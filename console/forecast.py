"""When a queued job will probably start: pure arithmetic over measured durations, intervals and pauses (rule J16)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import fmean, median

from config.moments import is_endless
from models.facts import Facts, Measured, Waiting


def opens_at(facts: Facts) -> datetime | None:
    """Return the earliest moment at which the lane is open and the job due; None if only a person can bring it about."""
    gates = [facts.now, facts.job.run_after, facts.next_request_at, facts.quiet_until,
             *(hold.until for hold in facts.holds.values())]
    latest = max(gate for gate in gates if gate is not None)
    return None if is_endless(latest) else latest


def expected_start(facts: Facts) -> datetime | None:
    """Return when the job will probably be claimed, None if nothing that was measured tells.

    The lane works through what runs and what stands before the job; each takes the median that its target took lately
    (without any, that of the group), and the gap that follows. It is never earlier than any pause, interval or
    `run_after` that holds now.
    """
    opens = opens_at(facts)
    if opens is None:
        return None
    durations = Durations(facts.measured)
    free = _after_running(facts, durations)
    if free is None:
        return None
    gates = [free, facts.next_request_at, facts.quiet_until, *(hold.until for hold in facts.holds.values())]
    lane = max(gate for gate in gates if gate is not None)
    ends = _after_line(facts, durations, lane)
    return None if ends is None else max(ends, opens)


def _after_running(facts: Facts, durations: Durations) -> datetime | None:
    """When the lane is free of what occupies it now, with the gap that follows; None if nothing tells."""
    latest = facts.now
    for running in (facts.running, facts.elsewhere):
        if running is None:
            continue
        takes = durations.of(running.target_code)
        if takes is None:
            return None
        gap = max(running.interval_sec, facts.crawl_delay_sec)
        # one that has taken longer than usual may end at any moment
        latest = max(latest, max(facts.now, running.since + timedelta(seconds=takes)) + timedelta(seconds=gap))
    return latest


def _after_line(facts: Facts, durations: Durations, lane: datetime) -> datetime | None:
    """When everything before the job has had its turn; the first few stand for those that nobody read."""
    ahead = facts.line.ahead
    if ahead is None:
        return None
    turns = []
    for one in facts.line.first:
        takes = _turn(one, facts, durations)
        if takes is None:
            return None
        turns.append(takes)
        lane = max(lane, one.run_after or lane) + timedelta(seconds=takes)
    unread = ahead - len(turns)
    return lane + timedelta(seconds=unread * fmean(turns)) if unread > 0 and turns else lane


def _turn(one: Waiting, facts: Facts, durations: Durations) -> float | None:
    takes = durations.of(one.target_code)
    return None if takes is None else takes + max(one.interval_sec, facts.crawl_delay_sec)


class Durations:
    """How long jobs held their lane lately, by target and over the group.

    The attempts of one job count together, with the interval behind each that was parked: a crawl under a long interval
    is a row of short attempts that keep their place in line.
    """

    def __init__(self, measured: tuple[Measured, ...]) -> None:
        jobs: Mapping[tuple[str | None, str], list[float]] = defaultdict(list)
        for one in measured:
            jobs[one.target_code, one.job_id].append(one.seconds + (one.interval_sec if one.parked else 0.0))
        by_target: Mapping[str | None, list[float]] = defaultdict(list)
        for (target, _), parts in jobs.items():
            by_target[target].append(sum(parts))
        self._of = {target: median(sums) for target, sums in by_target.items()}
        self._group = median([each for sums in by_target.values() for each in sums]) if by_target else None

    def of(self, target: str | None) -> float | None:
        """Return the usual seconds of a job of `target`, else of any job of the group, None if none was measured."""
        return self._of.get(target, self._group)
