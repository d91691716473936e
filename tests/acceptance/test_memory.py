"""A list of 100,000 items and a sitemap of 50 MB are walked in constant memory and in time that grows as they do (P2, P4).

Each test crawls one of half the size first, in the same worker: what the whole one adds to the peak is what grows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from config import clock
from tests.support.crawl_ports import LIST_OPTIONS
from tests.support.figures import figure
from tests.support.long_site import PER_PAGE, LongSite, long_site, store_known, stored_count
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Worker, Workers

pytestmark = [
    pytest.mark.slow, pytest.mark.acceptance, pytest.mark.exclusive, pytest.mark.timeout(900),
    pytest.mark.parametrize("database", ["sqlite"], indirect=True)]

MOST_MB = 300
#: what a whole one may add to the peak of a half one: half of the file, or of the addresses in it, would be more
MOST_GROWN_MB = 15
ITEMS = 100_000
#: so many entries of the test's sitemap are 50 MB
ENTRIES = 315_000
#: one item of so many is new, and is fetched
NEW_EVERY = 2_500
PATIENT = {"request_timeout_sec": 60.0, "lease_sec": 180.0, "heartbeat_sec": 20.0, "soft_stop_sec": 70.0}


def peak_mb(worker: Worker) -> float:
    """Return the largest resident size that a worker ever had."""
    lines = Path(f"/proc/{worker.pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def load(store: Store, site: LongSite, adapter: str, options: dict[str, dict[str, Any]]) -> None:
    """Load a site with a target for each of `options`."""
    targets = [{"target_code": code, "interval_sec": 0, "options": one} for code, one in options.items()]
    store.load(yaml.safe_dump({"sites": [{"site_code": "long", "base_url": site.url, "cms_adapter": adapter, "targets": targets}]}))


def crawled(store: Store, site: LongSite, worker: Worker, code: str, column: int) -> tuple[float, float]:
    """Crawl a target whose articles are known but for a few; returns the worker's peak in MB and the seconds it took."""
    store_known(store.db, code, f"{site.url}/{column}/a/", column, NEW_EVERY)
    begun = clock.Stopwatch()
    job_id = store.submit(code)
    # its log is asked and not the database, which has enough to do
    wait_until(lambda: f"event=job.end job={job_id}" in worker.log, f"the end of {code}", 600)
    job = store.wait_for(job_id, "done", "failed")
    seconds, new = begun.elapsed(), -(-column // NEW_EVERY)
    assert (job["status"], job["outcome"], job["attempt"]) == ("done", "complete", 1), job
    progress = job["progress"]
    # whatever stood on two pages was counted once
    assert (progress["items_new"], progress["items_known"], progress["items_failed"]) == (new, column - new, 0)
    assert stored_count(store.db, code) == (column, column)
    fetched = [request.path for request in site.requests if request.path.startswith(f"/{column}/a/")]
    assert sorted(fetched) == sorted(f"/{column}/a/{number}" for number in range(1, column + 1, NEW_EVERY))
    return peak_mb(worker), seconds


def assert_constant(
    what: str, idle: float, part: tuple[float, float], whole: tuple[float, float], times: int, most_grown_mb: float
) -> None:
    """Fail if a peak is too high, if it grew with the size, or if the time grew faster than the size, by half and more.

    `whole` is so many `times` as long as `part`.
    """
    figure(f"memory, {what}: idle {idle:.0f} MB; a part of 1/{times} peak {part[0]:.0f} MB in {part[1]:.1f} s; "
           f"whole peak {whole[0]:.0f} MB in {whole[1]:.1f} s")
    assert whole[0] < MOST_MB
    assert whole[0] - part[0] < most_grown_mb
    assert whole[1] < 1.5 * times * part[1]


def test_5000_list_pages_with_100000_items_take_no_more_memory_than_a_tenth_of_them(store: Store, workers: Workers) -> None:
    (worker,) = workers.start("one", **PATIENT)
    idle = peak_mb(worker)
    with long_site() as site:
        load(store, site, "list", {f"list-{size}": LIST_OPTIONS | {"list_url": f"/{size}/list/{{page}}"} for size in (ITEMS // 10, ITEMS)})
        part, whole = (crawled(store, site, worker, f"list-{size}", size) for size in (ITEMS // 10, ITEMS))
        assert site.count(f"/{ITEMS}/list/{ITEMS // PER_PAGE}") == 1
    assert_constant(f"{ITEMS} items on {ITEMS // PER_PAGE} list pages", idle, part, whole, 10, 2 * MOST_GROWN_MB)


def test_a_sitemap_of_50_mb_takes_no_more_memory_than_half_of_it(store: Store, workers: Workers) -> None:
    """Packed on its way: what comes as it is takes the same way from there on, and less work."""
    (worker,) = workers.start("one", **PATIENT)
    idle = peak_mb(worker)
    with long_site() as site:
        load(store, site, "sitemap", {f"map-{size}": {"sitemaps": [f"/{size}/sitemap.xml"]} for size in (ENTRIES // 2, ENTRIES)})
        sizes = {size: site.serve_sitemap(size, is_packed=True) for size in (ENTRIES // 2, ENTRIES)}
        assert 50_000_000 < sizes[ENTRIES] < 60_000_000
        half, whole = (crawled(store, site, worker, f"map-{size}", size) for size in (ENTRIES // 2, ENTRIES))
        assert site.count(f"/{ENTRIES}/sitemap.xml") == 1
    assert_constant(f"sitemap of {sizes[ENTRIES] / 1e6:.0f} MB, gzip", idle, half, whole, 2, MOST_GROWN_MB)
