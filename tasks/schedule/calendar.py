"""When an entry is due, by the clock on a wall of its zone. Pure (rules S1, S2, S6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)


class _Moments:
    """What follows from `next_after` alone; `_spacing` is about how far two moments lie apart."""

    @property
    def _spacing(self) -> timedelta:
        return _DAY

    def next_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the first moment later than `moment`."""
        raise NotImplementedError("each kind of calendar has its own")

    def between(self, start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Yield the moments later than `start` and not later than `end`, in order."""
        found = self.next_after(start, zone)
        while found <= end:
            yield found
            found = self.next_after(found, zone)

    def latest(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the last moment that is not later than `moment`."""
        back = self._spacing
        while True:
            found = None
            for found in self.between(moment - back, moment, zone):  # noqa: B007
                pass
            if found is not None:
                return found
            back *= 2


@dataclass(frozen=True)
class Times(_Moments):
    """Times of the day on the wall clock.

    A time that a day does not have (clocks set forward) is taken at the first moment after the gap; several that fall
    there are one moment. A time that a day has twice (clocks set back) is taken the first time only.
    """

    at: tuple[time, ...]


@dataclass(frozen=True)
class Every(_Moments):
    """A grid of wall times from 00:00 in steps; a step that does not divide the day starts anew at midnight.

    `step` is a whole number of seconds, from 1 to a day. Clocks set forward: the slots of the gap are taken at the first
    moment after it, once. Clocks set back: the grid goes on through the repeated stretch with the first slot that lies
    at least a step behind the last moment before it; so a step that divides the stretch fires at its own pace (an hourly
    grid each real hour, 25 times that day), and a longer one fires no slot twice. Nothing repeats, nothing drops.
    """

    step: timedelta


@dataclass(frozen=True)
class Window:
    """Hours of the day, `[start, end)`, that may cross midnight: from the first time that the clock shows `start` to the
    last time that it shows `end`; a time that a day does not have counts as the first moment after the gap.
    """

    start: time
    end: time

    def contains(self, moment: datetime, zone: ZoneInfo) -> bool:
        """Tell whether `moment` lies inside."""
        raise NotImplementedError("follows")

    def end_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the end of the window that `moment` lies in, or else of the next one."""
        raise NotImplementedError("follows")

    def start_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the first start later than `moment`."""
        raise NotImplementedError("follows")


def stat_date(moment: datetime, zone: ZoneInfo) -> date:
    """Return the business date of `moment`: the date that a calendar on the wall shows."""
    return moment.astimezone(zone).date()
