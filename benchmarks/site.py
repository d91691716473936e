"""Fifty hosts of static pages: their files, the servers that serve them, and those servers' own word on every request.

The hosts are 127.0.0.2, 127.0.0.3 … on one port: each is a host of its own to every crawler, and a rate group of its own
here. All of 127.0.0.0/8 is the loopback interface on Linux; elsewhere the addresses have to be added to it first.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from config.devstack.processes import spawn, stop_process

ROOT = Path(__file__).resolve().parent.parent
_BINARIES = ("/usr/sbin/nginx", "/usr/local/sbin/nginx", "/opt/homebrew/bin/nginx")
_READY_WITHIN_SEC = 20.0
#: nginx writes moments and durations as whole milliseconds
CLOCK_SEC = 0.002
_FORMAT = '{"host":"$server_addr","path":"$request_uri","status":$status,"ended":$msec,"took":$request_time}'
_WORDS = ("notice", "office", "water", "permit", "road", "meeting", "budget", "report", "public", "school", "market",
          "river", "plan", "survey", "result", "tender", "harbour", "council", "record", "change")


@dataclass(frozen=True)
class Shape:
    """So many hosts, each with so many list pages of so many articles each."""

    hosts: int = 50
    lists: int = 10
    each: int = 20

    @property
    def articles(self) -> int:
        """How many articles there are on all hosts."""
        return self.hosts * self.lists * self.each

    @property
    def pages(self) -> int:
        """How many pages, robots.txt aside, one crawl of everything has to fetch."""
        return self.articles + self.hosts * self.lists


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it, in seconds of the wall clock."""

    host: str
    path: str
    status: int
    started: float
    ended: float


def addresses(number: int) -> list[str]:
    """Return the addresses of so many hosts."""
    return [f"127.0.0.{place}" for place in range(2, number + 2)]


def write_pages(root: Path, shape: Shape) -> None:
    """Write the pages of one host: every host serves the same files, under its own name."""
    root.mkdir(parents=True)
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
    for page in range(1, shape.lists + 1):
        numbers = range((page - 1) * shape.each, page * shape.each)
        rows = "\n".join(f'<li class="item"><a href="/news/{number}.html" title="{_title(number)}">{_title(number)}</a>'
                         f'<span class="date">2026-03-{number % 28 + 1:02d}</span></li>' for number in numbers)
        following = f'<a class="next" href="/list_{page + 1}.html">next</a>' if page < shape.lists else ""
        (root / f"list_{page}.html").write_text(_page(f"List {page}", f'<ul class="list">{rows}</ul>{following}'))
        (root / "news").mkdir(exist_ok=True)
        for number in numbers:
            body = "".join(f"<p>{_sentence(number, line)}</p>\n" for line in range(12))
            article = (f'<h1>{_title(number)}</h1><span class="date">2026-03-{number % 28 + 1:02d} 10:{number % 60:02d}</span>'
                       f'<div class="content">{body}</div>')
            (root / "news" / f"{number}.html").write_text(_page(_title(number), article))


def _title(number: int) -> str:
    return f"Notice {number}: {_WORDS[number % 20]} {_WORDS[number // 20 % 20]} of {_WORDS[(number * 7 + 3) % 20]}"


def _sentence(number: int, line: int) -> str:
    words = [_WORDS[(number * 31 + line * 17 + place * 13) % 20] for place in range(28)]
    return f"{number}.{line} {' '.join(words)}."


def _page(title: str, body: str) -> str:
    menu = "".join(f'<li class="nav-{word}"><a href="/about/{word}.html">{word}</a></li>' for word in _WORDS)
    return (f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{title}</title>'
            f'<link rel="stylesheet" href="/style.css"></head>\n<body><div id="head"><ul class="menu">{menu}</ul></div>\n'
            f'<div id="main">{body}</div>\n<div id="foot"><p>Published by the office of records.</p></div></body></html>\n')


