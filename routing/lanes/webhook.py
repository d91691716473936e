"""Telling the webhook: a thread of its own, because whoever answers there may take his time (rule J15).

It finds what is to be told, claims one notice after the other and sends each as a POST of JSON within a time limit. A
redirect is not followed and counts as a refusal. Nothing of the address but its host is ever logged.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import socket
import threading
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from sqlalchemy.exc import SQLAlchemyError

from config.clock import Stopwatch
from config.logs import get_logger, log_event
from models.db import is_transient
from models.notices import Notice, Notices
from routing.lanes.desk import Desk
from routing.lanes.inflight import is_stopping

log = get_logger("ratelane.notices")
SIGNATURE = "X-Ratelane-Signature"


class Teller(threading.Thread):
    """Sends notices until the desk closes."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(name="ratelane-teller", daemon=True)
        self._desk, self._notices = desk, Notices(desk.db, desk.settings)

    def run(self) -> None:
        """Look for what is to be told, send what is due, rest."""
        rest = 0.0
        while not self._desk.over.wait(rest):
            rest = self._desk.settings.notices_every_sec
            try:
                if not is_stopping():
                    self._notices.find()
                    self._send_due()
            except SQLAlchemyError as error:
                log_event(log, "notice.database_away" if is_transient(error) else "notice.failed",
                          level=logging.WARNING, error=str(error).splitlines()[0])
            except Exception:
                log_event(log, "notice.failed", level=logging.ERROR, exc_info=True)

    def _send_due(self) -> None:
        settings = self._desk.settings
        while not self._desk.over.is_set() and not is_stopping() and (notice := self._notices.take()) is not None:
            refusal = send(settings.webhook_url or "", notice, secret=settings.webhook_secret,
                           limit_sec=settings.webhook_timeout_sec)
            if refusal is None:
                self._notices.sent(notice)
                log_event(log, "notice.sent", key=notice.key, tries=notice.tries)
            else:
                log_event(log, "notice.not_sent", level=logging.WARNING, key=notice.key, tries=notice.tries,
                          host=urlsplit(settings.webhook_url or "").hostname, reason=refusal)


def send(url: str, notice: Notice, *, secret: str | None, limit_sec: float) -> str | None:
    """POST a notice and return None if the answer was 2xx within `limit_sec`, else what was wrong, in a few words."""
    place = urlsplit(url)
    body = json.dumps(notice.document, ensure_ascii=False).encode()
    make = HTTPSConnection if place.scheme == "https" else HTTPConnection
    taken, late = Stopwatch(), f"no answer within {limit_sec:g} s"
    line = make(place.hostname or "", place.port, timeout=limit_sec)
    # a server that drips its answer keeps every single wait short: the whole of it ends here
    limit = threading.Timer(limit_sec, _cut, [line])
    limit.daemon = True
    limit.start()
    try:
        line.request("POST", _path(place), body, _headers(place, notice, body, secret))
        status = line.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        return late if taken.elapsed() >= limit_sec else type(error).__name__
    finally:
        limit.cancel()
        _cut(line)
        line.close()
    if taken.elapsed() >= limit_sec:
        return late
    return None if 200 <= status < 300 else f"status {status}"


def _path(place: SplitResult) -> str:
    return (place.path or "/") + (f"?{place.query}" if place.query else "")


def _headers(place: SplitResult, notice: Notice, body: bytes, secret: str | None) -> dict[str, str]:
    found = {"Content-Type": "application/json; charset=utf-8", "Idempotency-Key": notice.key, "User-Agent": "Ratelane"}
    if place.username is not None:
        pair = f"{unquote(place.username)}:{unquote(place.password or '')}"
        found["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    if secret is not None:
        found[SIGNATURE] = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return found


def _cut(line: Any) -> None:
    """End a connection at once, also for a pool child that was forked meanwhile and inherited it."""
    if line.sock is not None:
        try:
            line.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


__all__ = ["SIGNATURE", "Teller", "send"]
