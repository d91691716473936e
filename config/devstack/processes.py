"""Child processes that die with their parent, whatever ends it (rules D1, D5)."""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
# loaded before any fork: between fork and exec nothing may be imported or allocated under a lock
_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None

#: a watcher and the write end of its pipe, by the pid that it watches (only where the kernel cannot do it)
_watchers: dict[int, tuple[subprocess.Popen[bytes], int]] = {}


def die_with_parent(parent_pid: int | None = None) -> None:
    """Have the kernel kill this process when the thread that forked it ends; ends at once if the parent is gone.

    For the first moment of a forked process, such as a pool child. Without `parent_pid`, the parent's id from before
    the fork, a parent that is gone already cannot be told from one that lives. Does nothing where the kernel has no
    such call.
    """
    if _libc is None:
        return
    parent = os.getppid() if parent_pid is None else parent_pid
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died between the fork and the call above
        os.kill(os.getpid(), signal.SIGKILL)


def spawn(
    argv: Sequence[str], env: Mapping[str, str] | None, log_path: Path, **popen: Any
) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own, bound to this process's life, both outputs appended to `log_path`.

    `env` is the whole environment (None: this process's). The session keeps Ctrl-C with the command that spawned it.
    Further arguments go to `subprocess.Popen`.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    parent = os.getpid()
    with open(log_path, "ab") as log:
        arguments: dict[str, Any] = {
            "env": env, "stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT,
            "start_new_session": True, **popen,
        }
        if _LINUX:
            arguments["preexec_fn"] = lambda: die_with_parent(parent)
        child: subprocess.Popen[bytes] = _forking_thread().ask(lambda: subprocess.Popen(argv, **arguments))
    if not _LINUX:
        watch(child.pid)
    return child


def stop_process(process: subprocess.Popen[bytes], grace_sec: float) -> int:
    """Ask `process` to end, kill its whole group after `grace_sec`, and return its exit status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace_sec)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # not reaped yet, so the number cannot belong to anybody else
            process.wait()
    _release_watcher(process.pid)
    return process.returncode


def watch(pid: int) -> None:
    """Start a watcher that kills the process group `pid` when this process is gone: its pipe then reads an end."""
    reader, writer = os.pipe()
    script = 'read word || kill -9 -"$1" 2>/dev/null'
    argv = ["/bin/sh", "-c", script, "ratelane-watcher", str(pid)]
    with os.fdopen(reader) as stdin:
        _watchers[pid] = subprocess.Popen(argv, stdin=stdin, start_new_session=True), writer


def _release_watcher(pid: int) -> None:
    if pid in _watchers:
        watcher, writer = _watchers.pop(pid)
        os.write(writer, b"over\n")
        os.close(writer)
        watcher.wait()


class _ForkingThread(threading.Thread):
    """A thread that lives as long as the process: the kernel ties a child's death to the *thread* that forked it."""

    def __init__(self) -> None:
        super().__init__(name="ratelane-spawn", daemon=True)
        self.pid = os.getpid()
        self._orders: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self.start()

    def ask(self, order: Callable[[], Any]) -> Any:
        """Carry out `order` in this thread and return its answer."""
        answer: Future[Any] = Future()
        self._orders.put((order, answer))
        return answer.result()

    def run(self) -> None:
        """Carry out orders for ever."""
        while True:
            work, future = self._orders.get()
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            del work, future


_thread: _ForkingThread | None = None
_thread_guard = threading.Lock()


def _forking_thread() -> _ForkingThread:
    global _thread
    with _thread_guard:
        if _thread is None or _thread.pid != os.getpid():  # a forked process has the object but not the thread
            _thread = _ForkingThread()
        return _thread
