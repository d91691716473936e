"""Serve a scenario as a process of its own: ``python -m console.demo --scenario demo --port 0 --log requests.jsonl``.

Prints one JSON line once it answers, and ends with the process that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from pathlib import Path

from console.demo.scenario import SCENARIOS

_LOOK_EVERY_SEC = 0.2


def main() -> None:
    """Serve until TERM, INT or the end of the parent process."""
    parent = os.getppid()
    options = _arguments()
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    scenario = SCENARIOS[options.scenario]()
    server = scenario.server(options.log).start(options.port)
    ready = {
        "ready": True, "pid": os.getpid(), "groups": scenario.group_of_host(), "intervals": scenario.interval_of_group(),
        "sites": [{"name": site.name, "host": site.netloc, "base_url": site.base_url} for site in scenario.sites],
        "settings": dict(scenario.settings), "sites_yaml": scenario.sites_yaml(),
    }
    print(json.dumps(ready, ensure_ascii=False), flush=True)
    # not the kernel's parent death signal: that comes at the end of the *thread* that started this process
    while not over.wait(_LOOK_EVERY_SEC) and os.getppid() == parent:
        pass
    server.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m console.demo", description="Serve a demo site with a firewall.")
    parser.add_argument("--port", type=int, default=0, help="port of all hosts; 0: any free one")
    parser.add_argument("--log", type=Path, help="file for a JSON line a request")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="demo")
    return parser.parse_args()


if __name__ == "__main__":
    main()
