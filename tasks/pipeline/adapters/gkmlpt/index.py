"""The index page of a gkmlpt site: a JavaScript literal that tells the SID and the tree of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from tasks.pipeline.adapters.base import NoSuchList, WrongShape
from tasks.pipeline.extract import normalise
from tasks.pipeline.jsliteral import value_of

#: so many names of columns stand in an error
_MOST_NAMES = 40
_MARK = "/gkmlpt"


def home(base_url: str, prefix: str | None) -> str:
    """Return the URL below which a site's ``/gkmlpt`` lies, without a slash at its end.

    It is the site's base URL, whatever of ``/gkmlpt/index`` it names, or `prefix` on the base URL's host.
    """
    parts = urlsplit(base_url)
    path = parts.path.partition(_MARK)[0] if prefix is None else "/" + prefix.partition(_MARK)[0].strip("/")
    return f"{parts.scheme}://{parts.netloc}{path.rstrip('/')}"


def number(column: int | str) -> int | None:
    """Return the number that an option names, None if it is a name."""
    text = str(column).strip()
    return int(text) if text.isdecimal() else None


def site_id(text: str) -> str:
    """Return the SID that an index page tells; raises WrongShape."""
    found = _literal("SID", text)
    if not isinstance(found, str | int) or not str(found).strip():
        raise WrongShape("the index page tells no SID")
    return str(found).strip()


def column(text: str, wanted: int | str) -> int:
    """Return the number of a column that exists and has rows of its own; raises WrongShape or NoSuchList."""
    wanted_number = number(wanted)
    if wanted_number == 0:
        return 0
    tree = _literal("TREE", text)
    if not isinstance(tree, list):
        raise WrongShape("the index page tells no TREE of columns")
    nodes = list(_nodes(tree, ""))
    if wanted_number is not None:
        found = [node for node in nodes if node[0] == wanted_number]
    else:
        path = "/".join(normalise(name) for name in str(wanted).strip("/ ").split("/"))
        found = ([node for node in nodes if node[1] == path]
                 or [node for node in nodes if node[1].rpartition("/")[2] == path])
    if len(found) != 1:
        there = ", ".join(f"{path} ({one})" for one, path, _jump in (found or nodes)[:_MOST_NAMES])
        raise NoSuchList(f"{len(found) or 'no'} columns are called {wanted!r}; there are: {there or 'none'}")
    only, path, jump = found[0]
    if jump:
        raise NoSuchList(f"the column {path} ({only}) is only a link to {jump}")
    return only


def _nodes(tree: list[Any], above: str) -> Iterator[tuple[int, str, str]]:
    """Yield number, path of names and link of every column of the tree."""
    for node in tree:
        if not isinstance(node, dict) or (own := number(str(node.get("id", "")))) is None:
            continue
        path = f"{above}/{normalise(str(node.get('name', '')))}".lstrip("/")
        yield own, path, str(node.get("jump_url") or "").strip()
        children = node.get("children")
        yield from _nodes(children if isinstance(children, list) else [], path)


def _literal(name: str, text: str) -> Any:
    try:
        return value_of(name, text)
    except LookupError:
        return None
    except ValueError as error:
        raise WrongShape(f"{name} of the index page cannot be read: {error}") from error
