"""`ratelane check`: one list page and one article, in the target's lane, nothing stored (rule P7)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.demo.waf import Waf
from tests.support.command_line import CommandLine
from tests.support.site import OneSite, one_site

DOCUMENT = {"target_code", "group", "rule", "robots", "charset", "items", "article", "estimate"}


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    made = CommandLine(tmp_path / "home")
    yield made
    made.kill()


def load(cli: CommandLine, text: str) -> None:
    """Load the text of a sites.yaml."""
    path = cli.home.parent / "sites.yaml"
    path.write_text(text, encoding="utf-8")
    assert cli.run("load", str(path)).returncode == 0


def ask(cli: CommandLine, sql: str) -> list[Any]:
    """Ask the home's database."""
    with sqlite3.connect(cli.home / "ratelane.sqlite3") as line:
        return line.execute(sql).fetchall()


def asked(one: OneSite) -> list[str]:
    """The paths that the site was asked for."""
    return [entry.path for entry in one.server.log.entries]


def test_p7_a_check_shows_what_was_found_and_stores_no_article(cli: CommandLine) -> None:
    with one_site(12, gbk=True, interval_sec=0.3) as one:
        load(cli, one.yaml)
        found = cli.json("check", one.target_code)
        assert set(found) >= DOCUMENT
        assert asked(one)[:2] == ["/robots.txt", "/news/index_1.html"]
        assert len(asked(one)) == 3
    assert (found["group"], found["charset"], len(found["items"])) == (one.site.netloc, "gb18030", 10)
    assert found["selectors"]["item"]["found"] == 10
    assert found["selectors"]["content"]["found"] == 1
    assert found["article"]["chars"] > 0 and found["article"]["title"] == found["items"][0]["title"]
    assert list(found["robots"].values()) == ["200 rules"]
    assert ask(cli, "SELECT (SELECT count(*) FROM articles), (SELECT count(*) FROM failed_items), count(*) FROM requests") == [(0, 0, 3)]
    assert ask(cli, "SELECT frontier_gen, last_outcome, last_crawl_at FROM targets") == [(0, None, None)]
    assert ask(cli, "SELECT kind, status, failures FROM jobs") == [("check", "done", 0)]
    assert cli.run("audit").returncode == 0


def test_p7_the_words_of_a_check_say_what_a_first_crawl_would_take(cli: CommandLine) -> None:
    with one_site(3) as one:
        load(cli, one.yaml)
        done = cli.run("check", one.target_code)
    assert done.returncode == 0, done.stderr
    for part in (f"{one.target_code}: lane ", "robots.txt of ", "selector", "a first full crawl: "):
        assert part in done.stdout


def test_p7_a_block_pauses_the_lane_and_a_paused_lane_is_not_asked(cli: CommandLine) -> None:
    waf = Waf(behaviour="rate_429", at_paths=["/news/*"], retry_after=1234, trips=None)
    with one_site(3, waf=waf) as one:
        load(cli, one.yaml)
        found = cli.json("check", one.target_code, code=1)
        assert (found["items"], found["article"]) == ([], {})
        assert found["blocked"].startswith("host_cooldown: rate 429 ")
        ((status, seconds),) = ask(cli, "SELECT j.status, (g.pause_until - g.paused_at) / 1000000 FROM jobs j JOIN rate_groups g ON g.key = j.group_key")
        assert (status, 1230 <= seconds <= 1240) == ("done", True)
        before = len(asked(one))
        assert "is paused until" in cli.refuses(1, "check", one.target_code)
        assert len(asked(one)) == before


def test_p7_a_check_is_refused_while_a_job_runs_in_the_lane(cli: CommandLine) -> None:
    with one_site(3) as one:
        load(cli, one.yaml)
        cli.json("submit", one.target_code)
        with sqlite3.connect(cli.home / "ratelane.sqlite3") as line:
            line.execute("UPDATE jobs SET status = 'running', lease_until = 9e15, attempt = 1")
        assert "runs in lane" in cli.refuses(1, "check", one.target_code)
        assert asked(one) == []


def test_p7_a_check_goes_before_what_is_queued_and_leaves_it_alone(cli: CommandLine) -> None:
    with one_site(3) as one:
        load(cli, one.yaml)
        crawl = cli.json("submit", one.target_code, "--priority", "-5")["job_id"]
        assert cli.json("check", one.target_code)["article"]
        assert ask(cli, f"SELECT status, attempt FROM jobs WHERE job_id = '{crawl}'") == [("queued", 0)]


def test_p7_exit_codes_for_nothing_found_nobody_there_and_no_such_target(cli: CommandLine) -> None:
    with one_site(3) as one:
        load(cli, re.sub(r"\bitem: .*", "item: p.nothing", one.yaml))
        assert "is called" in cli.refuses(2, "check", "nobody")
        found = cli.json("check", one.target_code, code=1)
        assert (found["items"], found["trouble"]) == ([], "the list page has no rows")
    load(cli, one.yaml)
    found = cli.json("check", one.target_code, code=3, RATELANE_REQUEST_TIMEOUT_SEC="1")
    assert found["unreachable"] and "unreachable" in found["trouble"]


def test_p5_the_report_of_an_audit_tells_a_sites_owner_what_was_asked(cli: CommandLine) -> None:
    waf = Waf(behaviour="rate_429", at_paths=["/news/art_*"], retry_after=1234, trips=None)
    with one_site(3, waf=waf) as one:
        load(cli, one.yaml)
        cli.json("check", one.target_code, code=1)
    group = one.site.netloc
    found = cli.json("audit", "--group", group, "--report")["groups"][group]["report"]
    assert (found["requests"], found["statuses"]) == (3, {"200": 2, "429": 1})
    assert [(row["host"], row["decision"]) for row in found["robots"]] == [(group, "rules")]
    (refusal,) = found["refusals"]
    assert (refusal["retry_after"], refusal["obeyed"], refusal["next_request_at"]) == ("1234", True, None)
    assert "report" not in cli.json("audit")["groups"][group]
    assert f"{group}: 3 requests" in cli.run("audit", "--report").stdout
