"""The pages over HTTP, without a browser: a real Flower on a database of a few rows, some of them hostile (rule U3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import select, update

from console import actions
from console.demo import Site
from models.jobs import jobs
from models.operations import Operator
from models.sites import sites
from tests.support.dashboard import BOB, EVE, EVE_ACTS, TWO_PEOPLE, Board, flower
from tests.support.figures import figure
from tests.support.servers import ValkeyServer, wait_until
from tests.support.site import sites_yaml
from tests.support.store import Shelf, Store

pytestmark = pytest.mark.timeout(90)
PATHS = ("/lanes", "/jobs", "/schedule", "/failed")
HOSTILE = "<script>alert('x')</script>"
PASSWORD = "p4ssw0rd-of-the-broker"
YAML = """
sites:
  - {site_code: one, name: "HOSTILE", base_url: "http://one.example", cms_adapter: list,
     targets: [{target_code: one_news, name: News, interval_sec: 5, track_checkpoint: true, enabled: true,
                options: {list_url: "/", item: li, link: "a@href", title: a, content: article}}]}
""".replace("HOSTILE", HOSTILE)


@pytest.fixture(scope="module")
def empty(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store without a row and with a broker that wants a password, which no page may show."""
    folder = tmp_path_factory.mktemp("pages")
    server = ValkeyServer(PASSWORD).start()
    try:
        yield Store(folder, shelf.sqlite(folder / "home"), server.url)
    finally:
        server.remove()


@pytest.fixture(scope="module")
def plain(empty: Store) -> Iterator[Board]:
    """Flower on the empty store."""
    with flower(empty) as shown:
        yield shown


@pytest.fixture(scope="module")
def filled(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory, empty: Store) -> Store:
    """A store whose rows hold what a site could send."""
    folder = tmp_path_factory.mktemp("hostile")
    store = Store(folder, shelf.sqlite(folder / "home"), empty.broker_url)
    store.load(YAML)
    dead, waiting = store.submit("one_news", job_id="dead"), store.submit("one_news", job_id=HOSTILE)
    actions.cancel(store.db, store.settings(), [dead], Operator(HOSTILE, "page", HOSTILE))
    with store.db.write() as conn:
        conn.execute(update(jobs).where(jobs.c.job_id == dead).values(
            status="failed", error_msg=f"OddError: {HOSTILE}", result={"error": HOSTILE}))
        conn.execute(update(sites).values(base_url="javascript:alert(1)"))
    actions.pause(store.db, "one.example", Operator(HOSTILE, "cli", HOSTILE), for_sec=600)
    assert waiting == HOSTILE
    return store


@pytest.fixture(scope="module")
def prefixed(filled: Store) -> Iterator[Board]:
    """Flower on the filled store, behind a prefix."""
    with flower(filled, "--url_prefix=ops/flower", prefix="/ops/flower") as shown:
        yield shown


def ask(shown: Board, path: str, **more: Any) -> tuple[int, Mapping[str, str], str]:
    """Return status, headers and text of a page."""
    answer = shown.ask("GET", path, **more)
    return answer.status_code, answer.headers, answer.text


@pytest.mark.parametrize(("path", "advice"), list(zip(PATHS, (
    "ratelane submit TARGET", "ratelane load sites.yaml", "celery -A config beat", "No job has failed for good"), strict=True)))
def test_u3_an_empty_page_says_what_to_do_next(plain: Board, path: str, advice: str) -> None:
    status, headers, text = ask(plain, path)

    assert status == 200
    assert advice in text
    assert "Times in Asia/Shanghai (UTC+08:00)" in text
    assert text.count('aria-current="page"') == 1
    assert "script-src 'self'" in headers["Content-Security-Policy"]


def test_u3_flowers_own_pages_have_our_tabs_and_nothing_else_of_ours(plain: Board) -> None:
    status, headers, text = ask(plain, "/workers")

    assert status == 200
    assert all(f'href="{path}"' in text for path in PATHS)
    assert "rl-page" not in text
    assert "Content-Security-Policy" not in headers


