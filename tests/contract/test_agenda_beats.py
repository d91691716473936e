"""Any number of beats over the same rows, interleaved by force: each occurrence is taken once (rules S2, S3)."""

from __future__ import annotations

from typing import Any

import pytest

from models.agenda import launching, records
from models.db import Database
from tests.support.agenda import Beat, at, fleet
from tests.support.gates import Gate
from tests.support.ledger import in_thread


@pytest.fixture
def beat(database: Database) -> Beat:
    if database.dialect == "sqlite":
        pytest.skip("one writer at a time: nothing interleaves")
    beat = fleet(database, "2026-05-01 06:30")
    beat.configure(hourly={"every": "1h"}, other={"every": "1h", "targets": ["t3"]})
    beat.tick()
    return beat


def second(beat: Beat, moment: str) -> Beat:
    """Return another beat at this moment."""
    other = Beat(beat.db, at(moment), beat.settings)
    other.entries.read(other.db, other.settings, at("2026-05-01 06:30"))
    return other


@pytest.mark.parametrize("where", [(records, "start"), (launching, "launch"), (records, "write")])
def test_a_beat_in_the_middle_of_its_turn_is_not_waited_for_and_nothing_is_doubled(
    beat: Beat, monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]
) -> None:
    gate = Gate(monkeypatch, *where)
    slow = in_thread(lambda: beat.tick("2026-05-01 07:00"))
    assert gate.reached.wait(10)
    other = second(beat, "2026-05-01 07:00")
    assert other.tick().started == 0
    gate.open.set()
    assert slow.result(20).started == 2
    assert other.later(seconds=5).started == 0
    assert (beat.told(), beat.told("other")) == (["07:00 running"], ["07:00 running"])
    assert len(beat.jobs()) == 4


def test_what_another_beat_has_in_hand_keeps_no_entry_behind_it(beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry's row is held, as by somebody who runs it by hand: the others go on."""
    other = second(beat, "2026-05-01 07:00")
    with beat.db.write() as conn:
        records.lock(conn, "hourly")
        assert other.tick().started == 1
    assert (beat.told(), beat.told("other")) == ([], ["07:00 running"])
    assert other.later(seconds=1).started == 1
    assert beat.told() == ["07:00 running"]


def test_a_run_is_ended_once_though_two_saw_it_over(beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both saw the run over before either had locked its entry."""
    beat.tick("2026-05-01 07:00")
    beat.finish()
    gate = Gate(monkeypatch, records, "lock", lambda _conn, *names, **_more: names == ("hourly",))
    slow = in_thread(lambda: beat.later(seconds=5))
    assert gate.reached.wait(10)
    assert second(beat, "2026-05-01 07:00:06").tick().ended == 2
    ended_at = beat.runs()[0]["ended_at"]
    gate.open.set()
    assert slow.result(20).ended == 0
    assert beat.runs()[0]["ended_at"] == ended_at


def test_a_job_that_is_queued_again_after_the_look_keeps_its_run_open(beat: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    """A requeue commits between the look and the lock: the later statement sees it."""
    beat.tick("2026-05-01 07:00")
    beat.finish()
    gate = Gate(monkeypatch, records, "lock", lambda _conn, *names, **_more: names == ("hourly",))
    slow = in_thread(lambda: beat.later(seconds=5))
    assert gate.reached.wait(10)
    with beat.db.write() as conn:
        conn.exec_driver_sql("UPDATE jobs SET status = 'queued', finished_at = NULL WHERE target_code = 't1'")
    gate.open.set()
    slow.result(20)
    assert beat.told() == ["07:00 running"]
