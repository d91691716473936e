"""Each adapter through the whole stack: ``ratelane crawl`` twice, and what the database holds then (rules P1, P2, P3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.demo import DemoServer, Site
from tests.support.command_line import CommandLine
from tests.support.gkmlpt_site import GkmlptHost, GkmlptSite, Switches, doc

pytestmark = [pytest.mark.slow, pytest.mark.acceptance, pytest.mark.timeout(90)]
COLUMN = 5001


def rss(site: Site, *numbers: int) -> str:
    """A feed of articles of the demo site."""
    entries = (f"<item><title>n{n}</title><link>{site.base_url}/news/art_{n}.html</link></item>" for n in numbers)
    return f"<rss version='2.0'><channel><title>t</title>{''.join(entries)}</channel></rss>"


@pytest.fixture
def served() -> Iterator[tuple[GkmlptHost, Site]]:
    """A host with two gkmlpt sites that share an id, and an ordinary site with a feed and a sitemap."""
    far = "http://far.example.org/x"
    host = GkmlptHost("gk", None,
                      GkmlptSite("1", "/a", {COLUMN: [doc(n) for n in range(3_255_007, 3_255_000, -1)] + [doc(9, link=far)]}, {}, Switches(page_size=5)),
                      GkmlptSite("2", "/b", {COLUMN: [doc(3_255_001, note="（乙）")]}, {}, Switches(page_size=5)))
    plain = Site("plain", columns={"news": 5})
    with DemoServer([host, plain]):
        plain.serve("/feed.xml", rss(plain, 3, 2, 1), headers={"Content-Type": "application/rss+xml"})
        urls = "".join(f"<url><loc>{plain.base_url}/news/art_{n}.html</loc></url>" for n in range(1, 6))
        plain.serve("/sitemap.xml", f"<urlset>{urls}</urlset>", headers={"Content-Type": "application/xml"})
        yield host, plain


def sites_file(folder: Path, host: GkmlptHost, plain: Site) -> Path:
    """Describe them: two gkmlpt targets and one that only marks, a feed and a sitemap."""
    def site(code: str, base_url: str, adapter: str, **targets: Any) -> dict[str, Any]:
        return {"site_code": code, "base_url": base_url, "cms_adapter": adapter, "user_agent": "t (+mailto:a@example.org)",
                "targets": [{"target_code": name, "interval_sec": 0.02, "options": options} for name, options in targets.items()]}

    column = {"column": COLUMN, "page_size": 5}
    path = folder / "sites.yaml"
    path.write_text(yaml.safe_dump({"sites": [
        site("gk-a", f"{host.base_url}/a", "gkmlpt", a=column, marked=column | {"mark_known": True}),
        site("gk-b", f"{host.base_url}/b/gkmlpt/index", "gkmlpt", b=column),
        site("feed", plain.base_url, "feed", feed={"url": "/feed.xml"}),
        site("map", plain.base_url, "sitemap", map={"include": ["/news/*"]})]}), encoding="utf-8")
    return path


def crawled(line: CommandLine, path: Path) -> dict[str, tuple[str, int, int, int]]:
    """Crawl all targets and return outcome, new, known and external items of each."""
    done = line.run("crawl", str(path), "--json", timeout=80)
    assert done.returncode == 0, done.stderr
    jobs = json.loads(done.stdout)["jobs"]
    return {one["target_code"]: (one["outcome"], *(one["progress"][f"items_{name}"] for name in ("new", "known", "external"))) for one in jobs}


def test_each_adapter_crawls_and_goes_on_where_it_ended(served: tuple[GkmlptHost, Site], tmp_path: Path) -> None:
    host, plain = served
    line, path = CommandLine(tmp_path / "home"), sites_file(tmp_path, host, plain)
    assert crawled(line, path) == {
        "a": ("complete", 7, 0, 1), "marked": ("complete", 0, 0, 8), "b": ("complete", 1, 0, 0),
        "feed": ("truncated", 3, 0, 0), "map": ("complete", 5, 0, 0)}

    host.sites[0].columns[COLUMN].insert(0, doc(3_255_100))
    plain.serve("/feed.xml", rss(plain, 4, 3, 2), headers={"Content-Type": "application/rss+xml"})
    second = crawled(line, path)
    assert second == {
        "a": ("complete", 1, 8, 0), "marked": ("complete", 1, 8, 0), "b": ("complete", 0, 1, 0),
        "feed": ("complete", 1, 2, 0), "map": ("complete", 0, 5, 0)}

    done = line.run("articles")
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    shared = [row for row in rows if row["url"].endswith("/post_3255001.html") and row["text"]]
    assert len({row["url"] for row in shared}) == len({row["text"] for row in shared}) == 2
    assert line.run("audit").returncode == 0
