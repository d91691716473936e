"""From a stored article to what is exported: one document of chunks with ids that stay the same. Pure (rule P6).

An id is made of the target and the canonical URL, so that an article that changed takes the place of its old self, on
whatever machine it is exported.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

#: a chunk is as long as whole paragraphs fit into it, in characters
CHUNK_CHARS = 1_200
#: a paragraph longer than a chunk is cut behind a sentence
_SENTENCE_END = re.compile(r"(?<=[。！？；!?;])|(?<=\.\s)")


class BadDocument(Exception):
    """An article that cannot be exported as it is; `document_id` names it in the report."""

    def __init__(self, document_id: str, reason: str) -> None:
        super().__init__(reason)
        self.document_id, self.reason = document_id, reason


@dataclass(frozen=True)
class StoredArticle:
    """A row of the store, as far as an export needs it; `row_id` and `sha256` say what was exported.

    `is_pending`: this text was not exported yet.
    """

    row_id: int
    target_code: str
    site_code: str
    url: str
    title: str
    text: str
    sha256: str
    published_at: datetime | None
    fetched_at: datetime
    facts: dict[str, Any] | None = None
    is_pending: bool = True


def document_id(target_code: str, url: str) -> str:
    """Return the id of an article's document: 20 hex digits of target and canonical URL."""
    return hashlib.sha256(f"{target_code}\n{url}".encode()).hexdigest()[:20]


def document(article: StoredArticle) -> dict[str, Any]:
    """Return the document of an article with its chunks; raises BadDocument if it has no text.

    Shape: ``{"document_id", "target_code", "site_code", "source_url", "title", "published_at", "fetched_at",
    "sha256", "facts", "chunks": [{"id", "text"}]}``; times are ISO 8601 with offset or null.
    """
    name = document_id(article.target_code, article.url)
    pieces = chunks(article.text)
    if not pieces:
        raise BadDocument(name, "it has no text")
    return {
        "document_id": name, "target_code": article.target_code, "site_code": article.site_code,
        "source_url": article.url, "title": article.title, "published_at": _iso(article.published_at),
        "fetched_at": _iso(article.fetched_at), "sha256": article.sha256, "facts": article.facts or {},
        "chunks": [{"id": f"{name}-{number}", "text": piece} for number, piece in enumerate(pieces)]}


def lines(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a document as one object a chunk, for sinks that hold lines; each repeats what it belongs to."""
    shared = {name: value for name, value in found.items() if name != "chunks"}
    parts = found["chunks"]
    return [{"id": part["id"], **shared, "chunk": number, "chunks": len(parts), "text": part["text"]}
            for number, part in enumerate(parts)]


def chunks(text: str, limit: int = CHUNK_CHARS) -> list[str]:
    """Return a text in pieces of at most `limit` characters: whole paragraphs, else whole sentences, else cut."""
    found: list[str] = []
    held = ""
    for piece in _pieces(text, limit):
        if held and len(held) + 1 + len(piece) > limit:
            found.append(held)
            held = piece
        else:
            held = f"{held}\n{piece}" if held else piece
    return [*found, held] if held else found


def _pieces(text: str, limit: int) -> list[str]:
    found: list[str] = []
    for paragraph in (line.strip() for line in text.splitlines()):
        if len(paragraph) <= limit:
            found += [paragraph] if paragraph else []
        else:
            found += _cut(paragraph, limit)
    return found


def _cut(paragraph: str, limit: int) -> list[str]:
    found: list[str] = []
    held = ""
    for sentence in _SENTENCE_END.split(paragraph):
        if held and len(held) + len(sentence) > limit:
            found.append(held.strip())
            held = ""
        held += sentence
        while len(held) > limit:
            found.append(held[:limit])
            held = held[limit:]
    return [piece for piece in [*found, held.strip()] if piece]


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
