"""What Flower shows is what the database holds: after a restart, while services are away, on /metrics, without a secret."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import insert

from models import queries
from models.base import db_now
from models.groups import cooldowns
from models.operations import Operator
from models.pacing import OperatorPacing
from models.workers import counters
from tests.support.command_line import ROOT
from tests.support.dashboard import API, Board, flower
from tests.support.servers import free_port
from tests.support.store import Store

pytestmark = pytest.mark.slow
SITES = """
sites:
  - {site_code: one, base_url: http://www.one.example, cms_adapter: feed,
     targets: [{target_code: one_news, interval_sec: 1, options: {url: /feed.xml}},
               {target_code: one_more, interval_sec: 1, options: {url: /more.xml}}]}
"""
GROUP = "www.one.example"
MONITORING = ROOT / "docs" / "monitoring"
_NAME = re.compile(r"\bratelane_\w+")


def samples(board: Board) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the figures of /metrics by name and values of labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(board.ask("GET", "/metrics").text):
        found.setdefault(family.name, {})
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_metrics_are_what_the_database_holds(store: Store) -> None:
    store.load(SITES)
    ids = [store.submit("one_news"), store.submit("one_more"), store.submit("one_more")]
    OperatorPacing(store.db).pause(GROUP, Operator("eve"), for_sec=600)
    with store.db.write() as conn:
        conn.execute(insert(counters).values(name="leases_lost", value=3))
        conn.execute(insert(cooldowns).values(group_key=GROUP, kind="rate", reason="", at=db_now(), until=db_now()))
    with flower(store, settings={"metrics_group_backlog": 2}) as board:
        assert board.post(f"/jobs/{ids[0]}/cancel", {"reason": "x"}).status_code == 200
        found = samples(board)
        assert found["ratelane_jobs"] == {("queued",): 2, ("running",): 0, ("done",): 0, ("failed",): 0, ("cancelled",): 1}
        assert found["ratelane_jobs_finished_last_hour"] == {("", "cancelled"): 1}
        assert found["ratelane_jobs_due"] == {(): 2}
        assert found["ratelane_group_backlog"] == {(GROUP,): 2}
        assert found["ratelane_groups_paused"] == {("cooldown",): 0, ("operator",): 1}
        assert found["ratelane_cooldowns_last_hour"] == {("rate",): 1}
        assert found["ratelane_protocol_events_total"][("leases_lost",)] == 3
        assert found["ratelane_workers"] == {("alive",): 0, ("consuming",): 0}
        assert found["ratelane_database_up"] == {(): 1}
        assert "flower_worker_online" in found or any(name.startswith("flower_") for name in found)

        named = set(_NAME.findall((MONITORING / "alerts.yaml").read_text(encoding="utf-8")))
        named |= set(_NAME.findall((MONITORING / "grafana.json").read_text(encoding="utf-8")))
        named |= set(_NAME.findall((ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")))
        assert named <= set(found), named - set(found)


def test_the_files_for_monitoring_are_whole() -> None:
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert all({"alert", "expr", "labels", "annotations"} <= set(rule) for rule in rules)
    assert {"RatelaneNothingConsumed", "RatelaneGroupPausedOverAnHour", "RatelaneEntryStale", "RatelaneLeasesLost",
            "RatelaneOldestDueJob", "RatelaneDeadLetters"} <= {rule["alert"] for rule in rules}
    panels = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(target["expr"] for panel in panels for target in panel["targets"])


def test_a_restart_loses_nothing_that_is_shown(store: Store) -> None:
    store.load(SITES)
    job = store.submit("one_news")
    paths = (f"/jobs/{job}", "/jobs", "/lanes", "/schedule", f"/lanes/{GROUP}", "/counts")

    def shown(board: Board) -> dict[str, Any]:
        return {path: untimed(board.get(path)) for path in paths}

    with flower(store) as board:
        assert board.post(f"/lanes/{GROUP}/pause", {"reason": "night", "for": "1h"}).status_code == 200
        before = shown(board)
    with flower(store) as board:
        assert shown(board) == before
        assert before[f"/lanes/{GROUP}"]["pause_reason"] == "night"
    with store.db.look() as conn:
        assert untimed(queries.lane(conn, GROUP)) == before[f"/lanes/{GROUP}"]


def untimed(document: Any) -> Any:
    """Return a document without what only the passing of time changes."""
    if isinstance(document, list):
        return [untimed(one) for one in document]
    if isinstance(document, dict):
        return {name: untimed(one) for name, one in document.items() if not name.endswith("_for_sec")}
    return document


def test_submits_are_taken_while_the_broker_is_away(store: Store) -> None:
    store.load(SITES)
    store.broker_url = f"redis://:sesame@127.0.0.1:{free_port()}/0"
    with flower(store) as board:
        answer = board.post("/targets/one_news/run", {"reason": "new list page"})
        assert (answer.status_code, answer.json()["created"], answer.json()["group"]) == (202, True, GROUP)
        assert board.post("/targets/one_news/run").json() == answer.json() | {"created": False}
        assert board.get("/ops")["broker_ok"] is False
        with store.db.look() as conn:
            done = queries.operations_of_job(conn, answer.json()["job_id"])
        assert [(one["action"], one["surface"], one["reason"], one["target_code"]) for one in done] == [
            ("submit", "api", "new list page", "one_news")]
        unknown = board.post("/targets/one_newz/run")
        assert (unknown.status_code, "one_news" in unknown.json()["detail"]) == (404, True)


def test_no_secret_of_a_url_is_shown_anywhere(store: Store) -> None:
    """Neither while all is well nor while nothing answers: pages, calls, stock pages, metrics and the log."""
    store.load(SITES)
    store.broker_url = f"redis://:sesame@127.0.0.1:{free_port()}/0"
    secret = {"webhook_url": "http://127.0.0.1:9/hook?token=open-sesame", "webhook_secret": "open-sesame"}
    if store.db.dialect == "postgresql":
        secret["database_url"] = store.db.url.replace("postgres@", "postgres:sesame@")
    with flower(store, "--debug", FLOWER_UNAUTHENTICATED_API="true", settings=secret) as board:
        pages = ["/", "/lanes", "/jobs", "/schedule", "/failed", "/workers", "/tasks", "/broker", "/metrics", "/nothing",
                 "/jobs/nobody", "/lanes/nobody", "/api/workers", "/api/queues/length"]
        calls = [API + path for path in ("/ops", "/jobs", "/lanes", "/system", "/workers", "/openapi.json", "/jobs/x",
                                         "/jobs?cursor=redis://:sesame@host")]
        for path in (*pages, *calls):
            assert "sesame" not in board.ask("GET", path).text, path
        assert "sesame" not in board.post("/jobs/cancel", {"search": "redis://:sesame@host"}).text
        assert "sesame" not in board.log


def test_while_the_database_is_away_calls_say_so(store: Store) -> None:
    if store.db.dialect != "postgresql":
        pytest.skip("a file does not go away")
    store.load(SITES)
    with flower(store, settings={"database_url": f"postgresql+psycopg://u:sesame@127.0.0.1:{free_port()}/x"}) as board:
        answer = board.ask("GET", API + "/jobs")
        assert (answer.status_code, answer.headers["content-type"], answer.headers["retry-after"]) == (
            503, "application/problem+json", "5")
        assert samples(board)["ratelane_database_up"] == {(): 0}
        assert "sesame" not in board.log + answer.text


@pytest.mark.parametrize("form", ["kv", "json"])
def test_flower_logs_in_the_form_that_is_set(store: Store, form: str) -> None:
    if store.db.dialect != "sqlite":
        pytest.skip("the same lines for both")
    store.load(SITES)
    with flower(store, settings={"log_format": form}) as board:
        job = board.post("/targets/one_news/run").json()["job_id"]
        lines = [line for line in board.log.splitlines() if "job.submit" in line]
        assert len(lines) == 1
        if form == "json":
            line = json.loads(lines[0])
            assert (line["event"], line["job"], line["group"], line["target"]) == ("job.submit", job, GROUP, "one_news")
        else:
            assert f"event=job.submit job={job} group={GROUP} target=one_news" in lines[0]
