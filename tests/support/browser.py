"""Debian's Chromium, driven by Playwright: it asks no other host by itself, and what a page does wrong is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.servers import missing

_PROGRAM = Path("/usr/bin/chromium")
_QUIET = (
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-domain-reliability",
    "--no-first-run", "--no-default-browser-check", "--metrics-recording-only", "--disable-gpu",
)
#: findings that make a page unusable for somebody
SERIOUS = frozenset({"serious", "critical"})
DESKTOP, PHONE = (1280, 800), (380, 780)


@dataclass
class Noise:
    """What pages have said and asked for that they should not."""

    own: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def watch(self, page: Any) -> None:
        """Listen to a page."""
        page.on("console", lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith((self.own, "data:", "blob:"))
                else self.foreign.append(asked.url))

    def assert_none(self) -> None:
        """Fail if there was any."""
        assert self.errors == []
        assert self.foreign == []


@contextmanager
def chromium() -> Iterator[Any]:
    """Give a browser for the length of a block (without one: a failure where ``CI_FULL`` is set, else a skip)."""
    if find_spec("playwright") is None:
        missing("playwright")
    if not _PROGRAM.exists():
        missing("chromium", where_complete="CI_FULL")
    from playwright.sync_api import sync_playwright

    # its sandbox refuses root
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(_PROGRAM), args=[*_QUIET, *sandbox])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, own: str, size: tuple[int, int] = DESKTOP, **options: Any) -> Iterator[tuple[Any, Noise]]:
    """Give a fresh page of that size, and what it does wrong; `own` is the beginning of every address it may ask."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    noise = Noise(own)
    try:
        page = context.new_page()
        page.set_default_timeout(10_000)
        noise.watch(page)
        yield page, noise
    finally:
        context.close()


def overflow(page: Any) -> int:
    """Return by how many pixels a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def findings(page: Any) -> list[str]:
    """Return the serious findings of axe-core on a page, each with where it is."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']} ({one['impact']}): {'; '.join(' '.join(map(str, node['target'])) for node in one['nodes'][:5])}"
            for one in found if one["impact"] in SERIOUS]
