"""Sites that nobody of ours has written, served by a real nginx, with its limiter, ModSecurity and the OWASP rules."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from config import clock
from config.settings import Settings
from models.audit import is_clean, read_audit
from models.jobs import attempts
from tests.support.command_line import CommandLine
from tests.support.figures import figure
from tests.support.manuals import CHINESE, ENGLISH, FAQ, Manual, manuals_yaml, need_manuals, squeezed
from tests.support.nginx import Answered, Front, Limit, NginxServer, counting_rules, crs_rules, gaps, nginx
from tests.support.servers import wait_until
from tests.support.store import Store
from tests.support.workers import Workers

pytestmark = [pytest.mark.acceptance, pytest.mark.paired, pytest.mark.timeout(150)]
PAUSE = 2.0
#: a settle, a scout, a claim, and two cores that others use as well
SLACK = 8.0
#: nginx writes milliseconds, and its clock stands still while it works off what it was woken for
CLOCK_SEC = 0.005
#: enough of a lease for a request that a limiter holds up for a second
SLOW_ANSWERS = {"lease_sec": 6.0, "request_timeout_sec": 3.0, "cooldown_delay_sec": PAUSE, "interval_growth_codes": "*"}
MANUALS = (ENGLISH, CHINESE)


@pytest.fixture(autouse=True)
def _manuals() -> None:
    need_manuals()


def crawled(folder: Path, server: NginxServer, interval_sec: float) -> tuple[CommandLine, list[dict[str, Any]]]:
    """Crawl both manuals of every front with one command and nothing configured; return its home and the articles."""
    line = CommandLine(folder / "home")
    urls = {name: front.url for name, front in server.fronts.items()}
    (folder / "sites.yaml").write_text(manuals_yaml(urls, MANUALS, interval_sec), encoding="utf-8")
    totals = line.json("crawl", str(folder / "sites.yaml"))["totals"]
    jobs = 2 * len(urls)
    assert (totals["complete"], totals["items_new"], totals["cooldowns"]) == (jobs, 16 * jobs, 0)
    audit = line.json("audit")
    assert is_clean(audit), audit
    assert audit["requests"] == len(server.log()), "the request log and the server's tell of the same requests"
    return line, [json.loads(row) for row in line.run("articles", "--format", "jsonl").stdout.splitlines()]


def assert_polite(log: list[Answered], interval_sec: float) -> None:
    """Fail unless the server saw one request at a time, and each no sooner than the interval after the one before."""
    assert min(gaps(log)) >= interval_sec - CLOCK_SEC


def test_a_manual_that_nobody_of_ours_wrote_is_stored_whole(tmp_path: Path) -> None:
    """P1, P2, R8, P5: every chapter once, every character of it, one request at a time in nginx's own log."""
    with nginx(FAQ, Front("plain")) as server:
        line, rows = crawled(tmp_path, server, 0.2)
        log, base = server.log(), server.fronts["plain"].url
        again = line.json("crawl", str(tmp_path / "sites.yaml"))["totals"]
        assert (again["complete"], again["items_new"]) == (2, 0)
        # a list page each, and nothing of them has changed: what is known is not asked for again
        assert [one.status for one in server.log()[len(log):]] == [304, 304]
    assert_polite(log, 0.2)
    assert {one.agent for one in log} == {Settings(home=tmp_path).user_agent}
    stored = {row["url"]: row for row in rows}
    assert len(rows) == len(stored) == 32
    assert [stored[base + chapter.path]["title"] for manual in MANUALS for chapter in manual.chapters] == [
        chapter.title for manual in MANUALS for chapter in manual.chapters]
    for chapter in CHINESE.chapters:
        assert squeezed(stored[base + chapter.path]["text"]) == chapter.text, chapter.path
    kept = []
    for chapter in ENGLISH.chapters:
        words = stored[base + chapter.path]["text"].split()
        kept.append(len("".join(words)) / len(chapter.text))
        # what the library found is the chapter's own: no navigation, no foot, nothing read in a wrong way
        foreign = [word for word in words if word not in chapter.text and word != "|"]
        assert len(foreign) <= 0.01 * len(words), (chapter.path, foreign)
    figure(f"manual: {len(log)} requests, smallest gap {min(gaps(log)):.3f} s, found text {min(kept):.0%} to {max(kept):.0%}")
    assert min(kept) > 0.75


def test_the_owasp_rules_let_the_default_user_agent_through(tmp_path: Path) -> None:
    """P1: at both paranoia levels nothing of two whole crawls is refused, while what they know as a tool is."""
    fronts = [Front(f"crs{level}", rules=crs_rules(level)) for level in (1, 2)]
    with nginx(FAQ, *fronts) as server:
        _, rows = crawled(tmp_path, server, 0.2)
        for front in fronts:
            log = server.log(front.name)
            assert_polite(log, 0.2)
            assert Counter(one.status for one in log) == {404: 1, 200: 34}, "robots.txt is not there, all else is"
            assert server.ask(front.name, CHINESE.index, "sqlmap/1.7") == 403, "the rules are in force"
        script = [server.ask(front.name, CHINESE.index, "python-requests/2.34") for front in fronts]
        assert script == [200, 403]
        assert len({row["url"] for row in rows}) == len(rows) == 64


