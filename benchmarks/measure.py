"""What a run's stamps say: throughput, overlaps, hand-over between two bodies of a lane, and the spread between lanes."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Measured:
    """`jobs_per_sec` from the first body's start to the last one's end; hand-over in milliseconds, None without one."""

    jobs: int
    jobs_per_sec: float
    overlaps: int
    spread: int
    handover_p50_ms: float | None
    handover_p99_ms: float | None

    def document(self) -> dict[str, Any]:
        """Return the measurement as a JSON-able dict."""
        return asdict(self)


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
    gaps.sort()
    return Measured(
        jobs=len(stamps), jobs_per_sec=len(stamps) / seconds if seconds else 0.0, overlaps=overlaps,
        spread=spread(stamps, {lane: len(times) for lane, times in lanes.items()}),
        handover_p50_ms=statistics.median(gaps) if gaps else None,
        handover_p99_ms=gaps[min(len(gaps) - 1, int(len(gaps) * 0.99))] if gaps else None)


def spread(stamps: list[tuple[str, int, int]], sizes: dict[str, int]) -> int:
    """Return the largest difference of begun jobs between two lanes while all of them still had work."""
    begun: Counter[str] = Counter(dict.fromkeys(sizes, 0))
    levels: Counter[int] = Counter({0: len(sizes)})
    worst = 0
    for lane, _, _ in sorted(stamps, key=lambda stamp: stamp[1]):
        level = begun[lane]
        begun[lane] += 1
        levels[level] -= 1
        levels[level + 1] += 1
        if not levels[level]:
            del levels[level]
        worst = max(worst, max(levels) - min(levels))
        if begun[lane] == sizes[lane]:
            break
    return worst
