"""Ground floor: settings, the Celery application, clock, logs, errors, embedded services.

This room imports none of the others. ``celery -A config`` finds the application here, made at the first look: a command
that needs no Celery does not pay for it, and one with a home of its own reads its settings first.
"""

from __future__ import annotations

from typing import Any

__all__ = ["app", "celery"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from config.celery import app

        return app
    raise AttributeError(f"module 'config' has no attribute {name!r}")
