"""Where settings are read from, and how mistakes in them are told to a person."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError

from config.errors import BadInput

PREFIX = "RATELANE_"
#: settings whose value may be a secret as a whole: it is never shown (rule U6)
SECRETS = frozenset({"webhook_secret", "webhook_url"})
DEFAULT_HOME = Path(".ratelane")


@dataclass(frozen=True)
class Found:
    """A value as it was written, the name it was written under, and where it stands."""

    value: Any
    name: str
    place: str


def gather(known: frozenset[str], home: Path | None) -> dict[str, Found]:
    """Return the strongest value of every setting that is set anywhere; raise `BadInput` for an unknown name."""
    found = _variables(dotenv_values(".env"), "the file .env", known)
    found |= _variables(os.environ, "the environment", known)
    if home is not None:
        found["home"] = Found(home, "--home", "the command line")
    folder = Path(found["home"].value if "home" in found else DEFAULT_HOME).expanduser()
    return _toml(folder / "ratelane.toml", known) | found


def _variables(variables: Mapping[str, str | None], place: str, known: frozenset[str]) -> dict[str, Found]:
    found = {}
    for name, value in variables.items():
        if not name.upper().startswith(PREFIX):
            continue
        key = name[len(PREFIX) :].lower()
        if key not in known:
            raise _unknown(name, place, key, known, shown=lambda near: PREFIX + near.upper())
        if value:  # an empty variable is how a compose file says "not set"
            found[key] = Found(value, PREFIX + key.upper(), place)
    return found


def _toml(path: Path, known: frozenset[str]) -> dict[str, Found]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None
    allowed = known - {"home"}
    for key in document:
        if key not in allowed:
            raise _unknown(key, str(path), key, allowed, shown=str)
    return {key: Found(value, key, str(path)) for key, value in document.items()}


def _unknown(name: str, place: str, key: str, known: frozenset[str], shown: Any) -> BadInput:
    near = difflib.get_close_matches(key.lower(), sorted(known), n=1, cutoff=0.0)
    return BadInput(f"{name} in {place} is no setting; the nearest one is {shown(near[0])}")


def explain(error: ValidationError, found: Mapping[str, Found]) -> str:
    """Return a sentence for each mistake: the name, the value, where it stands and what is expected."""
    sentences = []
    for mistake in error.errors(include_url=False, include_context=False):
        if mistake["type"] == "default_factory_not_called":  # depends on a value that is complained about already
            continue
        expected = mistake["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        origin = found.get(str(mistake["loc"][0])) if mistake["loc"] else None
        value = "***" if origin is not None and str(mistake["loc"][0]) in SECRETS else None if origin is None else origin.value
        sentences.append(expected if origin is None else f"{origin.name}={value} in {origin.place}: {expected}")
    return "; ".join(sentences)
