"""The documents that surfaces show are the same on both databases (rules J13, J15, R10, U6)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert

from config import clock
from config.settings import clear_settings
from models import queries, schema
from models.articles import articles
from models.audit import read_audit
from models.base import FAR
from models.db import Database
from models.groups import cooldowns, rate_groups
from models.jobs import attempts, jobs
from models.queries import JobFilter
from models.requests import requests
from models.sites import interval_history, sites, targets
from models.workers import workers
from tests.support.servers import PostgresServer

_JOB = (
    "job_id kind site_code target_code group source status priority dedupe_key force attempt failures max_attempts "
    "recoveries cooldown_retries deadlines resume_from_page current_page last_completed_page enqueued_at queue_at "
    "run_after expires_at started_at finished_at updated_at queued_for_sec running_for_sec stop_requested error_msg "
    "result progress outcome run_id"
)
_LANE = (
    "group site_codes site_code running_job_id running_target running_site running_for_sec queued_count "
    "next_queued_target next_queued_site paused_until pause_kind pause_reason cooldown_level interval_sec worker "
    "lease_until"
)
JOB_FIELDS, LANE_FIELDS = set(_JOB.split()), set(_LANE.split())


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    clear_settings()
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/store.sqlite3"
    else:
        url = request.getfixturevalue("postgres").create_database()
    store = Database(url)
    with store.write() as conn:
        schema.metadata.create_all(conn)
    yield store
    store.dispose()


@pytest.fixture
def conn(database: Database) -> Iterator[Connection]:
    with database.write() as line:
        yield line


def ago(seconds: float) -> datetime:
    return clock.now() - timedelta(seconds=seconds)


def ahead(seconds: float) -> datetime:
    return clock.now() + timedelta(seconds=seconds)


def add_site(conn: Connection, code: str, group: str) -> None:
    conn.execute(insert(sites).values(
        site_code=code, base_url=f"http://{code}.test", cms_adapter="list", group_key=group, group_rule="host",
        options={}, created_at=ago(100), updated_at=ago(100)))


def add_target(conn: Connection, code: str, site: str, **more: Any) -> None:
    conn.execute(insert(targets).values(**{
        "target_code": code, "site_code": site, "interval_sec": 10.0, "track_checkpoint": True, "enabled": True,
        "options": {}, "options_hash": "x", "created_at": ago(100), "updated_at": ago(100), **more}))


def add_group(conn: Connection, key: str, **more: Any) -> None:
    conn.execute(insert(rate_groups).values(key=key, created_at=ago(100), **more))


def add_job(conn: Connection, job_id: str, status: str = "queued", **more: Any) -> None:
    row: dict[str, Any] = {
        "job_id": job_id, "kind": "crawl", "site_code": "one", "target_code": "one_news", "group_key": "g1",
        "status": status, "enqueued_at": ago(50), "queue_at": ago(50), "updated_at": ago(1),
    }
    if status == "running":
        row |= {"lease_until": ahead(60), "started_at": ago(20), "claimed_at": ago(20), "worker": "w1", "attempt": 1}
    elif status != "queued":
        row |= {"started_at": ago(20), "finished_at": ago(5)}
    conn.execute(insert(jobs).values(**row | more))


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [one["job_id"] for one in found]


def test_a_job_has_every_field_of_the_contract_and_every_attempt(conn: Connection) -> None:
    add_job(conn, "a", "running", progress={"page": 3, "items_new": 7, "secret": "of another version"})
    for number, outcome in ((2, None), (1, "cooldown")):
        conn.execute(insert(attempts).values(
            job_id="a", attempt=number, group_key="g1", worker="w1", boot_id="b", source="manual",
            claimed_at=ago(30), started_at=ago(30), outcome=outcome, from_page=number))
    found = queries.job(conn, "a")
    assert found is not None
    assert set(found) == JOB_FIELDS | {"attempts_log"}
    assert [(one["attempt"], one["outcome"]) for one in found["attempts_log"]] == [(1, "cooldown"), (2, None)]
    assert set(found["attempts_log"][0]) == {
        "attempt", "worker", "source", "started_at", "finished_at", "outcome", "error", "from_page",
        "last_completed_page", "evidence"}
    assert found["progress"] == {
        "page": 3, "pages_total": None, "items_new": 7, "items_known": 0, "items_failed": 0, "items_external": 0,
        "bytes": 0, "rate": None, "eta": None, "steps": []}
    assert found["running_for_sec"] == pytest.approx(20, abs=2)
    assert found["queued_for_sec"] == pytest.approx(30, abs=2)


def test_an_unknown_job_is_none(conn: Connection) -> None:
    assert queries.job(conn, "nobody") is None


def test_moments_carry_the_offset_of_the_schedules_zone(conn: Connection) -> None:
    add_job(conn, "a", run_after=datetime(2026, 11, 30, 16, 0, tzinfo=UTC))
    found = queries.job(conn, "a")
    assert found is not None
    assert found["run_after"] == "2026-12-01T00:00:00.000+08:00"


def test_jobs_come_running_queued_dead_done(conn: Connection) -> None:
    add_job(conn, "done-old", "done", finished_at=ago(500))
    add_job(conn, "done-new", "done", finished_at=ago(5))
    add_job(conn, "cancelled", "cancelled", finished_at=ago(300))
    add_job(conn, "failed", "failed", finished_at=ago(400))
    add_job(conn, "queued-late", queue_at=ago(10))
    add_job(conn, "queued-early", queue_at=ago(90))
    add_job(conn, "queued-urgent", priority=5, queue_at=ago(1))
    add_job(conn, "running-old", "running", started_at=ago(60))
    add_job(conn, "running-new", "running", started_at=ago(2), group_key="g2", site_code="two")
    wanted = ["running-new", "running-old", "queued-urgent", "queued-early", "queued-late", "cancelled", "failed",
              "done-new", "done-old"]
    assert ids(queries.jobs(conn)) == wanted
    assert ids(queries.jobs(conn, JobFilter(limit=4))) == wanted[:4]
    assert ids(queries.jobs(conn, JobFilter(include_history=False))) == wanted[:5]
    assert ids(queries.jobs(conn, JobFilter(status="done"))) == ["done-new", "done-old"]
    assert set(queries.jobs(conn)[0]) == JOB_FIELDS


def test_every_filter_lets_through_what_it_names(conn: Connection) -> None:
    add_job(conn, "plain")
    add_job(conn, "other", site_code="two", target_code="two_docs", group_key="g2", kind="export", source="schedule",
            run_id=7, dedupe_key="k", error_msg="HTTPError: 100% broken")
    for wanted in (JobFilter(site="two"), JobFilter(target="two_docs"), JobFilter(group="g2"), JobFilter(kind="export"),
                   JobFilter(source="schedule"), JobFilter(run=7), JobFilter(dedupe_key="k"), JobFilter(search="THER"),
                   JobFilter(search="two_d"), JobFilter(search="httperror: 100%")):
        assert ids(queries.jobs(conn, wanted)) == ["other"], wanted
    assert ids(queries.jobs(conn, JobFilter(search="broken"))) == []  # the start of the error only
    assert ids(queries.jobs(conn, JobFilter(search="_"))) == ["plain", "other"]  # no wildcard: both codes have one
    assert ids(queries.jobs(conn, JobFilter(search="%"))) == []


def test_counts_name_every_status(conn: Connection) -> None:
    add_job(conn, "a")
    add_job(conn, "b", "done")
    assert queries.counts(conn) == {"queued": 1, "running": 0, "done": 1, "failed": 0, "cancelled": 0}


def test_a_lane_shows_who_runs_and_who_is_next(conn: Connection) -> None:
    for code in ("two", "one"):
        add_site(conn, code, "g1")
    add_target(conn, "one_news", "one", interval_sec=10.0, grown_interval_sec=13.0)
    add_target(conn, "two_docs", "two", interval_sec=10.0)
    add_group(conn, "g1", crawl_delay_sec=2)
    add_group(conn, "idle")
    add_job(conn, "r", "running")
    add_job(conn, "not-due", priority=1, run_after=ahead(300))
    add_job(conn, "next", site_code="two", target_code="two_docs")
    found = queries.lanes(conn)
    assert [one["group"] for one in found] == ["g1"]  # no work and no pause: no row
    lane = found[0]
    assert set(lane) == LANE_FIELDS
    assert (lane["site_codes"], lane["site_code"]) == (["one", "two"], "one")
    assert (lane["running_job_id"], lane["running_target"], lane["running_site"]) == ("r", "one_news", "one")
    assert (lane["queued_count"], lane["next_queued_target"], lane["next_queued_site"]) == (2, "two_docs", "two")
    assert (lane["interval_sec"], lane["worker"], lane["pause_kind"]) == (13.0, "w1", None)


def test_r10_what_no_claim_would_take_is_not_named_as_next(conn: Connection) -> None:
    for code, group in (("s1", "g1"), ("s2", "g1"), ("gone", "g2"), ("busy", "g1"), ("calm", "g3")):
        add_site(conn, code, group)
    for group in ("g1", "g2", "g3"):
        add_group(conn, group)

    def following(group: str = "g1") -> str | None:
        shown = next(one for one in queries.lanes(conn) if one["group"] == group)
        assert queries.lane(conn, group) == shown
        return shown["next_queued_target"]

    add_job(conn, "expired", priority=1, site_code="s1", target_code="expired", expires_at=ago(1))
    add_job(conn, "moved", priority=2, site_code="gone", target_code="moved")
    assert following() is None
    add_job(conn, "late", priority=3, site_code="s1", target_code="late", run_after=ahead(600))
    add_job(conn, "soon", priority=4, site_code="s1", target_code="soon", run_after=ahead(60))
    assert following() == "soon"
    add_job(conn, "runs", "running", group_key="g2", site_code="busy", target_code="runs")
    add_job(conn, "busy", priority=5, site_code="busy", target_code="busy")
    assert following() == "busy", "it is due already and waits for its site alone"
    add_job(conn, "free", priority=9, site_code="s2", target_code="free")
    assert following() == "free"


def test_the_later_pause_holds_and_an_endless_one_has_no_end(conn: Connection) -> None:
    soon, later = ahead(60), ahead(600)
    add_group(conn, "cooling", pause_until=later, pause_reason="403", operator_pause_until=soon, cooldown_level=2)
    add_group(conn, "endless", pause_until=later, operator_pause_until=FAR, operator_pause_reason="ask first")
    add_group(conn, "over", pause_until=ago(1), operator_pause_until=ago(2))
    found = {one["group"]: one for one in queries.lanes(conn)}
    assert sorted(found) == ["cooling", "endless"]
    cooling, endless = found["cooling"], found["endless"]
    assert (cooling["pause_kind"], cooling["pause_reason"], cooling["cooldown_level"]) == ("cooldown", "403", 2)
    assert datetime.fromisoformat(cooling["paused_until"]) == later.replace(microsecond=later.microsecond // 1000 * 1000)
    assert (endless["pause_kind"], endless["paused_until"], endless["pause_reason"]) == ("operator", None, "ask first")


def test_live_counts_a_pause_down_by_the_databases_clock(conn: Connection) -> None:
    add_group(conn, "g1", pause_until=ahead(40), pause_reason="rate 403")
    add_group(conn, "g3")
    add_group(conn, "g4")
    add_job(conn, "cooling", current_page=4, progress={"page": 4, "pages_total": 9})
    add_job(conn, "working", "running", group_key="g2", site_code="two", target_code="two_docs")
    add_job(conn, "waiting", group_key="g3", site_code="three")
    add_job(conn, "parked", group_key="g4", site_code="four", run_after=ahead(30), wait_reason="robots_unreachable")
    found = queries.live(conn)
    assert [one["group"] for one in found["lanes"]] == ["g1", "g2", "g4"]  # what merely has no slot is a number
    cooling, working, parked = found["lanes"]
    assert (parked["wait_reason"], parked["due_in_sec"]) == ("robots_unreachable", pytest.approx(30, abs=2))
    assert (cooling["due_in_sec"], working["due_in_sec"]) == (None, None)
    assert cooling["paused_for_sec"] == pytest.approx(40, abs=2)
    assert (cooling["page"], cooling["pages_total"], cooling["running"], cooling["pause_reason"]) == (
        4, 9, False, "rate 403")
    assert (working["running"], working["target"], working["paused_for_sec"]) == (True, "two_docs", None)
    assert found["counts"]["queued"] == 3


def test_the_interval_in_force_is_the_larger_one(conn: Connection) -> None:
    add_site(conn, "one", "g1")
    add_target(conn, "grown", "one", grown_interval_sec=15.0)
    add_target(conn, "raised", "one", interval_sec=50.0, grown_interval_sec=15.0)
    for old, new, when in ((10, 11, 30), (11, 15, 10)):
        conn.execute(insert(interval_history).values(
            target_code="grown", old_interval_sec=old, new_interval_sec=new, cause="403", at=ago(when)))
    found = queries.interval(conn, "grown")
    assert found is not None
    assert (found["interval_sec"], found["baseline_sec"]) == (15.0, 10.0)
    assert [one["new_interval_sec"] for one in found["history"]] == [15, 11]
    assert [one["interval_sec"] for one in queries.targets(conn, "one")] == [15.0, 50.0]
    assert queries.interval(conn, "nobody") is None


def test_a_target_names_its_active_job_the_running_one_first(conn: Connection) -> None:
    for code in ("busy", "waits", "idle"):
        add_target(conn, code, "one")
    for job_id, code, status in (("old", "idle", "done"), ("first", "waits", "queued"), ("second", "waits", "queued"),
                                 ("third", "busy", "queued"), ("now", "busy", "running")):
        add_job(conn, job_id, status, target_code=code)
    assert {one["target_code"]: one["active_job_id"] for one in queries.targets(conn)} == {
        "busy": "now", "waits": "first", "idle": None}


def test_the_nearest_target_is_always_one_if_there_are_any(conn: Connection) -> None:
    assert queries.nearest_target(conn, "x") is None
    add_target(conn, "city_news", "one")
    add_target(conn, "city_laws", "one")
    assert queries.nearest_target(conn, "city_nws") == "city_news"


def test_articles_are_those_of_the_target_fetched_since(conn: Connection) -> None:
    for number, (target, when) in enumerate((("a", 90), ("a", 10), ("b", 5))):
        conn.execute(insert(articles).values(
            target_code=target, site_code="one", url=f"http://x/{number}", text="文", generation=1,
            fetched_at=ago(when), job_id="j"))
    found = list(queries.articles(conn, "a", ago(30)))
    assert [one["url"] for one in found] == ["http://x/1"]
    assert list(found[0]) == ["target_code", "url", "title", "published_at", "text", "sha256", "source_page",
                              "fetched_at"]
    assert len(list(queries.articles(conn))) == 3


def test_a_worker_consumes_if_it_said_so_within_three_heartbeats_and_names_no_trouble(conn: Connection) -> None:
    for name, beat, look, trouble in (
        ("busy", 5, 5, ""), ("cut off", 5, 31, ""), ("dead", 40, 40, ""), ("stuck", 1, 6, "hub_stuck"),
    ):
        conn.execute(insert(workers).values(
            boot_id=name, name=name, host="h", pid=1, pool="threads", concurrency=4, started_at=ago(60),
            heartbeat_at=ago(beat), consuming_at=ago(look), heartbeat_sec=10, trouble=trouble))
    conn.execute(insert(workers).values(
        boot_id="gone", name="gone", host="h", pid=1, pool="threads", concurrency=4, started_at=ago(60),
        heartbeat_at=ago(1), stopped_at=ago(1), heartbeat_sec=10))
    found = {one["name"]: (one["alive"], one["consuming"], one["trouble"]) for one in queries.workers(conn)}
    assert found == {"busy": (True, True, ""), "cut off": (True, False, ""), "dead": (False, False, ""),
                     "stuck": (True, False, "hub_stuck")}


def test_lanes_with_due_work_that_no_worker_serves_are_named(conn: Connection) -> None:
    """D2: maintenance alone is no installation that consumes."""
    for key, ready in (("www.a.org", 60), ("www.b.org", 30), ("_export", 60), ("just.now", 1), ("later", -60), ("idle", None)):
        conn.execute(insert(rate_groups).values(key=key, created_at=ago(90), ready_at=None if ready is None else ago(ready)))
    assert queries.unserved(conn, [["^_.*$"]]) == ["www.a.org", "www.b.org"]
    assert queries.unserved(conn, [["^_.*$"], [r"^www\.a\..*$"]]) == ["www.b.org"]
    assert queries.unserved(conn, [["^_.*$"], None]) == []
    assert set(queries.unserved(conn, [])) == {"www.a.org", "www.b.org", "_export"}
    assert len(queries.unserved(conn, [], limit=2)) == 2


def test_documents_keep_the_order_asked_for(conn: Connection) -> None:
    for job_id in ("a", "b"):
        add_job(conn, job_id)
    assert ids(queries.documents(conn, ["b", "nobody", "a"])) == ["b", "a"]
    assert queries.statuses(conn, ["a", "nobody"]) == {"a": "queued"}


def test_the_audit_reads_requests_attempts_and_cooldowns(conn: Connection) -> None:
    sent = (("g1", "h1", 90), ("g1", "h1", 50), ("g2", "h1", 49.5), ("g2", "h2", 20))
    for number, (group, host, start) in enumerate(sent):
        conn.execute(insert(requests).values(
            group_key=group, host=host, job_id="j", attempt=1, number=number, url="http://x", started_at=ago(start),
            ended_at=ago(start - 1), interval_sec=2))
    conn.execute(insert(cooldowns).values(group_key="g2", kind="rate", reason="403", at=ago(30), until=ago(10)))
    for attempt in (1, 2):
        conn.execute(insert(attempts).values(
            job_id="k", attempt=attempt, group_key="g1", worker="w1", boot_id="b", source="manual", claimed_at=ago(95)))
    found = read_audit(conn)
    assert (found["requests"], found["overlaps"], found["gaps_too_short"], found["during_pause"]) == (4, 2, 0, 1)
    assert sorted(found["groups"]) == ["g1", "g2"]
    assert read_audit(conn, group="g2")["requests"] == 2
    assert read_audit(conn, host="h2")["requests"] == 1
    assert read_audit(conn, since=ago(49.8))["requests"] == 2
