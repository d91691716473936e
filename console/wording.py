"""How long and how many, in the words of every surface. Pure."""

from __future__ import annotations


def span(seconds: float | None) -> str:
    """Return a duration as ``4 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number: int, word: str) -> str:
    """Return a number with its word: ``1 job``, ``3 jobs``."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
