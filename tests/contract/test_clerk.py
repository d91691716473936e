"""The clerk deals with every message once and for all (J2): a job, or refused; a revoke has a name (J10)."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from config.settings import Settings
from models.db import Database
from models.operations import acting, operations
from routing.calls import Call
from routing.lanes.clerk import Clerk, Letter, Post
from tests.support.ledger import SMALL, Bench, seed


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


@pytest.fixture
def clerk(bench: Bench) -> Iterator[Clerk]:
    """A clerk at work."""
    desk: Any = SimpleNamespace(db=bench.db, settings=bench.settings, ledger=bench.ledger, name="one@test",
                                over=threading.Event())
    clerk = Clerk(desk)
    clerk.start()
    yield clerk
    desk.over.set()
    clerk.close()
    clerk.join(10)


def test_j2_a_message_that_cannot_be_stored_is_refused_and_acknowledged(bench: Bench, clerk: Clerk) -> None:
    said: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for job_id, target, more in (
            ("odd", "t1", {"max_attempts": "many"}), ("nul", "t\0", {}), ("half", "\ud800", {}), ("good", "t1", {})):
        post = Post(lambda job_id=job_id: said.put(job_id), lambda kind, **fields: said.put((kind, fields["uuid"])))
        clerk.store(Letter("ratelane.crawl", job_id, post), Call("crawl", target, job_id, more=more))
    failed = [[("task-failed", job_id), job_id] for job_id in ("odd", "nul", "half")]
    assert [said.get(timeout=10) for _ in range(7)] == [*(one for each in failed for one in each), "good"]
    assert bench.job("good")["status"] == "queued"


def test_j10_a_revoke_that_several_workers_hear_is_one_operation_of_one_of_them(bench: Bench, clerk: Clerk) -> None:
    started, queued = bench.begin("t1"), bench.submit("t2").job_id
    over = threading.Event()
    for job_id in (started.claim.job_id, queued) * 2:
        clerk.cancel(job_id, lambda: None, lambda *_args, **_fields: None)
    clerk.cancel("nobody", over.set, lambda *_args, **_fields: None)
    assert over.wait(10)
    found = [(row["who"], row["surface"], row["action"], row["job_id"]) for row in bench.rows(operations)]
    assert found == [("one@test", "celery", "cancel", job_id) for job_id in (started.claim.job_id, queued)]


def test_j10_who_acts_needs_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user is a number that the system has no name for."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 987_654)
    assert acting(Settings(), "celery") == (f"uid987654@{socket.gethostname()}", "celery", "")
    assert acting(Settings(operator="ann"), "cli", "why") == ("ann", "cli", "why")
