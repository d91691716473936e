"""How long a group pauses after an objection, and how an interval grows. Pure (rules C3 and C5)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fnmatch import fnmatchcase

#: no answer of a server pauses a group for longer than a day
LONGEST_RETRY_AFTER_SEC = 86_400.0
#: repeated cooldowns beyond this many lengthen no pause any more
_MOST_REPEATS = 20
DEFAULT_BASE = Decimal(10)


@dataclass(frozen=True)
class Growth:
    """An interval's step; `status` is ``updated`` or ``max_reached``, `why` one sentence for the history."""

    old_interval_sec: float
    new_interval_sec: float
    status: str
    why: str


def pause_seconds(
    kind: str, retry_after_sec: float | None, *, level: int, delay_sec: float, js_delay_sec: float, repeat_factor: float
) -> float:
    """Return for how many seconds the group pauses: the setting or what the server asked for, whichever is longer.

    `level` counts the cooldowns before this one that were not forgotten; each lengthens the setting's part by
    `repeat_factor` (below 1 counts as 1), but to no more than a day. Rule C3.
    """
    longer = max(1.0, repeat_factor) ** min(max(0, level), _MOST_REPEATS)
    own = js_delay_sec if kind == "js_challenge" else min(delay_sec * longer, max(delay_sec, LONGEST_RETRY_AFTER_SEC))
    asked = min(max(0.0, retry_after_sec or 0.0), LONGEST_RETRY_AFTER_SEC)
    return max(own, asked)


def grows(codes: str, site_code: str, target_code: str) -> bool:
    """Tell whether `codes`, globs divided by commas or blanks, name this site or this target (rule C5)."""
    globs = codes.replace(",", " ").split()
    return any(fnmatchcase(code, glob) for code in (site_code, target_code) if code for glob in globs)


def grow(interval_sec: float | None, *, factor: float | None, cap_sec: float) -> Growth:
    """Return the interval after one objection, computed in exact decimals.

    ``new = min(cap, max(base + 1, ceil(base * factor)))`` with ``base = interval or 10``; a factor below 1 or unset
    counts as 1. An interval that already stands at the cap, or beyond, stays (rule C5).
    """
    base = Decimal(repr(float(interval_sec))) if interval_sec else DEFAULT_BASE
    by = Decimal(repr(float(factor))) if factor and factor > 1 else Decimal(1)
    cap = Decimal(repr(float(cap_sec)))
    grown = min(cap, max(base + 1, (base * by).to_integral_value(rounding=ROUND_CEILING)))
    if grown <= base:
        return Growth(float(base), float(base), "max_reached", f"already at the most ({cap.normalize():f} s)")
    return Growth(float(base), float(grown), "updated", f"grew from {base.normalize():f} s to {grown.normalize():f} s")


def shrink(interval_sec: float, baseline_sec: float, *, factor: float | None) -> float:
    """Return a grown interval after one step of decay: the inverse of a step of growth, never below the baseline."""
    base, floor = Decimal(repr(float(interval_sec))), Decimal(repr(float(baseline_sec)))
    by = Decimal(repr(float(factor))) if factor and factor > 1 else Decimal(1)
    # a step of one is undone by one; where the factor made more of it, by the factor
    one_less = max(base - 1, Decimal(0))
    grew_by_one = (one_less * by).to_integral_value(rounding=ROUND_CEILING) <= base
    back = one_less if grew_by_one else min(one_less, (base / by).to_integral_value(rounding=ROUND_FLOOR))
    return float(min(base, max(floor, back)))
