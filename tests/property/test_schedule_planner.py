"""Months of a schedule with downtime, edits, pauses, runs by hand, ends of every kind, and a clock that is set back (S1 to
S6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks.schedule.builtin import QUIET
from tasks.schedule.calendar import Every, Times
from tasks.schedule.terms import Action, DueFor, Entry, Kind, Outcome, Overlap, RunInfo, Standing, Turn
from tests.support.schedule import Row

#: a few days before the clocks change, and one zone in which they never do
STARTS = [("Asia/Shanghai", "2026-03-20"), ("Europe/Berlin", "2026-03-20"), ("Europe/Berlin", "2026-10-18"),
          ("America/Santiago", "2026-03-29"), ("America/Santiago", "2026-08-30")]
WHENS = [Every(timedelta(hours=1)), Every(timedelta(minutes=30)), Every(timedelta(hours=6)), Every(timedelta(minutes=50)),
         Times((time(23, 15),)), Times((time(0, 5),)), Times((time(3, 30),)), Times((time(2, 30), time(22, 50))),
         Times((time(23, 30), time(0, 30)))]
ENDS = [Outcome(Kind.SUCCESS), Outcome(Kind.SUCCESS, progress={"done": 9}), Outcome(Kind.FAILED, "error"),
        Outcome(Kind.FAILED, "half", progress={"done": 4}), Outcome(Kind.FAILED, "later", again_in=3_000),
        Outcome(Kind.SKIPPED, "no_source", again_in=600), Outcome(Kind.SKIPPED, "nothing"),
        Outcome(Kind.DEFERRED, "snapshot_runs", again_in=600), Outcome(Kind.DEFERRED, "far", again_in=200_000)]
LENGTHS = [timedelta(), timedelta(minutes=7), timedelta(minutes=70), timedelta(hours=9), timedelta(hours=40)]


@dataclass
class World:
    """An entry, its beat, its runs, and what may never happen to them; every moment that should count is noted."""

    row: Row
    now: datetime
    beat: bool = True
    end_as: Outcome = ENDS[0]
    length: timedelta = LENGTHS[0]
    #: no moment at or before it may fire any more
    barrier: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    #: since when regular moments are counted; None while disabled
    counted: datetime | None = None
    expected: set[datetime] = field(default_factory=set)
    by_hand: set[datetime] = field(default_factory=set)
    #: runs with when and how they will end; more than one only where the overlap lets them run side by side
    under_way: list[tuple[datetime, Outcome, RunInfo]] = field(default_factory=list)
    latest: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    #: a try or the end of a deferral that was planned behind the barrier; on a clock that was set back since then the
    #: barrier's moment may still be ahead of it
    planned_since: datetime | None = None

    def pass_time(self, until: datetime) -> None:
        """Let everything happen that happens by itself until then."""
        while True:
            over = min((each[0] for each in self.under_way), default=None)
            due = self.row.standing.due_at if self.beat and self.row.entry.enabled else None
            if over is not None and over <= min(until, due or until):
                self.now = max(self.now, over)
                self.finish()
            elif due is not None and due <= until:
                self.now = max(self.now, due)
                self.settle()
            else:
                self.now = until
                self.latest = max(self.latest, until)
                return

    def finish(self) -> None:
        """End the run that is the first to be over, and look at what that changes."""
        this, before = min(self.under_way, key=lambda each: each[0]), self.row.standing
        self.under_way.remove(this)
        _, outcome, run = this
        ending = self.row.end(outcome, self.now, run)
        after = ending.standing
        assert (after.last_success_at == self.now) is outcome.ok or after.last_success_at == before.last_success_at
        if not outcome.ok:
            assert after.last_success_at == before.last_success_at
            if outcome.progress is None:
                assert (after.progress, after.stat_date) == (before.progress, before.stat_date)
        if ending.again_at is not None and outcome.kind != Kind.DEFERRED:
            assert self.now < ending.again_at < (before.due_at or ending.again_at + timedelta(1))
        if ending.again_at is not None:
            self.planned_since = ending.again_at
        if self.row.entry.enabled:
            assert after.due_at is not None

    def settle(self) -> None:
        """Let the beat tick until nothing is due: one run at the most starts, however long it was down."""
        started = 0
        while True:
            before = self.row.standing
            done = self.row.tick(self.now)
            if done.action == Action.WAIT:
                break
            self.look(before)
            if done.run is not None:
                started += 1
                self.begin(before)
            if done.action == Action.DEFER:
                assert self.row.entry.quiet is not None
                self.planned_since = done.until
            if done.action == Action.MAKE_UP:
                assert self.row.entry.overlap == Overlap.JOIN and before.running is not None
        assert started <= 1
        assert self.row.standing.due_at is None or self.row.standing.due_at > self.now

    def begin(self, before: Standing) -> None:
        """Look at a run that the beat started."""
        run = self.row.runs[-1]
        assert not self.is_quiet()
        assert before.due_at is not None and before.due_at <= self.now
        assert self.barrier < before.due_at or before.due_at == self.planned_since
        assert run.occurrence > self.barrier or before.due_for != DueFor.REGULAR
        if run.source == "schedule":
            assert run.stat_date == run.occurrence.astimezone(self.row.entry.zone).date()
        self.note_start()

    def note_start(self) -> None:
        """Note the run that has just begun, in place of the one that it takes over from."""
        running, closes = self.row.standing.running, self.row.turns[-1].closes
        assert running is not None
        left = [each for each in self.under_way if closes is None or each[2].run_id != closes.run_id]
        assert len(left) == len(self.under_way) - (closes is not None)
        self.under_way = [*left, (self.now + self.length, self.end_as, running)]

    def is_quiet(self) -> bool:
        """Tell whether the wall clock stands in the entry's quiet window, without asking the calendar."""
        clock = self.now.astimezone(self.row.entry.zone).time()
        return self.row.entry.quiet is not None and (clock >= time(23) or clock < time(1))

    def look(self, before: Standing) -> None:
        """Nothing but a success may move the moment of the last success."""
        assert self.row.standing.last_success_at == before.last_success_at

    def count(self) -> None:
        """Note the regular moments since they were last noted: each must come to one end."""
        entry = self.row.entry
        if self.counted is not None:
            self.expected.update(entry.when.between(self.counted, self.now, entry.zone))
        self.counted = max(self.now, self.counted or self.now) if entry.enabled else None

    def change(self, **changes: object) -> None:
        """Edit, enable or disable."""
        self.count()
        before, entry = self.row.standing, self.row.entry
        self.row.edit(self.now, **changes)
        if (entry.when, entry.enabled) != (self.row.entry.when, self.row.entry.enabled):
            self.raise_barrier()
            # what a clock that was set back comes to again has been accounted for
            self.counted = max(self.now, self.row.standing.after or self.now) if self.row.entry.enabled else None
        self.look(before)

    def set_back(self, minutes: int, when: Times | Every | None) -> None:
        """Set the clock back under a beat that runs, and perhaps edit then: nothing repeats, nothing is dropped (rule S2)."""
        if self.beat and self.row.entry.enabled:
            self.settle()
            self.count()
            self.now -= timedelta(minutes=minutes, seconds=13)
            assert self.row.tick(self.now).action == Action.WAIT
            if when is not None:
                self.change(when=when)

    def resume(self) -> None:
        """Lift a pause: what came before never fires."""
        due = self.row.standing.due_at
        if self.row.entry.paused and due is not None and due <= self.now:
            # (what has not come yet may come again on a clock that is set back later, and then it is due)
            self.raise_barrier()
        self.row.resume(self.now)

    def raise_barrier(self) -> None:
        """Let nothing fire any more that has come until now; a try that is planned for later stays."""
        self.barrier = max(self.barrier, self.now)
        if self.planned_since is not None and self.planned_since <= self.now:
            self.planned_since = None

    def run_by_hand(self, force: bool, day: date | None) -> None:
        """Run it by hand."""
        self.now += timedelta(seconds=1)
        while self.row.rows.keys() & {(self.now, 1), (self.now + timedelta(microseconds=1), 1)}:
            self.now += timedelta(seconds=1)  # whoever asks twice at one moment is told to ask again
        before = self.row.standing
        answer = self.row.by_hand(self.now, force=force, stat_date=day)
        self.look(before)
        if isinstance(answer, Turn):
            assert force or not self.is_quiet()
            self.by_hand.add(self.row.runs[-1].occurrence)
            self.note_start()

    def close(self) -> None:
        """Let everything that is open come to its end, then judge every occurrence."""
        self.count()
        self.beat, self.end_as, self.length = True, ENDS[0], LENGTHS[0]
        self.under_way = [(self.now, ENDS[0], run) for _, _, run in self.under_way]
        if self.row.entry.paused:
            self.resume()
        if not self.row.entry.enabled:
            self.change(enabled=True)
        self.pass_time(self.now)
        self.pass_time(max(self.now, self.latest) + timedelta(days=3))
        while self.row.standing.due_for != DueFor.REGULAR:
            assert self.row.standing.due_at is not None
            self.pass_time(self.row.standing.due_at)
        self.count()
        self.judge()

    def judge(self) -> None:
        """Every occurrence has come to exactly one end, and there is none that nobody expected."""
        ends = self.row.ends()
        assert self.expected <= ends.keys()
        assert ends.keys() <= self.expected | self.by_hand
        for occurrence, outcomes in ends.items():
            *earlier, last = outcomes
            assert last is not None and last.kind != Kind.DEFERRED, f"{occurrence} is open: {outcomes}"
            assert all(each is not None and each.kind not in (Kind.SUCCESS, Kind.MADE_UP) for each in earlier)
            if last.kind == Kind.MADE_UP:
                assert isinstance(last.by, int) and 1 <= last.by <= len(self.row.runs)


