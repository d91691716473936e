"""Loading and assigning sites, on both databases (rules R1, R2, C5)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from config.errors import BadInput
from config.settings import load_settings
from console.sites_file import ScheduleOverrides
from models.catalogue import Catalogue, CataloguePlan, Choice, LoadReport, SitePlan, Standing, TargetPlan
from models.db import Database
from models.groups import lane_wake, rate_groups
from models.jobs import jobs
from models.ledger import Ledger, NewJob
from models.migrate import migrate
from models.sites import sites, targets
from routing import resolver
from routing.rules import Rule
from tests.support.servers import PostgresServer

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    running = PostgresServer().start()

    def prepare(url: str) -> None:
        database = Database(url)
        migrate(database)
        database.dispose()

    running.set_template(prepare)
    yield running
    running.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path}/ratelane.sqlite3")
    else:
        running: PostgresServer = request.getfixturevalue("server")
        database = Database(running.create_database())
    migrate(database)
    yield database
    database.dispose()


@dataclass
class File:
    """What a file could say."""

    sites: list[SitePlan] = field(default_factory=list)
    targets: list[TargetPlan] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    schedule: ScheduleOverrides = field(default_factory=ScheduleOverrides)


def file(*codes: str, rules: Sequence[Rule] = (), **target: Any) -> File:
    """Describe sites at http://<code>.test with one target each."""
    return File(
        [SitePlan(code, f"http://{code}.test", "list", code.title()) for code in codes],
        [TargetPlan(f"{code}_news", code, **target) for code in codes],
        list(rules),
    )


def load(db: Database, described: File, **how: bool) -> LoadReport:
    return Catalogue(db, NOW).load(resolver.plan(described), **how)


def rows(db: Database, table: Any) -> list[dict[str, Any]]:
    with db.read() as conn:
        return [dict(row) for row in conn.execute(select(table).order_by(*table.primary_key)).mappings()]


def one(db: Database, table: Any, code: str) -> dict[str, Any]:
    (found,) = [row for row in rows(db, table) if code in (row.get("site_code"), row.get("target_code"), row.get("key"), row.get("job_id"))]
    return found


def add_job(db: Database, job_id: str, site_code: str | None, group: str, status: str = "queued", **more: Any) -> None:
    with db.write() as conn:
        conn.execute(insert(jobs).values(
            job_id=job_id, kind="crawl", site_code=site_code, group_key=group, status=status,
            enqueued_at=NOW, queue_at=NOW, updated_at=NOW,
            lease_until=LATER if status == "running" else None, finished_at=NOW if status == "done" else None, **more,
        ))


def set_group(db: Database, key: str, **values: Any) -> None:
    with db.write() as conn:
        assert conn.execute(update(rate_groups).where(rate_groups.c.key == key).values(values)).rowcount == 1


def site_groups(db: Database) -> list[str]:
    """Return the keys of all groups but those of the internal lanes, which every database has."""
    return [row["key"] for row in rows(db, rate_groups) if not row["key"].startswith("_")]


def test_a_load_stores_sites_targets_and_groups(db: Database) -> None:
    report = load(db, file("b", "a", interval_sec=2.5))
    assert (report.sites, report.targets, report.groups) == (2, 2, 2)
    assert report.changed[0] == "site a: added, group a.test (host: a.test)"
    assert site_groups(db) == ["a.test", "b.test"]
    stored = one(db, targets, "a_news")
    assert (stored["site_code"], stored["interval_sec"], stored["enabled"], stored["created_at"]) == ("a", 2.5, True, NOW)


def test_the_same_file_again_changes_nothing(db: Database) -> None:
    load(db, file("a", "b"))
    before = rows(db, sites), rows(db, targets)
    again = Catalogue(db, LATER).load(resolver.plan(file("a", "b")))
    assert again.changed == []
    assert (rows(db, sites), rows(db, targets)) == before


def test_a_change_is_stored_and_told(db: Database) -> None:
    load(db, file("a"))
    report = load(db, file("a", interval_sec=3.0, name="News"))
    assert report.changed == ["target a_news: name none → News", "target a_news: interval_sec 10 → 3"]
    assert one(db, targets, "a_news")["interval_sec"] == 3.0


def test_a_dry_run_tells_the_same_and_stores_nothing(db: Database) -> None:
    dry = load(db, file("a"), dry_run=True)
    assert rows(db, sites) == rows(db, targets) == site_groups(db) == []
    assert dry == load(db, file("a"))


def test_what_was_learned_about_a_target_stays(db: Database) -> None:
    load(db, file("a"))
    learned = {"grown_interval_sec": 55.0, "frontier_gen": 7, "last_crawl_at": NOW, "lone_403_weak": True}
    with db.write() as conn:
        conn.execute(update(targets).values(learned))
    load(db, file("a", interval_sec=20.0))
    stored = one(db, targets, "a_news")
    assert stored["interval_sec"] == 20.0
    assert {name: stored[name] for name in learned} == learned


