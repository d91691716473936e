"""Days and nights of a schedule, lived through by real beats: each is started at a moment of the clock, and killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from models.jobs import jobs
from models.schedules import entries, runs
from models.snapshots import snapshot_items
from tasks.schedule.ticking import tick
from tests.support.beats import CELERY, SHANGHAI, BeatProcess, offset_at
from tests.support.command_line import CommandLine
from tests.support.servers import wait_until
from tests.support.store import Store

#: an entry that needs no job: its run says that a beat has taken everything that was due
BEACON = {"crawl": ["nowhere_*"], "every": "5m"}
_WITHIN_SEC = 40.0


class Nights:
    """The schedule of a store, on a machine that stands in another zone than the schedule (W56)."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.beats: list[BeatProcess] = []
        self._offset, self._started = 0.0, datetime.now(UTC)

    @property
    def now(self) -> datetime:
        """The clock of the beat that was started last, in the schedule's zone."""
        return (datetime.now(UTC) + timedelta(seconds=self._offset)).astimezone(SHANGHAI)

    def plan(self, moment: str) -> None:
        """Let the entries be planned at this moment, as by a beat that was there before."""
        assert tick(self.store.db, self.store.settings(), _moment(moment)).started == 0

    @contextmanager
    def beat(self, moment: str, *, program: Sequence[str] = CELERY, **settings: Any) -> Iterator[BeatProcess]:
        """Start a beat whose clock shows this moment; at the end of the block it is killed."""
        environment = self._environment(moment, **settings)
        beat = BeatProcess(f"beat-{len(self.beats) + 1}", self.store.folder, environment, program=program,
                           arguments=["--max-interval", "1"])
        self.beats.append(beat)
        beat.start()
        try:
            yield beat
            assert beat.lives, beat.log[-3000:]
        finally:
            beat.kill()

    def command(self, moment: str, *words: str) -> Any:
        """Run a command of `ratelane` at this moment and return the document that it prints."""
        home = self.store.settings().home
        home.mkdir(parents=True, exist_ok=True)
        return CommandLine(home).json(*words, **self._environment(moment))

    def _environment(self, moment: str, **settings: Any) -> dict[str, str]:
        self._offset, self._started = offset_at(moment), _moment(moment)
        return {**self.store.environment(clock_offset_sec=self._offset, testing=True, **settings), "TZ": "America/New_York"}

    def wait_look(self) -> None:
        """Return once the beat that was started last has taken all that was due at its start."""
        self.wait_until(lambda: (last := self.entry("beacon").last_run_at) and last >= self._started, "a look of the beat")

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """Return once `holds` does; fail at once if the beat has ended."""
        beat = self.beats[-1]
        wait_until(lambda: holds() or not beat.lives, what, _WITHIN_SEC)
        assert beat.lives, beat.log[-3000:]

    def wait_idle(self) -> None:
        """Return once no job waits or runs; it takes no beat for that."""
        def active() -> int:
            with self.store.db.read() as conn:
                return int(conn.execute(select(func.count()).where(jobs.c.status.in_(("queued", "running")))).scalar_one())

        wait_until(lambda: not active(), "the end of all jobs", _WITHIN_SEC)

    def wait_line(self, event: str, entry: str, more: str = "") -> None:
        """Return once the beat has told of an event of an entry, in a line that holds `more`; it does so after its commit."""
        begin = f"event=scheduler.{event} entry={entry} "
        self.wait_until(lambda: any(begin in line and more in line for line in self.beats[-1].log.splitlines()), begin)

    def wait(self, entry: str, *told: str) -> None:
        """Return once the last tries of an entry came to this, as `told` says it."""
        try:
            self.wait_until(lambda: self.told(entry)[-len(told) :] == list(told), "it")
        except TimeoutError:
            raise TimeoutError(f"{entry} did not come to {told} but to {self.told(entry)}") from None

    def entry(self, name: str) -> Any:
        """Return the row of an entry."""
        with self.store.db.read() as conn:
            return conn.execute(select(entries).where(entries.c.name == name)).one()

    def standing(self, name: str) -> tuple[str, str]:
        """Return an entry's status, and when it is due by the clock on the wall."""
        row = self.entry(name)
        return row.status, f"{row.due_at.astimezone(SHANGHAI):%m-%d %H:%M}"

    def waits(self, name: str) -> float:
        """Return how many minutes behind the end of its last try an entry is due."""
        last, row = self.runs(name)[-1], self.entry(name)
        return float((row.due_at - last.ended_at) / timedelta(minutes=1))

    def runs(self, name: str) -> list[Any]:
        """Return the rows of an entry's history by occurrence and try."""
        with self.store.db.read() as conn:
            return list(conn.execute(select(runs).where(runs.c.entry == name).order_by(runs.c.occurrence, runs.c.try_no)))

    def told(self, name: str) -> list[str]:
        """Return what became of an entry's occurrences: ``05-01 23:15 success``, ``05-02 23:15 skipped(missed)``."""
        return [f"{row.occurrence.astimezone(SHANGHAI):%m-%d %H:%M} {row.outcome or 'running'}"
                + (f"({row.reason})" if row.reason else "") for row in self.runs(name)]

    def listed(self, day: date) -> list[tuple[str, str, bool]]:
        """Return URL, source and `ok` of the items of a stat date."""
        with self.store.db.read() as conn:
            found = conn.execute(select(snapshot_items).where(snapshot_items.c.stat_date == day).order_by(snapshot_items.c.url))
            return [(row.url, row.src, row.ok) for row in found]

    def logs(self) -> str:
        """Return the last lines of every beat, for the report of a test that failed."""
        return "\n".join(f"--- {beat.name}\n{beat.log[-3000:]}" for beat in self.beats)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=SHANGHAI).astimezone(UTC)
