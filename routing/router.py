"""Where Celery sends a message: one that carries a claim goes to its lane, everything else to the inbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.celery import INBOX
from routing.keys import lane_name
from routing.kinds import kind_of

#: the header that names the claim: job, attempt, claim number, group
CLAIM_HEADER = "ratelane"


def route(
    name: str, args: Any, kwargs: Any, options: Mapping[str, Any], task: Any = None, **_: Any  # noqa: ARG001
) -> dict[str, str] | None:
    """Return Celery's routing of a message (see `task_routes`); None leaves an ordinary task to its own options."""
    claim = (options.get("headers") or {}).get(CLAIM_HEADER)
    if claim is not None:
        return {"queue": lane_name(claim["group"])}
    return {"queue": INBOX} if kind_of(name) is not None else None
