"""What the system says about processes: who lives, who is stopped, who descends from whom (Linux alone has the folder)."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

_PROC = Path("/proc")


def state(pid: int) -> str:
    """Return the letter of a process's state (``T``: stopped, ``Z``: dead and not buried), "" if there is none."""
    found = _stat(pid)
    return found[0] if found else ""


def is_alive(pid: int) -> bool:
    """Tell whether a process runs, or could."""
    return state(pid) not in ("", "Z", "X")


def is_stopped(pid: int) -> bool:
    """Tell whether every thread of a process stands still."""
    tasks = _PROC / str(pid) / "task"
    try:
        return all(_stat(int(task.name), tasks)[:1] in (("T",), ("t",)) for task in tasks.iterdir())
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """Return the ids of a process's children, their children, and so on."""
    if not _PROC.is_dir():
        pytest.skip("needs /proc")
    children: dict[int, list[int]] = defaultdict(list)
    for folder in _PROC.iterdir():
        if folder.name.isdigit() and (found := _stat(int(folder.name))):
            children[int(found[1])].append(int(folder.name))
    known, new = [], [pid]
    while new:
        new = [child for parent in new for child in children[parent]]
        known += new
    return known


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal to processes of ours that still live."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _stat(pid: int, folder: Path = _PROC) -> tuple[str, ...]:
    try:
        text = (folder / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(text.rpartition(")")[2].split()[:2])
