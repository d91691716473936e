"""W43: an export that is killed at any moment leaves the old file or the new one, and a reader never meets half a line."""

from __future__ import annotations

import json
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, insert, update

from models.articles import articles
from models.queries.exporting import pending_count
from tests.support.command_line import CommandLine, clean_environment
from tests.support.fleet import fleet
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(120)]
NUMBER = 10_000
TARGET = "gd-one_news"


def seed(store: Store) -> None:
    rows = [{"target_code": TARGET, "site_code": "gd-one", "url": f"http://gd-one.example.org/a/{number}",
             "title": f"题 {number}", "text": f"旧正文 {number}。" * 5, "sha256": f"{number:064d}", "generation": 1,
             "fetched_at": datetime(2026, 11, 30, tzinfo=UTC)} for number in range(NUMBER)]
    with store.db.write() as conn:
        conn.execute(insert(articles), rows)


def change_all(store: Store) -> None:
    """Give every article another text and another hash of the same length."""
    with store.db.write() as conn:
        conn.execute(update(articles).values(text="新" + articles.c.text, sha256="f" + func.substr(articles.c.sha256, 2)))


class Reader(threading.Thread):
    """Reads the whole file again and again, as somebody who waits for it would."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.over = path, threading.Event()
        self.seen: set[tuple[int, str]] = set()
        self.trouble = ""

    def run(self) -> None:
        while not self.over.is_set() and not self.trouble:
            try:
                found = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
                self.seen.add((len(found), "".join(sorted({line["text"][0] for line in found}))))
            except (ValueError, OSError) as error:
                self.trouble = repr(error)


def size(path: Path) -> int:
    """Return how long a file is; -1 if it is not there, or not there any more."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def test_w43_a_reader_meets_the_old_file_or_the_new_one_whatever_is_killed(store: Store) -> None:
    with fleet(store):
        seed(store)
    command = CommandLine(Path(store.environment()["RATELANE_HOME"]))
    environment = clean_environment(**store.environment())
    path = command.home / "rag" / f"{TARGET}.jsonl"

    def export() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command.command("export", TARGET), env=environment, cwd=store.folder,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    assert export().wait(60) == 0
    change_all(store)
    reader = Reader(path)
    reader.start()
    unborn = path.with_name(f".{path.name}.new")
    for part in (0.1, 0.6):
        running = export()
        wait_until(lambda part=part: size(unborn) >= part * size(path), "the writing", 60)
        running.kill()
        running.wait(10)
        assert pending_count(store.db, TARGET) == NUMBER
    assert export().wait(60) == 0
    wait_until(lambda: (NUMBER, "新") in reader.seen, "a look at the new file", 20)
    reader.over.set()
    reader.join(10)
    assert reader.trouble == ""
    assert reader.seen == {(NUMBER, "旧"), (NUMBER, "新")}
    assert pending_count(store.db, TARGET) == 0
    assert not unborn.exists()


def test_a_done_crawl_is_followed_by_its_export_which_a_killed_worker_does_not_lose(store: Store, workers: Workers) -> None:
    """P6, J8: the export is a job of its own; the crawl's result tells of it in the end."""
    (worker,) = workers.start("one", rag_export_after_crawl=True)
    with fleet(store, articles=6, per_page=3) as site:
        job_id = store.submit(TARGET)
        job = store.wait_for(job_id, "done")
        told = job["result"]["rag_export"]
        assert (told["source"], told["target_code"]) == ("auto", TARGET)
        worker.kill()
        worker.start().wait_ready()
        export = store.wait_for(told["job_id"], "done", timeout=30)
        assert (export["kind"], export["group"], export["result"]["exported"]) == ("export", "_export", 6)
        told = store.job(job_id)["result"]["rag_export"]
        assert (told["status"], told["total"], told["exported"], told["failed"]) == ("completed", 6, 6, 0)
        steps = {step["name"]: step["status"] for step in store.job(job_id)["progress"]["steps"]}
        assert steps["export"] == "done"
        site.assert_whole(store)
        lines = (Path(store.environment("one")["RATELANE_HOME"]) / "rag" / f"{TARGET}.jsonl").read_text().splitlines()
        assert len({json.loads(line)["document_id"] for line in lines}) == 6
