"""The steps of a crawl and its expected end, as somebody sees them who comes with nothing but the job's id (J12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery.exceptions import Ignore

from config import clock
from config.errors import PermanentJobError
from models import queries
from models.jobs import jobs
from tasks.crawl import crawl_target
from tests.support.crawl_ports import Site, paged_site, rows
from tests.support.misbehave import Answer, Request, page, sequence

TOTAL = '<p class="total">共 6 条</p>'


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        running.show(rows(1, 2, 3), rows(4, 5, 6), extra=TOTAL)
        yield running


def progress(bench: Any, job_id: str) -> dict[str, Any]:
    with bench.db.look() as conn:
        found = queries.job(conn, job_id)
    assert found is not None
    return dict(found["progress"])


def steps(bench: Any, job_id: str) -> dict[str, str]:
    return {one["name"]: one["status"] for one in progress(bench, job_id)["steps"]}


def reasons(bench: Any, job_id: str) -> dict[str, str]:
    return {one["name"]: one["reason"] for one in progress(bench, job_id)["steps"] if one["reason"]}


def seen(act: Any, answer: Answer) -> Answer:
    """Look, when the request has come, before it is answered."""

    def answered(conn: Any, request: Request) -> bool:
        act()
        return answer(conn, request)

    return answered


def test_while_a_crawl_runs_its_steps_say_what_it_does(bench: Any, site: Site) -> None:
    told: dict[str, dict[str, str]] = {}
    for path in ("/robots.txt", "/list/1", "/a/2", "/list/2"):
        answer = site.routes.get(path) or page("not here", 404)
        site.routes[path] = seen(lambda path=path: told.setdefault(path, steps(bench, job_id)), answer)
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    assert progress(bench, job_id)["steps"] == []
    assert bench.run_attempt() == "done"
    under_way = {name: {key for key, status in one.items() if status == "running"} for name, one in told.items()}
    assert under_way == {"/robots.txt": {"prepare"}, "/list/1": {"list"}, "/a/2": {"list", "items"},
                         "/list/2": {"list", "items"}}
    assert told["/a/2"]["prepare"] == "done"
    assert steps(bench, job_id) == {"prepare": "done", "list": "done", "items": "done", "finish": "done", "export": "skipped"}
    assert reasons(bench, job_id) == {"export": "rag_export_after_crawl is off"}


def test_the_step_that_failed_says_why_and_no_other(bench: Any, site: Site) -> None:
    site.routes["/a/5"] = page("bad", 400)
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit(max_attempts=1).job_id
    assert bench.run_attempt() == "partial"
    assert steps(bench, job_id) == {"prepare": "done", "list": "done", "items": "failed", "finish": "done",
                                    "export": "skipped"}
    assert "/a/5: status 400" in reasons(bench, job_id)["items"]
    assert reasons(bench, job_id)["finish"] == "the frontier stays: partial"


def test_a_page_that_robots_txt_forbids_fails_the_preparation(bench: Any, site: Site) -> None:
    site.routes["/robots.txt"] = page("User-agent: *\nDisallow: /list", content_type="text/plain")
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    with pytest.raises(PermanentJobError, match="disallows"):
        bench.run_attempt()
    assert steps(bench, job_id)["prepare"] == "failed"
    assert "disallows the list page" in reasons(bench, job_id)["prepare"]


def test_after_a_cooldown_the_steps_wait_with_its_reason_and_go_on(bench: Any, site: Site) -> None:
    site.routes["/a/4"] = sequence(page("slow down", 429), site.routes["/a/4"])
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    assert bench.run_attempt() == "cooldown"
    assert steps(bench, job_id) == {"prepare": "done", "list": "pending", "items": "pending", "finish": "pending",
                                    "export": "pending"}
    assert reasons(bench, job_id)["items"].startswith("cooldown: ")
    bench.clock.advance(600)
    assert bench.run_job(job_id) == ["done"]
    assert set(steps(bench, job_id).values()) == {"done", "skipped"}


def test_a_cancelled_crawl_skips_the_rest(bench: Any, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # the event that tells of it needs a broker, which is another test's business
    monkeypatch.setattr(crawl_target, "send_event", lambda *_args, **_more: None)

    def cancel_and_answer_late() -> None:
        bench.ledger.cancel(job_id)
        clock.pause(1.1)  # a crawl looks at its row at least once a second, between requests

    site.routes["/a/2"] = seen(cancel_and_answer_late, site.routes["/a/2"])
    bench.crawls(site.url, interval_sec=0)
    job_id = bench.submit().job_id
    with pytest.raises(Ignore):
        bench.run_attempt()
    found = steps(bench, job_id)
    assert (found["prepare"], found["list"], found["finish"]) == ("done", "skipped", "skipped")
    assert reasons(bench, job_id)["list"] == "cancelled"


def test_what_a_lost_worker_left_is_told_as_it_is(bench: Any, site: Site) -> None:
    bench.crawls(site.url, interval_sec=0.6)
    job_id = bench.submit().job_id
    assert bench.run_attempt() == "parked"
    running = {"steps": [{"name": "prepare", "status": "done", "reason": ""}, {"name": "list", "status": "running", "reason": ""}]}
    bench.change(jobs, progress=running, error_msg="restart_during_run (recovery attempt 1/3)")
    assert steps(bench, job_id) == {"prepare": "done", "list": "pending"}
    assert reasons(bench, job_id) == {"list": "restart_during_run (recovery attempt 1/3)"}


def test_the_end_is_expected_right_under_an_interval_that_parks_the_crawl_before_each_request(
    bench: Any, site: Site
) -> None:
    bench.crawls(site.url, interval_sec=0.6, total=".total")
    job_id = bench.submit().job_id
    ends = []
    expected = []
    while bench.job(job_id)["status"] == "queued":
        ends.append(bench.run_attempt())
        expected.append(progress(bench, job_id)["eta"])
        bench.clock.advance(60)
    assert ends == ["parked"] * (len(ends) - 1) + ["done"]
    # requests that were still to come: three items, a page, three items (and none once it is over)
    assert expected[:7] == [round(0.6 * left, 1) for left in (7, 6, 5, 4, 3, 2, 1)]
    assert (expected[-1], progress(bench, job_id)["pages_total"]) == (0.0, 2)
    assert progress(bench, job_id)["rate"] <= 100


def test_progress_alone_is_written_at_most_twice_a_second(
    bench: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.journal import CrawlJournal

    written: list[float] = []
    commit = CrawlJournal._commit

    def watched(self: CrawlJournal, told: Any, **what: Any) -> None:
        if not what:
            written.append(clock.monotonic())
        commit(self, told, **what)

    monkeypatch.setattr(CrawlJournal, "_commit", watched)
    site.show(*[["/a/1", f"/a/{number}"] for number in range(10, 22)])
    bench.crawls(site.url, interval_sec=0)
    bench.submit()
    assert bench.run_attempt() == "done"
    assert written
    assert all(third - first >= 1.0 for first, third in zip(written, written[2:], strict=False))
