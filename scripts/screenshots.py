"""Write the pictures of the dashboard's pages to docs/images: a demo crawl is started, looked at, and ended.

    .venv/bin/python -m scripts.screenshots [FOLDER]

Needs Chromium and the packages of the extra ``browser``. Light on a desktop, and on a phone; one in the dark.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from console.actions import schedule
from models import queries
from tests.support.browser import DESKTOP, PHONE, chromium, opened
from tests.support.servers import ValkeyServer
from tests.support.stage import ANN, CITY, Stage, fill, stage
from tests.support.store import Shelf, Store

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
#: a picture shows no more of a long page, in pixels
TALLEST = 900
#: what crawls have done by then is worth a look
_SETTLE_MS = 12_000


def main(folder: Path) -> None:
    """Take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rl-screenshots-") as temporary:
        server = ValkeyServer().start()
        try:
            home = Path(temporary)
            (home / "shelf").mkdir()
            store = Store(home, Shelf(home / "shelf").sqlite(home / "home"), server.url)
            with stage(store) as shown, chromium() as browser:
                _take_all(browser, shown, folder)
        finally:
            server.remove()


def _take_all(browser: Any, shown: Stage, folder: Path) -> None:
    ids = fill(shown)
    schedule.run_entry(shown.store.db, shown.store.settings(), "vitals", ANN)
    pages = {
        "lanes": "/lanes", "lane": f"/lanes/{CITY}", "jobs": "/jobs", "job": f"/jobs/{ids['gd-news_news']}",
        "schedule": "/schedule", "failed": "/failed",
    }
    with opened(browser, shown.dashboard.address) as (page, _):
        page.wait_for_timeout(_SETTLE_MS)
    for name, path in pages.items():
        _take(browser, shown.dashboard.address + path, folder / f"{name}.png", DESKTOP)
        _take(browser, shown.dashboard.address + path, folder / f"{name}-phone.png", PHONE)
    _take(browser, f"{shown.dashboard.address}/lanes", folder / "lanes-dark.png", DESKTOP, color_scheme="dark")
    with shown.store.db.look() as conn:
        print(f"{len(pages) * 2 + 1} pictures in {folder}, of {queries.counts(conn)}")


def _take(browser: Any, address: str, path: Path, size: tuple[int, int], **options: Any) -> None:
    with opened(browser, address, size, **options) as (page, _):
        page.goto(address)
        page.locator("#rl-bar [data-age]:not(:empty)").wait_for()
        height = min(int(page.evaluate("document.documentElement.scrollHeight")), TALLEST)
        page.screenshot(path=path, full_page=True, clip={"x": 0, "y": 0, "width": size[0], "height": height})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
