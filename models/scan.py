"""Looks for a block in what an attempt returned or raised (rule C4). Pure, bounded, and never raises.

A body of somebody else's may catch what its site sent and only tell of it. The marker ``host_cooldown:`` counts wherever
it stands, but never in the texts of items: an article may contain any word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from config.errors import Cancelled, Evidence, HostCooldown, Parked, StaleClaim

MARKER = "host_cooldown:"
#: what items and their texts are called: such values are not looked into (docs/adr/0018)
ITEM_KEYS = frozenset({"items", "articles", "text", "content", "title", "body"})
#: nothing is looked for deeper, in more places, or further into a text than this
MOST_DEEP, MOST_PLACES, MOST_CHARS = 50, 20_000, 1_000_000

KINDS = frozenset({"rate", "js_challenge", "cookie_loop", "reset"})
_LINE = re.compile(re.escape(MARKER) + r"[ \t]*([a-z_]+(?![a-z_:]))?[ \t]*(\d{3}\b|-(?!\S))?[ \t]*(https?://[^\s\"'<>]+)?")
_KEPT_CHARS = 2_000
#: our own ends: they quote the pause that made them, which stands already
_QUOTING = (Cancelled, Parked, StaleClaim)


def objection_in(result: Any = None, error: BaseException | None = None) -> HostCooldown | None:
    """Return the block that a body's result or error tells of, None if it tells of none.

    An objection that was raised and caught on the way (`error`'s causes and contexts) counts as it is; a marker gives
    its kind, status and URL where they are readable; a document that calls itself aborted for a cooldown counts too.
    """
    if isinstance(error, _QUOTING):
        return None
    for place in _places(result if error is None else error):
        if isinstance(place, HostCooldown):
            return place
        if isinstance(place, str) and MARKER in place:
            return _objection(place)
    if error is None and is_aborted(result):
        return HostCooldown(Evidence("rate", None, "", signs=("aborted",)))
    return None


def is_aborted(result: Any) -> bool:
    """Tell whether a result says by itself that a cooldown aborted it; `abort_reason` is an alias of `reason`."""
    if not isinstance(result, dict) or result.get("status") != "aborted":
        return False
    return "cooldown" in (result.get("reason"), result.get("abort_reason"))


def checkpoint_page(result: Any) -> int | None:
    """Return the page that an aborted result names; `last_completed_page` is an alias of `checkpoint_page`."""
    for name in ("checkpoint_page", "last_completed_page"):
        page = result.get(name) if isinstance(result, dict) else None
        if isinstance(page, int) and not isinstance(page, bool) and page >= 0:
            return page
    return None


def _objection(text: str) -> HostCooldown:
    found = _LINE.search(text)
    kind, status, url = found.groups() if found is not None else (None, None, None)
    evidence = Evidence(
        kind=kind if kind in KINDS else "rate", status=int(status) if status and status != "-" else None, url=url or "",
        signs=("marker",), body=text[text.index(MARKER):][:_KEPT_CHARS])
    return HostCooldown(evidence)


def _places(root: Any) -> Iterator[Any]:
    """Give every text and every exception inside `root`, breadth first, each container once."""
    level, met, left = [root], {id(root)}, MOST_PLACES
    for _ in range(MOST_DEEP):
        below: list[Any] = []
        for value in level:
            if isinstance(value, str | bytes | bytearray):
                yield _text(value)
                continue
            if isinstance(value, BaseException):
                yield value
            for each in _inside(value):
                left -= 1
                if left < 0:
                    return
                if isinstance(each, str | bytes | bytearray) or id(each) not in met:
                    met.add(id(each))
                    below.append(each)
        if not below:
            return
        level = below


def _text(value: str | bytes | bytearray) -> str:
    return value[:MOST_CHARS] if isinstance(value, str) else value[:MOST_CHARS].decode("utf-8", "replace")


def _inside(value: Any) -> Iterator[Any]:
    """Give what stands directly in a container or an exception; nothing for anything else."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            if not (isinstance(key, str) and key.lower() in ITEM_KEYS):
                yield each
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, BaseException):
        yield from _inside_error(value)


def _inside_error(error: BaseException) -> Iterator[Any]:
    yield _said(error)
    yield from error.args
    yield from getattr(error, "__notes__", None) or ()
    # what a partial crawl could read
    yield getattr(error, "result", None)
    if isinstance(error, BaseExceptionGroup):
        yield from error.exceptions
    if error.__cause__ is not None:
        yield error.__cause__
    elif not error.__suppress_context__:
        yield error.__context__


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""
