"""Revoking from outside the workers: a lane job is cancelled in the database, whether anybody works or not (rule J10)."""

from __future__ import annotations

from typing import Any

from celery.app.control import Control
from celery.utils.functional import maybe_list
from sqlalchemy.exc import SQLAlchemyError

from config.settings import get_settings
from models.db import get_database
from models.ledger import Ledger
from models.operations import acting


class JobControl(Control):
    """Celery's remote control, which `AsyncResult.revoke` and Flower use, with lane jobs answered by the ledger."""

    def revoke(self, task_id: Any, *args: Any, **options: Any) -> Any:
        """Cancel those of the ids that are jobs; only the others are broadcast to the workers, as Celery does it.

        While the database is away all of them are broadcast: a worker carries them to the ledger.
        """
        settings = get_settings()
        others, said = [], []
        for one in maybe_list(task_id) or []:
            try:
                answer = Ledger(get_database(), settings).cancel(str(one), acting(settings, "celery"))
            except SQLAlchemyError:
                others.append(one)
                continue
            if answer.reason == "not_found":
                others.append(one)
            else:
                said.append({"ratelane": {"ok": f"{one}: {answer.reason or answer.verdict}"}})
        replies = super().revoke(others, *args, **options) if others else None
        return [*said, *(replies or [])] if options.get("reply") else replies
