"""What the crawls have stored: one row per canonical URL and target."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, String, Table, Text, UniqueConstraint, false, text

from models.base import BigId, Json, UtcDateTime, metadata

articles = Table(
    "articles",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("target_code", String(200), nullable=False),
    Column("site_code", String(200), nullable=False),
    Column("url", Text, nullable=False),
    Column("own_id", String(200)),
    Column("final_url", Text, nullable=False, server_default=""),
    Column("title", Text, nullable=False, server_default=""),
    Column("published_at", UtcDateTime),
    Column("text", Text, nullable=False, server_default=""),
    Column("sha256", String(64), nullable=False, server_default=""),
    Column("source_page", Text, nullable=False, server_default=""),
    Column("external", Boolean, nullable=False, server_default=false()),
    Column("generation", Integer, nullable=False),
    Column("job_id", String(64)),
    Column("fetched_at", UtcDateTime, nullable=False),
    # what the site says beside title and text: further dates, numbers, attachments (name and address)
    Column("facts", Json),
    # known without a body, because a first crawl was told to take what is listed as known (rule P2)
    Column("marked", Boolean, nullable=False, server_default=false()),
    # for asking again whether it has changed; exactly as the site sent them
    Column("etag", Text),
    Column("last_modified", Text),
    Column("checked_at", UtcDateTime),
    # the hash of the text that was exported last; another one, or none, is pending (rule P6)
    Column("exported_sha256", String(64)),
    Column("exported_at", UtcDateTime),
    UniqueConstraint("target_code", "url"),
)
PENDING = text("NOT external AND NOT marked AND (exported_sha256 IS NULL OR exported_sha256 <> sha256)")
Index("ix_articles_target_code_generation", articles.c.target_code, articles.c.generation)
Index("ix_articles_pending", articles.c.target_code, articles.c.id, postgresql_where=PENDING, sqlite_where=PENDING)
Index("ix_articles_target_code_own_id", articles.c.target_code, articles.c.own_id)
Index("ix_articles_target_code_final_url", articles.c.target_code, articles.c.final_url)

#: Other URLs that redirect to an article: known, and stored there (one article, several source URLs).
article_aliases = Table(
    "article_aliases",
    metadata,
    Column("target_code", String(200), primary_key=True),
    Column("url", Text, primary_key=True),
    Column("article_url", Text, nullable=False),
    Column("title", Text, nullable=False, server_default=""),
    Column("source_page", Text, nullable=False, server_default=""),
    Column("generation", Integer, nullable=False),
)

#: Items that could not be read: listed, tried again, never known.
failed_items = Table(
    "failed_items",
    metadata,
    Column("target_code", String(200), primary_key=True),
    Column("url", Text, primary_key=True),
    Column("title", Text, nullable=False, server_default=""),
    Column("source_page", Text, nullable=False, server_default=""),
    Column("error", Text, nullable=False),
    Column("forbidden", Boolean, nullable=False, server_default=false()),
    Column("tries", Integer, nullable=False),
    Column("first_at", UtcDateTime, nullable=False),
    Column("last_at", UtcDateTime, nullable=False),
    Column("job_id", String(64)),
    # in how many crawls, on how many days it failed; given up it is tried weekly and blocks nothing (rule P3)
    Column("crawls", Integer, nullable=False, server_default="1"),
    Column("days", Integer, nullable=False, server_default="1"),
    Column("given_up_at", UtcDateTime),
)

#: What list pages and feeds sent for asking again whether they have changed; replaced by every whole answer (rule P4).
validators = Table(
    "validators",
    metadata,
    Column("target_code", String(200), primary_key=True),
    Column("url", Text, primary_key=True),
    Column("etag", Text),
    Column("last_modified", Text),
    # the last whole answer: a server that says "unchanged" for ever is asked without condition now and then
    Column("fetched_at", UtcDateTime, nullable=False),
)
