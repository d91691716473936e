"""How long a server asks to be left alone (rule C3). Pure, and never raises (public reports W24, W25)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

#: no server may silence a group for longer than a day
LONGEST_SEC = 86_400.0

_NUMBER = re.compile(r"[0-9]{1,10}(\.[0-9]{1,6})?")
_YEAR_SEC = 366 * 86_400.0


def parse(raw: str | None, server_date: str | None, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, at most a day; None if it says nothing readable.

    Seconds (also with a fraction, an epoch moment, or the larger of two joined headers) and HTTP dates are read; a
    date counts from the server's own `Date` header, so that a wrong clock does no harm, else from `now` (aware).
    """
    if raw is None or len(raw) > 200 or not raw.isascii():
        return None
    clock = _date(server_date) or now
    asked = [wait for wait in (_seconds(part.strip(), clock) for part in raw.split(",")) if wait is not None]
    if not asked:
        moment = _date(raw)
        asked = [] if moment is None else [(moment - clock).total_seconds()]
    return min(LONGEST_SEC, max(0.0, *asked)) if asked else None


def _seconds(text: str, clock: datetime) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    from_epoch = value - clock.timestamp()
    return from_epoch if -LONGEST_SEC <= from_epoch <= _YEAR_SEC else value


def _date(text: str | None) -> datetime | None:
    """Read an HTTP date; one without a zone is UTC."""
    if not text or len(text) > 200:
        return None
    try:
        moment = parsedate_to_datetime(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
