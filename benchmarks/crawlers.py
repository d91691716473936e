"""The crawlers that `benchmarks.crawl` races, each as its users start it, and what each has stored in the end."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.site import ROOT, Server

DEADLINE_SEC = 600.0
USER_AGENT = "bench (bench@ratelane.invalid)"


@dataclass(frozen=True)
class Crawled:
    """What came of a crawl: articles stored, when the last thing was (seconds of the wall clock), and its words."""

    stored: int
    stored_at: float
    output: str
    audit: dict[str, Any] | None = None


@dataclass(frozen=True)
class Scrapy:
    """So many Scrapy processes, each with its share of the hosts and a file of its own."""

    processes: int

    def __call__(self, server: Server, home: Path) -> Crawled:
        """Crawl everything."""
        shares = [server.urls()[place::self.processes] for place in range(self.processes)]
        files = [home / f"items-{place}.sqlite3" for place in range(self.processes)]
        running = [subprocess.Popen([sys.executable, "-m", "benchmarks.apps.spider", str(file), *share], cwd=ROOT,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for file, share in zip(files, shares, strict=True)]
        output = "".join(process.communicate(timeout=DEADLINE_SEC)[0] for process in running)
        stored, last = 0, 0.0
        for file in files:
            line = sqlite3.connect(file)
            number, at = line.execute("SELECT count(*), max(at) FROM items WHERE text <> ''").fetchone()
            stored, last = stored + number, max(last, at or 0.0)
            line.close()
        return Crawled(stored, last, output)


@dataclass(frozen=True)
class Ratelane:
    """``ratelane crawl`` with so many workers, on the embedded SQLite or on what `database_url` gives."""

    workers: int
    database_url: Callable[[], str] | None = None
    interval_sec: float = 0.0
    audits: bool = False

    def __call__(self, server: Server, home: Path) -> Crawled:
        """Crawl everything in a fresh home."""
        url = f"sqlite:///{home}/ratelane.sqlite3" if self.database_url is None else self.database_url()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RATELANE_")}
        environment |= {"RATELANE_USER_AGENT": USER_AGENT, "PYTHONPATH": str(ROOT)}
        if self.database_url is not None:
            environment["RATELANE_DATABASE_URL"] = url
        sites = home / "sites.yaml"
        sites.write_text(sites_file(server, self.interval_sec), encoding="utf-8")

        def ratelane(*words: str) -> subprocess.CompletedProcess[str]:
            argv = [sys.executable, "-m", "console.entry", "--home", str(home), "-q", *words]
            return subprocess.run(argv, cwd=home, env=environment, capture_output=True, text=True, timeout=DEADLINE_SEC,
                                  check=False)

        done = ratelane("crawl", str(sites), "--workers", str(self.workers), "--json")
        if done.returncode:
            logs = "".join(path.read_text(errors="replace")[-1500:] for path in sorted((home / "logs").glob("*.log")))
            raise SystemExit(f"ratelane crawl ended with {done.returncode}:\n{done.stdout[-500:]}{done.stderr}{logs}")
        audit = json.loads(ratelane("audit", "--json").stdout) if self.audits else None
        if audit is not None:
            audit = {name: audit[name] for name in ("requests", "overlaps", "gaps_too_short", "during_pause")}
        return Crawled(*_stored(url), done.stderr, audit)


def _stored(url: str) -> tuple[int, float]:
    """Return how many articles a database holds, and when its last job ended."""
    from sqlalchemy import func, select

    from models.articles import articles
    from models.db import Database
    from models.jobs import jobs

    db = Database(url, reports=True)
    with db.read() as conn:
        stored = conn.execute(select(func.count()).select_from(articles).where(articles.c.text != "")).scalar_one()
        last = conn.execute(select(func.max(jobs.c.finished_at))).scalar_one()
    db.dispose()
    return int(stored), last.timestamp() if last is not None else 0.0


def sites_file(server: Server, interval_sec: float) -> str:
    """Return the sites.yaml of all hosts: each a site with one target."""
    options = {"list_url": "/list_{page}.html", "first_page": 1, "item": "ul.list li.item", "link": "a@href", "title": "a",
               "date": "span.date", "content": "div.content", "next": "a.next@href"}
    return yaml.safe_dump({"sites": [
        {"site_code": f"host{place}", "name": f"Host {place}", "base_url": url, "cms_adapter": "list", "targets": [
            {"target_code": f"host{place}_news", "name": "News", "interval_sec": interval_sec, "options": options}]}
        for place, url in enumerate(server.urls(), start=1)]})
