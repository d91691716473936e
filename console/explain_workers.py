"""Who would take a job, and why nobody does: the part of `why` about workers (rules J16, R7). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from console.reasons import Reason
from console.wording import count, span
from models.facts import Facts, WorkerFacts

_TROUBLES = {
    "broker_down": "has lost its broker", "hub_stuck": "hangs: its consumer does not move",
    "scout_stuck": "hangs: it has stopped looking for work", "stopping": "is stopping",
    "database_down": "does not reach the database", "thread_dead": "has lost one of its threads",
}
#: what a glob's pattern is made of: an escaped character, anything, any one character
_TOKEN = re.compile(r"\\(?P<escaped>.)|\.\*|\.")
#: so many names are told
_MOST_NAMES = 3


def workforce(facts: Facts) -> Iterator[Reason]:
    """Give the reason why no worker takes the job now; nothing if one with a free slot would."""
    lane = f"rg.{facts.job.group}"
    if not facts.lane_exists:
        yield Reason("no_worker", f"no lane is called {lane} yet, so no worker serves it; `ratelane load` makes the lanes "
                     "of a file", None, lane)
        return
    serving = facts.serving
    if not serving:
        yield Reason("no_worker", _nobody(facts, lane), None, lane)
        return
    consuming = [worker for worker in serving if worker.consuming]
    if not consuming:
        cut_off = [worker for worker in serving if worker.trouble == "broker_down"]
        named = _names(cut_off or serving)
        text = "; ".join(f"worker {one.name} {_trouble(one)}" for one in (cut_off or serving)[:_MOST_NAMES])
        if cut_off:
            yield Reason("broker_down", f"no worker of the lane can take messages: {text}", None, named)
        else:
            yield Reason("no_worker", f"no worker of the lane takes work now: {text}", None, named)
        return
    yield from _slots(facts, consuming)


def _slots(facts: Facts, consuming: Sequence[WorkerFacts]) -> Iterator[Reason]:
    slots, free = sum(one.concurrency for one in consuming), sum(one.free for one in consuming)
    if not free:
        busy = "the only slot" if slots == 1 else f"each of the {slots} slots"
        yield Reason("no_free_slot", f"{busy} of {_names(consuming)} is busy", None, _names(consuming))
    elif _is_crowded_out(facts, consuming):
        before = len(facts.ready_before)
        text = f"{count(before, 'lane')} that {'has' if before == 1 else 'have'} been ready longer " \
               f"{'takes' if before == 1 else 'take'} the {count(free, 'free slot')} of {_names(consuming)} first"
        yield Reason("no_free_slot", text, None, _names(consuming))


def _is_crowded_out(facts: Facts, consuming: Sequence[WorkerFacts]) -> bool:
    """Say whether lanes that have been ready longer use up every free slot that would serve this one (rule R5)."""
    left = list(facts.ready_before)
    for worker in consuming:
        mine = [lane for lane in left if worker.serves(lane)][: worker.free]
        if len(mine) < worker.free:
            return False
        left = [lane for lane in left if lane not in set(mine)]
    return True


def _nobody(facts: Facts, lane: str) -> str:
    alive = [worker for worker in facts.workers if worker.alive]
    if alive:
        others = "; ".join(f"{one.name} serves {served(one.lanes)}" for one in alive[:_MOST_NAMES])
        return f"no live worker serves the lane {lane}: {others}"
    silent = [worker for worker in facts.workers if not worker.alive]
    if silent:
        last = min(silent, key=lambda one: one.silent_sec)
        return f"no worker lives: the last, {last.name}, has been silent for {span(last.silent_sec)}"
    return "no worker lives: `ratelane up` starts one, or `ratelane worker` beside servers of your own"


def served(lanes: Sequence[str] | None) -> str:
    """Return the lanes of a worker as they were given to it: the glob of each pattern."""
    if lanes is None:
        return "every lane"
    globs = (_TOKEN.sub(_glob, lane.removeprefix("^").removesuffix("$")) for lane in lanes)
    return ", ".join(f"rg.{glob}" for glob in globs) or "no lane"


def _glob(token: re.Match[str]) -> str:
    return token["escaped"] or ("*" if token[0] == ".*" else "?")


def _trouble(worker: WorkerFacts) -> str:
    if worker.trouble:
        return _TROUBLES.get(worker.trouble, f"does not consume ({worker.trouble})")
    return "lives but has not looked for work lately"


def _names(workers: Sequence[WorkerFacts]) -> str:
    names = [one.name for one in workers]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
