"""Named probes: lines of the protocol at which a test can watch, hold, freeze or kill the process.

In production every call is one comparison with None. A test sets ``RATELANE_PROBE_DIR``: each probe then appends a
JSON line to ``trace.jsonl`` in that folder, and if a file ``at.<name>`` exists it is taken (once, by one process) and
its word is obeyed on exactly this line: ``freeze`` stops the process, ``kill`` ends it without a chance to clean up,
``hold`` waits until the file ``go.<name>`` appears. A second word, ``at.<name>.<job>``, waits for one job alone.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

_folder: Path | None = Path(os.environ["RATELANE_PROBE_DIR"]) if os.environ.get("RATELANE_PROBE_DIR") else None

#: every probe there is; a test that names another one is told so
NAMES = frozenset(
    {
        "claiming", "locked", "claimed", "published", "handed", "started", "waiting", "before_guard", "after_guard",
        "responded", "committing", "committed", "settling", "settled", "acknowledged", "reaped", "retry_received",
        "page_done", "body_started", "body_ended", "in_transaction", "told", "consumer_closed", "turn_taken",
        "turn_written", "turn_committed", "jobs_stored", "run_ending", "run_ended",
    }
)


def probe(name: str, job: str = "", attempt: int = 0) -> None:
    """Say that the process has reached the line `name`; does nothing unless a test watches."""
    if _folder is not None:
        _reach(_folder, name, job, attempt)


def _reach(folder: Path, name: str, job: str, attempt: int) -> None:
    if name not in NAMES:
        raise LookupError(f"no probe is called {name!r}")
    line = json.dumps(
        {"probe": name, "job": job, "attempt": attempt, "pid": os.getpid(), "thread": threading.get_ident(),
         "mono": time.monotonic()}
    )
    with open(folder / "trace.jsonl", "a", encoding="utf-8") as trace:
        trace.write(line + "\n")
    for order in (folder / f"at.{name}", folder / f"at.{name}.{job}"):
        taken = order.with_name(f"taken.{order.name}.{os.getpid()}")
        try:
            order.rename(taken)
        except OSError:
            continue
        _obey(folder, name, taken.read_text(encoding="utf-8").strip())


def _obey(folder: Path, name: str, word: str) -> None:
    if word == "freeze":
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    elif word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "hold":
        while not (folder / f"go.{name}").exists():
            time.sleep(0.005)
