"""What may be asked: the parameters and bodies of the API, checked before anything is done with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date as Date
from datetime import datetime, timedelta, tzinfo
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from config.errors import BadInput
from config.settings import Settings
from console.durations import seconds_of
from console.flower.api.shapes import Status
from models.db import Database
from models.operations import Operator
from models.queries import JobFilter, zone

#: rows of a list at most
MOST_ROWS = 1_000


def _keepable(text: str) -> str:
    """Refuse what no database keeps: a NUL, half a character."""
    try:
        kept = b"\0" not in text.encode()
    except UnicodeEncodeError:
        kept = False
    if not kept:
        raise ValueError("holds a character that cannot be stored")
    return text


def require_text(text: str) -> None:
    """Raise BadInput if no database keeps `text`."""
    try:
        _keepable(text)
    except ValueError as error:
        raise BadInput(f"the address {error}") from None


class Invalid(Exception):
    """What was asked is not what may be asked; `errors` names each field with what is expected."""

    def __init__(self, error: ValidationError) -> None:
        lines: dict[str, list[str]] = {}
        for one in error.errors(include_url=False, include_input=False):
            # of a field that may be one thing or another there is an error for each; bodies are flat
            lines.setdefault(str(next(iter(one["loc"]), "body")), []).append(_sentence(one))
        self.errors = [{"field": field, "message": "; or: ".join(said)} for field, said in lines.items()]
        super().__init__("; ".join(f"{one['field']}: {one['message']}" for one in self.errors[:5]))


def _sentence(error: ErrorDetails) -> str:
    """Say what is expected to somebody who does not read patterns."""
    expected = _EXPECTED.get(str(error.get("ctx", {}).get("pattern")))
    return expected or error["msg"].removeprefix("Value error, ")


_SPAN, _WORD = r"^ *\d{1,9}(\.\d{1,6})? *(s|min|m|h|d|) *$", r"\S"
_EXPECTED = {_SPAN: "a duration is written 30s, 10m, 2h, 1d or as seconds", _WORD: "say why"}
Text = Annotated[str, AfterValidator(_keepable), Field(max_length=300)]
Words = Annotated[str, AfterValidator(_keepable), Field(max_length=2_000)]
Number = Annotated[int, Field(ge=-(2**31), lt=2**31, strict=True)]
RunId = Annotated[int, Field(ge=0, lt=2**63)]
Span = Annotated[str, Field(pattern=_SPAN, description="30s, 10m, 2h, 1d or seconds")]


class Asked(BaseModel):
    """A name that is not known is an error: a mistyped filter must not mean "all"."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Listing(Asked):
    """Which part of a list."""

    limit: Annotated[int, Field(ge=1, le=MOST_ROWS, description="rows at most; the setting list_limit if left out")] | None = None
    cursor: Annotated[Text | None, Field(description="as the last page gave it")] = None


class Targets(Listing):
    """Which targets."""

    site: Text | None = None


class Filter(Asked):
    """Which jobs (rule J13)."""

    site: Text | None = None
    target: Text | None = None
    status: Status | None = None
    group: Text | None = None
    kind: Text | None = None
    source: Text | None = None
    run: RunId | None = None
    dedupe_key: Text | None = None
    search: Annotated[Text | None, Field(description="start of an id or of an error, or part of a code")] = None

    def job_filter(self, **more: Any) -> JobFilter:
        """Return the filter that the queries take."""
        return JobFilter(**{name: getattr(self, name) for name in Filter.model_fields}, id_by_start=True, **more)


class Jobs(Filter, Listing):
    """Which jobs, in which order, which part of them."""

    include_history: Annotated[bool, Field(description="finished ones too")] = True
    sort: Annotated[
        Literal["order", "-submitted", "submitted", "-finished", "finished"],
        Field(description="order: running, queued, failed and cancelled, done; - means the newest first")] = "order"


class Find(Asked):
    """The key to find jobs again by (rule J3)."""

    dedupe_key: Annotated[Text, Field(min_length=1)]
    active: Annotated[bool, Field(description="only the queued or running one")] = False


class Preview(Asked):
    """From when to when."""

    start: Annotated[datetime, Field(alias="from", description="without an offset: in the schedule's zone")]
    end: Annotated[datetime, Field(alias="to")]


class Runs(Listing):
    """Which runs."""

    name: Text | None = None


class Reasoned(Asked):
    """Why it is done; kept with who did it."""

    reason: Words = ""


class Submit(Reasoned):
    """The options of `submit`."""

    again: Annotated[bool, Field(description="also if such a job is queued or running")] = False
    force: Annotated[bool, Field(description="walk every page")] = False
    resume_from_page: Annotated[Number, Field(le=1_000_000_000)] = 0
    priority: Annotated[Number, Field(ge=-1_000_000, le=1_000_000)] = 100
    dedupe_key: Annotated[Text | None, Field(min_length=1)] = None
    run_after: Annotated[Span | datetime | None, Field(description="a wait (30s, 10m) or a moment")] = None
    max_attempts: Annotated[Number | None, Field(ge=1, le=1_000_000_000)] = None
    deadline: Annotated[float | None, Field(
        gt=0, le=1_000_000_000, allow_inf_nan=False, validation_alias=AliasChoices("deadline", "deadline_sec"),
        description="seconds that an attempt may run")] = None


class Cancel(Filter, Reasoned):
    """Which jobs to cancel: by filter."""


class Requeue(Cancel):
    """Which jobs to bring back: by filter."""

    restart: Annotated[bool, Field(description="from where they were submitted, not from their checkpoints")] = False


class RequeueOne(Reasoned):
    """How to bring a job back."""

    restart: bool = False


class Pause(Asked):
    """For how long, or until when, and why; without an end until somebody resumes."""

    duration: Annotated[Span | float | None, Field(alias="for")] = None
    until: datetime | None = None
    reason: Annotated[Words, Field(min_length=1, pattern=_WORD)]


class Resume(Reasoned):
    """Whether a cooldown is lifted too."""

    cooldown: bool = False


class RunEntry(Reasoned):
    """How to run an entry."""

    force: Annotated[bool, Field(description="inside its quiet window too; every page, every body")] = False
    date: Annotated[Date | None, Field(description="the stat date to work for")] = None


@dataclass(frozen=True)
class Request:
    """One request, as a route's function gets it: checked, and with who asks."""

    db: Database
    settings: Settings
    path: dict[str, str]
    query: Any
    body: Any
    by: Operator

    def listing(self) -> dict[str, Any]:
        """The part of a list that is asked for."""
        return {"limit": self.query.limit or min(self.settings.list_limit, MOST_ROWS), "cursor": self.query.cursor}


def wait_or_moment(value: str | float | datetime | None, where: tzinfo | None = None) -> float | datetime | None:
    """Return a wait in seconds or an aware moment; raises BadInput for neither."""
    if value is None or isinstance(value, float | int):
        return value
    if isinstance(value, datetime):
        return aware(value, where)
    found = seconds_of(value)
    if found is None:
        raise BadInput(f"{value!r} is no duration: write 30s, 10m, 2h or 1d")
    return found


def aware(moment: datetime, where: tzinfo | None = None) -> datetime:
    """Return a moment with its zone, the schedule's if it names none; raises BadInput for one that no zone can show."""
    found = moment if moment.tzinfo is not None else moment.replace(tzinfo=where or zone())
    try:
        for shift in (timedelta(days=-400), timedelta(days=400)):
            found.astimezone(zone()) + shift
    except (OverflowError, ValueError):
        raise BadInput(f"{moment} is out of range") from None
    return found
