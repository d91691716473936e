"""The benchmark of claims on a fleet of five lanes: that it makes the claims it says it measures. PostgreSQL only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import claim, stores
from benchmarks.claim import Fleet
from tests.support.servers import PostgresServer

LANES, TURNS = 5, 12


@pytest.fixture
def urls(postgres: PostgresServer) -> Iterator[list[str]]:
    made = [postgres.create_database() for _ in range(2)]
    yield made
    for url in made:
        postgres.drop_database(url)


def test_both_fleets_make_the_same_claims_and_never_run_dry(urls: list[str]) -> None:
    fleets = []
    for name, url in zip(("small", "large"), urls, strict=True):
        stores.fill(url, LANES, claim.EACH, waiting=True, vacuum=False)
        fleets.append(Fleet(name, url, LANES))
    document = claim.run((fleets[0], fleets[1]), claims=8, measured=TURNS, block=5)
    for fleet in fleets:
        with fleet.db.read() as conn:
            states = dict(conn.exec_driver_sql("SELECT status, count(*) FROM jobs GROUP BY status").all())
            claims = conn.exec_driver_sql("SELECT count(*), count(DISTINCT group_key) FROM attempts").one()
            kept = conn.exec_driver_sql(
                "SELECT count(*) FROM pg_class WHERE reloptions @> '{autovacuum_enabled=false}'").scalar_one()
        assert states == {"queued": LANES * claim.EACH, "done": 8 + 2 * TURNS}
        assert tuple(claims) == (8 + 2 * TURNS, LANES), "the lanes take turns"
        assert kept == len(stores.HOT)
        assert len(fleet.scout) == len(fleet.settle) == TURNS
        fleet.db.dispose()
    assert document["measured"] == TURNS
    assert set(document["reads"]["small"]) == set(stores.HOT)
    assert claim.table(document, ("small", "large")).count("holds") + claim.table(document, ("small", "large")).count(
        "DOES NOT HOLD") == 2
