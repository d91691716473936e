"""The pairs of database, broker and pool that the worker contract is proved on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pairs import Pair, Stand, standing
from tests.support.store import Shelf


@pytest.fixture(scope="module")
def stand(request: pytest.FixtureRequest, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A pair's servers, database and (no) workers, for all tests of a module that name it by `PAIRS`."""
    pair: Pair = request.param
    with standing(pair, shelf, tmp_path_factory.mktemp(str(pair)), request) as found:
        yield found


@pytest.fixture
def both(stand: Stand) -> None:
    """Two workers, started by the first test that needs them and shared by those behind it."""
    stand.ensure("one", "two")
