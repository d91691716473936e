"""The tabs in a real browser, over a real Flower, while real workers crawl the demo site (rule U3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from models import queries
from tests.support.browser import DESKTOP, PHONE, Noise, chromium, findings, opened, overflow
from tests.support.dashboard import BOB, EVE, EVE_ACTS, TWO_PEOPLE, flower
from tests.support.figures import figure
from tests.support.servers import PostgresServer, ValkeyServer, wait_until
from tests.support.stage import CITY, Stage, fill, stage
from tests.support.store import Shelf, Store

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(120)]
TABS = ("/lanes", "/jobs", "/schedule", "/failed")
OLDEST_SEC = 2.0


@pytest.fixture(scope="module")
def shown(
    postgres: PostgresServer, valkey: ValkeyServer, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """An installation in full swing."""
    valkey.flush()
    db = shelf.postgresql(postgres)
    with stage(Store(tmp_path_factory.mktemp("stage"), db, valkey.url)) as made:
        fill(made)
        yield made
    db.dispose()
    postgres.drop_database(db.url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium."""
    with chromium() as made:
        yield made


@pytest.fixture
def desk(browser: Any, shown: Stage) -> Iterator[tuple[Any, Noise]]:
    """A page as wide as a desktop's; at its end nothing was said on the console and no other host asked."""
    with opened(browser, shown.dashboard.address) as (page, noise):
        yield page, noise
        noise.assert_none()


def row(page: Any, key: str) -> Any:
    """Return a row of a table."""
    return page.locator(f'tr[data-key="{key}"]')


def act(page: Any, button: Any, **fields: Any) -> None:
    """Press a button, fill in its dialog, confirm, and wait until it is done."""
    button.click()
    dialog = page.locator("#rl-dialog[open]")
    for name, value in fields.items():
        field = dialog.locator(f'[name="{name}"]')
        if value is True:
            field.check()
        elif name == "for":
            field.select_option(value)
        else:
            field.fill(value)
    dialog.locator("[type=submit]").click()
    dialog.wait_for(state="detached")


def operations(shown: Stage, *, job: str = "", group: str = "") -> list[tuple[str, str, str]]:
    """Return surface, action and reason of what operators did to a job or a lane, newest first."""
    with shown.store.db.look() as conn:
        found = queries.operations_of_job(conn, job) if job else queries.operations_of_group(conn, group)
    return [(one["surface"], one["action"], one["reason"]) for one in found]


