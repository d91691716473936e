from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import clock
from config.errors import BadInput
from config.settings import (
    Settings,
    clear_settings,
    environment,
    get_settings,
    load_settings,
    names_contact,
    redact_url,
    run_folder,
    use_settings,
)


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("RATELANE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    clear_settings()
    yield
    clear_settings()


def test_defaults_are_those_of_the_command_line_contract(tmp_path: Path) -> None:
    settings = load_settings()
    expected = {
        "cooldown_delay_sec": 600, "cooldown_auto_retry_max": 12, "cooldown_interval_growth_factor": 1.1,
        "cooldown_interval_max_sec": 600, "interval_growth_codes": "gd*", "lease_sec": 60, "heartbeat_sec": 10,
        "max_recoveries": 3, "backoff_base_sec": 5, "backoff_cap_sec": 600, "request_timeout_sec": 20,
        "max_body_bytes": 10_000_000, "rag_export_after_crawl": False, "rag_sink": "file:rag/", "retention_days": 30,
        "max_attempts": 3, "soft_stop_sec": 30, "stall_after_sec": 120, "park_after_sec": 30,
        "handover_timeout_sec": 15, "concurrency": 64, "listen_url": None, "poll_sec": 1,
        "js_challenge_delay_sec": 21600, "ok_ratio": 0.9, "clock_offset_sec": 0, "robots_retry_sec": 1800,
    }
    assert {name: getattr(settings, name) for name in expected} == expected
    assert settings.home == tmp_path / ".ratelane"


def test_without_servers_a_home_has_its_own() -> None:
    settings = load_settings()
    assert settings.database_url == f"sqlite:///{settings.home}/ratelane.sqlite3"
    assert settings.broker_url == f"redis+socket://{run_folder(settings.home)}/broker.sock?virtual_host=0"
    assert settings.embedded_broker and settings.embedded_database


def test_servers_that_are_set_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATELANE_DATABASE_URL", "postgres://u@h/n")
    monkeypatch.setenv("RATELANE_BROKER_URL", "redis://h/1")
    settings = load_settings()
    assert (settings.database_url, settings.broker_url) == ("postgresql+psycopg://u@h/n", "redis://h/1")
    assert not settings.embedded_broker and not settings.embedded_database


def test_environment_is_stronger_than_dotenv_and_dotenv_than_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "deep"
    home.mkdir()
    (home / "ratelane.toml").write_text("concurrency = 1\nmax_attempts = 1\npark_after_sec = 1\n")
    (tmp_path / ".env").write_text("RATELANE_HOME=deep\nRATELANE_CONCURRENCY=2\nRATELANE_MAX_ATTEMPTS=2\nOTHER=x\n")
    monkeypatch.setenv("RATELANE_CONCURRENCY", "3")
    settings = load_settings()
    assert (settings.concurrency, settings.max_attempts, settings.park_after_sec) == (3, 2, 1)
    assert settings.home == home


def test_a_given_home_is_stronger_than_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATELANE_HOME", "elsewhere")
    assert load_settings(Path("here")).home == tmp_path / "here"


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATELANE_LEASE_SEC", "")
    assert load_settings().lease_sec == 60


def test_soft_stop_follows_the_request_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATELANE_REQUEST_TIMEOUT_SEC", "3")
    assert load_settings().soft_stop_sec == 13


def test_an_unknown_variable_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATELANE_COOLDOWN_DELAY", "3")
    with pytest.raises(BadInput, match=r"RATELANE_COOLDOWN_DELAY in the environment .* RATELANE_COOLDOWN_DELAY_SEC$"):
        load_settings()


def test_an_unknown_name_in_dotenv_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("RATELANE_LEESE_SEC=3\n")
    with pytest.raises(BadInput, match=r"RATELANE_LEESE_SEC in the file \.env .* RATELANE_LEASE_SEC$"):
        load_settings()


@pytest.mark.parametrize("line", ["leese_sec = 3", "home = '/x'"])
def test_an_unknown_key_in_the_home_is_refused_with_its_place(line: str, tmp_path: Path) -> None:
    (tmp_path / "ratelane.toml").write_text(line)
    with pytest.raises(BadInput, match=r"in .*/ratelane\.toml is no setting; the nearest one is \w+$"):
        load_settings(tmp_path)


def test_a_broken_file_in_the_home_is_named(tmp_path: Path) -> None:
    (tmp_path / "ratelane.toml").write_text("lease_sec = = 3")
    with pytest.raises(BadInput, match=r"ratelane\.toml cannot be read: .*line 1"):
        load_settings(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("LEASE_SEC", "abc", "RATELANE_LEASE_SEC=abc in the environment: expected a valid number"),
        ("BACKOFF_BASE_SEC", "-1", "expected greater than or equal to 0"),
        ("BACKOFF_BASE_SEC", "nan", "RATELANE_BACKOFF_BASE_SEC=nan"),
        ("OK_RATIO", "1.5", "expected less than or equal to 1"),
        ("LOG_FORMAT", "xml", "expected 'kv' or 'json'"),
        ("TIMEZONE", "Moon/Crater", "expected the name of a time zone"),
        ("DATABASE_URL", "mysql://h/n", "expected sqlite:///path or postgresql://"),
        ("BROKER_URL", "localhost", "expected redis://"),
        ("LEASE_SEC", "20", "must be more than two heartbeats"),
        ("REQUEST_TIMEOUT_SEC", "60", "must be less than RATELANE_LEASE_SEC=60"),
        ("CLOCK_OFFSET_SEC", "5", "it needs RATELANE_TESTING=1"),
    ],
)
def test_a_bad_value_is_refused_in_words(
    name: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"RATELANE_{name}", value)
    with pytest.raises(BadInput) as refused:
        load_settings()
    assert expected in str(refused.value)
    assert "pydantic" not in str(refused.value) and refused.value.__suppress_context__