class Server:
    """A server of the pages as a child process: nginx, or with `delay_sec` one that takes so long over each page."""

    def __init__(self, folder: Path, shape: Shape, delay_sec: float = 0.0) -> None:
        self.hosts = addresses(shape.hosts)
        self.port = _free_port(self.hosts)
        folder.mkdir(parents=True)
        self.log_path, self._output = folder / "access.log", folder / "server.out"
        write_pages(folder / "pages", shape)
        self.log_path.touch()
        self._read_from = 0
        if delay_sec:
            argv = [sys.executable, "-m", "benchmarks.apps.slow_site", str(folder / "pages"), str(self.log_path),
                    str(self.port), str(delay_sec), *self.hosts]
        else:
            (folder / "nginx.conf").write_text(self._configuration(folder))
            argv = [_nginx(), "-p", str(folder), "-e", "error.log", "-c", "nginx.conf"]
        self._process: subprocess.Popen[bytes] = spawn(argv, None, self._output, cwd=ROOT)
        self._await()

    def urls(self) -> list[str]:
        """Return the base URL of each host."""
        return [f"http://{host}:{self.port}" for host in self.hosts]

    def stop(self) -> None:
        """End the process."""
        stop_process(self._process, 5)

    def log(self) -> list[Asked]:
        """Return what was asked since the last call, in the order of arrival."""
        with open(self.log_path, encoding="utf-8") as lines:
            lines.seek(self._read_from)
            text = lines.read()
        self._read_from += len(text)
        rows = [json.loads(line) for line in text.splitlines()]
        found = [Asked(row["host"], row["path"], row["status"], row["ended"] - row["took"], row["ended"]) for row in rows]
        return sorted(found, key=lambda one: (one.started, one.ended))

    def _configuration(self, folder: Path) -> str:
        paths = "".join(f"    {name}_temp_path {folder}/{name};\n"
                        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        listens = "".join(f"        listen {host}:{self.port};\n" for host in self.hosts)
        return (
            "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log error.log warn;\n"
            "events { worker_connections 1024; }\nhttp {\n"
            f"    log_format line escape=json '{_FORMAT}';\n    access_log access.log line;\n{paths}"
            "    sendfile on;\n    tcp_nodelay on;\n    keepalive_requests 100000;\n"
            "    open_file_cache max=5000;\n    types { text/html html; text/plain txt; }\n"
            f"    server {{\n{listens}        root {folder}/pages;\n    }}\n}}\n")

    def _await(self) -> None:
        ends = time.monotonic() + _READY_WITHIN_SEC
        while True:
            try:
                for host in self.hosts:
                    socket.create_connection((host, self.port), 1).close()
                return
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > ends:
                    raise SystemExit(f"the server did not start: {error}\n{self._output.read_text()[-2000:]}") from error
                time.sleep(0.05)


def _nginx() -> str:
    found = shutil.which("nginx") or next((path for path in _BINARIES if Path(path).exists()), None)
    if found is None:
        raise SystemExit("nginx is not installed; on Debian and Ubuntu: apt-get install --no-install-recommends nginx")
    return found


def _free_port(hosts: Sequence[str]) -> int:
    with socket.socket() as probe:
        probe.bind((hosts[0], 0))
        return int(probe.getsockname()[1])


def most_in_flight(asked: Sequence[Asked], clock_sec: float) -> int:
    """Return the greatest number of requests that one host had to answer at the same moment.

    What overlaps by less than `clock_sec`, the error of the log's own moments, is one after the other.
    """
    under_way: dict[str, list[float]] = defaultdict(list)
    most = 0
    for one in sorted(asked, key=lambda one: one.started):
        ends = [end for end in under_way[one.host] if end > one.started + clock_sec]
        under_way[one.host] = [*ends, one.ended]
        most = max(most, len(ends) + 1)
    return most


def gaps(asked: Sequence[Asked]) -> list[float]:
    """Return the seconds between the end of each answer and the next request to its host."""
    last: dict[str, float] = {}
    found = []
    for one in asked:
        if one.host in last:
            found.append(one.started - last[one.host])
        last[one.host] = one.ended
    return found


def ideal_sec(asked: Sequence[Asked], interval_sec: float) -> float:
    """Return how long the slowest host takes if nothing but its answers and the intervals between them takes time."""
    hosts: dict[str, list[float]] = defaultdict(list)
    for one in asked:
        hosts[one.host].append(one.ended - one.started)
    return max(sum(took) + (len(took) - 1) * interval_sec for took in hosts.values())
