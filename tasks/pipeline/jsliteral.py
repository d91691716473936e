"""Reads values out of JavaScript object literals in pages: unquoted keys, single quotes, commas at the end. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_BLANK = re.compile(r"(?:\s+|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_KEY = re.compile(r"[A-Za-z_$][\w$]*|\d+")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)")
_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}
_WORDS = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}
_DEEPEST = 50
#: what stands behind the backslash of a ``\\uXXXX`` that is not whole
_ESCAPE_CHARS = 5


def value_of(name: str, text: str) -> Any:
    """Return the value that the property `name` has where it first has one that can be read.

    Raises LookupError if `text` has no such property, ValueError if none of its values is a literal.
    """
    trouble: ValueError | None = None
    for found in re.finditer(rf"""(?<![\w$.])(['"]?){re.escape(name)}\1\s*[:=](?!=)""", text):
        try:
            return literal(text, found.end())[0]
        except ValueError as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    raise LookupError(name)


def literal(text: str, start: int = 0, depth: int = 0) -> tuple[Any, int]:
    """Return the literal at `start` and where it ends; raises ValueError if there is none, or an expression."""
    at = _skip(text, start)
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if text.startswith("{", at):
        return _object(text, at + 1, depth)
    if text.startswith("[", at):
        return _array(text, at + 1, depth)
    if found := _STRING.match(text, at):
        return _unescaped(found.group()[1:-1]), found.end()
    if found := _NUMBER.match(text, at):
        return _number(found.group()), found.end()
    if (found := _KEY.match(text, at)) and found.group() in _WORDS:
        return _WORDS[found.group()], found.end()
    raise ValueError(f"no literal at {at}: {text[at:at + 40]!r}")


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}

    def entry(at: int) -> int:
        if quoted := _STRING.match(text, at):
            name, at = _unescaped(quoted.group()[1:-1]), quoted.end()
        elif plain := _KEY.match(text, at):
            name, at = plain.group(), plain.end()
        else:
            raise ValueError(f"no name of a property at {at}: {text[at:at + 40]!r}")
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise ValueError(f"no colon at {at}: {text[at:at + 40]!r}")
        found[name], at = literal(text, at + 1, depth + 1)
        return at

    return found, _entries(text, at, "}", entry)


def _array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []

    def entry(at: int) -> int:
        value, at = literal(text, at, depth + 1)
        found.append(value)
        return at

    return found, _entries(text, at, "]", entry)


def _entries(text: str, at: int, close: str, entry: Callable[[int], int]) -> int:
    """Read entries up to `close` and return where what they stand in ends; a comma may follow the last one."""
    while True:
        at = _skip(text, at)
        if text.startswith(close, at):
            return at + 1
        at = _skip(text, entry(at))
        if text.startswith(",", at):
            at += 1
        elif not text.startswith(close, at):
            raise ValueError(f"neither comma nor {close} at {at}: {text[at:at + 40]!r}")


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _number(text: str) -> int | float:
    if text.lower().lstrip("-").startswith("0x"):
        return int(text, 16)
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_character, text)
    # two escapes may be the halves of one character
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(found: re.Match[str]) -> str:
    braced, four, two, letter = found.groups()
    if code := braced or four or two:
        number = int(code, 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    return _LETTERS.get(letter, letter)


def json_of(text: str) -> Any:
    """Return the JSON document in `text`; raises ValueError, which says of a document that is cut off that it is.

    The error's `msg` begins with "cut off" if everything up to the end could have been the beginning of a document.
    """
    body = text.lstrip("\ufeff \t\r\n")
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        is_open = body[:1] in ("{", "[") and _is_at_end(error, body.rstrip())
        raise ValueError(f"cut off behind {len(body)} characters" if is_open else f"no JSON: {error.msg}") from error


def _is_at_end(error: json.JSONDecodeError, body: str) -> bool:
    """Tell whether a document went wrong only where it ends: in a string, an escape, a word or a number, or before one."""
    rest = body[error.pos:]
    if "Unterminated" in error.msg or not rest or rest == "-":
        return True
    if "escape" in error.msg:
        return (len(rest) <= _ESCAPE_CHARS and rest.isalnum()) or rest == "\\"
    return any(word.startswith(rest) for word in ("true", "false", "null"))
