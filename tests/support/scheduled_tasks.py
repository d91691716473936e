"""Celery tasks as somebody schedules them by their names, ``tests.support.scheduled_tasks.<name>``."""

from __future__ import annotations

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
