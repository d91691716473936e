"""Whether a claim gets slower as a fleet grows: ``python -m benchmarks.claim [--json] [--claims N] [--measured N]``.

On the bundled PostgreSQL, durable as it comes, stand two databases: 100 lanes with 1,000 waiting jobs, and 100,000 lanes
with 1,000,000. The same process makes the same claims in both, block by block in turns, so that whatever else the
machine does hits both. Nothing is vacuumed: 10,000 claims have left their dead rows before the measuring begins, and
that goes on. One claim is what a scout does with a free slot (fold, lock, take, refresh); the other one is made by the
settle of the job before it, as most claims of a busy worker are. Jobs that are done are submitted again, so that no
database runs dry.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.claimer import run_at_once
from benchmarks.measure import share
from benchmarks.stores import HOT, fill
from config.settings import Settings
from models.claim import Claim, Taker
from models.db import Database
from models.ledger import Ledger, NewJob

#: what may become of the small database's figures in the large one
LIMITS = {"p50": 2.0, "p95": 4.0}
EACH = 10
_COUNTS = ("SELECT relname, seq_tup_read, coalesce(idx_tup_fetch, 0), n_dead_tup FROM pg_stat_user_tables "
           f"WHERE relname IN ({', '.join(repr(name) for name in HOT)})")


@dataclass
class Fleet:
    """One of the two databases, with what was measured in it (seconds)."""

    name: str
    url: str
    lanes: int
    scout: list[float] = field(default_factory=list)
    settle: list[float] = field(default_factory=list)
    claims: int = 0

    def __post_init__(self) -> None:
        self.db = Database(self.url)
        settings = Settings(database_url=self.url)
        self.ledger = Ledger(self.db, settings)
        self.taker = Taker("bench@here", "bench", settings.lease_sec)

    def turn(self) -> None:
        """Time two claims, one as a scout and one by the settle of that job, and bring both jobs back."""
        began = time.perf_counter()
        self.ledger.fold()
        found = self.ledger.claim(1, self.taker.worker, self.taker.boot_id).claims
        scouted = time.perf_counter() - began
        if len(found) != 1:
            raise SystemExit(f"{self.name}: a scout with a free slot found {len(found)} jobs")
        first, settled = run_at_once(self.ledger, found[0], self.taker, time.perf_counter)
        if first is None:
            raise SystemExit(f"{self.name}: no lane was ready at the end of a job")
        run_at_once(self.ledger, first, None)
        self._bring_back([found[0], first])
        self.scout.append(scouted)
        self.settle.append(settled.ended - settled.began)

    def wear(self, claims: int) -> int:
        """Make up to `claims` claims in one round, end those jobs and bring them back; returns how many there were."""
        self.ledger.fold()
        slots = min(claims, max(1, self.lanes // 2))
        found = self.ledger.claim(slots, self.taker.worker, self.taker.boot_id).claims
        if not found:
            raise SystemExit(f"{self.name}: a scout with {slots} free slots found no job")
        for claim in found:
            run_at_once(self.ledger, claim, None)
        self._bring_back(found)
        return len(found)

    def _bring_back(self, claims: list[Claim]) -> None:
        with self.db.write() as conn:
            for claim in claims:
                again = NewJob(target_code=claim.target_code, dedupe_key=f"crawl:{claim.target_code}")
                if not self.ledger.submit(conn, again).created:
                    raise SystemExit(f"{self.name}: the job of {claim.target_code} was submitted by somebody else")
        self.claims += len(claims)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return, by table: rows read in sequence and through indexes so far, and the dead rows there are."""
        with self.db.read() as conn:
            conn.exec_driver_sql("SELECT pg_stat_force_next_flush()")
            rows = conn.exec_driver_sql(_COUNTS).all()
        return {name: dict(zip(("seq", "idx", "dead"), numbers, strict=True)) for name, *numbers in rows}


def figures(seconds: list[float]) -> dict[str, float]:
    """Return the median and the 95th percentile of measured times, in milliseconds."""
    return {"p50": round(statistics.median(seconds) * 1e3, 3), "p95": round(share(seconds, 0.95) * 1e3, 3)}


