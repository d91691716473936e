"""Articles written as lines, to standard output or to a file that appears whole or not at all."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from config.errors import BadInput

FIELDS = ("target_code", "url", "title", "published_at", "text", "sha256", "source_page", "fetched_at")


def write_articles(found: Iterable[dict[str, Any]], out: Path | None, *, as_csv: bool) -> int:
    """Write `found` as JSON Lines or CSV and return their number; raises BadInput if the file cannot be written."""
    if out is None:
        return _write(found, sys.stdout, as_csv)
    unborn = out.with_name(f".{out.name}.new")
    try:
        with open(unborn, "w", encoding="utf-8", newline="" if as_csv else None) as stream:
            number = _write(found, stream, as_csv)
        unborn.replace(out)
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror}") from error
    finally:
        unborn.unlink(missing_ok=True)
    return number


def _write(found: Iterable[dict[str, Any]], stream: TextIO, as_csv: bool) -> int:
    written = 0
    sheet = csv.DictWriter(stream, FIELDS) if as_csv else None
    if sheet is not None:
        sheet.writeheader()
    for one in found:
        if sheet is not None:
            sheet.writerow(one)
        else:
            stream.write(json.dumps(one, ensure_ascii=False) + "\n")
        written += 1
    stream.flush()
    return written
