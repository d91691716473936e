"""Finding a job by the start of its id, through the index that ids have anyway."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, func

from models.jobs import jobs as table

_HEX = "0123456789abcdef"


def id_begins(text: str) -> ColumnElement[bool]:
    """Return the condition that a job's id begins with `text`.

    Collations keep together what begins with the same hexadecimal digits, and our own ids are such digits: that part of
    the text is looked up as a range of the index, the rest is compared. Of an id that begins otherwise only the whole one
    is found.
    """
    digits = text[: len(text) - len(text.lstrip(_HEX))]
    if not digits:
        return table.c.job_id == text
    found = [table.c.job_id >= digits, func.substr(table.c.job_id, 1, len(text)) == text]
    after = _behind(digits)
    return and_(*found, table.c.job_id < after) if after else and_(*found)


def _behind(digits: str) -> str | None:
    """Return the first number that begins otherwise, None behind the last one."""
    kept = digits.rstrip(_HEX[-1])
    return kept[:-1] + _HEX[_HEX.index(kept[-1]) + 1] if kept else None
