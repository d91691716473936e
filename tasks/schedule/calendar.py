"""When an entry is due, by the clock on a wall of its zone. Pure (rules S1, S2, S6).

Moments are aware; what is returned is UTC. Wall times are naive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_TICK = timedelta(microseconds=1)


class _Moments(ABC):
    """What follows from `next_after` alone; `_spacing` is about how far two moments lie apart."""

    _spacing: timedelta

    @abstractmethod
    def next_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the first moment later than `moment`."""

    def between(self, start: datetime, end: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """Yield the moments later than `start` and not later than `end`, in order."""
        found = self.next_after(start, zone)
        while found <= end:
            yield found
            found = self.next_after(found, zone)

    def latest(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the last moment that is not later than `moment`."""
        back, found = self._spacing, None
        while found is None:
            for found in self.between(moment - back, moment, zone):  # noqa: B007 - the last one is what is asked for
                pass
            back *= 2
        return found


@dataclass(frozen=True)
class Times(_Moments):
    """Times of the day on the wall clock.

    A time that a day does not have (clocks set forward) is taken at the first moment after the gap; several that fall
    there are one moment. A time that a day has twice (clocks set back) is taken the first time only.
    """

    at: tuple[time, ...]
    _spacing = _DAY

    def __post_init__(self) -> None:
        if not self.at or any(each.tzinfo is not None for each in self.at):
            raise ValueError("times of a day are at least one, without a zone of their own")

    def next_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the first moment later than `moment`."""
        day = stat_date(moment, zone) - _DAY
        while True:
            # a date that the clock left and came back to holds moments on both sides of its neighbour's
            dates = (day, day + _DAY, day + 2 * _DAY)
            shown = (first_shown(datetime.combine(each, at), zone) for each in dates for at in self.at)
            found = min((each for each in shown if each > moment), default=None)
            if found is not None:
                return found
            day += _DAY


@dataclass(frozen=True)
class Every(_Moments):
    """A grid of wall times from 00:00 in steps; a step that does not divide the day starts anew at midnight.

    `step` is a whole number of seconds, from 1 to a day. Clocks set forward: the slots of the gap are taken at the first
    moment after it, once. Clocks set back: the grid goes on through the repeated stretch with the first slot that lies
    at least a step behind the last moment before it; so a step that divides the stretch fires at its own pace (an hourly
    grid each real hour, 25 times that day), and a longer one fires no slot twice. Nothing repeats, nothing drops.
    """

    step: timedelta

    def __post_init__(self) -> None:
        if not _SECOND <= self.step <= _DAY or self.step % _SECOND:
            raise ValueError("a step is a whole number of seconds, from one to a day")

    @property
    def _spacing(self) -> timedelta:  # type: ignore[override]  # constant for `Times`, here the step
        return self.step

    def next_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the first moment later than `moment`."""
        moment = moment.astimezone(UTC)
        while True:
            offset = _offset(moment, zone)
            wall = self._slot_behind(_wall(moment, offset))
            slot = _moment(wall, offset)
            if _offset(slot, zone) == offset:
                if self._counts(slot, zone):
                    return slot
                moment = slot
                continue
            # the clock changes before that slot
            moment = _change(moment, slot, zone)
            shown = _wall(moment, _offset(moment, zone))
            if shown >= wall or (self._is_slot(shown) and self._counts(moment, zone)):
                return moment

    def _slot_behind(self, wall: datetime) -> datetime:
        midnight = datetime.combine(wall.date(), time())
        return min(midnight + ((wall - midnight) // self.step + 1) * self.step, midnight + _DAY)

    def _is_slot(self, wall: datetime) -> bool:
        return not (wall - datetime.combine(wall.date(), time())) % self.step

    def _counts(self, slot: datetime, zone: ZoneInfo) -> bool:
        """A slot of a repeated stretch counts from a whole step after the last moment before the stretch."""
        local = slot.astimezone(zone)
        if not local.fold:
            return True
        before = local.replace(fold=0).utcoffset() or timedelta()
        change = _change(slot - (before - _offset(slot, zone)), slot, zone)
        end = _wall(change, before) - _TICK
        midnight = datetime.combine(end.date(), time())
        last = _moment(midnight + (end - midnight) // self.step * self.step, before)
        return slot - last >= self.step


@dataclass(frozen=True)
class Window:
    """Hours of the day, `[start, end)`, that may cross midnight: from the first time that the clock shows `start` to the
    last time that it shows `end`; a time that a day does not have counts as the first moment after the gap.
    """

    start: time
    end: time

    def __post_init__(self) -> None:
        if self.start == self.end:
            raise ValueError("a window that ends where it starts is either nothing or the whole day")

    def contains(self, moment: datetime, zone: ZoneInfo) -> bool:
        """Tell whether `moment` lies inside."""
        return any(start <= moment < end for start, end in self._around(moment, zone))

    def end_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the end of the window that `moment` lies in, or else of the next one: the first moment outside."""
        end = min(end for _, end in self._around(moment, zone) if end > moment)
        return self.end_after(end, zone) if self.contains(end, zone) else end

    def start_after(self, moment: datetime, zone: ZoneInfo) -> datetime:
        """Return the first start later than `moment`."""
        return min(start for start, _ in self._around(moment, zone) if start > moment)

    def _around(self, moment: datetime, zone: ZoneInfo) -> list[tuple[datetime, datetime]]:
        """Return start and end of the windows of the days around `moment`; one that lies in a gap is none."""
        today, later = stat_date(moment, zone), timedelta(days=self.end < self.start)
        found = []
        for days in range(-2, 4):
            day = today + timedelta(days=days)
            start = first_shown(datetime.combine(day, self.start), zone)
            end = _last_shown(datetime.combine(day + later, self.end), zone)
            if start < end:
                found.append((start, end))
        return found


def stat_date(moment: datetime, zone: ZoneInfo) -> date:
    """Return the business date of `moment`: the date that a calendar on the wall shows."""
    return moment.astimezone(zone).date()


def first_shown(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first moment at which the clock of `zone` shows `wall`, or the first after the gap that it falls into."""
    moment = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _wall(moment, _offset(moment, zone)) == wall:
        return moment
    # in a gap the offset before it gives a moment behind the change, the offset after it one before the change
    return _change(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), moment, zone)


def _last_shown(wall: datetime, zone: ZoneInfo) -> datetime:
    moment = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return moment if _wall(moment, _offset(moment, zone)) == wall else first_shown(wall, zone)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _wall(moment: datetime, offset: timedelta) -> datetime:
    return moment.replace(tzinfo=None) + offset


def _moment(wall: datetime, offset: timedelta) -> datetime:
    return (wall - offset).replace(tzinfo=UTC)


def _change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment, later than `low` and not later than `high`, at which the offset stops being that of `low`."""
    before, start = _offset(low, zone), low.replace(microsecond=0)
    # clocks change at whole seconds: at `same` seconds after `start` the offset is the old one, at `changed` another
    same, changed = 0, -((start - high) // _SECOND)
    while changed - same > 1:
        middle = (same + changed) // 2
        if _offset(start + middle * _SECOND, zone) == before:
            same = middle
        else:
            changed = middle
    return start + changed * _SECOND
