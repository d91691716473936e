"""What a Celery caller asks of a lane task, as a submit (J2)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.canvas import Signature

from config.errors import BadInput
from routing import calls
from routing.calls import call_of
from tests.support.plain_tasks import app as plain_app
from tests.support.plain_tasks import explain, note

CRAWL = "ratelane.crawl"


@pytest.fixture
def app() -> Celery:
    return plain_app


def ask(app: Celery, *args: Any, **options: Any) -> Any:
    return call_of(app, CRAWL, args or ("t1",), options.pop("kwargs", None), **options)


def test_j2_the_options_of_a_submit_may_be_given_by_name(app: Celery) -> None:
    call = call_of(app, CRAWL, [], {"target_code": "t1", "force": 1, "resume_from_page": "3", "deadline_sec": 2.5})
    assert (call.kind, call.target_code) == ("crawl", "t1")
    assert call.more == {"force": True, "resume_from_page": 3, "deadline_sec": 2.5}
    assert (call.job_id, call.priority, call.run_after, call.run_after_sec, call.expires_sec, call.callbacks) == (
        None, 100, None, None, None, None)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1,), {}), (("a", "b"), {}), (("a",), {"nosuch": 1}), (("a",), {"target_code": "b"}),
     (("a",), {"resume_from_page": "x"}), (({"result": 1},), {})],
)
def test_j2_other_arguments_are_refused_with_a_sentence(app: Celery, args: Any, kwargs: Any) -> None:
    with pytest.raises(BadInput, match=r"takes one argument|must be a number"):
        call_of(app, CRAWL, args, kwargs)


@pytest.mark.parametrize(
    ("eta", "moment"),
    [
        (datetime(2030, 1, 1, 12), datetime(2030, 1, 1, 12, tzinfo=UTC)),  # noqa: DTZ001
        ("2030-01-01T12:00:00", datetime(2030, 1, 1, 12, tzinfo=UTC)),
        ("2030-01-01T12:00:00+08:00", datetime(2030, 1, 1, 4, tzinfo=UTC)),
        (datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=1))), datetime(2030, 1, 1, 11, tzinfo=UTC)),
    ],
)
def test_j2_a_moment_without_a_zone_is_in_the_applications(app: Celery, eta: Any, moment: datetime) -> None:
    assert ask(app, eta=eta).run_after == moment


def test_j1_a_negative_countdown_is_none_and_a_countdown_is_stronger_than_an_eta(app: Celery) -> None:
    assert ask(app, countdown=-3, eta="2030-01-01").run_after_sec == 0
    assert ask(app, countdown=2.5, eta="2030-01-01").run_after is None


def test_j1_expires_is_seconds_or_a_moment(app: Celery) -> None:
    assert ask(app, expires=30).expires_sec == 30
    assert ask(app, expires=datetime.now(UTC) + timedelta(hours=1)).expires_sec == pytest.approx(3600, abs=5)
    assert ask(app, expires="2020-01-01T00:00:00Z").expires_sec < 0


@pytest.mark.parametrize(
    "options", [{"eta": "soon"}, {"eta": 5}, {"countdown": "x"}, {"countdown": float("nan")}, {"expires": float("inf")},
                {"priority": "high"}, {"expires": 10**400}, {"link": "plain.note"}, {"link": [1]}, {"link": {"no": "task"}}])
def test_j2_values_that_cannot_be_are_refused_with_a_sentence(app: Celery, options: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"must be|is a signature"):
        ask(app, **options)


def test_j2_options_without_effect_are_named_once(app: Celery, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr(calls, "_named", set())
    with caplog.at_level(logging.WARNING, "ratelane.calls"):
        for _ in range(2):
            ask(app, time_limit=1, soft_time_limit=1, queue="fast", retries=0, producer=object(), headers={"a": 1}, nosuch=2)
    assert [one.__dict__.get("fields", {}).get("option", one.getMessage()) for one in caplog.records] != []
    assert len(caplog.records) == 3


def test_j2_callbacks_are_kept_as_json_and_a_chain_is_one_of_them(app: Celery) -> None:
    rest = [note.s("second").set(task_id="b"), note.s("first").set(task_id="a")]
    found = ask(app, link=note.s("x", datetime(2030, 1, 1, tzinfo=UTC)), link_error=[note.si(), note.s()], chain=rest).callbacks
    assert json.loads(json.dumps(found)) == found
    assert {name: len(each) for name, each in found.items()} == {"link": 2, "link_error": 2}
    following = found["link"][1]
    assert (following["args"], following["options"]["task_id"]) == (["first"], "a")
    assert [one["options"]["task_id"] for one in following["options"]["chain"]] == ["b"]
    assert "chain" not in rest[1].options, "the caller's own stays as it was"


def test_j2_what_is_sent_together_gets_its_ids_at_the_submit(app: Celery) -> None:
    several = ask(app, link=group(note.s(1), note.s(2))).callbacks["link"][0]
    assert all(one["options"]["task_id"] for one in several["kwargs"]["tasks"])
    one_by_one = ask(app, link=chain(note.s(1), note.s(2))).callbacks["link"][0]
    assert all(one["options"]["task_id"] for one in one_by_one["kwargs"]["tasks"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"chord": note.s()}, "a chord of lane jobs"), ({"link": chord([note.s()], note.s())}, "a chord of lane jobs"),
        ({"link": Signature(CRAWL, args=("b",))}, r"use crawl with \.si"),
        ({"chain": [Signature(CRAWL, args=("b",))]}, r"use crawl with \.si"),
        ({"link_error": explain.s()}, "called with the job's id alone"),
        ({"link": note.s(), "kwargs": {"dedupe_key": "k"}}, "leave out dedupe_key"),
        ({"link": note.s().set(serializer="nope")}, "plain.note cannot be sent"),
        ({"link_error": note.si().set(compression="nope")}, "plain.note cannot be sent"),
        ({"link": group(note.s(1), note.s(2).set(serializer="nope"))}, "plain.note cannot be sent"),
    ],
)
def test_j2_callbacks_that_would_never_work_are_refused_with_a_sentence(
    app: Celery, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        ask(app, **options)


def test_j2_direct_and_eager_calls_are_refused_with_a_sentence(monkeypatch: Any) -> None:
    from tasks.crawl import crawl_target

    for call in (lambda: crawl_target("t1"), lambda: crawl_target.apply(("t1",)), crawl_target.s("t1"),
                 lambda: crawl_target.s("t1").apply()):
        with pytest.raises(RuntimeError, match="runs only under a claim: submit it with"):
            call()


def test_j2_limits_of_the_application_do_not_reach_a_lane_task() -> None:
    """`task_time_limit`, `task_default_rate_limit` and annotations are for ordinary tasks."""
    from tasks.base import LaneTask

    other = Celery("limited", set_as_current=False)
    other.conf.update(task_time_limit=1, task_soft_time_limit=1, task_default_rate_limit="1/m",
                      task_annotations={"*": {"time_limit": 2}})

    @other.task(name="plain.other")
    def ordinary() -> None: ...

    @other.task(base=LaneTask, bind=True, name="odd.limited")
    def lane(self: Any, target_code: str) -> None: ...

    assert (ordinary.time_limit, ordinary.rate_limit) == (2, "1/m")
    assert (lane.time_limit, lane.soft_time_limit, lane.rate_limit) == (None, None, None)