def report(small: Fleet, large: Fleet, reads: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the document: both fleets' times, the ratios, and whether they are within `LIMITS`."""
    document: dict[str, Any] = {"measured": len(small.scout), "claims": large.claims, "limits": LIMITS, "reads": reads}
    for what in ("scout", "settle"):
        found = {fleet.name: figures(getattr(fleet, what)) for fleet in (small, large)}
        ratio = {name: round(found[large.name][name] / found[small.name][name], 2) for name in LIMITS}
        document[what] = {**found, "ratio": ratio, "holds": all(ratio[name] <= LIMITS[name] for name in LIMITS)}
    document["holds"] = document["scout"]["holds"] and document["settle"]["holds"]
    return document


def run(fleets: tuple[Fleet, Fleet], *, claims: int, measured: int, block: int) -> dict[str, Any]:
    """Make `claims` claims in each fleet, then measure `measured` of each sort, `block` turns here, `block` there."""
    small, large = fleets
    for fleet in fleets:
        while fleet.claims < claims:
            fleet.wear(min(block, claims - fleet.claims))
    print(f"{small.claims} claims made in each, measuring", file=sys.stderr)
    before = {fleet.name: fleet.counts() for fleet in fleets}
    made = large.claims
    for number, left in enumerate(range(measured, 0, -block)):
        # whoever comes second finds the caches as the other one left them: in turns
        for fleet in fleets if number % 2 else reversed(fleets):
            for _ in range(min(block, left)):
                fleet.turn()
    reads = {fleet.name: _reads(before[fleet.name], fleet.counts(), large.claims - made) for fleet in fleets}
    return report(small, large, reads)


def _reads(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]], claims: int) -> dict[str, Any]:
    """Return rows read per claim in sequence and through indexes by table, and the dead rows there were at the end."""
    return {name: {"sequential": round((after[name]["seq"] - before[name]["seq"]) / claims, 1),
                   "by_index": round((after[name]["idx"] - before[name]["idx"]) / claims, 1),
                   "dead": after[name]["dead"]} for name in HOT}


def table(document: dict[str, Any], names: tuple[str, str]) -> str:
    """Return the document as a table for people."""
    lines = [["claim by", *(f"{name} p50" for name in names), "ratio", *(f"{name} p95" for name in names), "ratio", ""]]
    for what in ("scout", "settle"):
        row = document[what]
        cells = [what]
        for figure in LIMITS:
            cells += [*(f"{row[name][figure]} ms" for name in names), f"{row['ratio'][figure]:g}"]
        lines.append([*cells, "holds" if row["holds"] else "DOES NOT HOLD"])
    lines += [[], ["rows a claim", *names]]
    for name in HOT:
        lines.append([name, *("{by_index:g} by index, {sequential:g} in sequence, {dead} dead".format(
            **document["reads"][fleet][name]) for fleet in names)])
    return "\n".join("  ".join(cell.ljust(14) for cell in line).rstrip() for line in lines)


def main() -> None:
    """Fill both databases, measure and print; exits 1 if a ratio is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--small", type=int, default=100, help=f"lanes of the small fleet, {EACH} jobs each")
    parser.add_argument("--large", type=int, default=100_000, help=f"lanes of the large fleet, {EACH} jobs each")
    parser.add_argument("--claims", type=int, default=10_000, help="claims in each before the measuring, never vacuumed")
    parser.add_argument("--measured", type=int, default=1_500, help="measured claims of each sort in each fleet")
    parser.add_argument("--block", type=int, default=100, help="turns in one fleet before the other's")
    options = parser.parse_args()
    from tests.support.servers import PostgresServer

    postgres = PostgresServer(durable=True).start()
    fleets = []
    try:
        for lanes in (options.small, options.large):
            url = postgres.create_database()
            fill(url, lanes, EACH, waiting=True, vacuum=False)
            fleets.append(Fleet(f"{lanes} lanes", url, lanes))
            print(f"{lanes} lanes, {lanes * EACH} jobs: stored", file=sys.stderr)
        with fleets[0].db.read() as conn:
            conn.exec_driver_sql("CHECKPOINT")
        document = run((fleets[0], fleets[1]), claims=options.claims, measured=options.measured, block=options.block)
    finally:
        for fleet in fleets:
            fleet.db.dispose()
        postgres.stop()
        postgres.remove()
    print(json.dumps(document, indent=1) if options.json else table(document, (fleets[0].name, fleets[1].name)))
    sys.exit(0 if document["holds"] else 1)


if __name__ == "__main__":
    main()
