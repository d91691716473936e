"""D5: a database that is full or read-only fails no crawl: it stands still, says why, and goes on when there is room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from config import clock
from console.cli.services import health_of
from models.audit import is_clean, read_audit
from models.db import Database
from tests.support.figures import figure
from tests.support.fleet import Fleet, fleet
from tests.support.servers import PostgresServer, ValkeyServer, wait_until
from tests.support.small_disk import ballast, read_only, small_disk
from tests.support.store import Shelf, Store
from tests.support.workers import Worker, Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(120)]


def stands_still(site: Fleet, worker: Worker, store: Store, trouble: AbstractContextManager[None], reason: str) -> None:
    """Crawl into `trouble` and out of it again."""
    job_id = store.submit("gd-one_news")
    site.server.wait_for(lambda log: len(log) >= 6)
    with trouble:
        wait_until(lambda: reason in worker.log, reason, 30)
        # the request that was under way ends; without a commit no other one starts
        clock.pause(1.5)
        asked = len(site.log)
        clock.pause(4.0)
        assert len(site.log) == asked
        row = store.row(job_id)
        assert row.status == "running"
        stored = store.stored("gd-one_news")
    resumed = clock.monotonic()
    job = store.wait_for(job_id, "done", timeout=60)
    figure(f"{reason}: {len(stored)} stored before, done {clock.monotonic() - resumed:.1f} s after there was room")
    assert (job["failures"], job["recoveries"], job["attempt"]) == (0, 0, 1)
    assert job["outcome"] == "complete"
    site.assert_whole(store, most=0)
    site.assert_polite()
    with store.db.look() as conn:
        found = read_audit(conn)
    assert is_clean(found), found
    assert found["requests"] == len(site.log)  # not one was forgotten


def test_d5_a_read_only_database_stops_the_crawl_until_it_takes_writes_again(
    shelf: Shelf, postgres: PostgresServer, valkey: ValkeyServer, tmp_path: Path
) -> None:
    with running(shelf.postgresql(postgres), valkey, tmp_path) as (store, worker), fleet(store, articles=20) as site:

        @contextmanager
        def trouble() -> Iterator[None]:
            with read_only(store.db.url):
                store.db.dispose()  # the test's own connections were ended too
                yield
                found = health_of(store.settings(), lambda: Database(store.db.url))
                assert (found["ok"], found["database_ok"], found["database_error"]) == (False, False, "database_read_only")
            store.db.dispose()

        stands_still(site, worker, store, trouble(), "database_read_only")


def test_d5_a_full_disk_stops_the_crawl_until_there_is_room(shelf: Shelf, valkey: ValkeyServer, tmp_path: Path) -> None:
    with small_disk(tmp_path / "home", 4) as home, running(shelf.sqlite(home), valkey, tmp_path) as (
            store, worker), fleet(store, articles=20) as site:

        @contextmanager
        def trouble() -> Iterator[None]:
            with ballast(home):
                yield
                found = health_of(store.settings(), lambda: Database(store.db.url))
                assert (found["ok"], found["database_error"]) == (False, "database_full")

        stands_still(site, worker, store, trouble(), "database_full")


def test_d5_a_file_that_may_not_grow_stops_the_crawl_until_it_may(
    shelf: Shelf, valkey: ValkeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs no new page is still written: the lease is kept although the commit waits."""
    flag = tmp_path / "full"
    monkeypatch.setenv("SMALL_DISK", str(flag))
    settings = {"park_after_sec": 1.0, "stall_after_sec": 0.5}
    with running(shelf.sqlite(tmp_path / "home"), valkey, tmp_path, app="tests.support.small_disk", **settings) as (
            store, worker), fleet(store, articles=40, per_page=10) as site:

        @contextmanager
        def trouble() -> Iterator[None]:
            flag.touch()
            yield
            flag.unlink()

        stands_still(site, worker, store, trouble(), "database_full")


@contextmanager
def running(
    db: Database, valkey: ValkeyServer, folder: Path, *, app: str = "config", **settings: float
) -> Iterator[tuple[Store, Worker]]:
    """Give a store on `db` with one worker."""
    valkey.flush()
    store = Store(folder, db, valkey.url)
    workers = Workers(store)
    try:
        (worker,) = workers.start("one", app=app, **settings)
        yield store, worker
    finally:
        workers.end()
        print(workers.logs())
        db.dispose()