#: the forms of nginx's limiter, and how long each asks to wait
FORMS: dict[str, tuple[Limit, float]] = {
    "s503": (Limit(1.0), 0.0),
    "s429": (Limit(1.0, status=429, retry_after="4"), 4.0),
    "short": (Limit(1.0, status=429, retry_after="1", only_refusals=True), 1.0),
    "burst": (Limit(1.0, "burst=3 nodelay", 429, "3", True), 3.0),
    "delayed": (Limit(1.0, "burst=3"), 0.0),
    "s444": (Limit(1.0, status=444), 0.0),
    "steps": (Limit(0.5), 0.0),
}
#: the slowest lists fewer chapters, so that it takes no longer than the others
SHORTER = {"steps": 6, "delayed": 12}


def test_a_limiter_is_met_once_and_then_kept_to(store: Store, workers: Workers) -> None:
    """C1, C3, C5, C6, C7, P5: in each form at most one refused request a cooldown, silence, growth, and all chapters."""
    fronts = [Front(name, limit) for name, (limit, _) in FORMS.items()]
    workers.start("one", "two", concurrency=8, **SLOW_ANSWERS)
    with nginx(FAQ, *fronts) as server:
        urls = {name: front.url for name, front in server.fronts.items()}
        store.load(manuals_yaml(urls, [CHINESE], 0.2, SHORTER))
        ids = {name: store.submit(f"{name}_zh") for name in FORMS}
        jobs = {name: store.wait_for(job_id, "done", timeout=90) for name, job_id in ids.items()}
        for name, (_, asked) in FORMS.items():
            assert (jobs[name]["outcome"], jobs[name]["failures"]) == ("complete", 0), name
            log, cooldowns = server.log(name), store.cooldowns(server.fronts[name].host)
            refused = [one for one in log if one.is_refused]
            figure(f"limit_req {name} {store.db.dialect}: {len(log)} requests, {len(refused)} refused, "
                   f"{len(cooldowns)} cooldowns, {log[-1].ended - log[0].started:.1f} s, {store.intervals(f'{name}_zh')}")
            assert_pauses(log, cooldowns, max(PAUSE, asked), refusals=2 if name == "s444" else 1)
            assert_once(log, store, f"{name}_zh", server.fronts[name].url, CHINESE, SHORTER.get(name))
            assert_polite(log, 0.2)
        assert_agreed(store, server)
        assert [one.limiter for one in server.log("delayed")].count("DELAYED") > 8, "the limiter held answers up"
    grown = [(0.2, 1.2), (1.2, 2.2)]
    steps = {name: len(store.intervals(f"{name}_zh")) for name in FORMS}
    assert steps == dict.fromkeys(FORMS, 1) | {"delayed": 0, "steps": 2}
    for name, number in steps.items():
        assert store.intervals(f"{name}_zh") == grown[:number]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_limiter_that_somebody_else_has_used_up_puts_robots_txt_off(store: Store, workers: Workers) -> None:
    """P4: a 429 to robots.txt means not now; the longer wait of both holds, and neither a failure nor a level is spent."""
    workers.start("one", robots_retry_sec=1.0)
    with nginx(FAQ, Front("shared", Limit(0.5, status=429, retry_after="3", only_refusals=True))) as server:
        host = server.fronts["shared"].host
        store.load(manuals_yaml({"shared": f"http://{host}"}, [CHINESE], 2.1, {"shared": 2}))
        job_id = store.submit("shared_zh", run_after=clock.now() + timedelta(seconds=1))
        wait_until(lambda: clock.now() >= store.row(job_id).run_after - timedelta(seconds=0.1), "the moment before")
        server.ask("shared", "/")
        job, log = store.wait_for(job_id, "done"), server.log()
        figure(f"robots.txt refused {store.db.dialect}: asked again after {gaps(log)[0]:.2f} s")
        assert [(one.path, one.status) for one in log[:3]] == [
            ("/robots.txt", 429), ("/robots.txt", 404), (CHINESE.index, 200)]
        assert 3.0 - CLOCK_SEC <= gaps(log)[0] < 3.0 + SLACK
        assert [one["outcome"] for one in job["attempts_log"]] == ["robots_unreachable", "done"]
        assert (job["outcome"], job["failures"], store.cooldowns(host)) == ("complete", 0, [])
        assert_once(log, store, "shared_zh", f"http://{host}", CHINESE, 2)
        assert_polite(log, 2.1)
        assert_agreed(store, server)


