"""Finding jobs by text: the start of an id, a part of a code, the start of an error; each by an index (rule J13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, select

from models.jobs import ERROR_START, START_OF_ERROR
from models.jobs import jobs as table
from models.queries.ids import id_begins
from models.sites import sites, targets

#: what is longer is cut: no code and no start of an error is
LONGEST = 200
#: jobs of so many codes are looked up one code after the other
MOST_CODES = 300
_LAST = "\U0010ffff"


class Way(NamedTuple):
    """A condition on jobs, and whether an index leads to those that meet it."""

    condition: ColumnElement[bool]
    led: bool = True


def ways(conn: Connection, text: str) -> list[Way]:
    """Return the conditions of which a job that `text` finds meets at least one."""
    text = text[:LONGEST]
    return [Way(id_begins(text)), *_by_code(conn, text), Way(_by_error(conn, text))]


def _by_code(conn: Connection, text: str) -> Iterator[Way]:
    """A part of a site's or target's code: there are fewer codes than jobs, so they are looked through first.

    What many codes have in common many jobs have: some of them are met on the way through all.
    """
    for column, codes in ((table.c.target_code, targets.c.target_code), (table.c.site_code, sites.c.site_code)):
        known = list(conn.scalars(select(codes).where(codes.icontains(text, autoescape=True)).limit(MOST_CODES + 1)))
        if len(known) > MOST_CODES:
            yield Way(column.icontains(text, autoescape=True), led=False)
        elif known:
            yield Way(column.in_(known))


def _by_error(conn: Connection, text: str) -> ColumnElement[bool]:
    start = text[:ERROR_START]
    if conn.dialect.name == "postgresql":
        found = [table.c.error_msg != "", START_OF_ERROR.like(_escaped(start.lower()) + "%")]
    else:
        low = "".join(letter.lower() if letter.isascii() else letter for letter in start)
        found = [table.c.error_msg != "", START_OF_ERROR.between(low, low + _LAST)]
    if len(text) > ERROR_START:
        found.append(table.c.error_msg.istartswith(text, autoescape=True))
    return and_(*found)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
