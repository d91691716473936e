"""What the crawls have stored: one row per canonical URL and target."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, String, Table, Text, UniqueConstraint, false

from models.base import BigId, UtcDateTime, metadata

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
    UniqueConstraint("target_code", "url"),
)
Index("ix_articles_target_code_generation", articles.c.target_code, articles.c.generation)
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
)
