"""What a list says of an item, in short: by that a changed item is told without asking for its page (rule S7). Pure."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime

from tasks.pipeline.adapters.base import Item
from tasks.pipeline.extract import hash_of


def mark_of(item: Item) -> str:
    """Return a hash of an item's title and dates, and of its text if the list gives that: 32 hex digits.

    Two marks are the same as long as the list says the same.
    """
    parts = item.parts
    said = [item.title, _text(item.published_at), _text(item.changed_at), "" if parts is None else hash_of(parts.text)]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def _text(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat()
