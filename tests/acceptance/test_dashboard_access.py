"""Who may see and do what in Flower, in every way in which Flower can be started (rules U3 and U4)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tornado.web import create_signed_value

from console.flower.api.routes import ROUTES
from models.operations import operations
from models.queries import operations_of_group
from tests.support.command_line import CommandLine
from tests.support.dashboard import API, BOB, EVE, EVE_ACTS, TWO_PEOPLE, Board, flower
from tests.support.servers import free_port, wait_until
from tests.support.store import Store

pytestmark = pytest.mark.slow
PAGES = ("/lanes", "/jobs", "/schedule", "/failed")
SITES = """
sites:
  - {site_code: one, base_url: http://www.one.example, cms_adapter: feed,
     targets: [{target_code: one_news, interval_sec: 1, options: {url: /feed.xml}}]}
"""
GROUP = "www.one.example"


def calls() -> list[tuple[str, str]]:
    """Return method and path of every route, with names in the places of parameters."""
    names = {"target_code": "one_news", "job_id": "0123456789ab", "group": GROUP, "name": "vitals"}
    return [(route.method, API + route.path.format(**names)) for route in ROUTES] + [("GET", API + "/openapi.json")]


def statuses(board: Board, paths: list[tuple[str, str]], **more: Any) -> dict[tuple[str, str], int]:
    """Return what the server answers to each of the calls."""
    with httpx2.Client(timeout=30, **more) as client:
        return {(method, path): client.request(method, board.address + path, **({"json": {}} if method == "POST" else {})
                                               ).status_code for method, path in paths}


def test_without_login_somebody_at_this_machine_acts_and_nobody_else(store: Store) -> None:
    store.load(SITES)
    with flower(store) as board:
        assert board.ask("GET", "/lanes").status_code == 200
        assert board.post(f"/lanes/{GROUP}/pause", {"reason": "look"}).json()["pause_kind"] == "operator"

        for headers in ({"Host": "rebound.example"}, {"X-Forwarded-For": "127.0.0.1"}, {"X-Real-Ip": "::1"}):
            assert board.ask("GET", API + "/jobs", headers=headers).status_code == 401, headers
            assert board.ask("GET", "/lanes", headers=headers).status_code == 200, headers
            answer = board.post(f"/lanes/{GROUP}/resume", headers=headers)
            assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json")
        assert board.get(f"/lanes/{GROUP}")["pause_kind"] == "operator"


def test_another_sites_page_changes_nothing(store: Store) -> None:
    store.load(SITES)
    with flower(store, *TWO_PEOPLE) as board:
        path = f"/lanes/{GROUP}/pause"
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                        {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none", "Origin": board.address}):
            answer = board.post(path, {"reason": "x"}, headers=headers, auth=EVE)
            assert (answer.status_code, answer.json()["title"]) == (403, "Forbidden"), headers
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = httpx2.post(board.api + path, content=b'{"reason": "x"}', headers={"Content-Type": kind}, auth=EVE)
            assert answer.status_code == 415, kind
            assert httpx2.post(board.api + path, content=b"-", headers={"Content-Type": kind}).status_code == 401
        assert board.get(f"/lanes/{GROUP}", auth=EVE)["pause_kind"] is None

        for headers in ({}, {"Origin": board.address}, {"Sec-Fetch-Site": "same-origin"}):
            assert board.post(path, {"reason": "x"}, headers=headers, auth=EVE).status_code == 200, headers
        assert "access-control-allow-origin" not in board.ask("GET", API + "/jobs", auth=EVE).headers


def test_what_is_expected_is_said_in_words_with_a_line_a_field(store: Store) -> None:
    store.load(SITES)
    with flower(store) as board:
        answer = board.post(f"/lanes/{GROUP}/pause", {"for": "-5m", "reason": "  "})
        assert answer.status_code == 422
        assert answer.json()["errors"] == [
            {"field": "for", "message": "a duration is written 30s, 10m, 2h, 1d or as seconds; or: Input should be a valid number"},
            {"field": "reason", "message": "say why"}]


def test_flowers_own_api_changes_nothing_for_a_viewer(store: Store) -> None:
    store.load(SITES)
    job_id = store.submit("one_news")
    with flower(store, *TWO_PEOPLE, **EVE_ACTS) as board:
        assert board.ask("GET", "/api/tasks", auth=BOB).status_code == 200
        for path in (f"/api/task/revoke/{job_id}", "/api/task/send-task/ratelane.crawl", "/api/worker/shutdown/one"):
            assert board.ask("POST", path, json={"args": ["one_news"]}).status_code == 401, path
            assert board.ask("POST", path, json={"args": ["one_news"]}, auth=BOB).status_code == 403, path
        assert board.ask("POST", f"/api/task/revoke/{job_id}", auth=EVE).status_code == 200


def test_an_address_that_is_no_text_is_bad_input_to_whom_has_logged_in(store: Store) -> None:
    with flower(store, *TWO_PEOPLE) as board:
        for method, path in (("GET", "/lanes/%ff"), ("GET", "/jobs/%c3/why"), ("POST", "/lanes/%ff/pause")):
            body = {"json": {"reason": "x"}} if method == "POST" else {}
            assert board.ask(method, API + path, **body).status_code == 401, path
            answer = board.ask(method, API + path, auth=EVE, **body)
            assert (answer.status_code, answer.json()["detail"]) == (422, "the address holds bytes that are no text"), path


def test_basic_authentication_with_two_roles(store: Store) -> None:
    store.load(SITES)
    with flower(store, *TWO_PEOPLE, **EVE_ACTS) as board:
        everything = calls() + [("GET", page) for page in PAGES]
        assert set(statuses(board, everything).values()) == {401}
        wrong = [("eve", "wrong"), ("eve", ""), ("nobody", "staple"), ("vé", "staple")]
        assert [set(statuses(board, everything[:3], auth=one).values()) for one in wrong] == [{401}] * 4
        answer = board.ask("GET", API + "/jobs")
        assert answer.headers["www-authenticate"].startswith("Basic")
        assert answer.json()["status"] == 401

        seen = statuses(board, everything, auth=BOB)
        assert {status for (method, _), status in seen.items() if method == "POST"} == {403}
        assert all(status in (200, 404, 422) for (method, _), status in seen.items() if method == "GET"), seen
        assert "viewer" in board.post("/jobs/cancel", {"status": "queued"}, auth=BOB).json()["detail"]

        body = {"reason": "its owner asked", "for": "10m"}
        assert board.post(f"/lanes/{GROUP}/pause", body, auth=EVE).status_code == 200
        with store.db.look() as conn:
            done = operations_of_group(conn, GROUP)
        assert [(one["who"], one["surface"], one["action"], one["reason"]) for one in done] == [
            ("eve", "api", "pause", "its owner asked")]


def test_read_only_mode_stops_operators_too(store: Store) -> None:
    store.load(SITES)
    with flower(store, *TWO_PEOPLE, "--read_only") as board:
        seen = statuses(board, calls(), auth=EVE)
        assert {status for (method, _), status in seen.items() if method == "POST"} == {403}
        assert "read-only" in board.post("/jobs/cancel", {"status": "queued"}, auth=EVE).json()["detail"]
        with store.db.look() as conn:
            assert conn.execute(operations.select()).first() is None


def test_oauth_sends_browsers_to_the_login_and_programs_away(store: Store) -> None:
    store.load(SITES)
    options = ["--auth=.*@example.org", "--auth_provider=flower.views.auth.GoogleAuth2LoginHandler", "--oauth2_key=k",
               "--oauth2_secret=s", "--oauth2_redirect_uri=http://127.0.0.1/login", "--cookie_secret=words"]
    with flower(store, *options, RATELANE_DASHBOARD_OPERATORS="eve@*") as board:
        everything = calls() + [("GET", page) for page in PAGES]
        assert set(statuses(board, everything).values()) == {401}
        answer = board.ask("GET", "/lanes?search=a", headers={"Accept": "text/html,*/*"})
        assert (answer.status_code, answer.headers["location"]) == (302, "/login?next=%2Flanes%3Fsearch%3Da")

        def session(who: str) -> dict[str, str]:
            return {"Cookie": "user=" + create_signed_value("words", "user", who).decode()}

        assert board.ask("GET", "/lanes", headers=session("bob@example.org")).status_code == 200
        assert board.ask("GET", "/lanes", headers=session("bob@elsewhere.org")).status_code == 401
        same = {"Sec-Fetch-Site": "same-origin"}
        body = {"reason": "look"}
        assert board.post(f"/lanes/{GROUP}/pause", body, headers=session("bob@example.org") | same).status_code == 403
        assert board.post(f"/lanes/{GROUP}/pause", body, headers=session("eve@example.org")).status_code == 403  # no token
        assert board.post(f"/lanes/{GROUP}/pause", body, headers=session("eve@example.org") | same).status_code == 200
        with store.db.look() as conn:
            assert [one["who"] for one in operations_of_group(conn, GROUP)] == ["eve@example.org"]


def test_behind_a_prefix_with_settings_from_a_file_and_the_environment(store: Store, tmp_path: Path) -> None:
    store.load(SITES)
    folder = tmp_path / "started here"
    folder.mkdir()
    (folder / "flowerconfig.py").write_text("basic_auth = ['eve:horse battery']\n", encoding="utf-8")
    with flower(store, prefix="/ops/flower", cwd=folder, FLOWER_URL_PREFIX="ops/flower") as board:
        assert board.ask("GET", "/lanes").status_code == 401
        page = board.ask("GET", "/lanes", auth=EVE).text
        for tab in PAGES:
            assert f'href="/ops/flower{tab}"' in page
            assert board.ask("GET", tab, auth=EVE).status_code == 200
        assert not re.findall(r'(?:href|src)="/(?!ops/flower)', page)
        assert board.get("/openapi.json", auth=EVE)["servers"] == [{"url": "/ops/flower/api/ratelane"}]
        assert board.get("/lanes", auth=EVE) == []
        assert httpx2.get(board.address.removesuffix("/ops/flower") + "/lanes", auth=EVE).status_code == 404


def test_stock_pages_are_as_they_were_but_for_the_navigation(store: Store) -> None:
    with flower(store, FLOWER_UNAUTHENTICATED_API="true") as board:
        for path in ("/", "/workers", "/tasks", "/broker"):
            page = board.ask("GET", path).text
            assert all(f'href="{tab}"' in page for tab in PAGES)
            assert page.count('aria-current="page"') == 1
        assert board.ask("GET", "/api/workers").status_code == 200
        assert board.ask("GET", "/metrics").status_code == 200
        assert board.ask("GET", "/nothing").status_code == 404


def test_the_commands_of_a_home_have_the_tabs(tmp_path: Path) -> None:
    cli, port = CommandLine(tmp_path / "home"), free_port()
    command = cli.start("up", "--no-beat", "--workers", "0", f"--port={port}")

    def answers() -> bool:
        try:
            return httpx2.get(f"http://127.0.0.1:{port}/healthcheck").status_code == 200
        except httpx2.TransportError:
            assert command.poll() is None
            return False

    try:
        wait_until(answers, "the dashboard", 40)
        assert all(httpx2.get(f"http://127.0.0.1:{port}{page}").status_code == 200 for page in PAGES)
        assert httpx2.get(f"http://127.0.0.1:{port}{API}/ops").json()["broker_ok"] is True
    finally:
        cli.kill()
