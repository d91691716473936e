"""A whole crawl beside Scrapy, in one run: ``python -m benchmarks.crawl [--json] [--runs 3] [--only NAME …]``.

Fifty hosts of static pages on the loopback interface, served by nginx; no interval, one request at a time per host.
Ratelane is started as its users start it, ``ratelane crawl sites.yaml --workers N``, on its embedded SQLite and on the
bundled PostgreSQL (durable, as it comes); Scrapy stores its items in SQLite with a commit per item. Pages per second
count from the first request that the server saw to the last thing stored, in one process against one and two against two.
Processor time is that of all processes of a crawler from start to end (without the servers of pages and PostgreSQL): other
work on the machine changes it less than the pages per second.

``slow``: pages that answer after 40 ms, and how many requests a host had in flight. ``interval``: 0.5 s between the
requests of a host, and how much longer than the least possible time the whole crawl takes.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.crawlers import Crawled, Ratelane, Scrapy
from benchmarks.site import CLOCK_SEC, Asked, Server, Shape, gaps, ideal_sec, most_in_flight

DELAY_SEC, INTERVAL_SEC = 0.04, 0.5
#: with robots.txt and four list pages a host of the interval's run is asked a hundred times
PACED = Shape(lists=5, each=19)
Crawl = Callable[[Server, Path], Crawled]


@dataclass(frozen=True)
class Race:
    """Crawlers side by side on one kind of site; the first one of each list is ours."""

    name: str
    crawls: dict[str, Crawl]
    against: dict[str, str]
    delay_sec: float = 0.0


def races(postgres_url: Callable[[], str]) -> list[Race]:
    """Return what is raced; `postgres_url` gives a fresh database each time."""
    found = []
    for processes in (1, 2):
        ours = {"ratelane (sqlite)": Ratelane(processes), "ratelane (postgresql)": Ratelane(processes, postgres_url)}
        found.append(Race(f"{processes}:{processes}", {**ours, "scrapy": Scrapy(processes)}, dict.fromkeys(ours, "scrapy")))
    slow = {"ratelane (sqlite)": Ratelane(1), "scrapy": Scrapy(1)}
    return [*found, Race("slow", slow, {"ratelane (sqlite)": "scrapy"}, DELAY_SEC)]


def run_race(race: Race, folder: Path, shape: Shape, runs: int, only: Sequence[str]) -> dict[str, Any]:
    """Run every crawler of a race `runs` times, side by side, and return the medians."""
    server = Server(folder / race.name.replace(":", "-"), shape, race.delay_sec)
    crawls = {name: crawl for name, crawl in race.crawls.items() if not only or name.split(" ")[0] in only or name in only}
    rates: dict[str, list[float]] = {name: [] for name in crawls}
    cpu: dict[str, list[float]] = {name: [] for name in crawls}
    flight: Counter[str] = Counter()
    try:
        for number in range(runs):
            for name, crawl in crawls.items():
                with tempfile.TemporaryDirectory(prefix="run-", dir=folder) as home:
                    before = cpu_sec()
                    done = crawl(server, Path(home))
                    cpu[name].append(1000 * (cpu_sec() - before) / shape.pages)
                asked = server.log()
                require_whole(name, asked, done, shape)
                rates[name].append(rate(asked, done, shape))
                flight[name] = max(flight[name], most_in_flight(asked, CLOCK_SEC))
                print(f"{race.name} {number + 1}/{runs} {name}: {rates[name][-1]:.0f} pages/s, "
                      f"{cpu[name][-1]:.2f} ms CPU a page", file=sys.stderr)
    finally:
        server.stop()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {"race": race.name, "runs": runs, "pages": shape.pages,
            "pages_per_sec": {name: round(value, 1) for name, value in medians.items()},
            "all_runs": {name: [round(value, 1) for value in values] for name, values in rates.items()},
            "cpu_ms_per_page": {name: round(statistics.median(values), 2) for name, values in cpu.items()},
            "ratio": {name: round(medians[name] / medians[rival], 2) for name, rival in race.against.items()
                      if {name, rival} <= set(medians)},
            "most_in_flight_per_host": dict(flight)}


def cpu_sec() -> float:
    """Return the processor time of all processes that have been started and have ended, themselves and their children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rate(asked: Sequence[Asked], done: Crawled, shape: Shape) -> float:
    """Return pages per second, from the first request to the last thing stored."""
    began = min(one.started for one in asked)
    return shape.pages / (max(done.stored_at, *(one.ended for one in asked)) - began)


