from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from config.logs import configure, get_logger, log_event
from config.settings import Settings


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers[:], root.level = handlers, level


def _log(stream: io.StringIO, log_format: str = "kv", level: int = logging.INFO) -> logging.Logger:
    configure(Settings.model_validate({"log_format": log_format}), stream, level)
    return get_logger("ratelane.test")


def test_an_event_is_one_line_of_pairs(stream: io.StringIO) -> None:
    log_event(_log(stream), "job.start", job="a1b2", attempt=2, forced=True, waited=0.25, page=None)
    line = stream.getvalue()
    assert line.endswith(
        "level=info logger=ratelane.test event=job.start job=a1b2 attempt=2 forced=true waited=0.25\n"
    )
    assert datetime.fromisoformat(line.split()[0].removeprefix("at=")).tzinfo is not None


def test_values_with_blanks_are_quoted_and_unicode_stays_readable(stream: io.StringIO) -> None:
    log_event(_log(stream), "item.stored", title="访问 过于频繁", url="http://h/路", cause='a "b"\nc', two="a\nb", empty="")
    assert 'title="访问 过于频繁" url=http://h/路 cause="a \\"b\\"\\nc" two="a\\nb" empty=""' in stream.getvalue()


def test_json_lines_keep_types_and_unicode(stream: io.StringIO) -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    log_event(_log(stream, "json"), "item.stored", level=logging.WARNING, title="通知", pages=3, seen={"a": 1}, due=at)
    assert "通知" in stream.getvalue()
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["pages"], line["seen"]) == ("item.stored", "warning", 3, {"a": 1})
    assert line["due"] == "2026-11-30T08:00:00+08:00"


@pytest.mark.parametrize("log_format", ["kv", "json"])
def test_u6_moments_are_told_in_the_schedules_zone_with_its_offset(log_format: str, stream: io.StringIO) -> None:
    """One that names a zone of its own keeps it."""
    utc = datetime(2026, 11, 30, 16, 5, tzinfo=UTC)
    log_event(_log(stream, log_format), "scheduler.task_ok", due_at=utc, nested={"until": utc.astimezone(ZoneInfo("UTC"))},
              own=utc.astimezone(ZoneInfo("Europe/Berlin")))
    told = stream.getvalue()
    assert told.count("2026-12-01T00:05:00+08:00") == 2
    assert told.count("2026-11-30T17:05:00+01:00") == 1


@pytest.mark.parametrize("log_format", ["kv", "json"])
def test_no_password_of_a_url_appears(log_format: str, stream: io.StringIO) -> None:
    logger = _log(stream, log_format)
    log_event(logger, "broker.away", url="redis://u:geheim@h/0", nested={"urls": ["amqp://u:geheim@h//"]})
    logger.warning("cannot reach %s", "postgresql://u:geheim@h/n")
    try:
        raise ConnectionError("redis://u:geheim@h/0 refused")
    except ConnectionError as error:
        log_event(logger, "broker.away", exc_info=error)
    assert "geheim" not in stream.getvalue()
    assert stream.getvalue().count("u:***@h") >= 4


@pytest.mark.parametrize("log_format", ["kv", "json"])
def test_a_traceback_stays_on_the_line_of_its_event(log_format: str, stream: io.StringIO) -> None:
    logger = _log(stream, log_format)
    try:
        raise LookupError("gone")
    except LookupError as error:
        log_event(logger, "job.fail", level=logging.ERROR, exc_info=error)
    assert stream.getvalue().count("\n") == 1
    assert "LookupError: gone" in stream.getvalue()


def test_a_foreign_formatter_prints_the_event_readably(stream: io.StringIO) -> None:
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("[%(message)s]"))
    logger = logging.Logger("foreign")
    logger.addHandler(handler)
    log_event(logger, "job.start", job="a1", url="redis://u:geheim@h/0")
    assert stream.getvalue() == "[job.start job=a1 url=redis://u:***@h/0]\n"


def test_lines_of_libraries_come_in_the_same_format(stream: io.StringIO) -> None:
    _log(stream)
    logging.getLogger("kombu").warning("lost %s", "connection")
    assert 'logger=kombu event=log.line text="lost connection"' in stream.getvalue()


def test_events_below_the_level_are_left_out(stream: io.StringIO) -> None:
    log_event(_log(stream, level=logging.WARNING), "job.start")
    assert stream.getvalue() == ""


def test_configuring_again_does_not_print_twice(stream: io.StringIO) -> None:
    _log(stream)
    log_event(_log(stream), "job.start")
    assert stream.getvalue().count("job.start") == 1


@pytest.mark.parametrize("log_format", ["kv", "json"])
def test_half_a_pair_in_a_text_costs_no_line(log_format: str) -> None:
    """A stream in UTF-8 has no bytes for it: what cannot be written is escaped, so the line can be read back."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8")
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        log_event(_log(stream, log_format), "job.failure", error="half \ud800 a pair, 通知")
        stream.flush()
    finally:
        root.handlers[:], root.level = handlers, level
    line = written.getvalue().decode("utf-8")
    assert "half \\ud800 a pair, 通知" in line
    if log_format == "json":
        assert json.loads(line)["error"] == "half \ud800 a pair, 通知"
