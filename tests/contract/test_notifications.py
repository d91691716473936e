"""Who is told of new work, and when (rule J5): PostgreSQL notifies at the commit, a SQLite file is seen to have changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url

from config import clock
from models.db import Database
from models.forks import GATE
from models.listening import CHANNEL, FileChanges, News, Notifications, news_of
from models.operations import Operator
from models.pacing import OperatorPacing
from routing.lanes.desk import Desk
from routing.lanes.listener import Listener
from tests.support.ledger import SMALL, Bench, seed
from tests.support.servers import wait_until

SOON, NEVER = 5.0, 0.3


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


@pytest.fixture
def news(bench: Bench) -> Iterator[News]:
    found = news_of(bench.db.url)
    found.open()
    yield found
    found.close()


def only(bench: Bench, dialect: str) -> None:
    """Leave a test to the other database, whose way of telling it is not about."""
    if bench.db.dialect != dialect:
        pytest.skip(f"{dialect} alone tells so")


def test_j5_a_submit_is_heard_of_and_one_that_stored_nothing_is_not(bench: Bench, news: News) -> None:
    made = bench.submit("t1", dedupe_key="k")
    assert news.heard(SOON)
    assert not news.heard(NEVER)
    assert bench.submit("t1", dedupe_key="k").job_id == made.job_id
    assert bench.submit("t1", job_id=made.job_id).created is False
    assert not news.heard(NEVER), "a submit that stored nothing wakes nobody"


def test_j5_a_callers_transaction_tells_at_its_commit_and_never_after_a_rollback(bench: Bench, news: News) -> None:
    with bench.db.write() as conn:
        for target in ("t1", "t2", "t3"):
            bench.submit(target, conn=conn)
        assert not news.heard(NEVER)
    assert news.heard(SOON)
    assert not news.heard(NEVER), "one notification a transaction"
    with pytest.raises(RuntimeError), bench.db.write() as conn:
        bench.submit("t1", conn=conn)
        raise RuntimeError
    assert not news.heard(NEVER)


def test_j5_a_transaction_sends_one_notification_without_a_payload(bench: Bench) -> None:
    only(bench, "postgresql")
    with Database(bench.db.url).read() as line:
        driver = line.connection.driver_connection
        assert driver is not None
        driver.execute(f"LISTEN {CHANNEL}")
        with bench.db.write() as conn:
            for target in ("t1", "t2", "t3"):
                bench.submit(target, conn=conn)
            with conn.begin_nested() as inner:
                bench.submit("t1", conn=conn)
                inner.rollback()
        assert [one.payload for one in driver.notifies(timeout=NEVER)] == [""]


def test_j5_a_claim_that_is_handed_back_is_heard_of(bench: Bench, news: News) -> None:
    bench.submit("t1")
    claim = bench.claim()
    while news.heard(NEVER):
        pass
    assert bench.ledger.hand_back(claim.job_id, claim.attempt, claim.group)
    assert news.heard(SOON)


def test_j5_what_operators_bring_back_is_heard_of(bench: Bench, news: News) -> None:
    ann, pacing = Operator("ann", "cli"), OperatorPacing(bench.db, now=bench.clock)
    made = bench.submit("t1")
    bench.ledger.cancel(made.job_id, ann)
    pacing.pause("g1", ann)
    pacing.pause_all(ann)
    for act in (lambda: bench.ledger.requeue(made.job_id, ann), lambda: pacing.resume("g1", ann),
                lambda: pacing.resume_all(ann)):
        while news.heard(NEVER):
            pass
        act()
        assert news.heard(SOON)


def test_j5_listening_is_no_transaction_and_looking_at_a_file_takes_no_lock(bench: Bench, news: News) -> None:
    assert not news.heard(0)
    if bench.db.dialect == "postgresql":
        with bench.db.read() as conn:
            (state,) = conn.exec_driver_sql(
                "SELECT state FROM pg_stat_activity WHERE application_name = 'ratelane-listener' "
                "AND datname = current_database()").scalars()
        assert state == "idle"
        return
    with bench.db.write() as conn:
        conn.exec_driver_sql("INSERT INTO counters (name, value) VALUES ('x', 1)")
        asked = clock.monotonic()
        assert not news.heard(0), "what is not committed is not seen"
        assert clock.monotonic() - asked < 0.1, "nobody waits for a writer"
    assert news.heard(0)


def test_j5_other_connections_of_the_same_process_count(bench: Bench, news: News) -> None:
    threading.Thread(target=bench.submit, args=("t1",)).start()
    assert news.heard(SOON)


def test_w77_a_fork_finds_the_file_closed_and_what_was_committed_meanwhile_is_heard_of(bench: Bench) -> None:
    only(bench, "sqlite")
    news = FileChanges(bench.db.url)
    news.open()
    assert not news.heard(0)
    GATE.before_fork()
    held = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)}
    GATE.after_fork_in_parent()
    assert make_url(bench.db.url).database not in held
    bench.submit("t1")
    assert news.heard(0)
    assert not news.heard(0)
    news.close()


def _is_open(fd: str) -> bool:
    try:
        os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False
    return True


class Burst:
    """News that always has something, and counts how often it was asked."""

    pace_sec = 0.05

    def __init__(self) -> None:
        self.asked = 0

    def open(self) -> None: ...

    def close(self) -> None: ...

    def heard(self, timeout: float) -> bool:
        self.asked += 1
        return True


class Pool:
    """A pool of a size."""

    num_processes = 4


def test_j5_a_burst_wakes_at_its_pace_and_the_thread_ends_with_the_desk(bench: Bench) -> None:
    desk, burst = Desk(bench.settings, name="w@h", pool=Pool()), Burst()
    listener = Listener(desk, burst)
    listener.start()
    for _ in range(10):
        assert desk.wake.wait(SOON)
        desk.wake.clear()
    assert desk.news.is_set()
    assert 5 <= burst.asked <= 20
    desk.over.set()
    listener.join(SOON)
    assert not listener.is_alive()


def test_j5_a_broken_connection_is_made_again_and_then_somebody_looks(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    only(bench, "postgresql")
    desk = Desk(bench.settings, name="w@h", pool=Pool())
    listener = Listener(desk, Notifications(bench.db.url))
    listener.start()
    assert desk.wake.wait(SOON), "what was stored before it listened"
    desk.wake.clear()
    with caplog.at_level("INFO", "ratelane.listener"):
        assert end_listeners(bench.db) == 1
        assert desk.wake.wait(SOON)
        desk.wake.clear()
        bench.submit("t1")
        assert desk.wake.wait(SOON)
        wait_until(lambda: "listener.back" in caplog.text, "the end of the outage")
    desk.over.set()
    listener.join(SOON)
    assert caplog.text.count("listener.away") == 1


def end_listeners(db: Database) -> int:
    """End the sessions that listen for this database's news, and return how many there were."""
    with db.read() as conn:
        return len(conn.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ratelane-listener' "
            "AND datname = current_database()").all())
