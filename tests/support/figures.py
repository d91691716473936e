"""Measured figures of tests with real processes, for whoever runs them with ``-rP`` or ``-s``."""

from __future__ import annotations

import os
from pathlib import Path


def figure(line: str) -> None:
    """Print a figure, and append it to the file that ``FIGURES_FILE`` names."""
    print(f"FIGURE {line}")
    if path := os.environ.get("FIGURES_FILE"):
        with Path(path).open("a", encoding="utf-8") as out:
            out.write(f"{line}\n")
