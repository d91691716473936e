"""P6 on both databases: what is pending goes out once, whole, and what could not is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update

from config.errors import BadInput, PermanentJobError, ServiceAway
from config.settings import Settings, load_settings
from models import queries
from models.articles import articles
from models.catalogue import Catalogue
from models.db import Database
from models.jobs import jobs
from models.ledger import Ledger
from models.queries.exporting import pending_count
from routing import dispatch
from tasks.export import sinks
from tasks.export.run import TargetArticles, export_target
from tests.support.endpoint import Endpoint, Posted, endpoint
from tests.support.ledger import Bench, seed

NOW = datetime(2026, 11, 30, tzinfo=UTC)
WAITING = {"status": "running", "target_code": "t1", "source": "auto", "total": 0, "exported": 0, "failed": 0, "error": ""}


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> Settings:
    seed(database, {"g1": {"s1": ["t1"]}})
    return Settings(home=tmp_path / "home", database_url=database.url)


@pytest.fixture
def site() -> Iterator[Endpoint]:
    with endpoint() as served:
        yield served


@pytest.fixture
def to_endpoint(settings: Settings, site: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(sinks, "FIRST_WAIT_SEC", 0.001)
    return settings.model_copy(update={"rag_sink": site.url})


def store(db: Database, *numbers: int, text: str = "正文 {}。", **more: Any) -> None:
    rows = [{"target_code": "t1", "site_code": "s1", "url": f"http://s1.example.org/a/{number}", "title": f"题 {number}",
             "text": text.format(number), "sha256": f"{number:064d}", "generation": 1, "fetched_at": NOW, **more}
            for number in numbers]
    with db.write() as conn:
        conn.execute(insert(articles), rows)


def lines(settings: Settings) -> list[dict[str, Any]]:
    text = (settings.home / "rag" / "t1.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_file_holds_everything_and_is_not_written_again_for_nothing(database: Database, settings: Settings) -> None:
    store(database, 1, 2, 3)
    report = export_target(database, settings, "t1")
    assert (report["status"], report["total"], report["exported"], report["failed"]) == ("completed", 3, 3, 0)
    assert [line["title"] for line in lines(settings)] == ["题 1", "题 2", "题 3"]
    before = (settings.home / "rag" / "t1.jsonl").stat()
    assert export_target(database, settings, "t1")["total"] == 0
    after = (settings.home / "rag" / "t1.jsonl").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_new_and_changed_articles_are_exported_and_the_others_stay_in_the_file(
    database: Database, settings: Settings
) -> None:
    store(database, 1, 2)
    export_target(database, settings, "t1")
    store(database, 3)
    with database.write() as conn:
        conn.execute(update(articles).where(articles.c.url.endswith("/1")).values(text="改了。", sha256="f" * 64))
    assert export_target(database, settings, "t1")["exported"] == 2
    assert [line["text"] for line in lines(settings)] == ["改了。", "正文 2。", "正文 3。"]


def test_a_file_that_somebody_deleted_is_written_anew(database: Database, settings: Settings) -> None:
    store(database, 1)
    export_target(database, settings, "t1")
    (settings.home / "rag" / "t1.jsonl").unlink()
    assert export_target(database, settings, "t1")["total"] == 0
    assert len(lines(settings)) == 1


def test_external_and_marked_items_have_nothing_to_export(database: Database, settings: Settings) -> None:
    store(database, 1, external=True, text="")
    store(database, 2, marked=True, text="")
    assert pending_count(database, "t1") == 0


def test_a_bad_document_is_named_stays_pending_and_holds_up_no_other(database: Database, settings: Settings) -> None:
    store(database, 1, 3)
    store(database, 2, text="  ")
    for _ in range(2):
        report = export_target(database, settings, "t1")
        assert (report["status"], report["failed"]) == ("partial_failed", 1)
        assert [(one["url"], one["error"]) for one in report["errors"]] == [
            ("http://s1.example.org/a/2", "it has no text")]
        assert [line["title"] for line in lines(settings)] == ["题 1", "题 3"]


def test_an_article_that_changed_since_it_was_read_stays_pending(database: Database, settings: Settings) -> None:
    store(database, 1)
    (read,) = TargetArticles(database, "t1").pending()
    with database.write() as conn:
        conn.execute(update(articles).values(text="改了。", sha256="f" * 64))
    Ledger(database, settings).exported([(read.row_id, read.sha256)])
    assert pending_count(database, "t1") == 1
    assert export_target(database, settings, "t1")["exported"] == 1
    assert [line["text"] for line in lines(settings)] == ["改了。"]


def test_an_endpoint_gets_each_document_once_under_a_key_of_its_content(
    database: Database, to_endpoint: Settings, site: Endpoint
) -> None:
    store(database, *range(1, 8))
    assert export_target(database, to_endpoint, "t1")["exported"] == 7
    assert export_target(database, to_endpoint, "t1")["total"] == 0
    assert len(site.posted) == len({one.headers["idempotency-key"] for one in site.posted}) == 7
    assert site.posted[0].document["chunks"][0]["text"] == "正文 1。"


def test_what_was_sent_and_not_noted_is_sent_again_under_the_same_key(
    database: Database, to_endpoint: Settings, site: Endpoint
) -> None:
    store(database, 1, 2)

    def die() -> None:
        if len(site.posted) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_target(database, to_endpoint, "t1", look=die)
    assert export_target(database, to_endpoint, "t1")["exported"] == 2
    keys = [one.headers["idempotency-key"] for one in site.posted]
    assert keys[0] == keys[1] and len(set(keys)) == 2


def test_an_endpoint_that_is_busy_is_asked_again_and_one_that_stays_away_keeps_everything_pending(
    database: Database, to_endpoint: Settings, site: Endpoint
) -> None:
    store(database, 1, 2)
    answers = iter([503, 429, 204])
    site.answer = lambda _posted: next(answers, 204)
    assert export_target(database, to_endpoint, "t1")["exported"] == 2
    assert len(site.posted) == 4
    store(database, 3)
    site.answer = lambda _posted: 503
    with pytest.raises(ServiceAway, match="status 503"):
        export_target(database, to_endpoint, "t1")
    assert pending_count(database, "t1") == 1


def test_an_endpoint_that_refuses_one_document_gets_the_others(
    database: Database, to_endpoint: Settings, site: Endpoint
) -> None:
    store(database, 1, 2, 3)

    def judge(posted: Posted) -> int:
        return 422 if posted.document["title"] == "题 2" else 200

    site.answer = judge
    report = export_target(database, to_endpoint, "t1")
    assert (report["exported"], report["failed"]) == (2, 1)
    assert report["errors"][0]["error"] == "refused with status 422"


def test_an_endpoint_that_does_not_know_us_fails_for_good_and_keeps_its_password_to_itself(
    database: Database, to_endpoint: Settings, site: Endpoint
) -> None:
    store(database, 1)
    site.answer = lambda _posted: 401
    secret = to_endpoint.model_copy(update={"rag_sink": site.url.replace("http://", "http://me:hunter2@")})
    with pytest.raises(PermanentJobError, match="answers 401") as refused:
        export_target(database, secret, "t1")
    assert "hunter2" not in str(refused.value)


def test_an_unknown_sink_is_refused(database: Database, settings: Settings) -> None:
    with pytest.raises(BadInput, match="file:FOLDER"):
        export_target(database, settings.model_copy(update={"rag_sink": "s3://x"}), "t1")


def test_the_crawls_that_wait_for_it_are_told(database: Database, settings: Settings) -> None:
    bench = Bench(database, settings)
    started = bench.begin("t1")
    steps = [{"name": "finish", "status": "done", "reason": ""}, {"name": "export", "status": "running", "reason": ""}]
    bench.change(jobs, jobs.c.job_id == started.claim.job_id,
                 progress={"steps": steps})
    export = dispatch.submit(database, settings, "t1", kind="export", options={"auto": True})
    bench.settle(started, result={"outcome": "complete", "rag_export": WAITING | {"job_id": export.job_id}})
    store(database, 1)
    export_target(database, settings, "t1", source="auto")
    assert bench.job(started.claim.job_id)["result"]["rag_export"]["status"] == "running", "that was another export"
    store(database, 2)
    export_target(database, settings, "t1", source="auto", job_id=export.job_id)
    job = bench.job(started.claim.job_id)
    assert job["result"]["outcome"] == "complete"
    told = job["result"]["rag_export"]
    assert (told["status"], told["total"], told["exported"], told["source"]) == ("completed", 1, 1, "auto")
    assert job["progress"]["steps"][-1] == {"name": "export", "status": "done", "reason": ""}


@pytest.mark.parametrize(("end", "expected"), [
    ("done", ("completed", 1, "")), ("cancelled", ("failed", 0, "cancelled")), ("queued", ("running", 0, ""))])
def test_a_crawl_that_nobody_told_reads_what_became_of_its_export(
    database: Database, settings: Settings, end: str, expected: tuple[str, int, str]
) -> None:
    """The export can end before its crawl, or without a word: the document of the crawl says how it was."""
    bench = Bench(database, settings)
    started = bench.begin("t1")
    export = dispatch.submit(database, settings, "t1", kind="export", options={"auto": True})
    bench.clock.now = datetime.now(UTC)
    if end == "done":
        (claim,) = bench.claims(lanes=["^_export$"])
        store(database, 1)
        bench.settle(bench.start(claim), result=export_target(database, settings, "t1", job_id=export.job_id))
    elif end == "cancelled":
        bench.ledger.cancel(export.job_id)
    bench.settle(started, result={"rag_export": WAITING | {"job_id": export.job_id}})
    with database.look() as conn:
        for found in (queries.job(conn, started.claim.job_id), *queries.documents(conn, [started.claim.job_id])):
            assert found is not None
            told = found["result"]["rag_export"]
            assert (told["status"], told["exported"], told["error"]) == expected


def test_an_export_outlives_the_target_that_is_disabled(database: Database, settings: Settings) -> None:
    export = dispatch.submit(database, settings, "t1", kind="export", options={"auto": True})
    Catalogue(database).disable("t1")
    assert Bench(database, settings).job(export.job_id)["status"] == "queued"


def test_an_export_job_waits_in_its_own_lane_and_does_not_occupy_the_site(database: Database, settings: Settings) -> None:
    bench = Bench(database, settings)
    bench.begin("t1")
    made = dispatch.submit(database, settings, "t1", kind="export", dedupe_key="export:t1")
    assert made.group == "_export"
    row = bench.job(made.job_id)
    assert (row["site_code"], row["target_code"], row["group_key"]) == (None, "t1", "_export")
    bench.clock.now = datetime.now(UTC)
    assert [claim.job_id for claim in bench.claims(lanes=["^_export$"])] == [made.job_id]


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("1", True), ("0", False), ("maybe", False), ("yes!", False)])
def test_a_wish_that_cannot_be_read_means_no(
    text: str, expected: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RATELANE_RAG_EXPORT_AFTER_CRAWL", text)
    assert load_settings(tmp_path).rag_export_after_crawl is expected
