"""An adapter that another package brings, as docs/adapters.md shows it, installed and crawled with (rule P1)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.sites_file.reader import read_sites_file
from tasks.pipeline import TargetSpec, adapters
from tests.support.command_line import ROOT
from tests.support.crawl_ports import USER_AGENT, MemoryJournal, Site, paged_site, walk
from tests.support.misbehave import page

_DOC = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", _DOC, re.DOTALL)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's adapter as a distribution: its module, and the entry point of its pyproject.toml."""
    (module,), (project,) = blocks("python"), blocks("toml")
    group, name, value = re.fullmatch(r'\[project\.entry-points\."(.+)"\]\n(\w+) = "(.+)"\n', project).groups()  # type: ignore[union-attr]
    (tmp_path / "bulletin.py").write_text(module, encoding="utf-8")
    info = tmp_path / "bulletin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bulletin\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("bulletin", None)


@pytest.fixture
def site() -> Iterator[Site]:
    with paged_site() as running:
        for number, shown in enumerate(([1, 2], [3]), start=1):
            rows = [{"link": f"/a/{one}", "title": f"第{one}号", "date": "2026-11-30"} for one in shown]
            document = {"rows": rows, "page": number, "pages": 2}
            running.routes[f"/api/news.json?page={number}"] = page(json.dumps(document), content_type="application/json")
        for one in (1, 2, 3):
            running.routes[f"/a/{one}"] = page(f"<div class=text>第{one}号正文</div>")
        yield running


def spec(site: Site, **options: object) -> TargetSpec:
    """A target of the installed adapter."""
    return TargetSpec("news", "town", site.url, "bulletin", {"board": "news"} | options, user_agent=USER_AGENT)


@pytest.mark.usefixtures("installed")
def test_an_adapter_of_30_lines_crawls_with_the_common_options(site: Site) -> None:
    assert "bulletin" in adapters.names()
    journal = MemoryJournal()
    result = walk(spec(site), journal)
    assert (result.outcome, result.progress.pages_total) == ("complete", 2)
    assert {article.text for article in journal.articles.values()} == {"第1号正文", "第2号正文", "第3号正文"}
    assert walk(spec(site, max_items=1), fresh := MemoryJournal()).outcome == "complete"
    assert len(fresh.articles) == 1
    site.routes["/api/news.json?page=2"] = page('{"error": 1}')
    assert walk(spec(site), MemoryJournal()).outcome == "partial"


@pytest.mark.usefixtures("installed")
def test_its_options_are_checked_when_the_file_is_loaded(tmp_path: Path) -> None:
    text = ("sites:\n  - {site_code: a, base_url: 'http://a.example', cms_adapter: bulletin, user_agent: 'x (+mailto:a@b.example)',\n"
            "     targets: [{target_code: t, options: {board: news}}]}\n")
    path = tmp_path / "sites.yaml"
    path.write_text(text, encoding="utf-8")
    assert [target.target_code for target in read_sites_file(path).targets] == ["t"]


def test_the_example_is_short_and_without_it_the_name_is_unknown() -> None:
    (module,) = blocks("python")
    assert len([line for line in module.splitlines() if line.strip()]) <= 30
    with pytest.raises(LookupError, match=r"there are: feed, gkmlpt, list, sitemap"):
        adapters.find("bulletin")


@pytest.mark.parametrize("text", blocks("yaml"))
def test_the_files_of_the_page_are_good_ones(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(text, encoding="utf-8")
    found = read_sites_file(path)
    assert len(found.targets) == 1
    # they stand for the reader's own
    assert all("names no contact" in warning for warning in found.warnings)