steps = st.lists(st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([1, 7, 30, 61, 150, 600, 1440, 4 * 1440, 9 * 1440])),
    st.tuples(st.just("end"), st.sampled_from(ENDS), st.sampled_from(LENGTHS)),
    st.tuples(st.just("beat"), st.booleans()),
    st.tuples(st.just("when"), st.sampled_from(WHENS)),
    st.tuples(st.just("overlap"), st.sampled_from(list(Overlap))),
    st.tuples(st.just("clock"), st.sampled_from([1, 20, 59, 61, 90, 600, 1500]), st.sampled_from([None, *WHENS])),
    st.tuples(st.just("enabled"), st.booleans()),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("hand"), st.booleans(), st.sampled_from([None, date(2026, 4, 1), date(2026, 10, 25)])),
), min_size=4, max_size=40)
catch_ups = st.sampled_from([timedelta(hours=2), timedelta(hours=24), timedelta(0), time(12), time(0, 30)])


def play(world: World, script: list[tuple]) -> None:  # type: ignore[type-arg]
    """Let the steps of a script happen, with time between them."""
    for name, *values in script:
        if name == "pass":
            world.pass_time(world.now + timedelta(minutes=values[0]))
        elif name == "end":
            world.end_as, world.length = values
        elif name == "beat":
            world.beat = values[0]
            if world.beat and world.row.entry.enabled:
                world.settle()
        elif name in ("when", "overlap", "enabled"):
            world.change(**{name: values[0]})
        elif name == "clock":
            world.set_back(*values)
        elif name == "pause":
            world.row.pause() if values[0] else world.resume()
        else:
            world.run_by_hand(*values)


