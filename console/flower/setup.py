"""Putting our handlers, templates and navigation into Flower, before its application is made."""

from __future__ import annotations

from typing import Any

from flower import urls
from tornado.web import url

from config import logs
from config.settings import get_settings
from console.flower import metrics, pages, stock
from console.flower.api.handler import handlers
from console.flower.static import ASSETS, AssetHandler
from console.flower.templating import TwoFolders


def install() -> None:
    """Extend Flower in this process; a second call changes nothing.

    `flower.urls` holds a list and a dict that `celery flower` uses by reference: our handlers come before the last entry
    of the list, which catches everything, and the loader of templates looks into our folder first.
    """
    loader = urls.settings.get("template_loader")
    if isinstance(loader, TwoFolders):
        return
    # Tornado prints lines of its own unless somebody else has said how lines look (rule U6)
    logs.configure(get_settings())
    urls.settings["template_loader"] = TwoFolders(urls.settings["template_path"])
    urls.handlers[:] = [stock.guarded(route) for route in urls.handlers]
    # Flower's own /metrics reads nothing and prints what there is: ours reads first
    urls.handlers[:0] = [url(r"/metrics", metrics.MetricsHandler)]
    urls.handlers[-1:-1] = routes()
    metrics.install()


def routes() -> list[Any]:
    """Return our handlers, as Flower rewrites them for its ``--url_prefix``: each a `url`, none a tuple."""
    return [
        *pages.PAGES, *handlers(),
        url(r"/ratelane/static/(.*)", AssetHandler, {"path": str(ASSETS)}, name="ratelane-static"),
    ]
