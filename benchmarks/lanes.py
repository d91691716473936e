"""Lanes beside plain Celery and Procrastinate, in one run: ``python -m benchmarks.lanes [--json] [--runs 3] [--only NAME …]``.

PostgreSQL and Valkey are the bundled ones, durable as they come. One worker with 32 threads runs empty bodies on many
lanes; beside it plain Celery runs the same bodies from one queue, without results and with its own SQLAlchemy result
backend (threads and prefork), and Procrastinate runs them with a lock for each lane. Bodies of 10 ms on few lanes show
the hand-over: nothing queues for a slot there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench, Shape
from benchmarks.measure import Measured
from benchmarks.rivals import LANED, OWN, RIVALS

SHAPES = (
    Shape("100x30", 100, 30),
    Shape("1000x3", 1000, 3),
    Shape("4x300", 4, 300),
    Shape("10000x1", 10_000, 1),
    Shape("4x100 of 10 ms", 4, 100, 0.01),
)
_SHAPE = re.compile(r"(\d+)x(\d+)(?: of (\d+) ms)?")


def shape_of(name: str) -> Shape:
    """Return the shape that `name` describes, ``100x30`` or ``4x100 of 10 ms``; raises ValueError if it is none."""
    match = _SHAPE.fullmatch(name)
    if match is None or "0" in match.groups()[:2]:
        raise ValueError(f"{name!r} is no shape: '100x30' (lanes x jobs of each), '4x100 of 10 ms'")
    lanes, each, ms = (int(part or 0) for part in match.groups())
    return Shape(name, lanes, each, ms / 1_000)


def run(bench: Bench, shapes: list[Shape], runs: int, rivals: list[str]) -> list[dict[str, Any]]:
    """Measure each shape `runs` times, everything side by side in each, and return the medians."""
    rows = []
    for shape in shapes:
        found: dict[str, list[Measured]] = {}
        loads = []
        for number in range(runs):
            loads.append(os.getloadavg()[0])
            # whoever comes first meets another machine than whoever comes last: in turn everybody does
            for name in rivals[number % len(rivals):] + rivals[:number % len(rivals)]:
                found.setdefault(name, []).append(RIVALS[name](bench, shape))
        rows.append(summary(shape, {name: found[name] for name in rivals}) | {"load": round(max(loads), 1)})
        print(f"{shape.name}: done", file=sys.stderr)
    return rows


def summary(shape: Shape, found: dict[str, list[Measured]]) -> dict[str, Any]:
    """Return one shape's medians, and the ratio of Ratelane's throughput to each rival's."""
    rates = {name: statistics.median(one.jobs_per_sec for one in runs) for name, runs in found.items()}
    own = found[OWN]
    return {
        "shape": shape.name, "runs": len(own), "jobs_per_sec": {name: round(rate, 1) for name, rate in rates.items()},
        "each_run": {name: [round(one.jobs_per_sec, 1) for one in runs] for name, runs in found.items()},
        "ratio": {name: round(rates[OWN] / rate, 2) for name, rate in rates.items() if name != OWN},
        "overlaps": {name: sum(one.overlaps for one in runs) for name, runs in found.items() if name in LANED},
        "spread": max(one.spread for one in own),
        "handover_p50_ms": _medians(found, "handover_p50_ms"), "handover_p99_ms": _medians(found, "handover_p99_ms")}


def _medians(found: dict[str, list[Measured]], figure: str) -> dict[str, float]:
    """Return the median of a figure of each rival that has it; shapes of one job a lane have no hand-over."""
    medians = {}
    for name in LANED:
        values = [value for one in found.get(name, ()) if (value := getattr(one, figure)) is not None]
        if values:
            medians[name] = round(statistics.median(values), 2)
    return medians


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table for people."""
    names = list(rows[0]["jobs_per_sec"])
    rivals = [name for name in names if name != OWN]
    lanes = sorted({name for row in rows for name in row["handover_p50_ms"]}, key=names.index)
    lines = [["shape", *names, *(f"to {name}" for name in rivals), "overlaps", "spread",
              *(f"hand-over p50/p99 ms, {name}" for name in lanes), "load"]]
    for row in rows:
        hand = [f"{row['handover_p50_ms'][name]}/{row['handover_p99_ms'][name]}" if name in row["handover_p50_ms"] else "-"
                for name in lanes]
        lines.append([row["shape"], *(f"{row['jobs_per_sec'][name]:g}" for name in names),
                      *(f"{row['ratio'][name]:.2f}" for name in rivals), str(row["overlaps"][OWN]), str(row["spread"]),
                      *hand, str(row["load"])])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--runs", type=int, default=3, help="runs of each shape; medians are printed")
    parser.add_argument("--only", nargs="*", type=shape_of, default=[],
                        help="shapes: any lanesxjobs, or of " + ", ".join(shape.name for shape in SHAPES))
    parser.add_argument("--beside", nargs="*", choices=[name for name in RIVALS if name != OWN],
                        help="rivals to measure beside Ratelane (default: all; none named: Ratelane alone, for tuning)")
    options = parser.parse_args()
    rivals = [name for name in RIVALS if options.beside is None or name == OWN or name in options.beside]
    with tempfile.TemporaryDirectory(prefix="ratelane-bench-") as folder:
        bench = Bench(Path(folder))
        try:
            rows = run(bench, options.only or list(SHAPES), options.runs, rivals)
        finally:
            bench.close()
    print(json.dumps(rows, indent=1) if options.json else table(rows))


if __name__ == "__main__":
    main()
