"""A check that a worker runs: the same document, and an end that never retries (rule P7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from models.articles import articles, failed_items
from models.attempt import enter
from tasks.checking import check_target
from tests.support.crawl_ports import paged_site, rows
from tests.support.misbehave import page


def run_check(bench: Any) -> tuple[dict[str, Any], str]:
    """Run the head of the lane as a worker would run a check; returns what it returned and its job."""
    attempt = bench.attempt_on()
    enter(attempt)
    check_target.push_request(id=attempt.claim.job_id)
    try:
        found = check_target(attempt.claim.target_code)
        attempt.finish(found)
    finally:
        check_target.pop_request()
        enter(None)
    return found, attempt.claim.job_id


@pytest.mark.parametrize("status", [200, 403, 429])
def test_p7_a_worker_checks_as_the_command_does_and_a_block_pauses_without_a_retry(bench: Any, status: int) -> None:
    with paged_site() as site:
        site.show(rows(1, 2, 3))
        if status != 200:
            site.routes["/a/1"] = page("no", status, retry_after="1234")
        bench.crawls(site.url, interval_sec=0)
        bench.submit(kind="check")
        found, job_id = run_check(bench)
        assert site.paths == ["/list/1", "/a/1"]
    job = bench.job(job_id)
    assert (job["status"], job["failures"], job["cooldown_retries"], job["result"]["blocked"]) == ("done", 0, 0, found["blocked"])
    assert (bench.rows(articles), bench.rows(failed_items), len(found["items"])) == ([], [], 3)
    if status == 200:
        assert (found["blocked"], bool(found["article"]), bench.group()["pause_until"]) == (None, True, None)
        assert found["estimate"]["pages"] is None
    else:
        assert found["blocked"] == f"host_cooldown: rate {status} {site.url}/a/1"
        assert bench.group()["pause_until"] == bench.clock.now + timedelta(seconds=1234)
