"""What the Celery application makes of a command line."""

from __future__ import annotations

import pytest

from config.celery import asked_pool


@pytest.mark.parametrize(
    "words",
    [["-P", "prefork"], ["--pool", "prefork"], ["--pool=prefork"], ["-Pprefork"], ["-P=prefork"]],
)
def test_prefork_is_taken_at_its_word(words: list[str]) -> None:
    assert asked_pool(["celery", "-A", "config", "worker", *words]) == "prefork"


@pytest.mark.parametrize("words", [[], ["-P", "threads"], ["--pool=solo"], ["-n", "prefork"], ["--pool"]])
def test_every_other_pool_is_left_to_celery(words: list[str]) -> None:
    assert asked_pool(["celery", "-A", "config", "worker", *words]) is None

