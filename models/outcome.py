"""How a run ended, and what happens to its job: one pure decision (design, "How each outcome ends in Celery").

`judge` takes the job's counters as they stood when the attempt started (nobody else changes them while it runs), how
its body ended, and the limits; it returns every value that the settling statement writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any

from config.errors import (
    Cancelled,
    HostCooldown,
    JobDeadlineExceeded,
    Parked,
    PartialCrawl,
    PermanentJobError,
)
from config.redaction import redact_url
from models import scan
from models.lifecycle import Event, State, next_state

MESSAGE_LIMIT = 2_000
_MOST_DEEP = 100


@dataclass(frozen=True)
class Tally:
    """What a job has spent so far. `_row` fields count in a row without a new checkpoint."""

    job_id: str = ""
    attempt: int = 0
    failures: int = 0
    max_attempts: int = 3
    recoveries: int = 0
    recoveries_row: int = 0
    cooldown_retries: int = 0
    cooldown_row: int = 0
    deadlines: int = 0
    deadlines_row: int = 0
    js_challenges: int = 0
    row_page: int = 0
    last_completed_page: int = 0
    error_msg: str = ""

    def fresh(self) -> Tally:
        """Return the tally with the rows of bad luck forgotten if the attempt reached a new checkpoint."""
        if self.last_completed_page <= self.row_page:
            return self
        return replace(self, recoveries_row=0, cooldown_row=0, deadlines_row=0, js_challenges=0,
                       row_page=self.last_completed_page)


def tally_of(row: Any) -> Tally:
    """Return the tally of a job's row (anything with a `Tally`'s fields as attributes)."""
    return Tally(**{field.name: getattr(row, field.name) for field in fields(Tally)})


@dataclass(frozen=True)
class Limits:
    """The settings that a decision needs, in the units of their names."""

    max_recoveries: int = 3
    cooldown_retries_max: int = 12
    cooldown_total_max: int = 100
    js_challenges_max: int = 3
    backoff_base_sec: float = 5.0
    backoff_cap_sec: float = 600.0
    max_deadlines: int = 3


@dataclass(frozen=True)
class Verdict:
    """What the settling transaction writes; absolute values, so that writing it twice does no harm."""

    event: Event
    why: str
    tally: Tally
    delay_sec: float | None = None
    to_back: bool = False
    error: str = ""
    traceback: str = ""
    result: dict[str, Any] | None = None
    outcome: str | None = None
    wait_reason: str = ""
    restart: bool = False
    #: the block that the attempt met; `aborted` if that ended it, else it was found in what the body left (rule C4)
    cooldown: HostCooldown | None = None
    aborted: bool = False

    @property
    def state(self) -> State:
        """The state that the job moves to."""
        return next_state(State.RUNNING, self.event)


@dataclass(frozen=True)
class Ended:
    """How a body ended: by returning `result`, or by raising `error` (with its traceback as text)."""

    result: Any = None
    error: BaseException | None = None
    traceback: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def message_of(error: BaseException) -> str:
    """Return ``Type: message``, the first 2,000 characters, without passwords of URLs (rules J9, U6)."""
    text = redact_url(str(error)).strip()
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:MESSAGE_LIMIT]


def join(*notes: str) -> str:
    """Join annotations of an error text with `` | `` (rule J9), leaving out empty ones; a long one hides no later one."""
    return " | ".join(note for note in notes if note)


def document(result: Any) -> dict[str, Any]:
    """Return a body's result as the document that is stored: a dict as it is, anything else as ``{"ok": true}``."""
    return result if isinstance(result, dict) else {"ok": True}


def storable(value: Any, _above: frozenset[int] = frozenset()) -> Any:
    """Return `value` as what every database keeps as JSON: no NUL, no half character, no number that JSON lacks.

    What contains itself, or goes deeper than anybody would read, ends in ``…`` there.
    """
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict | list | tuple):
        if id(value) in _above or len(_above) >= _MOST_DEEP:
            return "…"
        above = _above | {id(value)}
        if isinstance(value, dict):
            return {_text(str(key)): each if type(each) in _AS_IT_IS else storable(each, above)
                    for key, each in value.items()}
        return [storable(each, above) for each in value]
    return _text(str(value))


#: every settle brings some twenty of them
_AS_IT_IS = frozenset({type(None), bool, int})


def _text(text: str) -> str:
    if type(text) is str and text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def judge(ended: Ended, tally: Tally, limits: Limits, *, backoff_sec: float = 0.0) -> Verdict:
    """Decide what happens to a running job whose body ended as `ended`.

    `backoff_sec` is the wait that an ordinary failure would have (drawn by the caller, because it holds jitter). A block
    that the body only tells of pauses the group too, but the job ends as it would without it (rule C4).
    """
    tally = tally.fresh()
    if isinstance(ended.error, HostCooldown):
        return _cooled(ended.error, ended, tally, limits)
    found = scan.objection_in(ended.result, ended.error)
    verdict = _judge(ended, tally, limits, backoff_sec)
    return verdict if found is None else replace(verdict, cooldown=found)


