"""The adapters there are: built-in ones by name, then those of the entry point group ``ratelane.adapters``."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from tasks.pipeline.adapters.base import Adapter

GROUP = "ratelane.adapters"

#: name → module that holds the adapter as ``ADAPTER``; imported when it is asked for
_BUILT_IN = {name: f"tasks.pipeline.adapters.{name}" for name in ("feed", "gkmlpt", "list", "sitemap")}


def find(name: str) -> Adapter:
    """Return the adapter called `name`; raises LookupError, which names those that exist (rule P1)."""
    if name in _BUILT_IN:
        adapter: Adapter = import_module(_BUILT_IN[name]).ADAPTER
        return adapter
    for entry in _installed():
        if entry.name == name:
            loaded = entry.load()
            found: Adapter = loaded() if isinstance(loaded, type) else loaded
            return found
    raise LookupError(f"no adapter is called {name!r}; there are: {', '.join(names())}")


def names() -> list[str]:
    """Return the names of all adapters, sorted."""
    return sorted({*_BUILT_IN, *(entry.name for entry in _installed())})


def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))
