"""What operators do to lanes: pauses of one group or of all, their end, and intervals set back (rules R9 and C5)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from config.errors import BadInput
from config.logs import get_logger, log_event
from models.db import Database
from models.operations import Operator
from models.statements import pauses, postgres, queueing, sqlite
from models.statements.operations import log_operation

log = get_logger("ratelane.pacing")
#: groups that are locked together when all cooldowns are ended
GROUPS_AT_ONCE = 200


class Resumed(NamedTuple):
    """What a resume ended: an operator's pause, and the cooldowns of how many groups."""

    pause: bool
    cooldowns: int


class OperatorPacing:
    """Pauses that people set and lift. `now` is for tests only: None leaves the time to the database."""

    def __init__(self, db: Database, now: Callable[[], datetime | None] = lambda: None) -> None:
        self.db, self._now = db, now
        self._hot: Any = postgres if db.dialect == "postgresql" else sqlite

    def _at(self) -> dict[str, Any]:
        now = self._now()
        return {} if now is None else {"p_now": now}

    def pause(
        self, group: str, by: Operator, *, until: datetime | None = None, for_sec: float | None = None
    ) -> None:
        """Pause a group until a moment, for a time, or until somebody resumes it; the last word counts (rule R9).

        The running job stops at its next stop point. Raises BadInput for a group that is unknown or an end that is past.
        """
        with self.db.write() as conn:
            self._hot.lock_groups(conn, [group])
            held = conn.execute(pauses.hold(group, until, for_sec, who=by.who, reason=by.reason), self._at()).rowcount
            if not held:
                self._require(conn, group)
                raise BadInput(_past(until))
            self._hot.refresh(conn, [group], self._now())
            log_operation(conn, by, "pause", group_key=group, details=_span(until, for_sec), at=self._at())
        log_event(log, "group.pause", group=group, who=by.who, surface=by.surface, reason=by.reason)

    def pause_all(self, by: Operator, *, until: datetime | None = None, for_sec: float | None = None) -> None:
        """Pause every group, those that are made later included; touches no group's row. Raises BadInput as `pause`."""
        with self.db.write() as conn:
            statement = pauses.hold_all(until, for_sec, who=by.who, reason=by.reason)
            if not conn.execute(statement, self._at()).rowcount:
                raise BadInput(_past(until))
            log_operation(conn, by, "pause_all", details=_span(until, for_sec), at=self._at())
        log_event(log, "fleet.pause", who=by.who, surface=by.surface, reason=by.reason)

    def resume(self, group: str, by: Operator, *, cooldown: bool = False) -> Resumed:
        """Lift the operator's pause of a group, with `cooldown` its cooldown too (rule R9).

        The interval still holds: the lane goes on with one request (rule C7). Raises BadInput if the group is unknown.
        """
        with self.db.write() as conn:
            self._hot.lock_groups(conn, [group])
            self._require(conn, group)
            lifted = bool(conn.execute(pauses.LIFT, {"b_group": group}).rowcount)
            ended = pauses.end_cooldowns(conn, [group], **self._at()) if cooldown else []
            if lifted or ended:
                self._hot.refresh(conn, [group], self._now())
                queueing.notify(conn)
                log_operation(conn, by, "resume", group_key=group, details=_ended(lifted, bool(ended)), at=self._at())
        log_event(log, "group.resume", group=group, who=by.who, surface=by.surface, pause=lifted, cooldown=bool(ended))
        return Resumed(lifted, len(ended))

    def resume_all(self, by: Operator, *, cooldown: bool = False) -> Resumed:
        """Lift the pause of all; groups that were paused one by one stay paused. With `cooldown` all cooldowns end too.

        Lanes with work are woken by rows of `lane_wake`, so that no group is locked for the pause; cooldowns end in
        portions, in key order.
        """
        with self.db.write() as conn:
            lifted = bool(conn.execute(pauses.LIFT_ALL).rowcount)
            if lifted:
                conn.execute(pauses.WAKE_ALL, self._at())
                queueing.notify(conn)
            if lifted or cooldown:
                log_operation(conn, by, "resume_all", details=_ended(lifted, cooldown), at=self._at())
        ended = self._end_all_cooldowns(by) if cooldown else 0
        log_event(log, "fleet.resume", who=by.who, surface=by.surface, pause=lifted, cooldowns=ended)
        return Resumed(lifted, ended)

    def _end_all_cooldowns(self, by: Operator) -> int:
        ended, behind = 0, ""
        while True:
            with self.db.write() as conn:
                keys = list(conn.execute(pauses.cooling(behind, GROUPS_AT_ONCE), self._at()).scalars())
                self._hot.lock_groups(conn, keys)
                groups = pauses.end_cooldowns(conn, keys, **self._at()) if keys else []
                self._hot.refresh(conn, groups, self._now())
                if groups:
                    queueing.notify(conn)
                for group in groups:
                    log_operation(conn, by, "resume", group_key=group, details=_ended(False, True), at=self._at())
            ended += len(groups)
            if len(keys) < GROUPS_AT_ONCE:
                return ended
            behind = keys[-1]

    def reset_interval(self, target_code: str, by: Operator) -> bool:
        """Clear what objections made of a target's interval (rule C5); returns whether there was anything to clear."""
        why = f": {by.reason}" if by.reason else ""
        with self.db.write() as conn:
            done = pauses.reset_interval(conn, target_code, cause=f"reset by {by.who}{why}", **self._at())
            if done:
                log_operation(conn, by, "interval_reset", target_code=target_code, at=self._at())
        if done:
            log_event(log, "interval.reset", target=target_code, who=by.who, surface=by.surface)
        return done

    def _require(self, conn: Connection, group: str) -> None:
        if conn.execute(pauses.EXISTS, {"b_group": group}).first() is None:
            raise BadInput(f"no rate group is called {group!r}")


def _past(until: datetime | None) -> str:
    return f"{until.isoformat()} is past: nothing would be paused" if until else "a pause must last longer than 0 seconds"


def _span(until: datetime | None, for_sec: float | None) -> dict[str, Any]:
    return {"until": None if until is None else until.isoformat(), "for_sec": for_sec}


def _ended(pause: bool, cooldown: bool) -> dict[str, Any]:
    return {"pause": pause, "cooldown": cooldown}
