"""A set of texts that grows without taking memory: what a walk has met, however long its list is (rule P2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b

from tasks.pipeline.spool import no_room

#: so many are held in memory; most crawls never meet more
IN_MEMORY = 4_096
_AT_ONCE = 500
#: no journal and no flush: the file is for this process alone and ends with it. The cache is a megabyte.
_SETUP = ("PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "PRAGMA cache_size=-1000",
          "CREATE TABLE kept (digest BLOB PRIMARY KEY) WITHOUT ROWID")


class DiskSet:
    """Holds the latest texts in memory and digests of the others (16 bytes) in a private temporary file of SQLite's.

    SQLite unlinks such a file as it opens it, so that it is gone however the process ends. Belongs to one thread.
    Raises Parked if the disk is full.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._most = in_memory
        self._latest: set[str] = set()
        self._disk: sqlite3.Connection | None = None

    def __contains__(self, text: str) -> bool:
        return bool(self.of((text,)))

    def add(self, text: str) -> None:
        """Take a text."""
        self._latest.add(text)
        if len(self._latest) > self._most:
            self._spill()

    def update(self, texts: Iterable[str]) -> None:
        """Take several."""
        for text in texts:
            self.add(text)

    def of(self, texts: Collection[str]) -> set[str]:
        """Return those of `texts` that are in the set."""
        found = self._latest.intersection(texts)
        if self._disk is not None:
            others = {_digest(text): text for text in texts if text not in found}
            found.update(others[digest] for digest in self._stored(self._disk, list(others)))
        return found

    def close(self) -> None:
        """Give the file up."""
        if self._disk is not None:
            self._disk.close()
            self._disk = None
        self._latest = set()

    def _spill(self) -> None:
        try:
            if self._disk is None:
                self._disk = sqlite3.connect("", isolation_level=None)
                for statement in _SETUP:
                    self._disk.execute(statement)
            self._disk.execute("BEGIN")
            self._disk.executemany("INSERT OR IGNORE INTO kept VALUES (?)", [(_digest(text),) for text in self._latest])
            self._disk.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise no_room(error) from error
        self._latest.clear()

    @staticmethod
    def _stored(disk: sqlite3.Connection, digests: list[bytes]) -> Iterator[bytes]:
        for start in range(0, len(digests), _AT_ONCE):
            part = digests[start : start + _AT_ONCE]
            marks = ",".join("?" * len(part))
            yield from (row[0] for row in disk.execute(f"SELECT digest FROM kept WHERE digest IN ({marks})", part))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
