"""Our own style sheets and scripts, served by Flower's process; no other host is asked for anything."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from tornado.web import StaticFileHandler

ASSETS = Path(__file__).parent


class AssetHandler(StaticFileHandler):
    """The files of this folder, without the Python one; open, like Flower's own: they hold no data."""

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        """Refuse what is source, else as the base class."""
        found: str | None = super().validate_absolute_path(root, absolute_path)
        if found is not None and (found.endswith((".py", ".pyc")) or "__pycache__" in found):
            self.send_error(404)
            return None
        return found

    def set_extra_headers(self, path: str) -> None:
        """Have a browser ask whether a file is still the same, where the address does not say which one it is.

        That is how one script of ours asks for another.
        """
        self.set_header("X-Content-Type-Options", "nosniff")
        if not self.get_query_argument("v", ""):
            self.set_header("Cache-Control", "no-cache")


@lru_cache(maxsize=64)
def version_of(name: str) -> str:
    """Return a few letters that change with a file's content, so that browsers may keep it; raises OSError without it."""
    return sha256((ASSETS / name).read_bytes()).hexdigest()[:12]
