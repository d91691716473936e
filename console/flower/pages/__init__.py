"""The pages, each in a file of its own; `PAGES` is what Flower serves of them.

Their handlers are thin: `reads` knows what is shown, `words` and `timeline` how, the templates where; `live` keeps a page
up to date. Whatever changes something is a request to the API, so that one place logs who did it and why.
"""

from __future__ import annotations

from tornado.web import url

from console.flower.pages.failed import FailedPage
from console.flower.pages.jobs import JobPage, JobsPage
from console.flower.pages.lanes import LanePage, LanesPage
from console.flower.pages.schedule import SchedulePage

#: always `url(…)`, so that Flower can put its prefix before it; the name of a tab's handler is the tab
PAGES = [
    url(r"/lanes", LanesPage, name="lanes"),
    url(r"/lanes/([^/]+)", LanePage, name="lane"),
    url(r"/jobs", JobsPage, name="jobs"),
    url(r"/jobs/([^/]+)", JobPage, name="job"),
    url(r"/schedule", SchedulePage, name="schedule"),
    url(r"/failed", FailedPage, name="failed"),
]
