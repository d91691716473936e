"""Where a block that a body only tells of is found, and where not (rule C4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.errors import Cancelled, Evidence, HostCooldown, JobFailed, Parked, PartialCrawl
from models.scan import ITEM_KEYS, MOST_DEEP, checkpoint_page, is_aborted, objection_in

MARKED = "host_cooldown: js_challenge 412 http://a.example.org/list?page=2"
OBJECTION = HostCooldown(Evidence("reset", None, "http://a.example.org/"), 9.0)


def noted(error: Exception, note: str) -> Exception:
    error.add_note(note)
    return error


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def while_handling(error: Exception, context: BaseException, *, hidden: bool = False) -> Exception:
    error.__context__, error.__suppress_context__ = context, hidden
    return error


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("result", [
    MARKED, [MARKED], (1, (2, MARKED)), {"a": {"b": [{"c": (MARKED,)}]}}, {"error": f"Traceback: x: {MARKED}\n"},
    {MARKED: 1}, {"errors": {MARKED}}, b"host_cooldown: js_challenge 412 http://a.example.org/list?page=2",
    {"error": RuntimeError(MARKED)}, {"status": "aborted", "reason": "cooldown", "evidence": [MARKED]},
])
def test_a_marker_is_found_anywhere_in_a_result_with_what_it_says(result: Any) -> None:
    found = objection_in(result)
    assert found is not None
    assert (found.evidence.kind, found.evidence.status, found.evidence.url) == (
        "js_challenge", 412, "http://a.example.org/list?page=2")
    assert str(found) == MARKED


@pytest.mark.parametrize("error", [
    ValueError(MARKED), ValueError({"deep": [MARKED]}), noted(ValueError("x"), MARKED),
    caused(ValueError("x"), KeyError(MARKED)), while_handling(ValueError("x"), KeyError(MARKED)),
    ExceptionGroup("several", [ValueError("x"), caused(OSError("y"), ValueError(MARKED))]),
    PartialCrawl("page 2", {"reasons": [MARKED]}), JobFailed(MARKED), Mute(MARKED),
])
def test_a_marker_is_found_anywhere_in_an_error(error: BaseException) -> None:
    found = objection_in(None, error)
    assert found is not None and found.evidence.kind == "js_challenge"


def test_an_objection_that_was_caught_on_the_way_counts_as_it_is() -> None:
    assert objection_in(None, caused(ValueError("x"), OBJECTION)) is OBJECTION
    assert objection_in({"error": OBJECTION}) is OBJECTION
    assert objection_in(None, while_handling(ValueError("x"), OBJECTION, hidden=True)) is None


@pytest.mark.parametrize("key", sorted(ITEM_KEYS))
def test_texts_of_items_are_never_scanned(key: str) -> None:
    for name in (key, key.upper()):
        assert objection_in({"pages": [{name: MARKED}, {name: [{"x": MARKED}]}]}) is None
    assert objection_in({key: MARKED, "error": MARKED}) is not None


@pytest.mark.parametrize("error", [Parked("paused", 5, MARKED), Cancelled(MARKED)])
def test_our_own_ends_only_quote_a_pause_that_stands_already(error: BaseException) -> None:
    assert objection_in(None, error) is None


@pytest.mark.parametrize("result", [
    None, {}, "host cooldown", {"status": "aborted"}, {"status": "aborted", "reason": "deadline"}, {"reason": "cooldown"},
    {"sub": {"status": "aborted", "reason": "cooldown"}}, "HOST_COOLDOWN: x",
])
def test_anything_else_tells_of_no_block(result: Any) -> None:
    assert objection_in(result) is None


@pytest.mark.parametrize("name", ["reason", "abort_reason"])
def test_an_aborted_cooldown_counts_without_the_marker(name: str) -> None:
    found = objection_in({"status": "aborted", name: "cooldown"})
    assert found is not None and str(found) == "host_cooldown: rate -"
    assert is_aborted({"status": "aborted", name: "cooldown"})


@pytest.mark.parametrize(("result", "page"), [
    ({"checkpoint_page": 3, "last_completed_page": 9}, 3), ({"last_completed_page": 9}, 9), ({}, None), (None, None),
    ({"checkpoint_page": "3", "last_completed_page": True}, None), ({"checkpoint_page": -1}, None),
])
def test_the_checkpoint_page_has_two_names(result: Any, page: int | None) -> None:
    assert checkpoint_page(result) == page


@pytest.mark.parametrize(("text", "line"), [
    ("host_cooldown:", "host_cooldown: rate -"), ("host_cooldown: slow down", "host_cooldown: rate -"),
    ("host_cooldown: http://a.org/x", "host_cooldown: rate - http://a.org/x"),
    ("host_cooldown: reset - http://a.org/x", "host_cooldown: reset - http://a.org/x"),
    ("host_cooldown:rate 503", "host_cooldown: rate 503"), ("host_cooldown: rate 5031", "host_cooldown: rate -"),
])
def test_a_marker_that_says_little_is_a_block_of_the_usual_kind(text: str, line: str) -> None:
    assert str(objection_in(f"before {text}")) == line


def test_cycles_and_depths_are_survived() -> None:
    loop: dict[str, Any] = {"a": 1}
    loop["again"] = [loop, (loop, {"b": loop})]
    assert objection_in(loop) is None
    loop["note"] = MARKED
    assert objection_in(loop) is not None
    first, second = ValueError("x"), ValueError("y")
    first.__cause__, second.__cause__ = second, first
    assert objection_in(None, first) is None
    deep: Any = MARKED
    for _ in range(100_000):
        deep = [deep]
    assert objection_in(deep) is None
    near: Any = MARKED
    for _ in range(MOST_DEEP - 1):
        near = [near]
    assert objection_in(near) is not None
    assert objection_in([["x"] * 1_000 for _ in range(1_000)]) is None


@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), lambda each: st.lists(each) | st.dictionaries(
    st.text(), each) | st.tuples(each, each), max_leaves=30))
def test_nothing_that_a_body_returns_makes_it_raise(result: Any) -> None:
    found = objection_in(result)
    assert found is None or "host_cooldown:" in repr(result)
