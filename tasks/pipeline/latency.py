"""How long a group's hosts take to answer, and how far its lane backs off when they take longer than usual. Pure.

A limiter that delays before it refuses (nginx `limit_req` with a burst) answers 200, only later: nothing else tells that
the next thing is a block. The gap that is raised here is added to the interval's side of rule R8 and never lowers it.
"""

from __future__ import annotations

from dataclasses import dataclass

#: an answer that takes so many times the usual, and at least so long, is slow
FACTOR, FLOOR_SEC = 5.0, 0.5
#: the gap grows to ten intervals, but at least to `_AT_LEAST_SEC` and at most to `MOST_SEC`
_INTERVALS, _AT_LEAST_SEC, MOST_SEC = 10.0, 10.0, 60.0
#: the share by which one answer moves the average: about the last ten when answers become slower, five when faster
_RISE, _FALL = 0.1, 0.2
#: one answer counts at most for so many times the average; less than `_LEAST_SEC` is nobody's latency
_CLIP, _LEAST_SEC = 3.0, 0.02


@dataclass(frozen=True)
class Latency:
    """What is usual in a group, in seconds (None: nothing is known yet), and the gap that slowness has raised (0: none)."""

    usual_sec: float | None = None
    raised_sec: float = 0.0

    def is_slow(self, seconds: float) -> bool:
        """Tell whether an answer took so much longer than usual that the site asks for a slower pace."""
        return self.usual_sec is not None and seconds >= self._slow_sec()

    def after(self, seconds: float, *, gap_sec: float, interval_sec: float, is_good: bool) -> Latency:
        """Return what holds behind an answer that took `seconds` although `gap_sec` lay before it.

        `interval_sec` is what the gap is without slowness. A slow answer doubles the gap, a good one that is not even half
        as slow halves what was raised: what lies between has found the site's own pace. Answers that are not good are
        often fast: they neither lower the gap nor count as usual (public report W27).
        """
        raised = self.raised_sec
        if self.is_slow(seconds):
            raised = min(most(interval_sec), 2 * max(gap_sec, raised, FLOOR_SEC))
        elif is_good and seconds < self._slow_sec() / 2:
            raised /= 2
        usual = self._usual(seconds) if is_good else self.usual_sec
        return Latency(usual, raised if raised > max(interval_sec, _LEAST_SEC) else 0.0)

    def _slow_sec(self) -> float:
        return max(FLOOR_SEC, FACTOR * (self.usual_sec or 0.0))

    def _usual(self, seconds: float) -> float:
        if self.usual_sec is None:
            return max(_LEAST_SEC, seconds)
        counted = min(seconds, _CLIP * self.usual_sec)
        share = _RISE if counted > self.usual_sec else _FALL
        return max(_LEAST_SEC, self.usual_sec + share * (counted - self.usual_sec))


def most(interval_sec: float) -> float:
    """Return the longest gap that slowness alone may ask for under an interval."""
    return max(interval_sec, min(MOST_SEC, max(_INTERVALS * interval_sec, _AT_LEAST_SEC)))


def is_good(status: int | None) -> bool:
    """Tell whether an answer is what the site gives when all is well: then its time is worth knowing."""
    return status is not None and (200 <= status < 400 or status in (404, 410))
