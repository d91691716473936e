"""What a run's stamps say: throughput, overlaps, hand-over between two bodies of a lane, and the spread between lanes."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

#: what lies closer together cannot be told apart by two transactions that decide side by side
SAME_SEC = 0.02


@dataclass(frozen=True)
class Measured:
    """`jobs_per_sec` from the first body's start to the last one's end; hand-over in milliseconds, None without one.

    `spread` is filled in from the attempts, where there are any.
    """

    jobs: int
    jobs_per_sec: float
    overlaps: int
    spread: int
    handover_p50_ms: float | None
    handover_p99_ms: float | None

    def document(self) -> dict[str, Any]:
        """Return the measurement as a JSON-able dict."""
        return asdict(self)


def share(values: Sequence[float], part: float) -> float:
    """Return the value that `part` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def read(path: Path) -> list[tuple[str, int, int]]:
    """Return (lane, begin, end) of every complete line, in nanoseconds."""
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return [(lane, int(begin), int(end)) for lane, begin, end in (line.split() for line in lines)]


def measure(stamps: list[tuple[str, int, int]]) -> Measured:
    """Return what the stamps of one run say."""
    lanes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for lane, begin, end in stamps:
        lanes[lane].append((begin, end))
    gaps: list[float] = []
    overlaps = 0
    for times in lanes.values():
        times.sort()
        for (_, end), (begin, _) in pairwise(times):
            overlaps += begin < end
            gaps.append((begin - end) / 1e6)
    seconds = (max(end for _, _, end in stamps) - min(begin for _, begin, _ in stamps)) / 1e9
    return Measured(
        jobs=len(stamps), jobs_per_sec=len(stamps) / seconds if seconds else 0.0, overlaps=overlaps,
        spread=0,
        handover_p50_ms=statistics.median(gaps) if gaps else None,
        handover_p99_ms=share(gaps, 0.99) if gaps else None)


def spread(attempts: list[tuple[str, float, float]]) -> int:
    """Return by how many turns a lane was ever ahead of one that had work and had been ready at least as long.

    `attempts` are (lane, claimed, finished) in seconds. A lane that runs is not ready. What lies less than `SAME_SEC`
    apart is one decision: two workers' threads decide side by side, and the end of a job is seen when it is committed.
    """
    claims: dict[str, list[float]] = defaultdict(list)
    for lane, claimed, _ in sorted(attempts, key=lambda attempt: attempt[1]):
        claims[lane].append(claimed)
    events = sorted([(claimed, 1, lane) for lane, claimed, _ in attempts]
                    + [(finished, 0, lane) for lane, _, finished in attempts])
    had: Counter[str] = Counter(dict.fromkeys(claims, 0))
    ready_since = dict.fromkeys(claims, 0.0)
    worst = 0
    for (moment, claimed), group in groupby(events, key=lambda event: event[:2]):
        lanes = [lane for _, _, lane in group]
        if not claimed:
            ready_since.update({lane: moment for lane in lanes if had[lane] < len(claims[lane])})
            continue
        taken = {lane: ready_since.pop(lane, moment) for lane in lanes}
        had.update(lanes)
        for lane, since in taken.items():
            passed = [had[other] for other, ready in ready_since.items()
                      if ready <= since and ready + SAME_SEC < moment < claims[other][had[other]] - SAME_SEC]
            worst = max(worst, had[lane] - min(passed, default=had[lane]))
    return worst