def _judge(ended: Ended, tally: Tally, limits: Limits, backoff_sec: float) -> Verdict:
    error = ended.error
    if error is None:
        result = document(ended.result)
        return Verdict(Event.FINISH, "done", tally, result=result, outcome=result.get("outcome"))
    if isinstance(error, Cancelled):
        return Verdict(Event.CANCEL, "cancelled", tally, error="cancelled")
    if isinstance(error, Parked):
        # the group's row holds what is paused, the job's own its quiet window: a copy would outlive both (rules R9, S6)
        delay = None if error.reason in ("paused", "quiet_window") else error.delay_sec or None
        return Verdict(Event.PARK, error.reason, tally, delay_sec=delay, wait_reason=error.reason, error=tally.error_msg)
    if isinstance(error, JobDeadlineExceeded):
        return _late(error, ended, tally, limits)
    if isinstance(error, PermanentJobError):
        return _failed("failed", message_of(error), ended, tally)
    return _again(error, ended, tally, backoff_sec)


def lost(tally: Tally, limits: Limits, *, stop_requested: bool = False) -> Verdict:
    """Decide what happens to a job whose worker was lost (rule J8)."""
    tally = tally.fresh()
    if stop_requested:
        return Verdict(Event.CANCEL, "cancelled", tally, error="cancelled")
    count = tally.recoveries_row + 1
    spent = replace(tally, recoveries=tally.recoveries + 1, recoveries_row=count)
    if count >= limits.max_recoveries:
        text = f"abandoned after {limits.max_recoveries} restart recoveries"
        return Verdict(Event.FAIL, "abandoned", spent, error=join(tally.error_msg, text),
                       result={"error_type": "WorkerLost", "error": text, "traceback": ""})
    note = f"restart_during_run (recovery attempt {count}/{limits.max_recoveries})"
    return Verdict(Event.RECOVER, "lost", spent, error=join(tally.error_msg, note))


def _failed(why: str, message: str, ended: Ended, tally: Tally, **more: Any) -> Verdict:
    trace = redact_url(ended.traceback)
    result = {"error_type": type(ended.error).__name__, "error": redact_url(str(ended.error)), "traceback": trace}
    return Verdict(Event.FAIL, why, tally, error=message, traceback=trace, result=result | ended.extra, **more)


def _again(error: BaseException, ended: Ended, tally: Tally, backoff_sec: float) -> Verdict:
    """An ordinary failure or a partial crawl: again with backoff until the tries are used up."""
    spent = replace(tally, failures=tally.failures + 1)
    partial = isinstance(error, PartialCrawl)
    if spent.failures < spent.max_attempts:
        return Verdict(Event.AGAIN, "partial" if partial else "failed_attempt", spent, delay_sec=backoff_sec,
                       to_back=True, error=message_of(error), traceback=redact_url(ended.traceback), wait_reason="backoff",
                       restart=partial)
    if isinstance(error, PartialCrawl):
        # what could be read is stored and told; only the frontier stays where it was (rule P3)
        return Verdict(Event.FINISH, "partial", spent, result=error.result, outcome="partial")
    return _failed("failed", message_of(error), ended, spent)


def _late(error: BaseException, ended: Ended, tally: Tally, limits: Limits) -> Verdict:
    spent = replace(tally, deadlines=tally.deadlines + 1, deadlines_row=tally.deadlines_row + 1)
    if spent.deadlines_row > limits.max_deadlines:
        return _failed("failed", message_of(error), ended, spent)
    return Verdict(Event.AGAIN, "deadline", spent, to_back=True, error=message_of(error), wait_reason="deadline")


def _cooled(error: HostCooldown, ended: Ended, tally: Tally, limits: Limits) -> Verdict:
    """A firewall objected: the job retries after the pause, at most so often without a new checkpoint (rule C6)."""
    challenge = error.evidence.kind == "js_challenge"
    count = tally.cooldown_row + 1
    spent = replace(tally, cooldown_retries=tally.cooldown_retries + 1, cooldown_row=count,
                    js_challenges=tally.js_challenges + (1 if challenge else 0))
    most = limits.cooldown_retries_max
    if challenge and spent.js_challenges > limits.js_challenges_max:
        return _failed("failed", join("needs_operator", error.evidence.line()), ended, spent, cooldown=error,
                       aborted=True)
    if count > most or spent.cooldown_retries > limits.cooldown_total_max:
        return _failed("cooldown", "cooldown_abort; auto_retry_max_reached", ended, tally, cooldown=error, aborted=True)
    return Verdict(Event.COOL, "cooldown", spent, to_back=True, error=f"cooldown_abort; auto_retry {count}/{most}",
                   wait_reason="cooldown", cooldown=error, aborted=True)
