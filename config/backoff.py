"""How long to wait after the n-th failure."""

from __future__ import annotations

import random
from collections.abc import Callable

#: doublings beyond this exceed every cap anyway, and an exponent without limit overflows a float
_MOST_DOUBLINGS = 60


def delay_sec(
    failures: int, base: float, cap: float, jitter: float = 0.1, draw: Callable[[], float] = random.random
) -> float:
    """Return ``min(cap, base * 2 ** (failures - 1))`` seconds plus at most `jitter` of it (rule J9).

    `failures` counts the one that has just happened; 0 or fewer wait nothing. `draw` answers numbers in [0, 1).
    """
    if failures <= 0:
        return 0.0
    delay = min(cap, base * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
    return delay * (1.0 + jitter * draw())