def test_a_load_that_fails_half_way_stores_nothing(db: Database) -> None:
    described = file("a", "b")
    described.targets[1] = TargetPlan("b_news", "b", name=None)  # type: ignore[arg-type]
    with pytest.raises(IntegrityError):
        load(db, described)
    assert rows(db, sites) == rows(db, targets) == site_groups(db) == []


def test_pruning_disables_the_targets_that_the_file_no_longer_names(db: Database) -> None:
    load(db, file("a", "b"))
    assert load(db, file("a")).changed == []
    assert load(db, file("a"), prune=True).changed == ["target b_news: disabled"]
    assert [row["enabled"] for row in rows(db, targets)] == [True, False]
    assert len(rows(db, sites)) == 2


def test_a_disabled_target_stays_disabled_unless_the_file_says_otherwise(db: Database) -> None:
    load(db, file("a"))
    assert Catalogue(db).disable("a_news") is True
    report = load(db, file("a"))
    assert "target a_news stays disabled" in report.notes[0]
    assert one(db, targets, "a_news")["enabled"] is False
    load(db, file("a", enabled=True))
    assert one(db, targets, "a_news")["enabled"] is True


def test_enabling_and_disabling_say_whether_they_changed_anything(db: Database) -> None:
    load(db, file("a"))
    catalogue = Catalogue(db)
    assert [catalogue.disable("a_news"), catalogue.disable("a_news")] == [True, False]
    assert [catalogue.enable("a_news"), catalogue.enable("a_news")] == [True, False]


def test_an_unknown_target_or_site_is_told_with_the_nearest_name(db: Database) -> None:
    load(db, file("a", "city"))
    with pytest.raises(BadInput, match="no target is called 'a_new'; did you mean 'a_news'"):
        Catalogue(db).disable("a_new")
    with pytest.raises(BadInput, match="no site is called 'cityy'; did you mean 'city'"):
        resolver.assign(Catalogue(db), "cityy", "g")


def test_disabling_a_target_cancels_what_the_schedule_queued_and_nothing_else(db: Database) -> None:
    load(db, file("a", "b"))
    ledger = Ledger(db, load_settings())
    with db.write() as conn:
        made = {
            (code, source): ledger.submit(conn, NewJob(target_code=code, source=source)).job_id
            for code in ("a_news", "b_news") for source in ("schedule", "manual")
        }
    Catalogue(db, NOW).disable("a_news")
    found = {row["job_id"]: (row["status"], row["error_msg"]) for row in rows(db, jobs)}
    assert found[made["a_news", "schedule"]] == ("cancelled", "target_disabled")
    assert [found[made[key]][0] for key in made if key != ("a_news", "schedule")] == ["queued"] * 3


def test_checkpoints_are_void_when_options_adapter_or_address_change(db: Database) -> None:
    def seen(described: File) -> str:
        load(db, described)
        return str(one(db, targets, "a_news")["options_hash"])

    def moved(base_url: str, adapter: str) -> File:
        return File([SitePlan("a", base_url, adapter)], [TargetPlan("a_news", "a", options={"x": 1, "y": 2})])

    first = seen(moved("http://a.test", "list"))
    assert seen(File([SitePlan("a", "http://a.test", "list")], [TargetPlan("a_news", "a", options={"y": 2, "x": 1})])) == first
    assert seen(moved("http://b.test", "list")) != first
    assert seen(moved("http://a.test", "feed")) != first
    assert seen(file("a", options={"x": 1})) != first


def test_groups_are_listed_with_the_rule_that_decided(db: Database) -> None:
    load(db, file("a", "b", rules=[Rule("waf", host="b.*")]))
    catalogue = Catalogue(db)
    assert resolver.groups(catalogue) == [
        {"site_code": "a", "group": "a.test", "rule": "host: a.test"},
        {"site_code": "b", "group": "waf", "rule": "rule 1: host b.*"},
    ]
    assert resolver.groups(catalogue, "b") == [{"site_code": "b", "group": "waf", "rule": "rule 1: host b.*"}]
    assert resolver.groups(catalogue, "nobody")[0]["group"] == "site:nobody"


def test_sites_of_one_host_share_a_group_also_when_one_was_loaded_earlier(db: Database) -> None:
    load(db, File([SitePlan("old", "http://h.test/a", "list")]))
    report = load(db, File([SitePlan("new", "http://h.test/b", "list")], rules=[Rule("waf", site="new")]))
    assert {row["site_code"]: row["group_key"] for row in rows(db, sites)} == {"old": "waf", "new": "waf"}
    assert any("site old" in note and "waf" in note for note in report.notes)


def test_queued_jobs_move_with_their_site_and_the_lane_is_woken(db: Database) -> None:
    load(db, file("a", "b"))
    add_job(db, "moves", "a", "a.test", target_code="a_news")
    add_job(db, "other", "b", "b.test")
    add_job(db, "done", "a", "a.test", "done")
    add_job(db, "internal", "a", "_export")
    report = load(db, file("a", "b", rules=[Rule("waf", host="a.*")]))
    assert "site a: group a.test → waf" in report.changed
    groups = {row["job_id"]: row["group_key"] for row in rows(db, jobs)}
    assert groups == {"moves": "waf", "other": "b.test", "done": "a.test", "internal": "_export"}
    assert [(row["group_key"], row["at"]) for row in rows(db, lane_wake)] == [("waf", NOW)]


