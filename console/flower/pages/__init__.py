"""The pages, each in a file of its own; `PAGES` is what Flower serves of them."""

from __future__ import annotations

from tornado.web import url

from console.flower.handlers import PageHandler


class LanesPage(PageHandler):
    """The lanes with work or a pause."""

    tab = "lanes"

    async def get(self) -> None:
        """Show the page."""
        self.render("tab.html", title="Lanes")


class JobsPage(PageHandler):
    """The jobs."""

    tab = "jobs"

    async def get(self) -> None:
        """Show the page."""
        self.render("tab.html", title="Jobs")


class SchedulePage(PageHandler):
    """The entries of the schedule."""

    tab = "schedule"

    async def get(self) -> None:
        """Show the page."""
        self.render("tab.html", title="Schedule")


class FailedPage(PageHandler):
    """The dead letters."""

    tab = "failed"

    async def get(self) -> None:
        """Show the page."""
        self.render("tab.html", title="Failed")


#: always `url(…)`, so that Flower can put its prefix before it; the name of a tab's handler is the tab
PAGES = [
    url(r"/lanes", LanesPage, name="lanes"),
    url(r"/jobs", JobsPage, name="jobs"),
    url(r"/schedule", SchedulePage, name="schedule"),
    url(r"/failed", FailedPage, name="failed"),
]