def job_of(shown: Stage, target: str, status: str | None = None) -> str:
    """Return the id of a job of a target."""
    with shown.store.db.look() as conn:
        return str(queries.jobs(conn, queries.JobFilter(target=target, status=status))[0]["job_id"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_u3_each_page_fits_is_quiet_and_can_be_used_by_everybody(
    browser: Any, shown: Stage, size: tuple[int, int], scheme: str
) -> None:
    """No horizontal scroll, nothing on the console, no other host, no serious finding of axe-core."""
    met = job_of(shown, "gd-news_news")
    paths = [*TABS, f"/lanes/{CITY}", f"/jobs/{met}", f"/lanes/{shown.group('river-office')}", "/jobs?status=queued"]
    with opened(browser, shown.dashboard.address, size, color_scheme=scheme) as (page, noise):
        for path in paths:
            assert page.goto(shown.dashboard.address + path).status == 200
            page.locator("#rl-bar [data-age]:not(:empty)").wait_for()
            page.locator("details").evaluate_all("all => all.forEach(one => (one.open = true))")
            assert (path, overflow(page)) == (path, 0)
            assert (path, findings(page)) == (path, [])
        noise.assert_none()


def test_u3_progress_moves_without_a_reload(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    page.goto(f"{shown.dashboard.address}/lanes")
    page.evaluate("window.stillHere = true")
    items = row(page, shown.group("river-office")).locator("[data-items]")
    before = int(items.inner_text())

    wait_until(lambda: int(items.inner_text()) > before + 2, "progress", 15)
    wait_until(lambda: row(page, shown.group("river-office")).locator("[role=progressbar]").is_visible(), "the bar", 5)
    assert page.evaluate("window.stillHere") is True


def test_u3_a_page_shows_what_the_database_held_at_most_two_seconds_ago(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    page.goto(f"{shown.dashboard.address}/lanes")
    page.evaluate("""() => { window.ages = []; setInterval(() => {
        const text = document.querySelector("#rl-bar [data-age]").textContent;
        window.ages.push(text.startsWith("under") ? 0.9 : parseFloat(text)); }, 100) }""")
    job_id = job_of(shown, "river-office_reports", "running")
    items = row(page, shown.group("river-office")).locator("[data-items]")
    for _ in range(6):
        stored = shown.store.job(job_id)["progress"]["items_new"]
        wait_until(partial(shows_at_least, items, stored), "what was stored", OLDEST_SEC + 1)
    figure(f"dashboard: figures at most {page.evaluate('Math.max(...window.ages)'):.1f} s old")
    assert page.evaluate("Math.max(...window.ages)") <= OLDEST_SEC


def shows_at_least(place: Any, number: int) -> bool:
    """Say whether a place of a page shows at least a number."""
    return int(place.inner_text()) >= number


def test_u3_a_pause_counts_down(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    page.goto(f"{shown.dashboard.address}/lanes")
    left = row(page, CITY).locator("[data-countdown]")
    first = seconds(left.inner_text())

    wait_until(lambda: seconds(left.inner_text()) <= first - 3, "the countdown", 8)
    assert "host_cooldown: rate 403" in row(page, CITY).inner_text()


def seconds(text: str) -> int:
    """Return the seconds that a duration in words means."""
    units = {"h": 3600, "min": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+) (h|min|s)", text))


def test_u3_a_lane_is_paused_and_resumed(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    group = shown.group("old-registry")
    page.goto(f"{shown.dashboard.address}/lanes")
    act(page, row(page, group).get_by_role("button", name="Pause"), reason="they asked", **{"for": "1h"})

    row(page, group).get_by_text("they asked").wait_for()
    assert page.locator("#rl-said").inner_text() == f"Lane {group} is paused."
    stored = shown.store.group(group)
    assert (stored.operator_pause_reason, stored.operator_pause_until is not None) == ("they asked", True)
    assert operations(shown, group=group)[0] == ("page", "pause", "they asked")
    row(page, group).locator("[data-countdown]").wait_for()

    act(page, row(page, group).get_by_role("button", name="Resume"), reason="they are content")
    row(page, group).get_by_role("button", name="Pause").wait_for()
    assert shown.store.group(group).operator_pause_until is None
    assert operations(shown, group=group)[0] == ("page", "resume", "they are content")
    page.goto(f"{shown.dashboard.address}/lanes/{group}")
    page.get_by_text("they are content").wait_for()


def test_u3_a_dialog_does_what_it_asked_though_its_button_has_become_another(
    desk: tuple[Any, Noise], shown: Stage
) -> None:
    page, _ = desk
    group = shown.group("old-registry")
    shown.dashboard.post(f"/lanes/{group}/pause", {"reason": "they asked"})
    page.goto(f"{shown.dashboard.address}/lanes/{group}")
    page.get_by_role("button", name="Resume").click()
    page.locator("#rl-dialog[open] [name=reason]").fill("they are content")
    # somebody else was quicker, and the page has followed while this dialog stood open
    shown.dashboard.post(f"/lanes/{group}/resume")
    page.locator("main button[data-post$='/pause']").wait_for(state="attached")
    page.locator("#rl-dialog [type=submit]").click()
    page.locator("#rl-dialog[open]").wait_for(state="detached")

    stored = shown.store.group(group)
    assert (stored.operator_pause_reason, stored.operator_pause_until) == (None, None)
    assert page.locator("#rl-said").inner_text() == f"Lane {group} is resumed."


def test_u3_the_pause_of_all_stands_on_every_page_until_it_is_lifted(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    page.goto(f"{shown.dashboard.address}/lanes")
    act(page, page.get_by_role("button", name="Pause all"), reason=f"power cut {'x' * 300}", **{"for": ""})
    job_id = job_of(shown, "river-office_reports")
    try:
        for path in (*TABS, f"/jobs/{job_id}", f"/lanes/{CITY}"):
            page.goto(shown.dashboard.address + path)
            page.get_by_text("All lanes are paused").wait_for()
            assert "until somebody resumes them" in page.locator("main").inner_text()
            assert overflow(page) <= 0, path
    finally:
        page.goto(f"{shown.dashboard.address}/schedule")
        act(page, page.get_by_role("button", name="Resume all"))
    page.get_by_text("All lanes are paused").wait_for(state="detached")
    with shown.store.db.look() as conn:
        assert queries.fleet_pause(conn) is None


def test_u3_a_job_is_cancelled_and_requeued_from_its_page(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    job_id = shown.store.submit("library_books", priority=500)
    page.goto(f"{shown.dashboard.address}/jobs/{job_id}")
    assert "paused by ann@desk" in page.locator('[data-reason="paused"]').inner_text()

    act(page, page.get_by_role("button", name="Cancel"), reason="asked twice")
    page.locator("[data-status]", has_text="cancelled").wait_for()
    assert shown.store.row(job_id).status == "cancelled"

    act(page, page.get_by_role("button", name="Requeue"), reason="once is fine")
    page.locator("[data-status]", has_text="queued").wait_for()
    assert shown.store.row(job_id).status == "queued"
    assert [(action, why) for _, action, why in operations(shown, job=job_id)] == [
        ("requeue", "once is fine"), ("cancel", "asked twice")]
    page.get_by_text("asked twice").wait_for()
    shown.store.cancel(job_id)


def test_u3_a_running_job_is_cancelled(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    job_id = job_of(shown, "old-registry_entries", "running")
    page.goto(f"{shown.dashboard.address}/jobs?status=running")
    act(page, row(page, job_id).get_by_role("button", name="Cancel"))

    row(page, job_id).wait_for(state="detached")
    shown.store.wait_for(job_id, "cancelled")
    page.goto(f"{shown.dashboard.address}/jobs/{job_id}")
    act(page, page.get_by_role("button", name="Requeue"))
    page.locator("[data-status]", has_text="running").wait_for()


def test_u3_a_whole_filter_is_cancelled_after_its_number_was_named(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    ids = [shown.store.submit("library_events", priority=700 + number) for number in range(3)]
    page.goto(f"{shown.dashboard.address}/jobs?target=library_events&status=queued")
    with shown.store.db.look() as conn:
        number = len(queries.jobs(conn, queries.JobFilter(target="library_events", status="queued")))
    button = page.get_by_role("button", name=f"Cancel all {number}")
    button.click()
    assert page.locator("#rl-dialog [data-title]").inner_text() == f"Cancel {number} queued jobs"
    page.locator("#rl-dialog [data-close]").click()
    assert all(shown.store.row(job_id).status == "queued" for job_id in ids)

    act(page, button)
    page.get_by_text("No job matches.").wait_for()
    assert page.locator("#rl-said").inner_text() == f"{number} cancelled."
    assert {shown.store.row(job_id).status for job_id in ids} == {"cancelled"}

    page.goto(f"{shown.dashboard.address}/jobs?target=library_events&status=cancelled")
    act(page, page.get_by_role("button", name=f"Requeue all {number}"))
    page.get_by_text("No job matches.").wait_for()
    assert {shown.store.row(job_id).status for job_id in ids} == {"queued"}


def test_u3_a_finished_crawl_runs_again(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    before = job_of(shown, "chapel_psalms", "done")
    page.goto(f"{shown.dashboard.address}/jobs?target=chapel_psalms")
    act(page, row(page, before).get_by_role("button", name="Run chapel_psalms again"), reason="two were corrected", force=True)

    said = page.locator("#rl-said").inner_text()
    again = re.fullmatch(r"job (\w+) is queued\.", said)
    assert again is not None, said
    row(page, again[1]).wait_for()
    found = shown.store.wait_for(again[1], "done")
    assert (found["target_code"], found["force"]) == ("chapel_psalms", True)
    row(page, again[1]).get_by_text("done").wait_for()
    assert operations(shown, job=again[1]) == [("page", "submit", "two were corrected")]


def test_u3_dead_letters_are_requeued_by_their_error(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    dead = job_of(shown, "harbour_tides", "failed")
    attempt = shown.store.row(dead).attempt
    page.goto(f"{shown.dashboard.address}/failed")
    found = page.locator("tr", has_text="robots.txt")
    number = int(found.locator("td strong").inner_text())
    act(page, found.get_by_role("button"), reason="robots.txt was changed")

    assert page.locator("#rl-said").inner_text() == f"{number} requeued."
    wait_until(lambda: shown.store.row(dead).attempt == attempt + 1, "another attempt", 10)
    assert operations(shown, job=dead)[0] == ("page", "requeue", "robots.txt was changed")


def test_u3_an_entry_runs_now_is_paused_and_resumed(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    page.goto(f"{shown.dashboard.address}/schedule")
    entry = row(page, "entry-vitals")
    assert page.locator("svg.rl-track48").count() >= 6
    act(page, entry.get_by_role("button", name="Run"), reason="are they there?")
    page.locator('tr[data-key^="run-"]', has_text="vitals").first.wait_for()

    act(page, entry.get_by_role("button", name="Pause"), reason="holiday")
    entry.get_by_text("paused").wait_for()
    act(page, entry.get_by_role("button", name="Resume"), reason="back")
    entry.get_by_role("button", name="Pause").wait_for()


def test_u3_a_run_that_did_not_begin_is_not_said_to_run(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    page.goto(f"{shown.dashboard.address}/schedule")
    act(page, row(page, "entry-snapshot_seed").get_by_role("button", name="Run"), reason="is there one?")
    assert page.locator("#rl-said").inner_text() == "snapshot_seed did not run: skipped (no_source)."


def test_u3_an_action_that_is_refused_says_why(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, noise = desk
    job_id = shown.store.submit("library_books", priority=600)
    page.goto(f"{shown.dashboard.address}/jobs/{job_id}")
    page.get_by_role("button", name="Stop updates").click()
    shown.store.cancel(job_id)
    page.get_by_role("button", name="Cancel").click()
    page.locator("#rl-dialog [type=submit]").click()
    page.locator("#rl-dialog [data-error]", has_text="cannot cancel").wait_for()
    noise.errors[:] = [said for said in noise.errors if "409" not in said]


def test_u3_a_keyboard_is_enough_and_keeps_its_place(desk: tuple[Any, Noise], shown: Stage) -> None:
    """The focus stays over updates, and comes back to where it was after a dialog."""
    page, _ = desk
    group = shown.group("river-office")
    page.goto(f"{shown.dashboard.address}/lanes")
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == f"Pause lane {group}":
            break
    else:
        raise AssertionError("the button cannot be reached")
    items = row(page, group).locator("[data-items]")
    before = int(items.inner_text())
    wait_until(lambda: int(items.inner_text()) > before + 1, "updates", 15)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"Pause lane {group}"

    page.keyboard.press("Enter")
    page.locator("#rl-dialog[open]").wait_for()
    page.keyboard.press("Escape")
    page.locator("#rl-dialog[open]").wait_for(state="detached")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == f"Pause lane {group}"


def test_u3_a_hidden_page_asks_nothing_and_a_still_one_next_to_nothing(desk: tuple[Any, Noise], shown: Stage) -> None:
    page, _ = desk
    answers: list[int] = []
    page.on("response", lambda answer: answers.append(answer.status) if "live=1" in answer.url else None)
    page.goto(f"{shown.dashboard.address}/failed")
    wait_until(lambda: page.wait_for_timeout(50) or answers.count(304) >= 2, "a still page", 15)

    page.evaluate("""() => { Object.defineProperty(document, "hidden", {value: true, configurable: true});
        document.dispatchEvent(new Event("visibilitychange")); }""")
    page.wait_for_timeout(300)
    asked = len(answers)
    page.wait_for_timeout(3_500)
    assert len(answers) == asked
    page.evaluate("""() => { delete document.hidden; document.dispatchEvent(new Event("visibilitychange")); }""")
    wait_until(lambda: page.wait_for_timeout(50) or len(answers) > asked, "a question", 5)


def test_u3_a_page_says_that_flower_is_away_and_goes_on_once_it_is_back(browser: Any, shown: Stage) -> None:
    """What is shown comes from the database: a Flower that was stopped and started has lost nothing of it."""
    with flower(shown.store) as first, opened(browser, first.address) as (page, _):
        page.goto(f"{first.address}/jobs?status=failed")
        before = page.locator("tr[data-key]").count()
        first.stop()
        page.get_by_text("Not up to date: Flower does not answer").wait_for()
        first.start()
        page.get_by_text("Not up to date").wait_for(state="detached", timeout=30_000)
        page.reload()
        assert page.locator("tr[data-key]").count() == before > 0


def test_u3_a_dashboard_that_is_read_only_shows_no_button_that_acts(browser: Any, shown: Stage) -> None:
    with flower(shown.store, "--read_only") as looked, opened(browser, looked.address) as (page, noise):
        for path in TABS:
            page.goto(looked.address + path)
            assert page.locator("[data-post]").count() == 0
            assert page.locator("#rl-live").inner_text()
        noise.assert_none()


def test_u3_behind_a_prefix_and_a_login_an_operator_acts_under_their_name(browser: Any, shown: Stage) -> None:
    """And a viewer sees no button."""
    group = shown.group("library")
    with flower(shown.store, *TWO_PEOPLE, "--url_prefix=ops", prefix="/ops", **EVE_ACTS) as board:
        for (name, password), buttons in ((BOB, False), (EVE, True)):
            login = {"username": name, "password": password}
            with opened(browser, board.address, http_credentials=login) as (page, noise):
                assert page.goto(f"{board.address}/lanes/{group}").status == 200
                page.locator("#rl-bar [data-age]:not(:empty)").wait_for()
                assert (page.locator("[data-post]").count() > 0) is buttons
                if buttons:
                    act(page, page.get_by_role("button", name=f"Resume lane {group}"), reason="noon")
                    page.get_by_text("noon", exact=True).wait_for()
                noise.assert_none()
    with shown.store.db.look() as conn:
        last = queries.operations_of_group(conn, group)[0]
    assert (last["who"], last["surface"], last["reason"]) == ("eve", "page", "noon")
