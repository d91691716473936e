"""What other Python programs use (J1, J3): a submit inside their own transaction, and finding a job again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from config.errors import BadInput
from config.settings import Settings, clear_settings, use_settings
from models import db
from models.db import Database
from models.ledger import no_clock
from routing.client import find_active, find_latest, submit
from tests.support.ledger import SMALL, Bench, seed


@pytest.fixture
def bench(database: Database, tmp_path: Path) -> Iterator[Bench]:
    # nobody listens there: a submit needs no broker
    settings = use_settings(Settings(home=tmp_path, database_url=database.url, broker_url="redis://127.0.0.1:1/0"))
    db.after_fork()
    seed(database, SMALL)
    yield Bench(database, settings, no_clock)
    db.get_database().dispose()
    db.after_fork()
    clear_settings()


def test_j1_a_submit_is_part_of_the_callers_transaction(bench: Bench) -> None:
    with pytest.raises(RuntimeError), db.get_database().write() as conn:
        lost = submit("t1", conn=conn, dedupe_key="k")
        assert find_active("k", conn=conn) == {"job_id": lost.job_id, "status": "queued"}
        assert find_active("k") is None
        raise RuntimeError
    assert find_active("k") is None
    assert bench.claims() == []
    with db.get_database().write() as conn:
        kept = submit("t1", conn=conn, dedupe_key="k")
        assert not submit("t1", conn=conn, dedupe_key="k").created
    assert find_active("k") == {"job_id": kept.job_id, "status": "queued"}
    assert bench.claim().job_id == kept.job_id, "the lane was woken"


def test_j1_a_program_with_an_engine_of_its_own_submits_on_it(bench: Bench) -> None:
    if bench.db.dialect == "sqlite":
        pytest.skip("a SQLite file is opened by Ratelane's own connections")
    engine = create_engine(bench.db.url)
    with engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE orders (job text)")
        conn.exec_driver_sql("INSERT INTO orders VALUES (%s)", (submit("t2", conn=conn).job_id,))
    with engine.connect() as conn:
        ordered = conn.exec_driver_sql("SELECT job FROM orders").scalar_one()
    engine.dispose()
    assert bench.claim().job_id == ordered


def test_j3_the_newest_job_of_a_key_is_found_first_finished_ones_too(bench: Bench) -> None:
    first = submit("t1", dedupe_key="k").job_id
    bench.ledger.cancel(first)
    second = submit("t1", dedupe_key="k").job_id
    assert find_latest("k") == [{"job_id": second, "status": "queued"}, {"job_id": first, "status": "cancelled"}]
    assert find_latest("k", limit=1) == [{"job_id": second, "status": "queued"}]
    bench.ledger.cancel(second)
    assert find_active("k") is None
    assert find_latest("none") == []


def test_j1_an_unknown_target_stores_nothing(bench: Bench) -> None:
    with pytest.raises(BadInput, match="unknown target 'nosuch'"):
        submit("nosuch", dedupe_key="k")
    assert find_latest("k") == []
