"""Proof that a worker of this home is gone: its lock file is free (rule J8)."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LifeLock:
    """A file lock held by a worker and everything it forked; the kernel frees it when the last of them is gone.

    The descriptor is never closed by garbage collection: losing the object must not look like dying.
    """

    path: Path
    descriptor: int

    @classmethod
    def take(cls, home: Path, boot_id: str) -> LifeLock:
        """Lock ``workers/<boot_id>.lock`` in `home` for as long as this process and its forked children live.

        Take it before the first fork. Raises `ValueError` for a boot id that is no plain file name.
        """
        folder = home / "workers"
        path = _lock_path(home, boot_id)
        folder.mkdir(parents=True, exist_ok=True)
        unborn = path.with_suffix(f".{os.getpid()}.new")
        descriptor = os.open(unborn, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.set_inheritable(descriptor, True)
        unborn.rename(path)  # the name that others look for appears locked, so nobody ever finds it free
        return cls(path, descriptor)

    def release(self) -> None:
        """Give the lock back: this process says itself that it is over, and leaves no file."""
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)

    @staticmethod
    def dead(home: Path) -> list[str]:
        """Return the boot ids whose worker, with all its pool children, is certainly gone."""
        return sorted(path.stem for path in (home / "workers").glob("*.lock") if _is_free(path))

    @staticmethod
    def forget(home: Path, boot_id: str) -> None:
        """Remove the lock file of a dead worker, once its jobs are recovered."""
        _lock_path(home, boot_id).unlink(missing_ok=True)


def _lock_path(home: Path, boot_id: str) -> Path:
    if not boot_id or Path(boot_id).name != boot_id or boot_id.startswith("."):
        raise ValueError(f"a boot id must be a plain file name, not {boot_id!r}")
    return home / "workers" / f"{boot_id}.lock"


def _is_free(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # shared, so that two who ask at once do not take each other for the living worker
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
