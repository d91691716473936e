"""What operators do to the schedule, on both databases: run now, pause, resume, look (rules S2, S6, S9)."""

from __future__ import annotations

from datetime import date

import pytest
from sqlalchemy import select

from config import clock
from config.errors import BadInput
from models.db import Database
from models.operations import Operator, operations
from models.queries.schedule import run as run_document
from models.queries.schedule import runs_of
from tasks.schedule import by_hand, listing
from tasks.schedule.terms import Refusal
from tests.support.agenda import Beat, at, fleet

ME = Operator("me@here", "cli")


@pytest.fixture
def beat(database: Database, monkeypatch: pytest.MonkeyPatch) -> Beat:
    beat = fleet(database, "2026-05-01 06:30")
    beat.configure(hourly={"every": "1h", "quiet": ["23:00", "01:00"]})
    monkeypatch.setattr(clock, "now", lambda: beat.now)
    beat.tick()
    return beat


def run(beat: Beat, **options: object) -> int | Refusal:
    """Run the entry by hand."""
    return by_hand.run_by_hand(beat.db, beat.settings, "hourly", ME, **options)  # type: ignore[arg-type]


def did(beat: Beat) -> list[tuple[str, str, str]]:
    """Return who did what to which entry."""
    with beat.db.read() as conn:
        found = conn.execute(select(operations.c.who, operations.c.action, operations.c.entry).order_by(operations.c.id))
        return [tuple(row) for row in found]


def test_a_run_by_hand_starts_at_once_and_the_next_moment_stays(beat: Beat) -> None:
    run_id = run(beat)
    assert [job["run_id"] for job in beat.jobs()] == [run_id] * 4
    assert beat.entry()["due_at"] == at("2026-05-01 07:00")
    beat.finish()
    beat.later(seconds=5)
    with beat.db.read() as conn:
        document = run_document(conn, int(run_id))  # type: ignore[arg-type]
    assert document is not None
    assert (document["outcome"], document["source"], document["ok"], document["elapsed_sec"], document["occurrence"]) == (
        "success", "manual", True, 5.0, "2026-05-01T06:30:00.000+08:00")
    beat.tick("2026-05-01 07:00")
    assert beat.told() == ["06:30 success", "07:00 running"]
    assert did(beat) == [("me@here", "schedule_run", "hourly")]


def test_a_run_under_way_refuses_another(beat: Beat) -> None:
    first = run(beat)
    answer = run(beat)
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.run and answer.run.run_id) == ("running", first)


def test_s6_inside_the_quiet_window_it_is_refused_without_force_and_forced_jobs_are_not_held(beat: Beat) -> None:
    beat.now = at("2026-05-01 23:30")
    answer = run(beat)
    assert isinstance(answer, Refusal)
    assert (answer.reason, answer.until) == ("quiet_window", at("2026-05-02 01:00"))
    assert (beat.runs(), did(beat)) == ([], [])
    assert isinstance(run(beat, force=True), int)
    assert {(job["force"], job["dedupe_key"][-6:]) for job in beat.jobs()} == {(True, ":force")}
    assert len(beat.bench.claims()) == 3, "they wait for the end of the window that was forced open"


def test_a_stat_date_may_be_named(beat: Beat) -> None:
    run(beat, date=date(2026, 4, 20))
    assert beat.runs()[0]["stat_date"] == date(2026, 4, 20)


def test_a_paused_entry_skips_and_resumed_fires_nothing_past(beat: Beat) -> None:
    assert by_hand.pause(beat.db, beat.settings, "hourly", ME)
    assert not by_hand.pause(beat.db, beat.settings, "hourly", ME)
    beat.tick("2026-05-01 07:00")
    assert beat.told() == ["07:00 skipped(paused)"]
    beat.now = at("2026-05-01 08:10")
    assert by_hand.resume(beat.db, beat.settings, "hourly", ME)
    assert not by_hand.resume(beat.db, beat.settings, "hourly", ME)
    beat.tick()
    assert beat.told() == ["07:00 skipped(paused)", "08:00 skipped(paused)"]
    assert beat.entry()["due_at"] == at("2026-05-01 09:00")
    assert [what for _, what, _ in did(beat)] == ["schedule_pause", "schedule_resume"]


@pytest.mark.parametrize("verb", ["run_by_hand", "pause", "resume"])
def test_an_unknown_name_is_told_with_those_that_are_there(beat: Beat, verb: str) -> None:
    with pytest.raises(BadInput, match=r"'nightly'.*hourly"):
        getattr(by_hand, verb)(beat.db, beat.settings, "nightly", ME)
    assert did(beat) == []


def test_a_disabled_entry_is_not_run(beat: Beat) -> None:
    with pytest.raises(BadInput, match="disabled"):
        by_hand.run_by_hand(beat.db, beat.settings, "vitals", ME)


def test_s9_the_list_shows_what_is_due_and_what_became_of_it(beat: Beat) -> None:
    beat.tick("2026-05-01 07:00")
    beat.finish("t1")
    [entry] = listing.entries(beat.db, beat.settings, "hourly")
    assert (entry["status"], entry["due_at"], entry["progress"], entry["paused"], entry["quiet_window"]) == (
        "running", "2026-05-01T08:00:00.000+08:00", {"done": 1, "failed": 0, "total": 4}, False, ["23:00", "01:00"])
    assert [moment[11:16] for moment in entry["next_runs"]] == ["08:00", "09:00", "10:00"]
    assert (entry["last_outcome"], entry["last_success_at"]) == (None, None)
    beat.finish()
    beat.later(seconds=5)
    [entry] = listing.entries(beat.db, beat.settings, "hourly")
    assert entry["last_outcome"] == {"outcome": "success", "ok": True, "skipped": False, "reason": ""}
    assert [row["name"] for row in listing.entries(beat.db, beat.settings)] == [
        "candidate_cleanup", "discovery", "hourly", "snapshot", "snapshot_recent", "snapshot_seed", "vitals"]


