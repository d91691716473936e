"""The courier goes on behind a callback that cannot be sent (J2): one bad signature keeps no other waiting."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import OutOfMemoryError, ResponseError
from sqlalchemy.exc import DataError
from sqlalchemy.exc import OperationalError as DatabaseAway

from models.db import Database
from routing.lanes.callbacks import Courier
from tests.support.ledger import SMALL, Bench, seed

GOOD = {"task": "other.task", "args": [], "kwargs": {}, "options": {}, "subtask_type": None, "immutable": True}


@pytest.fixture
def bench(database: Database) -> Bench:
    seed(database, SMALL)
    return Bench(database)


@pytest.fixture
def courier(bench: Bench) -> Courier:
    """A courier whose broker is this process's memory."""
    app = Celery("couriers", broker="memory://", set_as_current=False)
    desk: Any = SimpleNamespace(ledger=bench.ledger, settings=bench.settings, over=threading.Event())
    return Courier(desk, app)


@pytest.mark.parametrize(
    "options", [{"serializer": "nope"}, {"compression": "nope"}, {"countdown": 10**20}, {"countdown": "soon"}])
def test_j2_a_callback_that_cannot_be_sent_is_left_out(
    bench: Bench, courier: Courier, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    ids = []
    for target, links in (("t1", [GOOD | {"options": options}, GOOD]), ("t2", [GOOD])):
        started = bench.begin(target, callbacks={"link": links})
        bench.settle(started)
        ids.append(started.claim.job_id)
    courier._round()
    assert all(bench.job(job_id)["callbacks_sent_at"] for job_id in ids)
    with courier._app.connection_for_read() as line:
        assert line.default_channel.queue_declare("celery", passive=True).message_count == 2
        line.default_channel.queue_purge("celery")
    assert [one.getMessage() for one in caplog.records if "impossible" in one.getMessage()] != []


def test_j2_only_a_server_that_is_away_is_waited_for(courier: Courier) -> None:
    """What kombu wraps is judged by what is inside."""
    def wrapped(reason: Exception) -> Exception:
        error = OperationalError(str(reason))
        error.__cause__ = reason
        return error

    courier._connect()
    away = [ConnectionResetError(), OperationalError("gone"), wrapped(OutOfMemoryError("OOM")),
            DatabaseAway("s", {}, Exception("gone"))]
    never = [wrapped(KeyError("gzip2")), wrapped(ResponseError("WRONGTYPE")), OverflowError(),
             DataError("s", {}, Exception("integer out of range"))]
    assert [courier._is_away(one) for one in away] == [True] * len(away)
    assert [courier._is_away(one) for one in never] == [False] * len(never)
    courier._connection = SimpleNamespace(connection_errors=(RedisAway, KeyError))
    assert courier._is_away(RedisAway())
    assert not courier._is_away(KeyError())
