"""What a crawl asks of stored articles, and what reading one again changes, on both databases (rule P2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from config.settings import clear_settings
from models import schema
from models.articles import articles
from models.db import Database
from models.queries import crawling
from models.statements import stored
from tasks.ahead import Ahead
from tests.support.servers import PostgresServer

ROW = {"target_code": "t", "site_code": "s", "url": "http://a.example/1", "own_id": "7", "final_url": "http://a.example/1", "title": "x",
       "published_at": None, "text": "text", "sha256": "h1", "source_page": "", "external": False, "generation": 1, "job_id": "job1"}


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    clear_settings()
    is_sqlite = request.param == "sqlite"
    store = Database(f"sqlite:///{tmp_path}/store.sqlite3" if is_sqlite else request.getfixturevalue("postgres").create_database())
    with store.write() as conn:
        schema.metadata.create_all(conn)
    yield store
    store.dispose()


def store(database: Database, **row: Any) -> None:
    """Store an article."""
    with database.write() as conn:
        stored.upsert_article(conn, ROW | row)


def found(database: Database, url: str = ROW["url"]) -> Any:
    """The row of an article."""
    with database.read() as conn:
        return conn.execute(select(articles).where(articles.c.url == url)).one()


def test_w37_the_same_id_and_the_same_text_of_one_target_are_the_same_document(database: Database) -> None:
    store(database)
    store(database, url="http://a.example/x", own_id="8", external=True)
    with database.read() as conn:
        assert crawling.same_document(conn, "t", "7", "h1") == ROW["url"]
        for target, own_id, sha256 in (("t", "7", "h2"), ("t", "6", "h1"), ("other", "7", "h1"), ("t", "8", "h1")):
            assert crawling.same_document(conn, target, own_id, sha256) is None


def test_an_article_is_stale_by_its_last_reading_until_the_asking_job_has_read_it(database: Database) -> None:
    store(database, fetched_age_sec=40 * 86_400.0)
    store(database, url="http://a.example/2", fetched_age_sec=20 * 86_400.0)
    store(database, url="http://a.example/3", fetched_age_sec=40 * 86_400.0, external=True)
    urls = [f"http://a.example/{number}" for number in (1, 2, 3, 4)]

    def stale(days: float, job_id: str = "job2") -> set[str]:
        with database.read() as conn:
            return crawling.stale(conn, "t", urls, days, job_id)

    assert (stale(30), stale(0), stale(30, "job1")) == ({urls[0]}, {urls[0], urls[1]}, set())
    store(database, job_id="job2", generation=2)
    assert (stale(30), found(database).generation, found(database).job_id) == (set(), 1, "job2")


def test_a_repeated_commit_of_one_job_changes_nothing(database: Database) -> None:
    store(database, fetched_age_sec=1000.0)
    before = found(database)
    store(database)
    assert found(database) == before


def test_an_article_that_changed_has_its_new_text_and_its_old_generation(database: Database) -> None:
    store(database, fetched_age_sec=1000.0)
    store(database, job_id="job2", text="new", sha256="h2", generation=5)
    row = found(database)
    assert (row.text, row.sha256, row.generation) == ("new", "h2", 1)


def test_what_is_only_marked_was_never_read_long_ago_and_is_read_by_a_refetch(database: Database) -> None:
    store(database, marked=True, text="", sha256="", fetched_age_sec=40 * 86_400.0)
    with database.read() as conn:
        assert crawling.stale(conn, "t", [ROW["url"]], 30, "job2") == set()
        assert crawling.stale(conn, "t", [ROW["url"]], 0, "job2") == {ROW["url"]}


PAGE = [f"http://a.example/{number}" for number in range(1, 6)]


class Asked:
    """Reads from a database and counts how often."""

    def __init__(self, database: Database) -> None:
        self.database, self.times = database, 0

    def __call__(self, question: Any) -> Any:
        self.times += 1
        with self.database.read() as conn:
            return question(conn)


def failed(database: Database, url: str) -> None:
    """Store an item that could not be read."""
    with database.write() as conn:
        stored.upsert_failed_item(conn, {"target_code": "t", "url": url, "title": "x", "source_page": "", "error": "no",
                                         "forbidden": False, "job_id": "job1"})


def test_what_is_asked_of_each_item_is_read_once_a_page(database: Database) -> None:
    """W40: also where a redirect of this very page has ended."""
    store(database, url="http://a.example/old", final_url=PAGE[1])
    store(database, url="http://a.example/out", final_url=PAGE[2], external=True)
    failed(database, PAGE[3])
    asked = Asked(database)
    ahead = Ahead(asked, "t")
    ahead.opened(PAGE)
    assert [ahead.stored_from(url, url) for url in PAGE] == [None, "http://a.example/old", None, None, None]
    assert [ahead.is_failed(url) for url in PAGE] == [False, False, False, True, False]
    ahead.stored(PAGE[0], PAGE[4], is_external=False)
    ahead.stored(PAGE[3], PAGE[3], is_external=False)
    assert (ahead.stored_from(PAGE[4], PAGE[4]), ahead.stored_from(PAGE[4], PAGE[0])) == (PAGE[0], None)
    assert (ahead.stored_from(PAGE[3], PAGE[3]), ahead.is_failed(PAGE[3])) == (None, False)
    assert asked.times == 2


def test_what_is_on_no_page_or_was_written_otherwise_is_asked_anew(database: Database) -> None:
    asked = Asked(database)
    ahead = Ahead(asked, "t")
    ahead.opened(PAGE)
    assert not ahead.is_failed(PAGE[0])
    failed(database, PAGE[0])
    ahead.forget()
    assert ahead.is_failed(PAGE[0])
    assert ahead.stored_from("http://a.example/elsewhere", PAGE[0]) is None
    store(database, url=PAGE[1], final_url="http://a.example/elsewhere")
    assert ahead.stored_from("http://a.example/elsewhere", PAGE[0]) == PAGE[1]
    assert asked.times == 4
