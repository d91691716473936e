"""What `ratelane demo` shows: three lanes side by side, a firewall that objects once, and everything that follows.

Two hosts (site codes ``gd-…``) stand behind one firewall and so share a lane; it objects after some requests, in the
middle of a column. The lane cools down, the other host's job has its turn, the interrupted one goes on from its
checkpoint with a longer interval. Two further sites, one of them in GBK, are crawled meanwhile as if nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from console.demo.server import DemoServer
from console.demo.site import Site
from console.demo.waf import Waf

COOLDOWN_SEC = 6.0
_GROUP = "demo-waf"


@dataclass(frozen=True)
class Scenario:
    """Sites and firewalls, and how Ratelane is to be told of them.

    `groups` maps each site's name to the key of a declared group ("" if its host is its group), `intervals` to the
    interval of its targets in seconds, `settings` are the ``RATELANE_*`` variables to run with.
    """

    sites: tuple[Site, ...]
    wafs: tuple[Waf, ...]
    groups: Mapping[str, str]
    intervals: Mapping[str, float]
    settings: Mapping[str, str]

    def server(self, log_path: Path | None = None) -> DemoServer:
        """Return the server of this scenario, not yet started."""
        return DemoServer(self.sites, self.wafs, log_path)

    def group_of_host(self) -> dict[str, str]:
        """Return the group of each host as the site's own log names it; for `judge`, once the sites are served."""
        return {site.netloc: self.groups.get(site.name) or site.netloc for site in self.sites}

    def interval_of_group(self) -> dict[str, float]:
        """Return the interval in seconds of each group; for `judge`."""
        groups = self.group_of_host()
        return {groups[site.netloc]: self.intervals[site.name] for site in self.sites}

    def sites_yaml(self) -> str:
        """Return the text of a sites.yaml; the sites must be served already, so that their addresses are known."""
        document = {"rate_groups": self._rules(), "sites": [self._site(site) for site in self.sites]}
        return yaml.safe_dump(document, allow_unicode=True, sort_keys=False)

    def _rules(self) -> list[dict[str, str]]:
        """Return a rule for each host of a declared group; for its site where all hosts have the same address."""
        grouped = [site for site in self.sites if self.groups.get(site.name)]
        alike = len({site.host for site in self.sites}) < len(self.sites)
        matched = [{"site": site.name} if alike else {"host": str(site.host)} for site in grouped]
        return [{"key": self.groups[site.name], **match} for site, match in zip(grouped, matched, strict=True)]

    def _site(self, site: Site) -> dict[str, Any]:
        return {
            "site_code": site.name, "name": site.name.replace("-", " "), "base_url": site.base_url,
            "cms_adapter": "list",
            "targets": [target(site, column, self.intervals[site.name]) for column in site.columns],
        }


def target(site: Site, column: str, interval_sec: float) -> dict[str, Any]:
    """Return a column of a demo site as a target of sites.yaml."""
    options: dict[str, Any] = {
        "list_url": f"/{column}/index_{{page}}.html", "first_page": 1, "item": "ul.list li.item", "link": "a@href",
        "title": "a", "date": "span.date", "content": "article.content", "next": "a.next@href",
    }
    if site.pinned:
        options["pinned"] = "li.pinned"
    return {
        "target_code": f"{site.name}_{column}", "name": column, "interval_sec": interval_sec, "track_checkpoint": True,
        "options": options,
    }


def demo() -> Scenario:
    """Return the scenario of `ratelane demo`: four targets in three groups, about 45 s in all."""
    sites = (
        Site("gd-news", "127.0.1.1", {"news": 18}, per_page=6),
        Site("gd-notices", "127.0.1.2", {"notices": 15}, per_page=6, pinned=1),
        Site("river-office", "127.0.2.1", {"reports": 36}, per_page=12),
        Site("old-registry", "127.0.3.1", {"entries": 24}, per_page=8, gbk=True),
    )
    waf = Waf(hosts=("gd-news", "gd-notices"), behaviour="block_403", after_requests=11, lasts_sec=COOLDOWN_SEC - 1)
    return Scenario(
        sites=sites,
        wafs=(waf,),
        groups={"gd-news": _GROUP, "gd-notices": _GROUP},
        intervals={"gd-news": 0.4, "gd-notices": 0.4, "river-office": 0.3, "old-registry": 0.5},
        settings={
            "RATELANE_COOLDOWN_DELAY_SEC": f"{COOLDOWN_SEC:g}",
            "RATELANE_INTERVAL_GROWTH_CODES": "gd*",
            "RATELANE_USER_AGENT": "Ratelane-demo/1 (demo@ratelane.invalid)",
        },
    )


def small() -> Scenario:
    """Return a scenario without a firewall that a crawl is through with in two seconds; for tests."""
    site = Site("small", "127.0.4.1", {"news": 6}, per_page=4)
    return Scenario((site,), (), {}, {"small": 0.05}, {"RATELANE_USER_AGENT": "Ratelane-demo/1 (demo@ratelane.invalid)"})


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {"demo": demo, "small": small}
