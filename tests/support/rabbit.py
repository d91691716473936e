"""A RabbitMQ node of a test's own: its own folder, ports, epmd and Erlang cookie; nothing of the machine's is touched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import amqp

from config.devstack.processes import spawn, stop_process
from tests.support.servers import free_port, missing, wait_until

#: Debian's /usr/sbin has wrappers that insist on the service's user; these are the programs themselves
_PROGRAMS = (Path("/usr/lib/rabbitmq/bin"), Path("/opt/homebrew/sbin"), Path("/usr/local/sbin"))
_READY_WITHIN_SEC = 60.0
_USER, _PASSWORD = "ratelane", "rabbit-pass"


def _program(name: str) -> Path:
    for folder in _PROGRAMS:
        if (folder / name).exists() and shutil.which("epmd"):
            return folder / name
    return missing("rabbitmq-server", where_complete="CI_FULL")


class RabbitServer:
    """A node on loopback ports that it keeps over restarts."""

    def __init__(self) -> None:
        self._server, self._ctl = _program("rabbitmq-server"), _program("rabbitmqctl")
        self.folder = Path(tempfile.mkdtemp(prefix="rl-rabbit-", dir="/tmp"))
        self.port, epmd_port, dist_port = free_port(), free_port(), free_port()
        (self.folder / "plugins").write_text("[].\n")
        (self.folder / "env.conf").touch()
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console = true\nlog.console.level = warning\n"
            f"log.file = false\ndefault_user = {_USER}\ndefault_pass = {_PASSWORD}\n")
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(epmd_port), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "ratelane@localhost", "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"), "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_LOGS": "-", "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "env.conf"),
            # with input allowed the start script becomes the node instead of watching over it
            "RABBITMQ_ALLOW_INPUT": "1", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput +S 1:1 +sbwt none"}
        self._log = self.folder / "rabbit.log"
        self._process: subprocess.Popen[bytes] | None = None
        # started beforehand and as a child, because a node that finds none starts one that outlives it
        self._epmd = spawn(["epmd", "-address", "127.0.0.1", "-port", str(epmd_port)], self._environment,
                           self.folder / "epmd.log")

    @property
    def url(self) -> str:
        """The broker URL."""
        return f"amqp://{_USER}:{_PASSWORD}@127.0.0.1:{self.port}//"

    def listen_with_tls(self, folder: Path) -> int:
        """Have the node, once it starts, listen on a second port with the certificates in `folder`; return the port."""
        port = free_port()
        with (self.folder / "rabbitmq.conf").open("a") as conf:
            conf.write(f"listeners.ssl.1 = 127.0.0.1:{port}\nssl_options.verify = verify_none\n"
                       f"ssl_options.cacertfile = {folder}/ca.pem\nssl_options.certfile = {folder}/server.pem\n"
                       f"ssl_options.keyfile = {folder}/server.key\n")
        return port

    def start(self) -> RabbitServer:
        """Start the node with what the last `stop(keep_memory=True)` left."""
        self._process = process = spawn([str(self._server)], self._environment, self._log, cwd=self.folder)
        wait_until(lambda: self._answers() or process.poll() is not None, "the start of RabbitMQ", _READY_WITHIN_SEC)
        if process.poll() is not None:
            raise RuntimeError(f"RabbitMQ did not start:\n{self._log.read_text(errors='replace')[-2000:]}")
        return self

    def connect(self, timeout: float = 2.0) -> Any:
        """Return a connection to it, for looking at what is inside and for doing what others might do."""
        line = amqp.Connection(f"127.0.0.1:{self.port}", userid=_USER, password=_PASSWORD, connect_timeout=timeout)
        line.connect()
        return line

    def ask(self, *words: str) -> str:
        """Run a command of rabbitmqctl and return what it prints."""
        done = subprocess.run([str(self._ctl), "--quiet", *words], env=self._environment, capture_output=True, text=True,
                              check=False, timeout=60)
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {words[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def queues(self) -> dict[str, int]:
        """Return how many messages each queue has, those included that somebody holds unacknowledged."""
        rows = self.ask("list_queues", "--no-table-headers", "name", "messages").splitlines()
        return {name: int(number) for name, number in (row.split("\t") for row in rows)}

    def close_all_connections(self) -> None:
        """Close every client's connection; the server stays."""
        self.ask("close_all_connections", "a test asked for it")

    def flush(self) -> None:
        """Delete all queues."""
        self.ask("eval", '[rabbit_amqqueue:delete(Q, false, false, <<"test">>) || Q <- rabbit_amqqueue:list()], ok.')

    def stop(self, *, keep_memory: bool = False) -> None:
        """Shut the node down; without `keep_memory` its queues and messages are gone afterwards."""
        if self._process is not None:
            stop_process(self._process, 10)
            self._process = None
        self._forget(keep_memory)

    def kill(self, *, keep_memory: bool = False) -> None:
        """End the node at once."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            stop_process(self._process, 0)
            self._process = None
        self._forget(keep_memory)

    def restart(self, *, keep_memory: bool = False) -> None:
        """Stop and start the node on the same port."""
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
        """Kill the node and delete its folder."""
        self.kill()
        stop_process(self._epmd, 0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _forget(self, keep_memory: bool) -> None:
        if not keep_memory:
            shutil.rmtree(self.folder / "mnesia", ignore_errors=True)

    def _answers(self) -> bool:
        try:
            self.connect(1.0).close()
        except (OSError, amqp.AMQPError):
            return False
        return True