def assert_pauses(log: list[Answered], cooldowns: list[Any], pause_sec: float, refusals: int = 1) -> None:
    """Fail unless each cooldown began behind at most so many refused requests in a row, and nothing came in its pause.

    Where it takes two, a lone one is forgotten as soon as the server answers.
    """
    rest = log
    for cooldown in cooldowns:
        begins, ends = cooldown.at.timestamp(), cooldown.until.timestamp()
        before = [one for one in rest if one.ended <= begins + CLOCK_SEC]
        rest = rest[len(before):]
        rows = [len(list(row)) for is_refused, row in groupby(before, lambda one: one.is_refused) if is_refused]
        assert before[-1].is_refused
        assert rows[-1] <= refusals
        assert all(row < refusals for row in rows[:-1])
        assert (cooldown.until - cooldown.at).total_seconds() == pytest.approx(pause_sec, abs=0.001)
        assert rest[0].started >= ends - CLOCK_SEC
        assert pause_sec - CLOCK_SEC <= rest[0].started - before[-1].ended < pause_sec + SLACK
    assert not any(one.is_refused for one in rest)


def assert_once(
    log: list[Answered], store: Store, target_code: str, base: str, manual: Manual, most: int | None = None
) -> None:
    """Fail unless each chapter was answered once and is stored once, whole."""
    chapters = manual.chapters[:most]
    answered = Counter(one.path for one in log if one.status == 200)
    assert {path: number for path, number in answered.items() if path != manual.index} == {
        chapter.path: 1 for chapter in chapters}
    assert store.stored(target_code) == sorted(base + chapter.path for chapter in chapters)


def assert_agreed(store: Store, server: NginxServer) -> None:
    """Fail unless the audit finds nothing, and as many requests as the server."""
    with store.db.look() as conn:
        audit = read_audit(conn)
    assert is_clean(audit), audit
    assert {key: found["requests"] for key, found in audit["groups"].items()} == {
        front.host: len(server.log(name)) for name, front in server.fronts.items()}


def test_a_firewall_that_blocks_is_left_alone_until_it_forgets(store: Store, workers: Workers) -> None:
    """C1, C2, C6, C7: what ModSecurity refuses ends the attempt at once; the crawl goes on when the block is lifted.

    `brief` forgets during each pause. `long` still blocks when the first pause is over: there a 403 comes from a host
    that has not answered in the attempt, a weak sign, and the block before it is the other one. `silent` hangs up, which
    is always weak, so that the first block takes two.
    """
    workers.start("one", "two", cooldown_delay_sec=PAUSE)
    fronts = [Front("brief", rules=counting_rules(7)), Front("long", rules=counting_rules(12)),
              Front("silent", rules=counting_rules(12, 444))]
    with nginx(FAQ, *fronts) as server:
        store.load(manuals_yaml({name: front.url for name, front in server.fronts.items()}, [CHINESE], 0.2))
        ids = {name: store.submit(f"{name}_zh") for name in server.fronts}
        for name, number in (("brief", 1), ("brief", 2), ("long", 2), ("silent", 2)):
            lift_at(store, server, name, number)
        for name, most in (("brief", 1), ("long", 1), ("silent", 2)):
            job, log = store.wait_for(ids[name], "done"), server.log(name)
            cooldowns = store.cooldowns(server.fronts[name].host)
            figure(f"ModSecurity {name} {store.db.dialect}: {len(log)} requests, "
                   f"{sum(one.is_refused for one in log)} refused, {len(cooldowns)} cooldowns")
            assert (job["outcome"], job["failures"], job["cooldown_retries"]) == ("complete", 0, 2)
            assert [one["outcome"] for one in job["attempts_log"]] == ["cooldown", "cooldown", "done"]
            assert_pauses(log, cooldowns, PAUSE, refusals=most)
            assert_once(log, store, f"{name}_zh", server.fronts[name].url, CHINESE)
            assert_polite(log, 0.2)
            assert_evidence(store, ids[name], server, name)
        assert_agreed(store, server)
        assert server.errors.count("ModSecurity: Access denied with code 4") == sum(
            one.is_refused for one in server.log()), "nobody else has said no"


def lift_at(store: Store, server: NginxServer, name: str, number: int) -> None:
    """Lift the block of a front during its cooldown of that number."""
    host = server.fronts[name].host
    wait_until(lambda: len(store.cooldowns(host)) >= number, f"cooldown {number} of {name}", 30)
    server.lift(name)


def assert_evidence(store: Store, job_id: str, server: NginxServer, name: str) -> None:
    """Fail unless each attempt that was blocked kept what nginx said: status, address, headers and body, or nothing."""
    with store.db.read() as conn:
        kept = list(conn.scalars(select(attempts.c.evidence).where(attempts.c.job_id == job_id).order_by(
            attempts.c.attempt)))
    refused = [one.path for one in server.log(name) if one.is_refused]
    first, second, last = kept
    assert last is None
    assert [first["url"], second["url"]] == [server.fronts[name].url + path for path in (refused[0], refused[-1])]
    for found in (first, second):
        if name == "silent":
            signs = [["reset", "reset"], ["blocked_before", "reset"]][found is second]
            assert (found["status"], found["kind"], found["signs"]) == (None, "reset", signs)
            continue
        assert (found["status"], found["kind"]) == (403, "rate")
        assert found["line"] == f"host_cooldown: rate 403 {found['url']}"
        assert found["headers"]["server"].startswith("nginx/")
        assert "<center><h1>403 Forbidden</h1></center>" in found["body"]
    assert ("answered_403" in first["signs"]) is (name != "silent")
