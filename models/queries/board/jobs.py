"""Jobs page by page: the order of rule J13 or by when they were submitted or finished, filtered, searched, counted.

A page is put together of *streams*: one query a status and way of finding, each in the order of an index, of which only
as many rows are read as the page has. Where a filter names only what many jobs have in common, no index leads to the few
that it may let through: then at most `WALK` jobs are looked at, and the cursor goes on behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal, or_, select, true, tuple_
from sqlalchemy.sql.util import ClauseAdapter

from config.errors import BadInput
from models.base import UtcDateTime
from models.jobs import STATUSES, in_state
from models.jobs import jobs as table
from models.queries.board import paging
from models.queries.board.paging import Page
from models.queries.board.searching import Way, ways
from models.queries.exporting import tell
from models.queries.jobs import FINAL, JobFilter, conditions, document
from models.queries.reading import db_moment, rows

#: so many jobs are looked at where no index leads to those that are wanted
WALK = 10_000
#: what conditions on jobs speak of
_LOOKED_AT = (table.c.status, table.c.source, table.c.kind, table.c.job_id, table.c.site_code, table.c.target_code,
              table.c.group_key, table.c.run_id, table.c.dedupe_key, table.c.error_msg)
_SINCE: ColumnElement[datetime] = func.coalesce(
    table.c.started_at, table.c.claimed_at, table.c.queue_at, type_=UtcDateTime())


@dataclass(frozen=True)
class Section:
    """Jobs of some states in one order, the last column `seq`; the kinds of the columns are those of a cursor's parts."""

    states: tuple[str, ...]
    columns: tuple[ColumnElement[Any], ...]
    kinds: tuple[type, ...]
    descending: bool

    def order(self) -> list[ColumnElement[Any]]:
        """The columns to order by."""
        return [column.desc() if self.descending else column.asc() for column in self.columns]

    def behind(self, place: Sequence[Any]) -> list[ColumnElement[bool]]:
        """The condition that a row comes behind a place: in two parts, the first of which every index can use."""
        here = [literal(part, column.type) for part, column in zip(place, self.columns, strict=True)]
        mine, theirs = tuple_(*self.columns), tuple_(*here)
        if self.descending:
            return [self.columns[0] <= here[0], mine < theirs]
        return [self.columns[0] >= here[0], mine > theirs]


_LANE_ORDER = Section(("queued",), (table.c.priority, table.c.queue_at, table.c.seq), (int, datetime, int), False)
_ENDED = (table.c.finished_at, table.c.seq)
_IN_RULE_ORDER = (
    Section(("running",), (_SINCE, table.c.seq), (datetime, int), True),
    _LANE_ORDER,
    Section(("failed", "cancelled"), _ENDED, (datetime, int), True),
    Section(("done",), _ENDED, (datetime, int), True),
)
_FINISHED = Section(("failed", "cancelled", "done"), _ENDED, (datetime, int), True)
_SUBMITTED = Section(STATUSES, (table.c.seq,), (int,), True)
#: "order" is rule J13; "-" means the newest first
SORTS: dict[str, tuple[Section, ...]] = {
    "order": _IN_RULE_ORDER, "-submitted": (_SUBMITTED,), "submitted": (replace(_SUBMITTED, descending=False),),
    "-finished": (_FINISHED,), "finished": (replace(_FINISHED, descending=False),),
}


def page(conn: Connection, wanted: JobFilter, *, sort: str = "order", limit: int = 50, cursor: str | None = None) -> Page:
    """Return a page of job documents, without their attempts; raises BadInput for a cursor that leads nowhere.

    `wanted.limit` is not looked at. The page may be short, or empty, with a cursor that goes on.
    """
    sections = [one for one in SORTS[sort] if _states(one, wanted)]
    number, place = _place(sections, cursor)
    found: list[tuple[Any, ...]] = []
    follows: str | None = None
    while number < len(sections) and follows is None:
        section = sections[number]
        some, last = _read(conn, section, wanted, place, limit + 1 - len(found))
        found += some
        if len(found) > limit:
            found = found[:limit]
            # the last row of the page is of this section, unless the section gave just the one that is too many
            follows = paging.encode(number, *some[-2]) if len(some) > 1 else paging.encode(number, None)
        elif last is not None:
            follows = paging.encode(number, *last)
        number, place = number + 1, None
    return Page(_documents(conn, [place[-1] for place in found]), follows)


def total(conn: Connection, wanted: JobFilter) -> dict[str, Any]:
    """Return how many jobs `wanted` lets through, as a count with a ceiling."""
    states = [status for status in STATUSES if _lets(wanted, status)]
    among = _exact(wanted)
    if not among and not wanted.search:
        return paging.sum_of([paging.count_of(conn, select(paging.ONE).where(in_state(status))) for status in states])
    found = ways(conn, wanted.search) if wanted.search else [_whole(wanted)]
    among.append(or_(*(way.condition for way in found)))
    parts = [[status for status in states if (status in FINAL) is final] for final in (False, True)]
    if all(way.led for way in found):
        return paging.sum_of([paging.count_of(conn, select(paging.ONE).select_from(table).where(_in(part), *among))
                              for part in parts if part])
    newest = _walked(select(table.c.seq).order_by(table.c.seq.desc()).limit(WALK), [in_state(*states), *among])
    beyond = conn.execute(select(table.c.seq).order_by(table.c.seq.desc()).offset(WALK).limit(1)).first()
    return paging.count(int(conn.execute(select(func.count()).select_from(newest.subquery())).scalar_one()),
                        more=beyond is not None)