def require_whole(name: str, asked: Sequence[Asked], done: Crawled, shape: Shape) -> None:
    """End the benchmark if a crawler left something out, or asked for something twice."""
    pages = Counter((one.host, one.path) for one in asked if one.path != "/robots.txt")
    if done.stored != shape.articles or len(pages) != shape.pages or max(pages.values()) > 1:
        raise SystemExit(f"{name} is not whole: {done.stored} of {shape.articles} articles, {len(pages)} of {shape.pages} "
                         f"pages, one of them {max(pages.values(), default=0)} times\n{done.output[-2000:]}")


def run_interval(folder: Path, runs: int) -> dict[str, Any]:
    """Crawl under an interval `runs` times, and return how the longest run compares with the least possible time."""
    server, rows = Server(folder / "interval", PACED), []
    try:
        for number in range(runs):
            with tempfile.TemporaryDirectory(prefix="run-", dir=folder) as home:
                done = Ratelane(1, interval_sec=INTERVAL_SEC, audits=True)(server, Path(home))
            asked = server.log()
            require_whole("ratelane", asked, done, PACED)
            ideal = ideal_sec(asked, INTERVAL_SEC)
            makespan = max(one.ended for one in asked) - min(one.started for one in asked)
            rows.append({"makespan_sec": round(makespan, 2), "ideal_sec": round(ideal, 2), "ratio": round(makespan / ideal, 4),
                         "requests": len(asked), "shortest_gap_sec": round(min(gaps(asked)), 3),
                         "gaps_too_short": sum(gap < INTERVAL_SEC - CLOCK_SEC for gap in gaps(asked)), "audit": done.audit})
            print(f"interval {number + 1}/{runs}: {rows[-1]}", file=sys.stderr)
    finally:
        server.stop()
    return {"race": "interval", "runs": runs, "interval_sec": INTERVAL_SEC,
            "ratio": statistics.median(row["ratio"] for row in rows), "all_runs": rows}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as lines for people."""
    lines = []
    for row in rows:
        if row["race"] == "interval":
            lines.append(f"interval   makespan {row['ratio']:.3f} of the least possible; too short gaps: "
                         f"{sum(one['gaps_too_short'] for one in row['all_runs'])}")
            continue
        for name, value in row["pages_per_sec"].items():
            ratio = f"  {row['ratio'][name]:.2f} of scrapy" if name in row["ratio"] else ""
            lines.append(f"{row['race']:<9}  {name:<22} {value:7.1f} pages/s  "
                         f"{row['cpu_ms_per_page'][name]:6.2f} ms CPU a page  "
                         f"{row['most_in_flight_per_host'][name]:3} in flight per host{ratio}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--runs", type=int, default=3, help="runs of each crawler; medians are printed")
    parser.add_argument("--only", nargs="*", default=[], help="names of races: 1:1, 2:2, slow, interval")
    parser.add_argument("--lists", type=int, default=Shape.lists, help="list pages of each host; fewer are quicker")
    parser.add_argument("--crawlers", nargs="*", default=[], help="names of crawlers, for tuning: ratelane, scrapy, …")
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        return not options.only or name in options.only

    from tests.support.servers import PostgresServer

    with tempfile.TemporaryDirectory(prefix="ratelane-bench-") as folder:
        postgres = PostgresServer(durable=True).start()
        try:
            rows = [run_race(race, Path(folder), Shape(lists=options.lists), options.runs, options.crawlers)
                    for race in races(postgres.create_database) if wanted(race.name)]
            if wanted("interval"):
                rows.append(run_interval(Path(folder), options.runs))
        finally:
            postgres.stop()
            postgres.remove()
    print(json.dumps(rows, indent=1) if options.json else table(rows))


if __name__ == "__main__":
    main()