def test_a_running_job_never_changes_its_group(db: Database) -> None:
    load(db, file("a"))
    add_job(db, "runs", "a", "a.test", "running")
    load(db, file("a", rules=[Rule("waf", host="a.*")]))
    assert one(db, jobs, "runs")["group_key"] == "a.test"
    assert one(db, sites, "a")["group_key"] == "waf"


def test_the_receiving_group_takes_over_the_later_pauses_and_the_pace(db: Database) -> None:
    load(db, file("a", "b"))
    set_group(db, "a.test", pause_until=LATER, pause_kind="rate", pause_reason="429", paused_at=NOW, cooldown_level=2,
              operator_pause_until=NOW, operator_pause_reason="short", next_request_at=LATER, last_response_at=NOW,
              last_interval_sec=30.0, crawl_delay_sec=5.0)
    set_group(db, "b.test", pause_until=NOW, pause_kind="reset", operator_pause_until=LATER, operator_pause_reason="long",
              operator_pause_by="ann", cooldown_level=1, next_request_at=NOW)
    resolver.assign(Catalogue(db, NOW), "a", "b.test")
    taken = one(db, rate_groups, "b.test")
    assert (taken["pause_until"], taken["pause_kind"], taken["pause_reason"], taken["paused_at"]) == (LATER, "rate", "429", NOW)
    assert (taken["operator_pause_until"], taken["operator_pause_reason"], taken["operator_pause_by"]) == (LATER, "long", "ann")
    assert (taken["next_request_at"], taken["cooldown_level"]) == (LATER, 2)
    assert (taken["last_response_at"], taken["last_interval_sec"], taken["crawl_delay_sec"]) == (NOW, 30.0, 5.0)


def test_of_two_moves_in_one_load_neither_sees_what_the_other_took_over(db: Database) -> None:
    load(db, file("a", "b", rules=[Rule("first", site="a"), Rule("second", site="b")]))
    set_group(db, "first", pause_until=LATER, pause_kind="rate")
    load(db, file("a", "b", rules=[Rule("second", site="a"), Rule("third", site="b")]))
    assert one(db, rate_groups, "second")["pause_until"] == LATER
    assert one(db, rate_groups, "third")["pause_until"] is None


def test_an_assignment_is_kept_by_later_loads(db: Database) -> None:
    load(db, file("a"))
    add_job(db, "moves", "a", "a.test")
    report = resolver.assign(Catalogue(db, NOW), "a", "by-hand")
    assert "site a: group a.test → by-hand" in report.changed
    assert one(db, jobs, "moves")["group_key"] == "by-hand"
    assert load(db, file("a", rules=[Rule("waf", host="*")])).changed == []
    assert resolver.groups(Catalogue(db), "a")[0]["rule"] == "assigned: groups assign"


def test_an_assignment_can_be_lifted(db: Database) -> None:
    load(db, file("a"))
    resolver.assign(Catalogue(db), "a", "by-hand")
    resolver.assign(Catalogue(db), "a", None)
    assert resolver.groups(Catalogue(db), "a")[0]["group"] == "a.test"


def test_nobody_is_assigned_to_an_unusable_or_internal_group(db: Database) -> None:
    load(db, file("a"))
    for key in ("Upper", "", "_seed"):
        with pytest.raises(BadInput, match=r"group key (must|may)"):
            resolver.assign(Catalogue(db), "a", key)


def test_a_target_that_changes_its_site_takes_its_queued_jobs_along(db: Database) -> None:
    load(db, file("a", "b"))
    add_job(db, "moves", "a", "a.test", target_code="a_news")
    described = file("a", "b")
    described.targets[0] = TargetPlan("a_news", "b")
    load(db, described)
    assert (one(db, jobs, "moves")["site_code"], one(db, jobs, "moves")["group_key"]) == ("b", "b.test")


def test_two_loads_at_once_wait_for_each_other(db: Database) -> None:
    first_inside, second_inside = threading.Event(), threading.Event()
    overlapped: list[bool] = []

    def slow(standings: Sequence[Standing]) -> Mapping[str, Choice]:
        first_inside.set()
        overlapped.append(second_inside.wait(0.5))
        return resolver.chooser()(standings)

    def quick(standings: Sequence[Standing]) -> Mapping[str, Choice]:
        second_inside.set()
        return resolver.chooser()(standings)

    described = file("a", "b")
    plans = [CataloguePlan(described.sites, described.targets, choose) for choose in (slow, quick)]
    first, second = [threading.Thread(target=Catalogue(db).load, args=[plan]) for plan in plans]
    first.start()
    assert first_inside.wait(10)
    second.start()
    first.join(10)
    second.join(10)
    assert overlapped == [False]
    assert second_inside.is_set()
    assert len(rows(db, sites)) == 2