@example(STARTS[0], Every(timedelta(minutes=30)), Overlap.JOIN, False, timedelta(hours=2), None, [
    ("when", WHENS[0]), ("end", ENDS[2], LENGTHS[0]), ("clock", 20, None), ("hand", False, None), ("pass", 1)])
@example(STARTS[0], WHENS[0], Overlap.JOIN, False, timedelta(hours=2), None, [
    ("pass", 30), ("pause", True), ("pause", False), ("clock", 20, WHENS[1])])
@example(STARTS[0], WHENS[0], Overlap.JOIN, False, timedelta(hours=2), None, [
    ("end", ENDS[7], LENGTHS[0]), ("pass", 61), ("clock", 20, None), ("enabled", False)])
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(STARTS), st.sampled_from(WHENS), st.sampled_from(list(Overlap)), st.booleans(), catch_ups,
       st.sampled_from([None, 3]), steps)
def test_s3_every_occurrence_comes_to_one_end_whatever_happens(
    start: tuple[str, str], when: Times | Every, overlap: Overlap, quiet: bool, catch_up: timedelta | time,
    tries: int | None, script: list[tuple],  # type: ignore[type-arg]
) -> None:
    """Also: no past moment fires, no quiet hour is broken, one make-up after any downtime, `last_success_at` is true."""
    zone = ZoneInfo(start[0])
    entry = Entry("entry", "crawl", when, zone, quiet=QUIET if quiet else None, overlap=overlap, catch_up=catch_up,
                  max_tries=tries)
    now = datetime.fromisoformat(f"{start[1]} 10:07").replace(tzinfo=UTC)
    world = World(Row.new(entry, now), now, counted=now)

    play(world, script)

    world.close()