def test_u3_what_has_not_changed_is_not_sent_again(filled: Store, prefixed: Board) -> None:
    status, headers, text = ask(prefixed, "/failed?live=1", headers={"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert text.lstrip().startswith("<p")

    again, told, body = ask(prefixed, "/failed?live=1", headers={"If-None-Match": headers["ETag"]})
    assert (again, body) == (304, "")
    assert 0 <= float(told["X-Ratelane-Clock"]) - float(told["X-Ratelane-Read"]) <= 2.0


def test_u3_a_hundred_lanes_are_a_few_kilobytes(filled: Store, many: Board) -> None:
    """What goes over the line each time something has changed; the page itself is the frame and as much again."""
    answer = many.ask("GET", "/lanes?live=1", headers={"Accept-Encoding": "gzip"})

    assert answer.text.count("<tr data-key=") == 100
    packed = int(answer.headers["Content-Length"])
    figure(f"dashboard: 100 lanes are {packed} bytes, {len(answer.content)} unpacked")
    assert packed <= 12_000


@pytest.fixture(scope="module")
def many(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory, empty: Store) -> Iterator[Board]:
    """Flower on a store with a hundred and one lanes that wait."""
    folder = tmp_path_factory.mktemp("many")
    store = Store(folder, shelf.sqlite(folder / "home"), empty.broker_url)
    sites = [Site(f"site-{number}", host="127.0.0.1") for number in range(101)]
    store.load(sites_yaml(sites, 5.0, [{"key": f"{site.name}.example", "site": site.name} for site in sites]))
    for site in sites:
        store.submit(f"{site.name}_news")
    with flower(store) as shown:
        yield shown


def test_u6_no_page_shows_a_password(plain: Board) -> None:
    for path in (*PATHS, "/jobs/none", "/jobs?status=none", "/lanes/none"):
        assert PASSWORD not in ask(plain, path)[2]


@pytest.mark.parametrize(("path", "status", "sentence"), [
    ("/jobs/none", 404, "No job has the id none"),
    ("/lanes/none", 404, "No rate group is called none"),
    (f"/jobs/{quote(HOSTILE, safe='')}", 404, "No job has the id &lt;script&gt;"),
    ("/jobs?status=odd", 400, "no job has the status odd; there are queued"),
    ("/jobs?sort=odd", 400, "jobs cannot be sorted by odd"),
    ("/jobs?run=odd", 400, "runs have numbers, not odd"),
    ("/jobs?run=99999999999999999999", 400, "runs have numbers"),
    ("/jobs?cursor=odd", 400, "cursor"),
    ("/lanes?cursor=odd", 400, "cursor"),
    ("/schedule?cursor=odd", 400, "cursor"),
    ("/jobs/a%00b", 404, "no name has such a character"),
    ("/lanes/100%25d", 404, "No rate group is called 100%d"),
])
def test_u3_what_is_not_there_is_answered_in_words(plain: Board, path: str, status: int, sentence: str) -> None:
    found = ask(plain, path)

    assert (found[0], sentence in found[2]) == (status, True), found[2][-500:]


@pytest.mark.parametrize("path", [
    *PATHS, "/jobs/dead", f"/jobs/{quote(HOSTILE, safe='')}", "/lanes/one.example", f"/jobs?search={quote(HOSTILE)}",
    f"/lanes?search={quote(HOSTILE)}", f"/schedule?entry={quote(HOSTILE)}",
])
def test_u6_whatever_a_site_has_sent_is_text(prefixed: Board, path: str) -> None:
    status, _, text = ask(prefixed, path)

    assert status == 200
    assert HOSTILE not in text
    assert not re.search(r"""(href|src)=["']?\s*javascript:""", text, re.IGNORECASE)


@pytest.mark.parametrize("path", [*PATHS, "/jobs/dead", "/lanes/one.example"])
def test_u3_every_address_has_the_prefix(prefixed: Board, path: str) -> None:
    text = ask(prefixed, path)[2]

    ours = re.findall(r"""(?:href|src|action|data-post|data-source)="(/[^"]*)""", text)
    assert len(ours) > 10
    assert [address for address in ours if not address.startswith("/ops/flower/")] == []


@pytest.mark.parametrize("path", [*PATHS, "/jobs/dead", "/lanes/one.example", "/failed?live=1"])
def test_u3_viewers_see_no_actions(filled: Store, viewed: Board, path: str) -> None:
    assert ask(viewed, path)[0] == 401
    assert "data-post" not in ask(viewed, path, auth=BOB)[2]
    assert "<dialog" not in ask(viewed, path, auth=BOB)[2]


def test_u3_operators_see_actions(viewed: Board) -> None:
    assert ask(viewed, "/jobs/dead", auth=EVE)[2].count("data-post") >= 1


@pytest.fixture(scope="module")
def viewed(filled: Store) -> Iterator[Board]:
    """Flower with a login for an operator and for a viewer."""
    with flower(filled, *TWO_PEOPLE, **EVE_ACTS) as shown:
        yield shown


def test_u3_nobody_acts_in_a_read_only_dashboard(filled: Store) -> None:
    with flower(filled, "--read_only") as shown:
        assert [path for path in (*PATHS, "/jobs/dead") if "data-post" in ask(shown, path)[2]] == []


def test_u3_our_files_are_served_and_our_source_is_not(plain: Board) -> None:
    text = ask(plain, "/lanes")[2]
    (script,) = re.findall(r'src="(/ratelane/static/ratelane\.js[^"]*)"', text)

    status, headers, body = ask(plain, script)
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/javascript")
    for name in re.findall(r'from "\./(\w+\.js)"', body):
        assert ask(plain, f"/ratelane/static/{name}")[1]["Cache-Control"] == "no-cache"
    assert ask(plain, "/ratelane/static/__init__.py")[0] == 404


def test_p3_a_crawl_that_is_not_complete_says_why_in_the_list_and_on_its_page(filled: Store, prefixed: Board) -> None:
    row = update(jobs).where(jobs.c.job_id == "dead")
    with filled.db.read() as conn:
        before = dict(conn.execute(select(jobs).where(jobs.c.job_id == "dead")).mappings().one())
    with filled.db.write() as conn:
        conn.execute(row.values(status="done", outcome="partial", error_msg="",
                                result={"reasons": [f"page 2: 500 {HOSTILE}", "one more"]}))
    try:
        for path, what in (("/jobs", "page 2: 500"), ("/jobs/dead", "Not complete")):
            wait_until(lambda path=path, what=what: what in ask(prefixed, path)[2], what, 5)
            assert HOSTILE not in ask(prefixed, path)[2]
        assert "one more</dd>" in ask(prefixed, "/jobs/dead")[2]
    finally:
        with filled.db.write() as conn:
            conn.execute(row.values({name: before[name] for name in ("status", "outcome", "error_msg", "result")}))
