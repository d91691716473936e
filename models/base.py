"""Metadata, column types and the few expressions that the two databases spell differently.

Times are aware UTC datetimes in Python, `timestamptz` on PostgreSQL and microseconds since 1970 on SQLite, so that
comparisons and sums are exact on both.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Float, Integer, MetaData, bindparam
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import JSON, TypeDecorator, TypeEngine

from config.moments import FAR as FAR

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Return `moment` (aware) as microseconds since 1970, the form in which SQLite keeps it."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(value: int) -> datetime:
    """Return the aware UTC datetime of `value` microseconds since 1970."""
    return EPOCH + timedelta(microseconds=value)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware moment; naive ones are refused because nobody can say what they mean."""

    impl = TIMESTAMP(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(BigInteger())
        return dialect.type_descriptor(TIMESTAMP(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise TypeError(f"naive datetime {value!r} given to the database")
        return to_micros(value) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None or isinstance(value, datetime):
            return value.astimezone(UTC) if value is not None else None
        return from_micros(int(value))


Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
BigId = BigInteger().with_variant(Integer(), "sqlite")


class db_now(ColumnElement[datetime]):
    """The database's clock, or the moment that a test hands in as the parameter `p_now`."""

    inherit_cache = True
    type = UtcDateTime()

    def __init__(self) -> None:
        self.given = bindparam("p_now", None, type_=UtcDateTime())

    _traverse_internals = [("given", InternalTraversal.dp_clauseelement)]  # noqa: RUF012


@compiles(db_now, "postgresql")
def _now_postgresql(element: db_now, compiler: Any, **kw: Any) -> str:
    # a scalar sub-select, because a bare volatile call cannot bound an index
    return f"(SELECT coalesce(CAST({compiler.process(element.given, **kw)} AS timestamptz), clock_timestamp()))"


@compiles(db_now, "sqlite")
def _now_sqlite(element: db_now, compiler: Any, **kw: Any) -> str:
    return f"coalesce({compiler.process(element.given, **kw)}, rl_now())"


class plus_seconds(ColumnElement[datetime]):
    """A moment moved by a number of seconds (a column, an expression or a plain number)."""

    inherit_cache = True
    type = UtcDateTime()

    @property
    def _from_objects(self) -> list[Any]:
        return [*self.moment._from_objects, *self.seconds._from_objects]

    def __init__(self, moment: ColumnElement[Any], seconds: ColumnElement[Any] | float) -> None:
        self.moment = moment
        if isinstance(seconds, ColumnElement):
            self.seconds: ColumnElement[Any] = seconds
        else:
            self.seconds = bindparam(None, float(seconds), type_=Float(), unique=True)

    _traverse_internals = [  # noqa: RUF012
        ("moment", InternalTraversal.dp_clauseelement),
        ("seconds", InternalTraversal.dp_clauseelement),
    ]


@compiles(plus_seconds, "postgresql")
def _plus_postgresql(element: plus_seconds, compiler: Any, **kw: Any) -> str:
    moment, seconds = compiler.process(element.moment, **kw), compiler.process(element.seconds, **kw)
    return f"(({moment}) + make_interval(secs => CAST({seconds} AS double precision)))"


@compiles(plus_seconds, "sqlite")
def _plus_sqlite(element: plus_seconds, compiler: Any, **kw: Any) -> str:
    moment, seconds = compiler.process(element.moment, **kw), compiler.process(element.seconds, **kw)
    return f"(({moment}) + CAST(({seconds}) * 1000000 AS INTEGER))"


class _of_moment(ColumnElement[int]):
    """A whole number that is computed from a moment; what it is on each database is compiled for each subclass."""

    inherit_cache = True
    moment: ColumnElement[Any]

    @property
    def _from_objects(self) -> list[Any]:
        return list(self.moment._from_objects)

    def __init__(self, moment: ColumnElement[Any]) -> None:
        self.moment = moment

    _traverse_internals = [("moment", InternalTraversal.dp_clauseelement)]  # noqa: RUF012


class day_of(_of_moment):
    """The number of a moment's day, in UTC: equal for moments of one date."""

    inherit_cache = True
    type = Integer()


@compiles(day_of, "postgresql")
def _day_postgresql(element: day_of, compiler: Any, **kw: Any) -> str:
    return f"(CAST(({compiler.process(element.moment, **kw)}) AT TIME ZONE 'UTC' AS date) - DATE '1970-01-01')"


@compiles(day_of, "sqlite")
def _day_sqlite(element: day_of, compiler: Any, **kw: Any) -> str:
    return f"(({compiler.process(element.moment, **kw)}) / 86400000000)"


class micros_of(_of_moment):
    """A moment as whole microseconds since 1970: what can be added up exactly, in any order."""

    inherit_cache = True
    type = BigInteger()


@compiles(micros_of, "postgresql")
def _micros_postgresql(element: micros_of, compiler: Any, **kw: Any) -> str:
    return f"CAST(extract(epoch FROM {compiler.process(element.moment, **kw)}) * 1000000 AS bigint)"


@compiles(micros_of, "sqlite")
def _micros_sqlite(element: micros_of, compiler: Any, **kw: Any) -> str:
    return f"({compiler.process(element.moment, **kw)})"


class seconds_from(ColumnElement[float]):
    """The seconds from one moment to another; negative if the other came first."""

    inherit_cache = True
    type = Float()

    @property
    def _from_objects(self) -> list[Any]:
        return [*self.start._from_objects, *self.end._from_objects]

    def __init__(self, start: ColumnElement[Any], end: ColumnElement[Any]) -> None:
        self.start, self.end = start, end

    _traverse_internals = [  # noqa: RUF012
        ("start", InternalTraversal.dp_clauseelement),
        ("end", InternalTraversal.dp_clauseelement),
    ]


@compiles(seconds_from, "postgresql")
def _from_postgresql(element: seconds_from, compiler: Any, **kw: Any) -> str:
    start, end = compiler.process(element.start, **kw), compiler.process(element.end, **kw)
    return f"CAST(extract(epoch FROM (({end}) - ({start}))) AS double precision)"


@compiles(seconds_from, "sqlite")
def _from_sqlite(element: seconds_from, compiler: Any, **kw: Any) -> str:
    start, end = compiler.process(element.start, **kw), compiler.process(element.end, **kw)
    return f"((({end}) - ({start})) / 1000000.0)"