def _in(states: Sequence[str]) -> ColumnElement[bool]:
    """The condition on the state, with what the indexes of finished jobs ask for."""
    found = in_state(*states)
    return and_(found, table.c.finished_at.is_not(None)) if set(states) <= FINAL else found


def counts(conn: Connection) -> dict[str, dict[str, Any]]:
    """Return how many jobs there are in each status, as counts with a ceiling."""
    return {status: paging.count_of(conn, select(paging.ONE).where(in_state(status))) for status in STATUSES}


def _place(sections: Sequence[Section], cursor: str | None) -> tuple[int, list[Any] | None]:
    if cursor is None:
        return 0, None
    for number, section in enumerate(sections):
        for kinds in ((int, type(None)), (int, *section.kinds)):
            try:
                first, *place = paging.decode(cursor, *kinds)
            except BadInput:
                continue
            if first == number:
                return number, None if place == [None] else place
    raise BadInput("this cursor belongs to another list: leave it out to begin")


def _states(section: Section, wanted: JobFilter) -> list[str]:
    return [status for status in section.states if _lets(wanted, status)]


def _lets(wanted: JobFilter, status: str) -> bool:
    return wanted.status in (None, status) and (wanted.include_history or status not in FINAL)


def _exact(wanted: JobFilter) -> list[ColumnElement[bool]]:
    """What the filter names, but for status and text."""
    found = conditions(replace(wanted, status=None, search=None))
    if wanted.kind is not None and wanted.kind != "crawl":
        found.append(table.c.kind != "crawl")  # as the index has it
    return found


def _whole(wanted: JobFilter) -> Way:
    """The one way to what is wanted without a text: led if an index leads to it.

    A source, and the kind of most jobs, lead to nothing: they are what many have in common.
    """
    named = (wanted.site, wanted.target, wanted.group, wanted.run, wanted.dedupe_key)
    rare = any(one is not None for one in named) or wanted.kind not in (None, "crawl")
    return Way(true(), led=rare or not (wanted.source or wanted.kind))


def _read(conn: Connection, section: Section, wanted: JobFilter, place: list[Any] | None,
          limit: int) -> tuple[list[tuple[Any, ...]], tuple[Any, ...] | None]:
    """Return the next places of a section, and behind which one to go on if not all was looked through."""
    among = _exact(wanted)
    found: dict[int, tuple[Any, ...]] = {}
    walked: list[tuple[Any, ...]] = []
    for status in _apart(section, wanted):
        start = [*([_in([status])] if status else []), *(section.behind(place) if place else [])]
        for way in ways(conn, wanted.search) if wanted.search else [_whole(wanted)]:
            if way.led or status in ("running", "queued"):
                stream = _stream(section, [*start, *among, way.condition], limit)
                some, last = [tuple(row) for row in conn.execute(stream)], None
            else:
                some, last = _walk(conn, section, start, [*among, way.condition], limit)
            walked += [last] if last is not None else []
            found |= {row[-1]: row for row in some}
    ordered = sorted(found.values(), reverse=section.descending)
    if not walked:
        return ordered[:limit], None
    # of several walks the one that got least far decides: behind it others may still have something that comes before
    nearest = max(walked) if section.descending else min(walked)
    before = [row for row in ordered if (row >= nearest if section.descending else row <= nearest)]
    return before[:limit], None if len(before) >= limit else nearest


def _apart(section: Section, wanted: JobFilter) -> list[str | None]:
    """The states to ask for one by one; None for all at once, where no order needs them apart."""
    states = _states(section, wanted)
    return [None] if section.columns == _SUBMITTED.columns and len(states) == len(STATUSES) else [*states]


def _stream(section: Section, among: list[ColumnElement[bool]], limit: int) -> Select[Any]:
    return select(*section.columns).where(*among).order_by(*section.order()).limit(limit)


def _walk(conn: Connection, section: Section, start: list[ColumnElement[bool]], among: list[ColumnElement[bool]],
          limit: int) -> tuple[list[tuple[Any, ...]], tuple[Any, ...] | None]:
    """Look through the next `WALK` jobs of one status; the second part is where the walk ended, None at the list's end."""
    found = [tuple(row) for row in conn.execute(_walked(_stream(section, start, WALK), among).limit(limit))]
    if len(found) >= limit:
        return found, None
    last = conn.execute(_stream(section, start, 1).offset(WALK - 1)).first()
    return found, None if last is None else tuple(last)


def _walked(some: Select[Any], among: list[ColumnElement[bool]]) -> Select[Any]:
    """Select those rows of `some`, in their order, that meet the conditions; nothing but `some` is read."""
    names = [column.name for column in some.selected_columns]
    inside = some.add_columns(*(column for column in _LOOKED_AT if column.name not in names)).subquery()
    here = ClauseAdapter(inside)
    return select(*(inside.c[name] for name in names)).where(*(here.traverse(condition) for condition in among))


def _documents(conn: Connection, numbers: Sequence[int]) -> list[dict[str, Any]]:
    now = db_moment(conn)
    found = {row["seq"]: document(row, now) for row in rows(conn, select(table).where(table.c.seq.in_(numbers)))}
    tell(conn, list(found.values()))
    return [found[number] for number in numbers if number in found]
