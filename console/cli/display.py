"""Progress of a crawl on standard error: a bar per lane on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from config import clock
from console.cli.show import console, span

if TYPE_CHECKING:
    from rich.console import RenderableType

Lane = dict[str, Any]

#: lines of the terminal that are left to everything else
_SPARE_LINES = 4
_LINE_EVERY_SEC = 2.0


class Display(Protocol):
    """Where progress goes."""

    def show(self, lanes: Sequence[Lane], finished: int, jobs: int) -> None:
        """Show the lanes that run or are paused, and how many of the jobs are final."""

    def say(self, sentence: str) -> None:
        """Print a remark among the progress."""

    def close(self) -> None:
        """Show nothing more; remarks go on."""


@contextmanager
def open_display(*, quiet: bool) -> Iterator[Display]:
    """Give the display that fits: none if quiet, bars on a terminal, lines elsewhere."""
    display: Display = Silence() if quiet else Bars() if sys.stderr.isatty() else Lines()
    try:
        yield display
    finally:
        display.close()


class Silence:
    """Shows nothing at all."""

    def show(self, lanes: Sequence[Lane], finished: int, jobs: int) -> None:
        """Do nothing."""

    def say(self, sentence: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Lines:
    """Prints a line for a lane when it has changed, each lane every two seconds at most."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self._ages: dict[str, clock.Stopwatch] = {}
        self._finished = 0

    def show(self, lanes: Sequence[Lane], finished: int, jobs: int) -> None:
        """Print what has changed."""
        for lane in lanes:
            # the countdown alone is no change
            news = f"{lane['target']}: page {_page(lane)}, {_items(lane)} {lane['pause_reason']} {lane['wait_reason']}"
            age = self._ages.get(lane["group"])
            if news != self._shown.get(lane["group"]) and (age is None or age.elapsed() >= _LINE_EVERY_SEC):
                self._shown[lane["group"]], self._ages[lane["group"]] = news, clock.Stopwatch()
                state = "" if lane["running"] else f", {_state(lane)}"
                self.say(f"{lane['target']}: page {_page(lane)}, {_items(lane)}{state}")
        if finished != self._finished:
            self._finished = finished
            self.say(f"{finished} of {jobs} done")

    def say(self, sentence: str) -> None:
        """Print a line."""
        print(sentence, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing."""


class Bars:
    """Redraws a table of lanes in place."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = console(errors=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, lanes: Sequence[Lane], finished: int, jobs: int) -> None:
        """Redraw."""
        room = max(1, self._console.height - _SPARE_LINES)
        self._live.update(_table(busiest(lanes, room), len(lanes), finished, jobs), refresh=True)

    def say(self, sentence: str) -> None:
        """Print a line above the table."""
        self._console.print(sentence, markup=False)

    def close(self) -> None:
        """Take the table away."""
        self._live.stop()


def busiest(lanes: Sequence[Lane], number: int) -> list[Lane]:
    """Return at most `number` lanes, those that run before those that wait, the faster ones first."""
    if len(lanes) <= number:
        return list(lanes)
    return sorted(lanes, key=lambda lane: (not lane["running"], -(lane["rate"] or 0)))[:number]


def _table(lanes: Sequence[Lane], in_all: int, finished: int, jobs: int) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for lane in lanes:
        total, running = lane["pages_total"], lane["running"]
        bar = ProgressBar(total=total or None, completed=lane["page"], width=20, pulse=running and not total)
        rate = f"{lane['rate']:.0f}/min" if lane["rate"] and running else ""
        grid.add_row(Text(lane["target"] or "", "bold"), bar, _page(lane), _items(lane), rate, Text(_state(lane)))
    more = f", {in_all - len(lanes)} more lanes" if in_all > len(lanes) else ""
    return Group(grid, Text(f"{finished} of {jobs} done{more}", "dim"))


def _page(lane: Lane) -> str:
    return f"{lane['page']}/{lane['pages_total']}" if lane["pages_total"] else str(lane["page"])


def _items(lane: Lane) -> str:
    failed = f", {lane['items_failed']} failed" if lane["items_failed"] else ""
    return f"{lane['items_new'] or 0} new, {lane['items_known'] or 0} known{failed}"


def _state(lane: Lane) -> str:
    if lane["pause_kind"]:
        how_long = span(lane["paused_for_sec"]) if lane["paused_for_sec"] is not None else "until resumed"
        return f"paused {how_long}: {lane['pause_reason'] or lane['pause_kind']}"
    if lane["due_in_sec"] is not None:
        return f"waits {span(lane['due_in_sec'])}: {lane['wait_reason'] or 'not due yet'}"
    if not lane["running"]:
        return "waiting"
    return f"{lane['queued_count']} behind" if lane["queued_count"] else ""
