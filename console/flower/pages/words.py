"""How pages put moments, numbers and addresses. Pure; what returns markup says so, and has escaped what it was given."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tornado.escape import xhtml_escape

from console.cli.evidence import harmless
from console.wording import count, span

#: only these addresses become links: what a site calls its pages may be anything
_LINKED = frozenset({"http", "https"})
_SPARK_WIDTH, _SPARK_HEIGHT = 100, 20
#: how long a reason still holds, at the end of a note: browsers count that themselves
_LEFT = re.compile(r" (\d+ s|\d+ min \d+ s|\d+ h \d+ min)$")


@dataclass(frozen=True)
class Words:
    """The words of one page: moments in the schedule's zone `zone`."""

    zone: tzinfo
    now: datetime

    @property
    def zone_name(self) -> str:
        """The zone with its present offset: ``Asia/Shanghai (UTC+08:00)``."""
        offset = self.now.astimezone(self.zone).strftime("%z")
        return f"{self.zone} (UTC{offset[:3]}:{offset[3:5]})"

    def when(self, moment: str | None) -> str:
        """Return a document's moment to the second, as markup that carries the whole of it; a dash for none."""
        if not moment:
            return '<span class="rl-muted rl-none">–</span>'
        found = datetime.fromisoformat(moment).astimezone(self.zone)
        return f'<time datetime="{found.isoformat()}" title="{found.isoformat()}">{found:%Y-%m-%d %H:%M:%S}</time>'

    def short(self, moment: str) -> str:
        """Return a document's moment as weekday and time, as markup."""
        found = datetime.fromisoformat(moment).astimezone(self.zone)
        return f'<time datetime="{found.isoformat()}" title="{found.isoformat()}">{found:%a %H:%M}</time>'

    def left(self, moment: str | None, over: str = "now") -> str:
        """Return markup that the browser keeps as the time left until a moment, and in the end as `over`."""
        return self._clock("until", moment, f' data-over="{xhtml_escape(over)}"')

    def ago(self, moment: str | None) -> str:
        """Return markup that the browser keeps as the time since a moment."""
        return self._clock("since", moment)

    def _clock(self, kind: str, moment: str | None, more: str = "") -> str:
        if not moment:
            return ""
        found = datetime.fromisoformat(moment).astimezone(self.zone)
        # without a browser that counts, the moment itself is what stands here
        return (f'<time datetime="{found.isoformat()}" title="{found.isoformat()}" data-{kind}="{found.timestamp():.3f}"'
                f"{more}>{found:%H:%M:%S}</time>")

    def ahead(self, seconds: float | None) -> str | None:
        """Return the moment that is so many seconds ahead (below 0: past), to the second, as a document has it.

        A document counts to a tenth of a second: to the second the moment is the same each time it is asked for.
        """
        if seconds is None:
            return None
        moment = (self.now + timedelta(seconds=seconds + 0.5)).replace(microsecond=0)
        return moment.astimezone(self.zone).isoformat()

    def before(self, seconds: float | None) -> str | None:
        """Return the moment that lies so many seconds back; as `ahead`."""
        return None if seconds is None else self.ahead(-seconds)

    def end(self, progress: Mapping[str, Any], told_at: str | None) -> str | None:
        """Return when a job will probably end, as a document has moments: what it told at `told_at` was seconds."""
        if progress.get("eta") is None or not told_at:
            return None
        moment = datetime.fromisoformat(told_at) + timedelta(seconds=progress["eta"])
        return moment.astimezone(self.zone).isoformat(timespec="seconds")

    span = staticmethod(span)
    count = staticmethod(count)


def number(value: float | Mapping[str, Any] | None) -> str:
    """Return a number with thousands apart; a count that was capped as ``10,000+``."""
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return f"{value['number']:,}{'+' if value['capped'] else ''}"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}".rstrip("0").rstrip(".")


def size(count_of_bytes: float | None) -> str:
    """Return a number of bytes for people."""
    left = float(count_of_bytes or 0)
    for unit in ("B", "kB", "MB", "GB"):
        if left < 1000 or unit == "GB":
            break
        left /= 1000
    return f"{left:.0f} {unit}" if unit == "B" else f"{left:.1f} {unit}"


def pace(rate: float | None) -> str:
    """Return how many items a minute a job reads, nothing if it is not known."""
    return f"{rate:,.0f} a minute" if rate and rate >= 10 else f"{rate:.1f} a minute" if rate else ""


def percent(progress: Mapping[str, Any]) -> int | None:
    """Return how far a job is by its pages, None where nobody knows how many there are."""
    total = progress.get("pages_total")
    return None if not total else max(0, min(100, round(100 * (progress.get("page") or 0) / total)))


def address(url: str | None) -> str:
    """Return markup for an address: a link if it is one of the web's, else just its text."""
    text = harmless(url or "")
    if is_web(text):
        return f'<a href="{xhtml_escape(text)}" target="_blank" rel="noopener noreferrer nofollow">{xhtml_escape(text)}</a>'
    return xhtml_escape(text)


def is_web(url: str) -> bool:
    """Say whether a text is an address that a link may lead to."""
    try:
        found = urlsplit(url)
    except ValueError:
        return False
    return found.scheme.lower() in _LINKED and bool(found.hostname)


def part(name: str | None) -> str:
    """Return a name as one part of a path."""
    return quote(name or "", safe="")


def query(arguments: Mapping[str, str]) -> str:
    """Return arguments as the query of an address."""
    return urlencode(arguments)


def brief(text: str | None, length: int = 160) -> str:
    """Return the first line of a text, cut and made harmless."""
    line = harmless((text or "").strip().partition("\n")[0])
    return line if len(line) <= length else line[: length - 1] + "…"


def cause(note: str | None) -> str:
    """Return a note's reason without how long it still holds."""
    return _LEFT.sub("", note or "")


def shortfalls(job: Mapping[str, Any]) -> list[str]:
    """Return why a crawl that has ended is not complete (rule P3), each reason made harmless; none where its error says so."""
    result = job.get("result")
    reasons = result.get("reasons") if isinstance(result, Mapping) and not job.get("error_msg") else None
    return [harmless(str(reason)) for reason in reasons] if isinstance(reasons, list) else []


def readable(document: Any) -> str:
    """Return a part of a document as indented JSON, Unicode readable."""
    return json.dumps(document, ensure_ascii=False, indent=2, default=str)


def lines(text: str | None) -> str:
    """Return a text of several lines, each made harmless."""
    return "\n".join(harmless(line) for line in (text or "").splitlines())


def spark(steps: Sequence[float]) -> str:
    """Return the points of a small line through `steps`, oldest first, as an SVG polyline has them; "" for fewer than two."""
    if len(steps) < 2:
        return ""
    low, high = min(steps), max(steps)
    apart = (high - low) or 1.0
    wide = _SPARK_WIDTH / (len(steps) - 1)
    return " ".join(f"{place * wide:.1f},{_SPARK_HEIGHT - (step - low) / apart * _SPARK_HEIGHT:.1f}"
                    for place, step in enumerate(steps))
