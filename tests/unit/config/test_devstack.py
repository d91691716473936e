from __future__ import annotations

import asyncio
import importlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config import clock
from config.devstack import EmbeddedBroker, LifeLock, processes, spawn, stop_process
from config.errors import ServiceAway
from config.settings import run_folder
from tests.support.programs import Program
from tests.support.servers import wait_until

kombu: Any = importlib.import_module("kombu")  # has no types that mypy accepts


BROKER_OWNER = """
import sys
from pathlib import Path
from config.devstack import EmbeddedBroker
broker = EmbeddedBroker(Path(sys.argv[2]))
broker.start()
print(broker.server_pid, flush=True)
sys.stdin.read()
"""
PARENT = """
import os, subprocess, sys, threading
from pathlib import Path
from config.devstack import spawn
held = int(sys.argv[1])
start = lambda: spawn(["sleep", "60"], None, Path(sys.argv[2]), pass_fds=(held,))
thread = threading.Thread(target=start)
thread.start()
thread.join()
os.close(held)
print("ready", flush=True)
sys.stdin.read()
"""
WATCHED = """
import os, subprocess, sys
from config.devstack.processes import watch
child = subprocess.Popen(["sleep", "60"], start_new_session=True, pass_fds=(int(sys.argv[1]),))
watch(child.pid)
os.close(int(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()
"""
POOL = """
import os, sys
from config.devstack import die_with_parent
parent = int(sys.argv[2]) and os.getpid()
if not os.fork():
    die_with_parent(parent) if parent else die_with_parent()
    print("ready", flush=True)
    sys.stdin.read()
os.close(int(sys.argv[1]))
sys.stdin.read()
"""
WORKER = """
import os, sys
from pathlib import Path
from config.devstack import LifeLock
LifeLock.take(Path(sys.argv[2]), "boot1")
child = os.fork()
if not child:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ("deep" * 30) / ".ratelane"


@pytest.fixture
def broker(home: Path) -> Iterator[EmbeddedBroker]:
    made = EmbeddedBroker(home)
    made.start()
    yield made
    made.stop()


def test_the_broker_of_a_deep_home_carries_messages_at_once(home: Path) -> None:
    watch, broker = clock.Stopwatch(), EmbeddedBroker(home)
    broker.start()
    started_in = watch.elapsed()
    try:
        with kombu.Connection(broker.url) as line:
            queue = line.SimpleQueue("rg.test")
            queue.put({"job": 1})
            assert queue.get(timeout=2).payload == {"job": 1}
            queue.close()
    finally:
        broker.stop()
    assert started_in < 2
    assert not broker.socket_path.parent.exists()


def test_flower_reads_queues_of_the_broker(broker: EmbeddedBroker) -> None:
    from flower.utils.broker import Broker

    with kombu.Connection(broker.url) as line:
        line.SimpleQueue("inbox").put({"job": 1})
        uri = line.as_uri(include_password=True)
    queues = asyncio.run(Broker(uri).queues(["inbox"]))
    assert [(queue["name"], queue["messages"]) for queue in queues] == [("inbox", 1)]


def test_the_broker_listens_on_a_private_socket_alone(broker: EmbeddedBroker) -> None:
    assert broker.socket_path.parent.stat().st_mode & 0o777 == 0o700
    with kombu.Connection(broker.url) as line:
        found = line.default_channel.client.config_get("*")
    assert (found["port"], found["save"], found["maxmemory-policy"]) == ("0", "", "noeviction")


def test_a_second_command_in_the_home_uses_the_running_server(home: Path, broker: EmbeddedBroker) -> None:
    second = EmbeddedBroker(home)
    second.start()
    second.stop()
    assert broker.is_owner and not second.is_owner and second.server_pid is None
    with kombu.Connection(broker.url) as line:
        line.ensure_connection(max_retries=1, timeout=1)


def test_the_second_command_takes_over_when_the_first_one_stops(home: Path) -> None:
    first, second = EmbeddedBroker(home), EmbeddedBroker(home)
    first.start()
    second.start()
    first.stop()
    second.ensure()
    assert second.is_owner
    second.start()
    with kombu.Connection(second.url) as line:
        line.ensure_connection(max_retries=1, timeout=1)
    second.stop()


def test_the_server_dies_with_a_killed_command_and_another_one_takes_over(home: Path) -> None:
    program = Program(BROKER_OWNER, home)
    second = EmbeddedBroker(home)
    second.start()
    assert not second.is_owner
    program.kill()
    wait_until(lambda: not _accepts(second.socket_path), "the end of the server")
    second.start()
    assert second.is_owner and second.server_pid != int(program.line)
    second.stop()


def test_a_server_that_died_is_started_anew_on_the_same_socket(broker: EmbeddedBroker) -> None:
    before = broker.server_pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: not _accepts(broker.socket_path), "the end of the server")
    broker.ensure()
    wait_until(lambda: _accepts(broker.socket_path), "the new server")
    assert broker.server_pid != before


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_socket_folder_that_others_may_enter_is_refused(home: Path, mode: int) -> None:
    folder = run_folder(home)
    folder.mkdir()
    folder.chmod(mode)
    try:
        with pytest.raises(ServiceAway, match="not a private folder"):
            EmbeddedBroker(home).start()
    finally:
        folder.rmdir()


def test_a_spawned_program_has_a_session_of_its_own_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "child.log"
    child = spawn(["sh", "-c", "ps -o sid= -p $$; echo $MARK; echo oops >&2"], {**os.environ, "MARK": "here"}, log)
    assert child.wait(5) == 0
    assert log.read_text().split() == [str(child.pid), "here", "oops"]


def test_a_spawned_program_dies_with_a_killed_parent_but_not_with_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    program = Program(PARENT, tmp_path / "log")
    with pytest.raises(TimeoutError):  # the thread is over, the child is not
        program.all_gone(within=0.2)
    program.kill()
    assert program.all_gone()


@pytest.mark.parametrize("knows_parent", [0, 1])
def test_a_pool_child_dies_with_its_killed_worker(knows_parent: int) -> None:
    program = Program(POOL, knows_parent)
    assert program.line == "ready"
    program.process.kill()  # its output stays open until the child is gone as well
    assert program.process.wait() == -signal.SIGKILL and program.all_gone()


def test_where_the_kernel_cannot_a_watcher_ends_the_child_of_a_killed_parent() -> None:
    program = Program(WATCHED)
    with pytest.raises(TimeoutError):
        program.all_gone(within=0.2)
    program.kill()
    assert program.all_gone()


def test_a_stopped_program_takes_its_watcher_along() -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    processes.watch(child.pid)
    assert stop_process(child, 5) == -signal.SIGTERM
    assert processes._watchers == {}


def test_a_program_that_does_not_stop_is_killed_with_its_children(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    script = "trap '' TERM; sleep 60 & echo ready; while :; do wait; done"
    child = spawn(["sh", "-c", script], None, tmp_path / "log", pass_fds=(writer,))
    os.close(writer)
    wait_until((tmp_path / "log").read_text, "the start of the program")
    assert stop_process(child, 0.05) == -signal.SIGKILL
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_program_that_does_not_exist_is_an_error_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spawn(["/nowhere/program"], None, tmp_path / "log")


def test_a_worker_is_dead_only_when_its_pool_children_are_gone_too(tmp_path: Path) -> None:
    program = Program(WORKER, tmp_path)
    assert LifeLock.dead(tmp_path) == []
    program.process.kill()
    program.process.wait()
    assert LifeLock.dead(tmp_path) == []
    os.kill(int(program.line), signal.SIGKILL)
    wait_until(lambda: LifeLock.dead(tmp_path) == ["boot1"], "the end of the worker")
    LifeLock.forget(tmp_path, "boot1")
    assert LifeLock.dead(tmp_path) == []


def test_a_lock_is_never_found_free_while_it_is_taken(tmp_path: Path) -> None:
    over, found = threading.Event(), []

    def look() -> None:
        while not over.is_set():
            found.extend(LifeLock.dead(tmp_path))

    thread = threading.Thread(target=look)
    thread.start()
    locks = [LifeLock.take(tmp_path, f"boot{number}") for number in range(300)]
    over.set()
    thread.join()
    assert found == [] and LifeLock.dead(tmp_path) == []
    for lock in locks:
        lock.release()
    assert list((tmp_path / "workers").iterdir()) == []


@pytest.mark.parametrize("boot_id", ["", "../x", "a/b", ".hidden"])
def test_a_boot_id_must_be_a_plain_file_name(boot_id: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        LifeLock.take(tmp_path, boot_id)


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(str(path))
        except OSError:
            return False
        return True
