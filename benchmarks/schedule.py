"""How late a large timetable is: ``python -m benchmarks.schedule [--json] [--runs 3] [--only NAME …]``.

Four measurements, each on a database of its own on the bundled PostgreSQL (durable, as it comes, but that it remembers
when transactions were committed), with a real beat where something has to be due:

- ``spread``: 10,000 entries, each with one target, are due one after the other within an hour, of which the first 90 s
  are waited for: 250 entries come due in them at that pace, the others are there and not due yet. From the due moment to
  the commit of the jobs, by the database. A thread runs the jobs without bodies, so that their runs end as well.
- ``burst``: of 10,000 entries 1,000 are due in one and the same second. From that second to the last commit.
- ``idle``: 10,000 entries, nothing is due: how long a look takes (in this process, else by the code that beat runs).
- ``fanout``: a run over 10,000 targets in 1,000 lanes. From the look that begins it to its commit; and how long a thread
  that claims and settles jobs of 100 other lanes waits for a claim meanwhile, and without a fan-out.

Times are those that were measured. ``--runs`` is the number of bursts and of fan-outs: the longest of them counts, and
claims of all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.claimer import Claimer, Timed
from benchmarks.measure import share
from benchmarks.stores import fill
from benchmarks.timetable import NOTICE_SEC, Bench, Timetable, at
from config import clock
from tasks.schedule.ticking import Entries, tick

#: targets in a lane, and the other lanes that are claimed in during a fan-out
EACH, OTHERS = 10, 100
HALF_A_DAY_SEC = 43_200.0
#: how long after the last due moment is waited for what was due
PATIENCE_SEC = 60.0
#: how long after a fan-out claims are told apart: its lanes are made ready then
AFTER_SEC = 5.0


@dataclass(frozen=True)
class Figure:
    """What was measured, beside its limit (None: there is none, it is told for comparison)."""

    measure: str
    what: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def holds(self) -> bool:
        """Whether it is below its limit."""
        return self.limit is None or self.value < self.limit


def waits(times: Sequence[Timed], windows: Sequence[tuple[float, float]]) -> list[float]:
    """Return how long the claims lasted, in seconds, that were under way in one of the windows."""
    return [each.ended - each.began for each in times
            if any(each.began < end and each.ended > begin for begin, end in windows)]


def entry_documents(first: float, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the documents of all entries, due one after the other from `first` on, each with a target of its own."""
    step = options.over / options.entries
    return {f"own-{number}": {"task": "crawl", "targets": [target(number)], "at": at(first + int(number * step))}
            for number in range(options.entries)}


def target(number: int) -> str:
    """Return the code of a target."""
    return f"lane{number // EACH}-{number % EACH}"


def spread(bench: Bench, options: argparse.Namespace) -> list[Figure]:
    """Wait for the first part of the hour, and tell how late each entry was that was due in it."""
    table = bench.timetable("spread", options.entries, EACH)
    first = table.plan(lambda moment: entry_documents(moment, options), options.lead)
    due = sum(int(number * options.over / options.entries) < options.span for number in range(options.entries))
    table.start_beat()
    with Claimer(table.settings):
        fired = table.await_fired("own-%", due, first + options.span + PATIENCE_SEC)
    table.close()
    late = [each.committed - each.due for each in fired if each.due < first + options.span]
    return [Figure("spread", f"due to committed, p99 of {due}", share(late, 0.99), "s", 1.0),
            Figure("spread", "median", share(late, 0.5), "s"), Figure("spread", "worst", max(late), "s")]


