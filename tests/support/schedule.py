"""The row of a schedule entry, kept in memory: what the store does with the planner's answers, and what it may not see.

A row is keyed by occurrence and try; writing over a row that has its end already, or starting one key twice, fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from tasks.schedule.planner import by_hand, edited, ended, first, resumed, turn
from tasks.schedule.terms import Action, Ending, Entry, Kind, Outcome, Refusal, RunInfo, Standing, Turn

Key = tuple[datetime, int]


def moment(text: str, entry: Entry) -> datetime:
    """Return ``2026-05-01 23:15[:00]`` on the clock of the entry's zone."""
    return datetime.fromisoformat(text).replace(tzinfo=entry.zone).astimezone(UTC)


@dataclass
class Row:
    """An entry with how it stands, every run that was started and every outcome that was recorded."""

    entry: Entry
    standing: Standing
    rows: dict[Key, Outcome | None] = field(default_factory=dict)
    runs: list[RunInfo] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    @classmethod
    def new(cls, entry: Entry, now: datetime) -> Row:
        """Return the row of an entry that the beat meets for the first time."""
        return cls(entry, first(entry, now))

    def tick(self, now: datetime) -> Turn:
        """Let a beat look once."""
        return self._store(turn(self.entry, self.standing, now))

    def settle(self, now: datetime) -> list[Turn]:
        """Let a beat look until nothing is due, and return what it did."""
        done: list[Turn] = []
        while True:
            last = self.tick(now)
            if last.action == Action.WAIT:
                return done
            done.append(last)

    def live(self, now: datetime, end: datetime, lasting: timedelta | None = timedelta()) -> list[Turn]:
        """Let a beat tick from `now` to `end`; runs take `lasting` and succeed (None: they never end)."""
        done = self.settle(now)
        while True:
            running, due = self.standing.running, self.standing.due_at
            over = max(now, running.started_at + lasting) if running and lasting is not None else None
            if over is not None and over <= min(end, due or end):
                now = over
                self.end(Outcome(Kind.SUCCESS), now)
            elif due is not None and due <= end:
                now = max(now, due)
                done += self.settle(now)
            else:
                return done

    def end(self, outcome: Outcome, now: datetime, run: RunInfo | None = None) -> Ending:
        """Let the running run, or `run`, end."""
        which = run or self.standing.running
        assert which is not None
        ending = ended(self.entry, self.standing, outcome, now, run=run)
        self._write((which.occurrence, which.try_no), ending.outcome)
        self.standing = ending.standing
        return ending

    def by_hand(self, now: datetime, *, force: bool = False, stat_date: date | None = None) -> Turn | Refusal:
        """Let somebody run the entry."""
        answer = by_hand(self.entry, self.standing, now, force=force, stat_date=stat_date)
        return answer if isinstance(answer, Refusal) else self._store(answer)

    def edit(self, now: datetime, **changes: object) -> Turn:
        """Let somebody change the entry."""
        before, self.entry = self.entry, replace(self.entry, **changes)  # type: ignore[arg-type]
        return self._store(edited(self.entry, self.standing, now, before=before))

    def pause(self) -> None:
        """Let somebody pause the entry."""
        self.entry = replace(self.entry, paused=True)

    def resume(self, now: datetime) -> Turn:
        """Let somebody lift the pause."""
        self.entry = replace(self.entry, paused=False)
        return self._store(resumed(self.entry, self.standing, now))

    def ends(self) -> dict[datetime, list[Outcome | None]]:
        """Return the outcomes of each occurrence, in the order of its tries; None is a run under way."""
        found: dict[datetime, list[Outcome | None]] = {}
        for (occurrence, _), outcome in sorted(self.rows.items(), key=lambda item: item[0]):
            found.setdefault(occurrence, []).append(outcome)
        return found

    def outcome(self, occurrence: datetime) -> str:
        """Return what the last try of an occurrence came to, such as ``skipped(missed)`` or ``made_up(by 3)``."""
        last = self.ends()[occurrence][-1]
        if last is None:
            return "running"
        detail = f"by {last.by}" if last.kind == Kind.MADE_UP else last.reason
        return f"{last.kind}({detail})" if detail else str(last.kind)

    def _store(self, answer: Turn) -> Turn:
        self.turns.append(answer)
        self.standing, number = answer.standing, len(self.runs) + 1
        for each in answer.recorded:
            outcome = each.outcome
            if outcome.kind == Kind.MADE_UP and outcome.by is None:
                outcome = replace(outcome, by=number)
            self._write((each.occurrence, each.try_no), outcome)
        if answer.run is not None:
            key = answer.run.occurrence, answer.run.try_no
            assert self._open(key), f"{key} was started twice"
            run = replace(answer.run, run_id=number)
            self.runs.append(run)
            self.rows[key] = None
            self.standing = replace(answer.standing, running=run)
        return answer

    def _open(self, key: Key) -> bool:
        held = self.rows.get(key, Outcome(Kind.DEFERRED))
        return held is not None and held.kind == Kind.DEFERRED

    def _write(self, key: Key, outcome: Outcome) -> None:
        running = key in self.rows and self.rows[key] is None
        assert running or self._open(key), f"{key} has ended as {self.rows[key]} and cannot become {outcome}"
        self.rows[key] = outcome