def test_s9_the_preview_is_what_the_ticks_then_do(beat: Beat) -> None:
    end = at("2026-05-02 02:30")
    promised = [(line["due_at"][11:16], line["action"], line["reason"])
                for line in listing.preview(beat.db, beat.settings, beat.now, end)]
    did: list[tuple[str, str, str]] = []
    while beat.entry()["due_at"] <= end:
        beat.tick(beat.entry()["due_at"])
        beat.finish()
        beat.tick()
    with beat.db.read() as conn:
        rows = runs_of(conn, "hourly")
    for row in sorted(rows, key=lambda row: row["occurrence"]):
        did.append((row["occurrence"][11:16], row["outcome"], row["reason"]))
    assert len(did) == 20
    assert [line[0] for line in promised if line[1] == "run"] == [line[0] for line in did if line[1] == "success"]
    assert [line[0] for line in promised if line[1] == "defer"] == ["23:00", "00:00"]
    assert [line for line in did if line[1] == "made_up"] == [("23:00", "made_up", "deferred"), ("00:00", "made_up", "deferred")]


def test_a_successful_seed_makes_the_evening_pending_and_forces_nothing(beat: Beat) -> None:
    beat.tick("2026-05-01 07:00")
    beat.finish()
    beat.later(seconds=5)
    assert beat.entry()["status"] == "done"
    due = beat.entry()["due_at"]
    with beat.db.write() as conn:
        assert by_hand.make_pending(conn, beat.settings, "hourly", beat.now)
        assert not by_hand.make_pending(conn, beat.settings, "nobody", beat.now)
    assert (beat.entry()["status"], beat.entry()["due_at"]) == ("pending", due)


@pytest.mark.parametrize("force", [False, True])
def test_a_run_that_is_over_has_its_own_end_before_another_is_started_by_hand(beat: Beat, force: bool) -> None:
    """No beat lived when its last job ended: it is a success, and nothing is refused or taken over because of it."""
    beat.configure(hourly={"every": "1h", "overlap": "next" if force else "join"})
    beat.tick("2026-05-01 07:00")
    beat.finish()
    beat.now = at("2026-05-01 07:20")
    again = run(beat, force=force)
    first, second = beat.runs()
    assert (first["outcome"], first["by_run"], first["ended_at"]) == ("success", None, beat.now)
    assert (second["run_id"], second["outcome"]) == (again, None)
    assert beat.entry()["last_success_at"] == beat.now
    beat.finish(status="failed", error_msg="OSError: x", result={"error_type": "OSError"})
    beat.later(minutes=1)
    assert beat.entry()["last_success_at"] == at("2026-05-01 07:20"), "another occurrence's success moved"
    assert [row["outcome"] for row in beat.runs()] == ["success", "failed"]


def test_s7_a_seed_by_hand_finds_ended_the_snapshot_that_it_asks_about(beat: Beat) -> None:
    """The snapshot's jobs are done and no beat lives: it is the source of the seed, and not in its way."""
    beat.configure(snapshot={}, snapshot_seed={})
    beat.tick("2026-05-01 22:00")
    beat.tick("2026-05-01 23:15")
    beat.finish()
    beat.now = at("2026-05-02 00:02")
    by_hand.run_by_hand(beat.db, beat.settings, "snapshot_seed", ME)
    assert beat.told("snapshot") == ["23:15 success"]
    assert beat.told("snapshot_seed") == ["00:02 running"]


def test_s7_a_seed_by_hand_has_the_rules_of_the_scheduled_one(beat: Beat) -> None:
    """Skipped without a source, deferred beside a snapshot: and what the schedule was to try again, it still tries."""
    beat.configure(snapshot_seed={})
    beat.tick("2026-05-01 23:00")
    beat.tick("2026-05-02 00:05")
    beat.now = at("2026-05-02 00:08")
    by_hand.run_by_hand(beat.db, beat.settings, "snapshot_seed", ME)
    assert beat.told("snapshot_seed") == ["00:05 skipped(no_source)", "00:05 made_up(by_hand)", "00:08 skipped(no_source)"]
    assert (beat.entry("snapshot_seed")["status"], beat.entry("snapshot_seed")["due_at"]) == ("deferred", at("2026-05-02 00:18"))
    beat.tick("2026-05-02 00:18")
    assert [row["source"] for row in beat.runs("snapshot_seed")] == ["schedule", "schedule", "manual", "schedule"]
    assert beat.entry("snapshot_seed")["due_at"] == at("2026-05-02 00:28")
    beat.configure(snapshot={}, snapshot_seed={})
    beat.tick("2026-05-02 22:00")
    beat.tick("2026-05-02 23:15")
    beat.now = at("2026-05-02 23:20")
    by_hand.run_by_hand(beat.db, beat.settings, "snapshot_seed", ME)
    last = beat.runs("snapshot_seed")[-1]
    assert (last["outcome"], last["reason"], last["until"]) == ("deferred", "snapshot_running", at("2026-05-02 23:30"))
    assert beat.entry("snapshot_seed")["due_at"] == at("2026-05-02 23:30")
