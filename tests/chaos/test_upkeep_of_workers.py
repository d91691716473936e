"""What any worker does beside crawling: expire, tell the webhook, prune; and a backup while it crawls."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from models import queries
from models.backup import backup
from models.db import Database
from models.jobs import jobs
from models.queries.reading import db_moment
from models.sites import targets
from tests.support.fleet import fleet
from tests.support.ledger import Bench
from tests.support.receiver import receiver
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(120)]


def test_j1_a_worker_expires_what_nobody_claims_and_what_expired_long_ago(store: Store, workers: Workers) -> None:
    workers.start("one")
    with fleet(store, articles=3) as site:
        with store.db.read() as conn:
            now = db_moment(conn)
        over = store.submit("gd-one_news", expires_at=now - timedelta(days=1))
        soon = store.submit("gd-one_news", run_after_sec=3600, expires_sec=1.0)
        kept = store.submit("gd-one_news", run_after_sec=3600, expires_sec=3600)
        for job_id in (over, soon):
            job = store.wait_for(job_id, "cancelled", timeout=15)
            assert (job["error_msg"], job["attempt"]) == ("expired", 0)
        assert site.log == []
        assert store.row(kept).status == "queued"


def test_j15_a_dead_letter_reaches_the_webhook_although_it_refuses_at_first(store: Store, workers: Workers) -> None:
    """Two workers look: it is told once. The address, with the secret in it, is in nobody's log."""
    with receiver(500, 503) as there, fleet(store, articles=3):
        options = {"webhook_url": there.url("/secret-part"), "webhook_secret": "s3", "notices_every_sec": 0.2,
                   "webhook_retry_sec": 0.2, "webhook_timeout_sec": 0.5}
        one, two = workers.start("one", "two", **options)
        wait_until(lambda: any(name.startswith("notices:") for name in store.marks()), "the first look")
        job_id = store.submit("gd-one_news", kind="crawl", max_attempts=1)
        Bench(store.db).change(targets, options={"nonsense": True})
        store.wait_for(job_id, "failed")
        documents = there.wait(3)
        wait_until(lambda: "event=notice.sent" in one.log + two.log, "the word of its arrival")
        assert {document["key"] for document in documents} == {f"dead_letter:{job_id}:1"}
        assert documents[0]["target_code"] == "gd-one_news"
        assert len(there.got) == 3
        for worker in (one, two):
            assert "secret-part" not in worker.log
            assert "s3" not in worker.log.replace(job_id, "")


def test_j17_one_of_two_workers_prunes_by_itself(store: Store, workers: Workers) -> None:
    with fleet(store, articles=3):
        old = store.submit("gd-one_news")
        store.cancel(old)
        with store.db.read() as conn:
            now = db_moment(conn)
        Bench(store.db).change(jobs, finished_at=now - timedelta(days=31))
        one, two = workers.start("one", "two")
        wait_until(lambda: "event=history.pruned" in one.log + two.log, "the pruning", 20)
        with store.db.look() as conn:
            assert queries.job(conn, old) is None
        assert (one.log + two.log).count("event=history.pruned") == 1
        assert "jobs=1" in one.log + two.log


def test_d3_a_backup_of_a_store_that_is_crawled_into_is_whole(store: Store, workers: Workers, tmp_path: Path) -> None:
    if store.db.dialect != "sqlite":
        pytest.skip("PostgreSQL's own program makes one moment of it")
    workers.start("one")
    with fleet(store, articles=30) as site:
        job_id = store.submit("gd-one_news")
        copies = []
        for number in range(3):
            site.server.wait_for(lambda log, least=6 * (number + 1): len(log) >= least)
            backup(store.db.url, tmp_path / f"copy{number}.sqlite3")
            copies.append(tmp_path / f"copy{number}.sqlite3")
        store.wait_for(job_id, "done", timeout=60)
        site.assert_whole(store, most=0)
        for file in copies:
            line = sqlite3.connect(file)
            assert line.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            line.close()
            copy = Bench(Database(f"sqlite:///{file}"))
            assert copy.job(job_id)["status"] == "running"
            copy.db.dispose()
