"""What an objection does: the pause of a group and the growth of an interval (rules C3 and C5).

Its verbs work inside a transaction that has locked the group's row: a pause must stand before the lane is free again.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from config.errors import HostCooldown
from config.logs import get_logger, log_event
from config.settings import Settings
from models import cooldown
from models.claim import Claim
from models.outcome import Verdict
from models.scan import checkpoint_page, is_aborted
from models.statements import pauses

log = get_logger("ratelane.pacing")
#: so much of a Retry-After header is logged, whatever it says (public report W24)
_RAW_CHARS = 200
_DAY_SEC = 86_400.0
#: so many intervals go a step back in one go
_AT_ONCE = 200


class Pacing:
    """Pauses and growth under one set of settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def levels(self, conn: Connection, claim: Claim, site_code: str | None, **at: Any) -> dict[str, int]:
        """Return, for each group that an objection of this attempt pauses, how many cooldowns before it still count.

        To be asked before the attempt is settled: what is settled last is the objection itself, and no answer.
        """
        home = None if site_code is None else conn.execute(pauses.HOME, {"b_site": site_code}).scalar()
        return {group: self._level(conn, group, claim, at) for group in sorted({claim.group, home or claim.group})}

    def cool(
        self, conn: Connection, claim: Claim, objection: HostCooldown, site_code: str | None, *,
        levels: dict[str, int], stale: bool, **at: Any,
    ) -> dict[str, Any]:
        """Pause the claim's group, and the others in `levels`, for what its site sent; let the target's interval grow.

        If the site has moved since, its present group pauses too (rule R2).
        A stale attempt only lengthens the pause: its block was real, but the growth belongs to the attempt that is
        current (rule J7). Returns {"delay_sec", "cooldown_interval_adjustment" (None without growth)}.
        """
        delays = [self._pause(conn, group, claim, objection, level, stale, at) for group, level in levels.items()]
        grown = None if stale else self._grow(conn, claim, site_code, objection.evidence.line(), at)
        return {"delay_sec": max(delays), "cooldown_interval_adjustment": grown}

    def _pause(
        self, conn: Connection, group: str, claim: Claim, objection: HostCooldown, level: int, stale: bool,
        at: dict[str, Any],
    ) -> float:
        kind, line, raw = objection.evidence.kind, objection.evidence.line(), objection.evidence.retry_after_raw
        delay = cooldown.pause_seconds(
            kind, objection.retry_after_sec, level=level, delay_sec=self.settings.cooldown_delay_sec,
            js_delay_sec=self.settings.js_challenge_delay_sec, repeat_factor=self.settings.cooldown_repeat_factor)
        pauses.pause(conn, group=group, delay_sec=delay, kind=kind, reason=line, level=level if stale else level + 1,
                     **at)
        pauses.log_cooldown(conn, group=group, job_id=claim.job_id, attempt=claim.attempt,
                            target_code=claim.target_code, kind=kind, reason=line, delay_sec=delay, **at)
        log_event(log, "group.cooldown", group=group, job=claim.job_id, attempt=claim.attempt, delay_sec=delay,
                  cooldown_level=level, reason=line, retry_after=None if raw is None else raw[:_RAW_CHARS])
        return delay

    def _level(self, conn: Connection, group: str, claim: Claim, at: dict[str, Any]) -> int:
        """Return a group's level; it is forgotten once the group has answered for long enough after its pause (C3)."""
        row = conn.execute(pauses.level(group, claim.job_id, claim.attempt, self.settings.cooldown_forget_sec), at).first()
        return 0 if row is None or row.forgotten else int(row.cooldown_level)

    def _grow(
        self, conn: Connection, claim: Claim, site_code: str | None, cause: str, at: dict[str, Any]
    ) -> dict[str, Any] | None:
        if claim.target_code is None:
            return None
        if not cooldown.grows(self.settings.interval_growth_codes, site_code or "", claim.target_code):
            return None
        row = conn.execute(pauses.lock_target(claim.target_code)).first()
        if row is None:
            return None
        present = max(row.interval_sec, row.grown_interval_sec or 0.0)
        step = cooldown.grow(present, factor=self.settings.cooldown_interval_growth_factor,
                             cap_sec=self.settings.cooldown_interval_max_sec)
        if step.status == "updated":
            pauses.grow(conn, target_code=claim.target_code, old=step.old_interval_sec, new=step.new_interval_sec,
                        cause=f"{cause} ({step.why})", job_id=claim.job_id, attempt=claim.attempt, **at)
        return {"target_code": claim.target_code, "old_interval_sec": step.old_interval_sec,
                "new_interval_sec": step.new_interval_sec, "status": step.status}

    def clean(self, conn: Connection, **at: Any) -> list[str]:
        """Return targets whose grown interval may go a step back: so many clean days are over (rule C5; 0: never)."""
        days = self.settings.interval_decay_after_days
        if not days:
            return []
        return list(conn.scalars(pauses.clean(days * _DAY_SEC, _AT_ONCE), at))

    def decay(self, conn: Connection, target_code: str, **at: Any) -> bool:
        """Let a target's interval go one step back to its baseline; returns False if somebody else has, or it may not."""
        row = conn.execute(pauses.lock_target(target_code)).first()
        again = pauses.clean(self.settings.interval_decay_after_days * _DAY_SEC, 1, target_code)
        # a later statement: a step that was committed while this one waited for the row is seen
        if row is None or conn.execute(again, at).first() is None:
            return False
        old = float(row.grown_interval_sec)
        new = cooldown.shrink(old, row.interval_sec, factor=self.settings.cooldown_interval_growth_factor)
        pauses.decay(conn, target_code=target_code, old=old, new=new, at_baseline=new <= row.interval_sec, **at)
        log_event(log, "interval.decay", target=target_code, old_sec=old, new_sec=new)
        return True

    def describe(
        self, conn: Connection, claim: Claim, verdict: Verdict, status: str, notes: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the result document of an attempt that met a block: one that was aborted by it says so, and when it
        goes on (rules C1, C6); any other keeps its own (rule C4). Both say what the target's interval became (rule C5).
        """
        page = conn.execute(pauses.CHECKPOINT, {"b_job": claim.job_id}).scalar() or 0
        found: dict[str, Any] = {
            **(verdict.result or {}), "host_cooldown": verdict.cooldown.evidence.line() if verdict.cooldown else ""}
        if verdict.aborted or is_aborted(found):
            named = checkpoint_page(found)
            found |= {"status": "aborted", "reason": "cooldown", "checkpoint_page": page if named is None else named}
        if verdict.aborted and status != "cancelled":
            found["auto_retry"] = {
                "status": "queued" if status == "queued" else "max_reached", "job_id": claim.job_id,
                "resume_from_page": page, "cooldown_retry_count": verdict.tally.cooldown_row,
                "max_retries": self.settings.cooldown_auto_retry_max, "delay_sec": notes["delay_sec"]}
        if notes["cooldown_interval_adjustment"] is not None:
            found["cooldown_interval_adjustment"] = notes["cooldown_interval_adjustment"]
        return found
