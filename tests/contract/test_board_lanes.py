"""What the dashboard shows of lanes, dead letters, targets and runs is what the database holds (rules R10, U3)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import insert

from config.errors import Evidence, HostCooldown, PermanentJobError
from models import queries
from models.db import Database
from models.groups import fleet, rate_groups
from models.jobs import jobs
from models.operations import Operator
from models.pacing import OperatorPacing
from models.queries.board import errors, lane, lanes, lists, paging
from models.schedules import runs
from models.sites import interval_history, targets
from tests.support.ledger import START, Bench, seed

FOUR = {f"g{number}": {f"s{number}": [f"t{number}", f"t{number}b"]} for number in range(4)}


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, FOUR)
    return Bench(database)


def test_paused_lanes_come_first_then_the_busiest(bench: Bench) -> None:
    bench.begin("t0")
    bench.submit("t2")
    bench.submit("t3")
    bench.submit("t3b")
    OperatorPacing(bench.db).pause("g1", Operator("eve", "page", "asked"), for_sec=600)
    with bench.db.look() as conn:
        assert [place.group for place in lanes.places(conn)] == ["g1", "g0", "g3", "g2"]
        assert [place.group for place in lanes.places(conn, "G3")] == ["g3"]
        found: list[str] = []
        cursor: str | None = None
        while cursor is not None or not found:
            page, total = lanes.page_and_total(conn, limit=1, cursor=cursor)
            assert total == {"number": 4, "capped": False}
            found += [one["group"] for one in page.rows]
            cursor = page.next
        assert found == ["g1", "g0", "g3", "g2"]


def test_a_row_is_the_lane_document_with_what_a_page_shows_beside_it(bench: Bench) -> None:
    bench.begin("t0")
    bench.submit("t0b")
    OperatorPacing(bench.db).pause("g0", Operator("eve", "page", "asked"), for_sec=600)
    bench.change(jobs, jobs.c.status == "queued", queue_at=START - timedelta(days=1))
    with bench.db.write() as conn:
        conn.execute(insert(interval_history), [
            {"target_code": "t0", "old_interval_sec": 9 + number, "new_interval_sec": 10 + number, "cause": "cooldown",
             "at": START + timedelta(hours=number)} for number in range(40)])
    with bench.db.look() as conn:
        one = lanes.rows_of(conn, ["g0"])[0]
        same = queries.lane(conn, "g0")
    untimed = [name for name in same if not name.endswith("_for_sec")]
    assert {name: one[name] for name in untimed} == {name: same[name] for name in untimed}
    assert (one["progress"]["page"], one["paused_by"], one["pause_reason"], one["oldest_wait_sec"] > 80_000) == (
        0, "eve", "asked", True)
    assert 0 < one["paused_for_sec"] <= 600
    assert [step["interval_sec"] for step in one["interval_history"]] == list(range(20, 50))


def test_who_paused_is_whose_pause_holds_longest(bench: Bench) -> None:
    OperatorPacing(bench.db).pause("g0", Operator("eve", "page", "short"), for_sec=60)
    OperatorPacing(bench.db).pause_all(Operator("bob", "page", "long"), for_sec=600)
    with bench.db.look() as conn:
        assert [(one["paused_by"], one["pause_reason"]) for one in lanes.rows_of(conn, ["g0", "g1"])] == [("bob", "long")] * 2
    OperatorPacing(bench.db).pause("g0", Operator("eve", "page", "endless"))
    with bench.db.look() as conn:
        one = lanes.rows_of(conn, ["g0"])[0]
    assert (one["paused_by"], one["paused_for_sec"], one["paused_until"]) == ("eve", None, None)
    bench.change(fleet, fleet.c.id == 1, operator_pause_until=None)
    bench.change(rate_groups, rate_groups.c.key == "g0", operator_pause_until=None)


def test_a_lane_with_everything_and_none_without_a_group(bench: Bench) -> None:
    started = bench.begin("t0")
    bench.settle(started, HostCooldown(Evidence("rate", 429, "http://s0/"), 60))
    bench.submit("t0b")
    with bench.db.look() as conn:
        assert lane.lane(conn, "nobody") is None
        found, polite = lane.lane(conn, "g0"), lane.politeness(conn, "g0")
    assert found is not None
    assert [one["site_code"] for one in found["sites"]] == ["s0"]
    assert {one["target_code"] for one in found["queue"]} == {"t0b", "t0"}
    assert [(one["kind"], one["target_code"]) for one in found["cooldowns"]] == [("rate", "t0")]
    assert {one["target_code"] for one in found["intervals"]} == {"t0", "t0b"}
    assert polite["requests"] == 0


def test_dead_letters_are_told_apart_by_their_type(bench: Bench) -> None:
    for target, message in (("t0", "gone for good"), ("t1", "gone: again"), ("t2", "other")):
        error: Exception = PermanentJobError(message) if target != "t2" else KeyError(message)
        bench.settle(bench.begin(target, max_attempts=1), error)
        bench.clock.advance(5)
    with bench.db.look() as conn:
        found, older = errors.dead_letters(conn)
    assert [(one["error"], one["count"], sorted(one["targets"])) for one in found] == [
        ("PermanentJobError:", {"number": 2, "capped": False}, ["t0", "t1"]),
        ("KeyError:", {"number": 1, "capped": False}, ["t2"])]
    assert found[0]["filter"] == {"status": "failed", "search": "PermanentJobError:"}
    assert found[0]["first_at"] < found[0]["last_at"]
    assert older is False


def test_targets_and_runs_page_by_page(bench: Bench) -> None:
    bench.change(targets, targets.c.target_code == "t1", grown_interval_sec=99.0)
    with bench.db.write() as conn:
        conn.execute(insert(runs), [
            {"entry": "vitals" if number % 2 else "snapshot", "occurrence": START + timedelta(hours=number), "try_no": 1,
             "stat_date": START.date(), "source": "schedule", "recorded_at": START, "outcome": "skipped", "ended_at": START}
            for number in range(7)])
    with bench.db.look() as conn:
        whole = queries.targets(conn)
        first = lists.targets(conn, limit=3)
        assert first.rows + lists.targets(conn, limit=300, cursor=first.next).rows == whole
        assert lists.targets(conn, site="s2").rows == queries.targets(conn, "s2")
        some = lists.runs(conn, name="vitals", limit=2)
        rest = lists.runs(conn, name="vitals", limit=2, cursor=some.next)
        assert [one["run_id"] for one in some.rows + rest.rows] == [6, 4, 2]
        assert rest.next is None


def test_starts_of_errors() -> None:
    assert errors.start_of("HTTPError: 503: bad") == "HTTPError:"
    assert errors.start_of("abandoned after 3 restart recoveries") == "abandoned after 3 restart recoveries"
    assert errors.start_of("x" * 200) == "x" * 64
    assert errors.start_of("two\nlines: here") == "two"
    assert errors.start_of("") == ""
    assert paging.count(10_001) == {"number": 10_000, "capped": True}
