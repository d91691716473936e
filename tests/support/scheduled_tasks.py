"""Celery tasks as somebody schedules them by their names, ``tests.support.scheduled_tasks.<name>``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from celery import shared_task


@shared_task
def tidy(days: int) -> dict[str, Any]:
    """Return what it was called with."""
    return {"kept_days": days}


@shared_task
def nothing_new() -> dict[str, Any]:
    """Say that there was nothing to do, and when to ask again."""
    return {"outcome": "skipped", "reason": "nothing_new", "again_in": 90}


@shared_task
def broken() -> None:
    """Fail."""
    raise ValueError("the disk is gone")


@shared_task
def noted(path: str, word: str) -> None:
    """Write a word at the end of a file, as a line of its own: what was called twice stands there twice."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{word}\n")