def burst(bench: Bench, options: argparse.Namespace) -> list[Figure]:
    """Let many entries be due in the same second, as often as `runs` says, each time others."""
    table = bench.timetable("burst", options.entries, EACH)
    gap = PATIENCE_SEC / 3

    def documents(first: float) -> dict[str, dict[str, Any]]:
        made = entry_documents(first + HALF_A_DAY_SEC, options)
        for number, (name, document) in enumerate(made.items()):
            if (turn := number // options.burst) < options.runs:
                made[name] = document | {"at": at(first + turn * gap)}
        return made

    first = table.plan(documents, options.lead)
    table.start_beat()
    figures = []
    for turn in range(options.runs):
        moment = first + turn * gap
        fired = table.await_fired("own-%", options.burst * (turn + 1), moment + PATIENCE_SEC)
        late = [each.committed - each.due for each in fired if each.due == moment]
        figures.append(Figure("burst", f"{len(late)} due to the last committed", max(late), "s", 3.0))
    table.close()
    return figures


def idle(bench: Bench, options: argparse.Namespace) -> list[Figure]:
    """Look again and again while nothing is due."""
    table = bench.timetable("idle", options.entries, EACH)
    table.store(entry_documents(time.time() + HALF_A_DAY_SEC, options))
    entries, taken = Entries(), []
    for number in range(options.looks + 10):
        began = time.perf_counter()
        found = tick(table.db, table.settings, clock.now(), entries)
        seconds = time.perf_counter() - began
        if found.started or found.ended:
            raise SystemExit("something was due though nothing should be")
        if number >= 10:
            taken.append(seconds * 1e3)
        time.sleep(0.01)
    table.close()
    return [Figure("idle", f"look, median of {len(taken)}", share(taken, 0.5), "ms", 10.0),
            Figure("idle", "look, p99", share(taken, 0.99), "ms", 10.0)]


def fanout(bench: Bench, options: argparse.Namespace) -> list[Figure]:
    """Run entries over all targets, one after the other, while a thread claims in other lanes."""
    table = bench.timetable("fanout", options.targets, EACH)
    fill(table.db.url, OTHERS, EACH, waiting=True, lane="other")
    table.store({})
    table.start_beat()
    lasted, during, after, calm = [], [], [], []
    with Claimer(table.settings, lanes=["^other"], again=True) as claimer:
        for number in range(options.runs):
            began = time.time()
            fired = _one_fanout(table, f"fan-{number}", options.targets)
            during.append((fired.began, fired.committed))
            calm.append((began, fired.began))
            after.append((fired.committed, fired.committed + AFTER_SEC))
            lasted.append(fired.committed - fired.began)
    table.close()
    other = waits(claimer.times, calm)
    here, then = waits(claimer.times, during), waits(claimer.times, after)
    figures = [Figure("fanout", f"{options.targets} targets, look to commit", seconds, "s", 3.0) for seconds in lasted]
    return [*figures,
            Figure("fanout", f"claims elsewhere meanwhile, p99 of {len(here)}", share(here, 0.99) * 1e3, "ms", 100.0),
            Figure("fanout", f"without a fan-out, p99 of {len(other)}", share(other, 0.99) * 1e3, "ms"),
            Figure("fanout", f"in the {AFTER_SEC:g} s after, p99 of {len(then)}", share(then, 0.99) * 1e3, "ms"),
            Figure("fanout", "claims elsewhere meanwhile, median", share(here, 0.5) * 1e3, "ms"),
            Figure("fanout", "without a fan-out, median", share(other, 0.5) * 1e3, "ms")]


def _one_fanout(table: Timetable, name: str, targets: int) -> Any:
    """Let a run over all targets begin, and end its jobs; returns what began."""
    due = float(int(time.time() + NOTICE_SEC) + 1)
    table.keep({name: {"task": "crawl", "sites": ["lane*"], "at": at(due)}})
    table.look()
    (fired,) = table.await_fired(name, 1, due + PATIENCE_SEC)
    if fired.jobs != targets:
        raise SystemExit(f"{name} has {fired.jobs} jobs, not {targets}")
    time.sleep(max(0.0, fired.committed + AFTER_SEC - time.time()))
    table.end_jobs("lane%")
    table.await_ended(name, PATIENCE_SEC)
    return fired


MEASURES: dict[str, Callable[[Bench, argparse.Namespace], list[Figure]]] = {
    "spread": spread, "burst": burst, "idle": idle, "fanout": fanout}


def document(figures: Sequence[Figure], loads: Sequence[float]) -> dict[str, Any]:
    """Return all figures with their limits, and the load of the machine before and after each measurement."""
    return {"load": [round(load, 1) for load in loads], "figures": [
        asdict(each) | {"value": round(each.value, 3), "holds": None if each.limit is None else each.holds}
        for each in figures], "holds": all(each.holds for each in figures)}


def table(found: dict[str, Any]) -> str:
    """Return the document as a table for people."""
    words = {None: "", True: "holds", False: "DOES NOT HOLD"}
    lines = [["measure", "figure", "value", "limit", ""]]
    for each in found["figures"]:
        limit = "" if each["limit"] is None else f"< {each['limit']:g} {each['unit']}"
        lines.append([each["measure"], each["what"], f"{each['value']:g} {each['unit']}", limit, words[each["holds"]]])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)
    return text + "\nload: " + ", ".join(f"{load:g}" for load in found["load"])


def main() -> None:
    """Measure and print; exits 1 if a figure is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--runs", type=int, default=3, help="bursts, and fan-outs")
    parser.add_argument("--only", nargs="*", choices=list(MEASURES), default=list(MEASURES), help="what to measure")
    parser.add_argument("--entries", type=int, default=10_000, help="entries that there are")
    parser.add_argument("--over", type=float, default=3_600.0, help="seconds over which their due moments are spread")
    parser.add_argument("--span", type=float, default=90.0, help="seconds of these that are waited for")
    parser.add_argument("--burst", type=int, default=1_000, help="entries that are due in one second")
    parser.add_argument("--looks", type=int, default=500, help="looks at which nothing is due")
    parser.add_argument("--targets", type=int, default=10_000, help="targets of a fan-out")
    parser.add_argument("--lead", type=float, default=40.0, help="seconds to store the entries in; doubled if too few")
    options = parser.parse_args()
    figures: list[Figure] = []
    loads = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory(prefix="ratelane-bench-") as folder:
        bench = Bench(Path(folder))
        try:
            for name in options.only:
                figures += MEASURES[name](bench, options)
                loads.append(os.getloadavg()[0])
                print(f"{name}: done", file=sys.stderr)
        finally:
            bench.close()
    found = document(figures, loads)
    print(json.dumps(found, indent=1) if options.json else table(found))
    sys.exit(0 if found["holds"] else 1)


if __name__ == "__main__":
    main()