def test_a_refused_url_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATELANE_DATABASE_URL", "mysql://u:geheim@h/n")
    with pytest.raises(BadInput, match=r"mysql://u:\*\*\*@h/n"):
        load_settings()


def test_a_child_with_the_environment_sees_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("RATELANE_CONCURRENCY=7\nRATELANE_RAG_EXPORT_AFTER_CRAWL=yes\n")
    settings = load_settings()
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    assert load_settings() == settings
    assert load_settings().embedded_broker


def test_settings_are_read_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = get_settings()
    monkeypatch.setenv("RATELANE_CONCURRENCY", "1")
    assert get_settings() is first
    clear_settings()
    assert get_settings().concurrency == 1


def test_the_offset_of_the_settings_in_use_moves_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATELANE_TESTING", "1")
    monkeypatch.setenv("RATELANE_CLOCK_OFFSET_SEC", "7200")
    before = clock.now()
    use_settings(load_settings())
    assert (clock.now() - before).total_seconds() >= 7200


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().concurrency = 3


def test_every_setting_says_what_it_is() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:geheim@h:6379/0", "redis://:***@h:6379/0"),
        ("postgresql+psycopg://u:p%40w@h/n?sslpassword=geheim&x=1", "postgresql+psycopg://u:***@h/n?sslpassword=***&x=1"),
        ("amqp://u:a@b@h//", "amqp://u:***@h//"),
        ("cannot reach redis://u:p@h/0 or amqp://u:q@h//", "cannot reach redis://u:***@h/0 or amqp://u:***@h//"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
    ],
)
def test_passwords_of_urls_are_never_shown(text: str, shown: str) -> None:
    assert redact_url(text) == shown


@pytest.mark.parametrize(
    ("user_agent", "expected"),
    [
        ("Ratelane/1 (+https://example.org/ratelane-contact)", False),
        ("Mozilla/5.0", False),
        ("Ratelane/1 (crawler@city.gov)", True),
        ("Ratelane/1 (+https://city.gov/bot)", True),
    ],
)
def test_a_user_agent_names_a_contact_that_is_no_placeholder(user_agent: str, expected: bool) -> None:
    assert names_contact(user_agent) is expected


def test_the_socket_folder_is_short_and_the_same_by_every_path_to_the_home(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 200)
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    assert run_folder(home) == run_folder(tmp_path / "link")
    assert len(str(run_folder(home) / "broker.sock")) < 100


def test_no_broker_is_contacted_and_no_file_made_by_reading_settings(tmp_path: Path) -> None:
    load_settings()
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_ends_a_program_with_a_sentence_and_the_status_of_bad_input() -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", "from config import app"], capture_output=True, text=True, check=False, cwd=root,
        env={**os.environ, "RATELANE_POLL_SECS": "1"},
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.strip().endswith("the nearest one is RATELANE_POLL_SEC")
