"""`ops`, `prune` and `backup` as processes: documents and exit codes, with the broker and the database away."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from models import queries
from models.ledger.upkeep import PRUNED
from tests.support.command_line import CommandLine

SITES = """
sites:
  - site_code: a
    base_url: http://a.one.test
    cms_adapter: list
    targets:
      - {target_code: a_news, options: {list_url: "/{page}.html", item: li, link: "a@href"}}
"""


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    (tmp_path / "sites.yaml").write_text(SITES)
    made = CommandLine(tmp_path / "home")
    assert made.run("load", str(tmp_path / "sites.yaml")).returncode == 0
    return made


def test_j15_ops_is_a_report_also_while_the_broker_is_away(cli: CommandLine) -> None:
    cli.run("submit", "a_news")
    found = cli.json("ops")
    assert tuple(found) == queries.OPS
    assert (found["pending"], found["running"], found["broker_ok"], found["database_ok"]) == (1, 0, False, True)
    assert "pending" in cli.run("ops").stdout


def test_j15_ops_without_a_database_names_every_number_as_unknown_and_ends_with_3(cli: CommandLine) -> None:
    found = cli.json("ops", code=3, RATELANE_DATABASE_URL="postgresql://me:hush@127.0.0.1:1/nothing")
    assert found == dict.fromkeys(queries.OPS) | {"broker_ok": False, "database_ok": False}
    assert "hush" not in cli.refuses(3, "ops", RATELANE_DATABASE_URL="postgresql://me:hush@127.0.0.1:1/nothing")


def test_j17_prune_prints_a_number_for_each_table(cli: CommandLine) -> None:
    made = cli.json("submit", "a_news")["job_id"]
    cli.run("cancel", made)
    assert cli.json("prune") == dict.fromkeys(PRUNED, 0)
    with sqlite3.connect(cli.home / "ratelane.sqlite3") as line:
        line.execute("UPDATE jobs SET finished_at = finished_at - 31 * 86400 * 1000000")
    assert cli.json("prune") == dict.fromkeys(PRUNED, 0) | {"jobs": 1}
    assert cli.json("jobs") == []


def test_d3_a_backup_works_as_a_home(cli: CommandLine, tmp_path: Path) -> None:
    made = cli.json("submit", "a_news")["job_id"]
    file = tmp_path / "other" / "ratelane.sqlite3"
    file.parent.mkdir()
    found = cli.json("backup", str(file))
    assert found == {"file": str(file), "bytes": file.stat().st_size}
    assert "exists" in cli.refuses(2, "backup", str(file))
    assert cli.run("backup", str(file), "--force").returncode == 0
    with sqlite3.connect(file) as line:
        assert line.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert [one["job_id"] for one in CommandLine(file.parent).json("jobs")] == [made]


def test_u6_a_webhook_that_cannot_be_is_refused_without_being_shown(cli: CommandLine) -> None:
    for url in ("ftp://hooks.test/hush", "http://me:hush/pass@hooks.test", "hush"):
        sentence = cli.refuses(2, "counts", RATELANE_WEBHOOK_URL=url)
        assert "RATELANE_WEBHOOK_URL=*** in the environment: expected http://host/path" in sentence
        assert "hush" not in sentence
