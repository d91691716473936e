"""Where documents go (rule P6): a folder of JSON Lines files, each whole at any moment, or an HTTP endpoint.

Both may be written to again at any time without writing anything twice: a file is replaced by a whole one, and a
request carries the same key for the same content.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx2

from config import clock
from config.errors import BadInput, PermanentJobError, ServiceAway
from config.settings import Settings, redact_url
from tasks.export.documents import BadDocument, StoredArticle, document, lines

TRIES = 4
#: the pause before the second try; four times as long before each further one
FIRST_WAIT_SEC = 0.5
TIMEOUT_SEC = 30.0
LONGEST_WAIT_SEC = 60.0
#: the endpoint is not there, or does not know us: no document is to blame
_NOT_THE_DOCUMENT = frozenset({401, 402, 403, 404, 405, 407, 410})
_LATER = frozenset({408, 425, 429})
#: documents whose export is noted together
AT_ONCE = 100

#: asked between documents: it raises if the export is to stop
Look = Callable[[], None]


@dataclass
class Delivery:
    """What a sink has taken since the last report: row id and hash of each article, and those that it could not take."""

    taken: list[tuple[int, str]] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)


class Articles(Protocol):
    """The articles of one target, read in the order in which they were stored."""

    def everything(self) -> Iterator[StoredArticle]:
        """Yield every article with a body."""

    def pending(self) -> Iterator[StoredArticle]:
        """Yield those that were not exported, or have changed since."""


class Sink(Protocol):
    """A place for documents."""

    def lacks(self, target_code: str) -> bool:
        """Tell whether it has lost what it was given before, as far as it can see."""

    def deliver(self, target_code: str, articles: Articles, look: Look) -> Iterator[Delivery]:
        """Deliver what is pending and yield what was taken, as soon as it may be noted as exported.

        Raises ServiceAway if the place does not answer, PermanentJobError if it never will, and whatever `look` raises.
        """


def open_sink(settings: Settings) -> Sink:
    """Return the sink that the settings name; raises BadInput for one that does not exist."""
    name = settings.rag_sink
    if name.startswith("file:"):
        return FileSink(settings.home / name.removeprefix("file:"))
    if name.startswith(("http://", "https://")):
        return HttpSink(name)
    raise BadInput(f"RATELANE_RAG_SINK={redact_url(name)}: expected file:FOLDER or an http(s) URL")


class FileSink:
    """One file a target, ``<target>.jsonl``, with a line for each chunk of each of its articles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lacks(self, target_code: str) -> bool:
        """Tell whether the target's file is gone: somebody who deletes it wants it anew."""
        return not (self.folder / f"{target_code}.jsonl").exists()

    def deliver(self, target_code: str, articles: Articles, look: Look) -> Iterator[Delivery]:
        """Replace the target's file by one that holds everything: a reader meets the old one or the new one."""
        done = Delivery()
        path = self.folder / f"{target_code}.jsonl"
        unborn = self.folder / f".{target_code}.jsonl.new"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._alone(target_code, look):
                try:
                    self._write(unborn, articles, done, look)
                    unborn.replace(path)
                    self._keep_name()
                finally:
                    unborn.unlink(missing_ok=True)
        except OSError as error:
            raise ServiceAway(f"{path} cannot be written: {error.strerror or error}") from error
        yield done

    @contextmanager
    def _alone(self, target_code: str, look: Look) -> Iterator[None]:
        """Let one export a target write at a time: an older view of the store must not replace a newer one."""
        with open(self.folder / f".{target_code}.lock", "w", encoding="utf-8") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    look()
                    clock.pause(0.1)
            yield

    def _write(self, unborn: Path, articles: Articles, done: Delivery, look: Look) -> None:
        with open(unborn, "w", encoding="utf-8") as stream:
            for number, article in enumerate(articles.everything()):
                if number % AT_ONCE == 0:
                    look()
                try:
                    found = document(article)
                except BadDocument as bad:
                    done.refused.append({"id": bad.document_id, "url": article.url, "error": bad.reason})
                    continue
                for line in lines(found):
                    stream.write(json.dumps(line, ensure_ascii=False) + "\n")
                if article.is_pending:
                    done.taken.append((article.row_id, article.sha256))
            stream.flush()
            os.fsync(stream.fileno())

    def _keep_name(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class HttpSink:
    """POSTs one document a request as JSON, with an ``Idempotency-Key`` that names its content."""

    def __init__(self, url: str) -> None:
        self.url = url

    def lacks(self, target_code: str) -> bool:
        """Say no: what became of what was sent is the endpoint's business."""
        return False

    def deliver(self, target_code: str, articles: Articles, look: Look) -> Iterator[Delivery]:
        """Send what is pending; what the endpoint refuses for its content is reported, and the others go on."""
        done = Delivery()
        with httpx2.Client(timeout=TIMEOUT_SEC, trust_env=False, follow_redirects=False) as client:
            for article in articles.pending():
                look()
                refused = self._send_one(client, article, look)
                if refused is None:
                    done.taken.append((article.row_id, article.sha256))
                else:
                    done.refused.append(refused)
                if len(done.taken) + len(done.refused) >= AT_ONCE:
                    yield done
                    done = Delivery()
        yield done

    def _send_one(self, client: httpx2.Client, article: StoredArticle, look: Look) -> dict[str, str] | None:
        try:
            found = document(article)
        except BadDocument as bad:
            return {"id": bad.document_id, "url": article.url, "error": bad.reason}
        name = found["document_id"]
        status = self._post(client, found, f"{name}-{article.sha256[:24]}", look)
        if 200 <= status < 300:
            return None
        if status in _NOT_THE_DOCUMENT or 300 <= status < 400:
            raise PermanentJobError(f"{redact_url(self.url)} answers {status}: is the address, and its key, right?")
        return {"id": name, "url": article.url, "error": f"refused with status {status}"}

    def _post(self, client: httpx2.Client, found: dict[str, Any], key: str, look: Look) -> int:
        """Return the status of the answer, after as many tries as it takes; raises ServiceAway if none is final."""
        wait, trouble = FIRST_WAIT_SEC, ""
        for left in range(TRIES - 1, -1, -1):
            asked = None
            try:
                answer = client.post(self.url, json=found, headers={"Idempotency-Key": key})
                if answer.status_code < 500 and answer.status_code not in _LATER:
                    return int(answer.status_code)
                trouble, asked = f"status {answer.status_code}", answer.headers.get("retry-after", "")
            except httpx2.HTTPError as error:
                trouble = type(error).__name__
            if left:
                _rest(max(wait, _seconds(asked)), look)
                wait *= 4
        raise ServiceAway(f"{redact_url(self.url)} does not take documents ({trouble})")


def _seconds(asked: str | None) -> float:
    """Return the wait that an endpoint asks for in whole seconds; other forms are not worth guessing here."""
    return min(LONGEST_WAIT_SEC, float(asked)) if asked and asked.isascii() and asked.isdigit() else 0.0


def _rest(seconds: float, look: Look) -> None:
    rest = clock.Stopwatch()
    while (left := seconds - rest.elapsed()) > 0:
        look()
        clock.pause(min(left, 0.5))
