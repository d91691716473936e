"""Log lines that programs can read: ``key=value`` or JSON, one line an event, no secret in them (rule U6)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, TextIO
from zoneinfo import ZoneInfo

from config.settings import Settings, redact_url

_zone: tzinfo = UTC
_QUOTED = frozenset(' ="\\')


def get_logger(name: str) -> logging.Logger:
    """Return the logger called `name`."""
    return logging.getLogger(name)


def log_event(logger: logging.Logger, event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log `event`, a ``noun.verb``, with its fields; a field that is None is left out.

    An exception given as the field ``exc_info`` adds its traceback, as with the standard library.
    """
    if logger.isEnabledFor(level):
        trace = fields.pop("exc_info", None)
        logger.log(level, _Event(event, fields), exc_info=trace, stacklevel=2)


def configure(settings: Settings, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send all log lines of this process to `stream` (standard error), in the format that is set; may be repeated."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else KeyValueLines())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old.formatter, JsonLines | KeyValueLines)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    # one line a request at INFO is the request log's business, and that one is a table
    logging.getLogger("httpx2").setLevel(max(level, logging.WARNING))
    global _zone
    _zone = ZoneInfo(settings.timezone)


class _Event:
    """The message of a record: a foreign formatter prints it readably, ours take it apart."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: Mapping[str, Any]) -> None:
        self.name, self.fields = name, fields

    def __str__(self) -> str:
        return " ".join([self.name, *_pairs(self.fields)])


def _pairs(fields: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_word(value)}" for name, value in fields.items() if value is not None]


def _word(value: Any) -> str:
    text = redact_url(_plain(value))
    if text and text.isprintable() and not _QUOTED & set(text):
        return text
    return _encodable(json.dumps(text, ensure_ascii=False))


def _encodable(document: str) -> str:
    """Escape what UTF-8 has no bytes for: half a pair in a site's words would lose the line, and hide the failure."""
    return document.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=_json_value)
    return _json_value(value)


def _shown(moment: datetime) -> datetime:
    """Return a moment as people read it (rule U6): UTC becomes the schedule's zone; one that names its own keeps it."""
    return moment.astimezone(_zone) if moment.tzname() == "UTC" else moment


def _head(record: logging.LogRecord) -> dict[str, Any]:
    at = datetime.fromtimestamp(record.created, _zone).isoformat(timespec="milliseconds")
    return {"at": at, "level": record.levelname.lower(), "logger": record.name}


def _body(record: logging.LogRecord) -> tuple[str, Mapping[str, Any]]:
    if isinstance(record.msg, _Event):
        return record.msg.name, record.msg.fields
    return "log.line", {"text": record.getMessage()}


class KeyValueLines(logging.Formatter):
    """``at=… level=… logger=… event=noun.verb key=value …``; values with blanks are quoted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, and its traceback, if any, as a quoted field of it."""
        event, fields = _body(record)
        trace = self.formatException(record.exc_info) if record.exc_info else None
        return " ".join(_pairs({**_head(record), "event": event, **fields, "traceback": trace}))


class JsonLines(logging.Formatter):
    """One JSON object a line, Unicode readable."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one JSON object."""
        event, fields = _body(record)
        line = {**_head(record), "event": event, **{k: v for k, v in fields.items() if v is not None}}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encodable(redact_url(json.dumps(line, ensure_ascii=False, default=_json_value)))


def _json_value(value: Any) -> str:
    return _shown(value).isoformat() if isinstance(value, datetime) else str(value)
