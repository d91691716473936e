"""The demo site in the shape that most tests want: one host, one column, no pauses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import yaml

from console.demo import DemoServer, Politeness, Site, Waf, judge
from console.demo.scenario import target


@dataclass(frozen=True)
class OneSite:
    """A served site, its only column, and the interval in seconds that its target is given."""

    server: DemoServer
    site: Site
    column: str
    interval_sec: float

    @property
    def target_code(self) -> str:
        """The target's code in `yaml`."""
        return f"{self.site.name}_{self.column}"

    @property
    def yaml(self) -> str:
        """The text of a sites.yaml with this site alone."""
        return sites_yaml([self.site], self.interval_sec)

    def judged(self, tolerance: float = 0.02) -> Politeness:
        """Return how polite the requests so far were, in the site's own eyes."""
        return judge(self.server.log.entries, {}, self.interval_sec, tolerance)


@contextmanager
def one_site(
    articles: int = 5, *, name: str = "demo", column: str = "news", interval_sec: float = 0.0, waf: Waf | None = None,
    **site: Any,
) -> Iterator[OneSite]:
    """Serve a site with one column of `articles` articles for the length of a test."""
    made = Site(name, columns={column: articles}, **site)
    with DemoServer([made], [waf] if waf else []) as server:
        yield OneSite(server, made, column, interval_sec)


def sites_yaml(
    sites: Sequence[Site], interval_sec: float = 0.0, rate_groups: Sequence[Mapping[str, str]] = (), **extra: Any
) -> str:
    """Return the text of a sites.yaml with every column of `sites` as a target; `extra` are further top-level keys."""
    document = {
        "rate_groups": [dict(rule) for rule in rate_groups],
        "sites": [
            {
                "site_code": site.name, "name": site.name, "base_url": site.base_url, "cms_adapter": "list",
                "targets": [target(site, column, interval_sec) for column in site.columns],
            }
            for site in sites
        ],
        **extra,
    }
    return yaml.safe_dump(document, allow_unicode=True, sort_keys=False)


def write_sites_yaml(folder: Path, sites: Sequence[Site], **options: Any) -> Path:
    """Write `sites_yaml` to ``sites.yaml`` in `folder` and return its path."""
    path = folder / "sites.yaml"
    path.write_text(sites_yaml(sites, **options), encoding="utf-8")
    return path


def get(url: str, path: str, headers: Mapping[str, str] | None = None, timeout: float = 5) -> tuple[HTTPResponse, bytes]:
    """Ask `url` for `path` on a connection of its own; return the response and its body."""
    line = HTTPConnection(url.removeprefix("http://"), timeout=timeout)
    try:
        line.request("GET", path, headers=dict(headers or {}))
        answer = line.getresponse()
        return answer, answer.read()
    finally:
        line.close()


def status(url: str, path: str) -> int:
    """Return the status that `url` answers to a request for `path`."""
    return get(url, path)[0].status
