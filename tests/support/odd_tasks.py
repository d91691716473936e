"""A Celery application with kinds of jobs that end in odd ways: ``celery -A tests.support.odd_tasks worker``."""

from __future__ import annotations

import sys
from typing import Any

from config import clock
from config.celery import app
from routing.kinds import register
from tasks.base import LaneTask

__all__ = ["app"]

EXITS = "odd.exits"
register("exits", EXITS)


@app.task(base=LaneTask, bind=True, name=EXITS)
def exits(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Leave without a word at the first attempt, return at the second."""
    if self.attempt.claim.attempt == 1:
        sys.exit(3)
    return {"attempt": self.attempt.claim.attempt}


BREAKS = "odd.breaks"
register("breaks", BREAKS)


@app.task(base=LaneTask, bind=True, name=BREAKS)
def breaks(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Fail in an ordinary way at the first attempt, return at the second."""
    if self.attempt.claim.attempt == 1:
        raise RuntimeError("the first attempt breaks")
    return {"attempt": self.attempt.claim.attempt}


RETURNS = "odd.returns"
register("returns", RETURNS)


@app.task(base=LaneTask, bind=True, name=RETURNS)
def returns(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Do nothing."""
    return {"target": target_code}


SLEEPS = "odd.sleeps"
register("sleeps", SLEEPS)


@app.task(base=LaneTask, bind=True, name=SLEEPS)
def sleeps(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Be deaf to every request to stop."""
    clock.pause(60)
    return {}


TELLS = "odd.tells"
register("tells", TELLS)


@app.task(base=LaneTask, bind=True, name=TELLS)
def tells(self: LaneTask, target_code: str) -> dict[str, Any]:
    """Only tell of a block that it met, as somebody's own task may do (rule C4)."""
    return {"pages": [{"error": ("page 2", "host_cooldown: rate 429 http://a.example.org/list")}], "items": ["x"]}
