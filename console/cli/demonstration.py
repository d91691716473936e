"""The demo: a crawl of the bundled site behind its firewall, and what the site itself has to say about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from config.devstack import spawn, stop_process
from config.errors import RatelaneError
from config.settings import embedded_broker_url, embedded_database_url, load_settings
from console.cli.children import child_environment, last_lines
from console.cli.crawling import Order, crawl_sites
from console.cli.session import Session
from console.cli.show import cell, print_json
from console.cli.summary import Harvest, print_summary
from console.demo import Politeness, judge, read_log
from models import queries

#: the site stamps the end of a response when it has sent it, which may be after the client has read it
_TOLERANCE_SEC = 0.02
_GOODBYE_SEC = 2.0


def demonstrate(session: Session, *, as_json: bool) -> bool:
    """Run the demo in its own home and print its summary; return whether all of it went as it should.

    All jobs done, at least one cooldown survived, no overlap and no short gap in the site's own log.
    """
    if session.home is not None:
        return _demonstrate(session, session.home.absolute(), as_json)
    with tempfile.TemporaryDirectory(prefix="ratelane-demo-") as folder:
        session.home = Path(folder)
        return _demonstrate(session, Path(folder), as_json)


def _demonstrate(session: Session, home: Path, as_json: bool) -> bool:
    home.mkdir(parents=True, exist_ok=True)
    log_path = home / "demo-requests.jsonl"
    log_path.unlink(missing_ok=True)
    with _demo_site(home, log_path) as site:
        _take_settings(home, site["settings"])
        file = home / "demo-sites.yaml"
        file.write_text(site["sites_yaml"], encoding="utf-8")
        hosts = ", ".join(one["host"] for one in site["sites"])
        session.say(f"a demo site with a firewall answers on {hosts}; home {home}")
        harvest = crawl_sites(session, Order(file))
        politeness = judge(read_log(log_path), site["groups"], site["intervals"], _TOLERANCE_SEC)
    cooldowns = _cooldowns(session, harvest)
    if as_json:
        print_json({"jobs": harvest.jobs, "totals": harvest.totals(), "site": _verdict(politeness),
                    "cooldowns": cooldowns})
    else:
        print_summary(harvest, as_json=False, goes_on=False)
        _print_verdict(politeness, cooldowns, stopped=bool(harvest.totals()["left_over"]))
    return harvest.whole and bool(cooldowns) and politeness.polite


def _take_settings(home: Path, settings: dict[str, str]) -> None:
    """Run with the demo's settings in its own home, never on servers that happen to be configured."""
    os.environ.update(settings)
    os.environ["RATELANE_DATABASE_URL"] = embedded_database_url(home)
    os.environ["RATELANE_BROKER_URL"] = embedded_broker_url(home)


@contextmanager
def _demo_site(home: Path, log_path: Path) -> Iterator[dict[str, Any]]:
    """Serve the demo site from a process of its own, which dies with this one; give what it says about itself."""
    own_log = home / "logs" / "demo-site.log"
    own_log.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "console.demo", "--scenario", "demo", "--log", str(log_path)]
    with open(own_log, "ab") as errors:
        process = spawn(argv, child_environment(load_settings(home)), own_log, stdout=subprocess.PIPE, stderr=errors)
    try:
        line = process.stdout.readline() if process.stdout else b""
        if not line:
            raise RatelaneError(f"the demo site did not start:\n{last_lines(own_log)}")
        yield json.loads(line)
    finally:
        stop_process(process, _GOODBYE_SEC)


def _cooldowns(session: Session, harvest: Harvest) -> list[dict[str, Any]]:
    """Return, for each cooldown that a job survived, the target, its intervals and the page that it went on from."""
    found = []
    with session.database.look() as conn:
        for one in harvest.jobs:
            tried = one["attempts_log"]
            for before, after in pairwise(tried):
                if before["outcome"] != "cooldown":
                    continue
                history = (queries.interval(conn, one["target_code"]) or {"history": []})["history"]
                grown: dict[str, Any] = next((step for step in history
                              if (step["job_id"], step["attempt"]) == (one["job_id"], before["attempt"])), {})
                found.append({
                    "target_code": one["target_code"], "error": before["error"],
                    "old_interval_sec": grown.get("old_interval_sec"), "new_interval_sec": grown.get("new_interval_sec"),
                    "resumed_from_page": after["from_page"],
                })
    return found


def _verdict(found: Politeness) -> dict[str, Any]:
    return {"requests": found.requests, "overlaps": len(found.overlaps), "short_gaps": len(found.short_gaps),
            "smallest_gap_sec": None if found.smallest_gap is None else round(found.smallest_gap, 3)}


def _print_verdict(politeness: Politeness, cooldowns: list[dict[str, Any]], *, stopped: bool) -> None:
    site = _verdict(politeness)
    print(f"the site's own log: {site['requests']} requests, {site['overlaps']} overlaps, {site['short_gaps']} short "
          f"gaps, smallest gap {cell(site['smallest_gap_sec'])} s")
    for one in cooldowns:
        grown = (f"interval {cell(one['old_interval_sec'])} s → {cell(one['new_interval_sec'])} s, "
                 if one["new_interval_sec"] is not None else "")
        print(f"cooldown survived by {one['target_code']}: {grown}went on behind page {one['resumed_from_page']}")
    if stopped:
        print("the demo was stopped before its end; it begins anew each time")
    elif not cooldowns:
        print("no cooldown happened, which the demo is about")
