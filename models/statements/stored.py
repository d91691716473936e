"""What crawls store: articles, other URLs of them, items that failed, and what list pages gave for asking again.

They run inside the fenced transaction of a commit (see `models.ledger.running`), and writing any of it twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Float, String, and_, bindparam, case, delete, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from models.articles import article_aliases, articles, failed_items, validators
from models.base import day_of, db_now, plus_seconds

#: an item that failed in so many crawls, on so many days, is given up (rule P3)
CRAWLS, DAYS = 3, 2
#: so many former hashes of an article are kept, under this name among its facts (rule P2)
FORMER, MOST_FORMER = "former_sha256", 50
_KEPT = ("own_id", "final_url", "title", "published_at", "text", "sha256", "source_page", "external", "marked", "facts",
         "etag", "last_modified", "job_id", "fetched_at", "checked_at")

#: An article was asked for again and is as it was.
UNCHANGED = (
    update(articles)
    .where(articles.c.target_code == bindparam("b_target", type_=String()), articles.c.url == bindparam("b_url", type_=String()))
    .values(checked_at=db_now())
)


def _insert(conn: Connection, table: Any) -> Any:
    return (postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert)(table)


def upsert_article(conn: Connection, row: dict[str, Any]) -> None:
    """Store an article once per target and canonical URL; storing it again (a repeated commit) changes nothing else.

    Another job that has read it again notes what it is now, and when that was, if it is the same too (rule P2). An
    article that was stored again keeps the generation in which it was first seen, and the hashes that it had. What has a
    body does not lose it to what is only marked or external.
    """
    values = {name: value for name, value in row.items() if name != "fetched_age_sec"}
    values["facts"] = _with_history(conn, values)
    statement = _insert(conn, articles).values(
        **values, fetched_at=plus_seconds(db_now(), literal(-float(row.get("fetched_age_sec", 0.0)), Float())))
    new = statement.excluded
    changed = ((articles.c.sha256 != new.sha256) | (articles.c.external != new.external)
               | (articles.c.marked != new.marked) | articles.c.job_id.is_distinct_from(new.job_id))
    loses = (new.external | new.marked) & (articles.c.sha256 != "")
    conn.execute(statement.on_conflict_do_update(
        index_elements=["target_code", "url"], set_={name: new[name] for name in _KEPT}, where=changed & ~loses))


def _with_history(conn: Connection, row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the facts of an article with the hashes that its text had before; only this job writes the target's rows."""
    facts = dict(row.get("facts") or {})
    before = conn.execute(select(articles.c.sha256, articles.c.facts).where(
        articles.c.target_code == row["target_code"], articles.c.url == row["url"])).first()
    if before is not None:
        former = list((before.facts or {}).get(FORMER) or ())
        if before.sha256 and before.sha256 != row["sha256"]:
            former.append(before.sha256)
        facts |= {FORMER: former[-MOST_FORMER:]} if former else {}
    return facts or None


def upsert_alias(conn: Connection, row: dict[str, Any]) -> None:
    """Note that a URL leads to an article that is stored under another one (public report W40)."""
    statement = _insert(conn, article_aliases).values(**row)
    conn.execute(statement.on_conflict_do_update(
        index_elements=["target_code", "url"], set_={"article_url": statement.excluded.article_url}))


def upsert_failed_item(conn: Connection, row: dict[str, Any]) -> None:
    """Note an item that could not be read: one row per target and URL, with the number of tries, of crawls (jobs) and of
    days by the database's date in UTC; after enough of both it is given up (rule P3).
    """
    statement = _insert(conn, failed_items).values(**row, tries=1, first_at=db_now(), last_at=db_now())
    old, new = failed_items.c, statement.excluded
    crawls = old.crawls + case((old.job_id.is_distinct_from(new.job_id), 1), else_=0)
    days = old.days + case((day_of(old.last_at) != day_of(db_now()), 1), else_=0)
    conn.execute(statement.on_conflict_do_update(
        index_elements=["target_code", "url"],
        set_={"error": new.error, "title": case((new.title != "", new.title), else_=old.title), "job_id": new.job_id,
              "source_page": case((new.source_page != "", new.source_page), else_=old.source_page),
              "last_at": db_now(), "forbidden": old.forbidden | new.forbidden, "tries": old.tries + 1,
              "crawls": crawls, "days": days,
              "given_up_at": case((and_(old.given_up_at.is_(None), crawls >= CRAWLS, days >= DAYS), db_now()),
                                  else_=old.given_up_at)},
    ))


def forget_failed_items(target_code: str, urls: Sequence[str]) -> Any:
    """Delete the notes of items that were read after all."""
    return delete(failed_items).where(failed_items.c.target_code == target_code, failed_items.c.url.in_(urls))


def forget_validators(target_code: str, urls: Sequence[str]) -> Any:
    """Delete what list pages gave for asking again: they have answered anew, or what they answered was no list (P4)."""
    return delete(validators).where(validators.c.target_code == target_code, validators.c.url.in_(urls))


def keep_validators(conn: Connection, row: dict[str, Any]) -> None:
    """Keep what a list page gave for asking again, exactly as it came, instead of what it gave before (W45)."""
    statement = _insert(conn, validators).values(**row, fetched_at=db_now())
    conn.execute(statement.on_conflict_do_update(
        index_elements=["target_code", "url"],
        set_={name: statement.excluded[name] for name in ("etag", "last_modified", "fetched_at")}))
