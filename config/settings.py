"""What can be set, with its default, and where a value comes from.

Strongest first: the environment (``RATELANE_*``), a file ``.env`` in the current folder, ``ratelane.toml`` in the home
folder. A name that does not exist is an error wherever it stands: a typing mistake must not run with a default.
"""

from __future__ import annotations

import hashlib
import os
import re
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from config import clock
from config.errors import BadInput
from config.redaction import redact_url
from config.settings_sources import PREFIX, explain, gather

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Many = Annotated[int, Field(ge=1)]
Factor = Annotated[float, Field(allow_inf_nan=False)]

_CONTACT = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+|https?://[\w-]+\.[\w.-]+")
_PLACEHOLDER = re.compile(r"\bexample\.(?:com|net|org)\b")


def names_contact(user_agent: str) -> bool:
    """Say whether a site's owner can find somebody behind `user_agent`: an address that is no placeholder (rule P1)."""
    return any(not _PLACEHOLDER.search(found) for found in _CONTACT.findall(user_agent))


def run_folder(home: Path) -> Path:
    """Return the short private folder of the sockets of `home`; the same for every process, whatever its environment.

    Socket paths are limited to about 100 bytes and homes may be deep, so it is not inside the home.
    """
    key = hashlib.sha256(os.path.realpath(home).encode()).hexdigest()[:12]
    return Path("/tmp") / f"ratelane-{os.getuid()}-{key}"


def embedded_broker_url(home: Path) -> str:
    """Return the URL, as kombu reads it, of the Valkey server that commands start in `home` (rule D1)."""
    return f"redis+socket://{run_folder(home)}/broker.sock?virtual_host=0"


def embedded_database_url(home: Path) -> str:
    """Return the URL of the SQLite file in `home`."""
    return f"sqlite:///{home}/ratelane.sqlite3"


def _default_user_agent() -> str:
    try:
        version = metadata.version("ratelane")
    except metadata.PackageNotFoundError:
        version = "dev"
    return f"Ratelane/{version} (+https://example.org/ratelane-contact)"


def _database(url: str) -> str:
    scheme, colon, rest = url.partition("://")
    if not colon or scheme.partition("+")[0] not in {"sqlite", "postgres", "postgresql"}:
        raise ValueError("expected sqlite:///path or postgresql://user@host/name")
    return f"sqlite://{rest}" if scheme.startswith("sqlite") else f"postgresql+psycopg://{rest}"


def _broker(url: str) -> str:
    if "://" not in url:
        raise ValueError("expected redis://host/0 or amqp://user@host//")
    return url


def _webhook(url: str) -> str:
    try:
        found = urlsplit(url)
        fits = found.scheme in {"http", "https"} and bool(found.hostname) and found.port != 0
    except ValueError:  # its own words may quote a part of a password
        fits = False
    if not fits:
        raise ValueError("expected http://host/path or https://host/path")
    return url


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("expected the name of a time zone, such as Asia/Shanghai") from None
    return name


def _readable_or_off(value: Any) -> Any:
    """Take what cannot be read as "off" (rule P6): an export that nobody asked for is worse than one that is late."""
    known = ("true", "1", "yes", "on", "t", "y")
    return value if isinstance(value, bool) else str(value).strip().lower() in known


DatabaseUrl = Annotated[str, AfterValidator(_database)]


class Settings(BaseSettings):
    """All settings of one process; make it with `load_settings`, which reports mistakes in words."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=PREFIX, env_ignore_empty=True)

    # where things are
    home: Path = Field(Path(".ratelane"), description="folder of data, logs and locks; always absolute", validate_default=True)
    broker_url: Annotated[str, AfterValidator(_broker)] = Field(
        default_factory=lambda given: embedded_broker_url(given["home"]), description="broker; none: a bundled Valkey")
    database_url: DatabaseUrl = Field(
        default_factory=lambda given: embedded_database_url(given["home"]), description="database; none: SQLite in home")
    listen_url: DatabaseUrl | None = Field(None, description="database URL for LISTEN, if the other one is a pooler's")

    # workers and leases
    backoff_base_sec: Seconds = Field(5, description="wait after the first failure; doubles with each further one")
    backoff_cap_sec: Seconds = Field(600, description="longest wait after a failure")
    concurrency: Many = Field(64, description="slots of a worker")
    handover_timeout_sec: Seconds = Field(15, description="a claim that has not started by then is handed back")
    heartbeat_sec: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(10, description="time between renewals")
    lease_sec: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(60, description="a worker's right to run")
    max_attempts: Many = Field(3, description="failures after which a job is failed")
    max_deadlines: Count = Field(3, description="used-up deadlines in a row without a new checkpoint")
    max_recoveries: Count = Field(3, description="lost workers in a row without a new checkpoint")
    park_after_sec: Seconds = Field(30, description="a longer wait gives the slot back")
    poll_sec: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(1, description="looks for work nobody told of")
    stall_after_sec: Seconds = Field(120, description="a body silent for longer is not renewed")
    stray_sweep_sec: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        300, description="time between looks for other producers' messages in lanes")
    watchdog_sec: Seconds = Field(120, description="a worker that consumes nothing for so long ends; 0: never")

    # cooldown and growing intervals
    cooldown_auto_retry_max: Count = Field(12, description="retries after cooldowns in a row without a new checkpoint")
    cooldown_auto_retry_total_max: Count = Field(100, description="retries after cooldowns of one job in all")
    cooldown_delay_sec: Seconds = Field(600, description="pause of a group after its firewall objected")
    cooldown_forget_sec: Seconds = Field(1800, description="answered requests for this long forget the cooldown level")
    cooldown_interval_growth_factor: Factor = Field(1.1, description="growth of an interval; below 1 counts as 1")
    cooldown_interval_max_sec: Seconds = Field(600, description="no interval grows beyond")
    cooldown_repeat_factor: Factor = Field(1.0, description="each further cooldown pauses longer by; below 1 counts as 1")
    default_interval_sec: Seconds = Field(10, description="interval of a target that names none")
    interval_decay_after_days: Count = Field(0, description="clean days after which an interval shrinks; 0: never")
    interval_growth_codes: str = Field("gd*", description="globs of site or target codes whose interval grows")
    js_challenge_delay_sec: Seconds = Field(21600, description="pause after a challenge that needs a browser")
    js_challenge_max: Count = Field(3, description="challenges in a row after which the job needs an operator")

    # fetching
    max_body_bytes: Many = Field(10_000_000, description="largest body, decompressed")
    max_sitemap_bytes: Many = Field(60_000_000, description="largest sitemap, decompressed")
    request_timeout_sec: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(20, description="limit of a request")
    robots_retry_sec: Seconds = Field(1800, description="wait when robots.txt cannot be read")
    user_agent: str = Field(default_factory=_default_user_agent, min_length=1, description="name and contact")
    soft_stop_sec: Seconds = Field(
        default_factory=lambda given: given["request_timeout_sec"] + 10, description="time that a stopping worker takes")

    # schedule, export, history
    clock_offset_sec: Factor = Field(0, description="moves the schedule's clock; refused outside tests")
    ok_ratio: Annotated[float, Field(ge=0, le=1)] = Field(0.9, description="share of done targets of a successful run")
    rag_export_after_crawl: Annotated[bool, BeforeValidator(_readable_or_off)] = Field(
        False, description="export articles after each crawl; a value that cannot be read means no")
    rag_sink: str = Field("file:rag/", description="file:FOLDER (relative to home) or an http(s) URL")
    request_log_days: Count = Field(7, description="the request log is kept for")
    retention_days: Count = Field(30, description="finished jobs, and runs of the schedule, are kept for")
    schedule_retry_sec: Seconds = Field(300, description="an entry's next try after a failure or skip")
    seed_retry_sec: Seconds = Field(600, description="the same for snapshot_seed")
    snapshot_days: Count = Field(90, description="snapshots are kept for")
    timezone: Annotated[str, AfterValidator(_zone)] = Field(
        "Asia/Shanghai", description="zone of the schedule and of printed times")
    notices_every_sec: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        10, description="time between looks for what to tell the webhook")
    webhook_retry_sec: Seconds = Field(30, description="pause after a notice that did not arrive; doubles up to an hour")
    webhook_secret: str | None = Field(None, repr=False, description="signs what is sent to the webhook (HMAC-SHA-256)")
    webhook_timeout_sec: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(10, description="limit of one try")
    webhook_url: Annotated[str, AfterValidator(_webhook)] | None = Field(
        None, repr=False, description="dead letters, long pauses and stale entries are reported to")

    # surfaces and tests
    dashboard_operators: str = Field(
        "*", description="who of those that have logged in to Flower may act: names or globs, with commas; the others look")
    list_limit: Many = Field(200, description="rows of a list that asks for no other number")
    log_format: Literal["kv", "json"] = Field("kv", description="key=value or JSON lines")
    metrics_group_backlog: Count = Field(
        1000, description="groups with at least so many waiting jobs are named on /metrics; 0: none is")
    operator: str | None = Field(None, description="who acts, in the log of operations; none: user@machine")
    probe_dir: Path | None = Field(None, description="folder of named probes; tests only")
    testing: bool = Field(False, description="allows what only tests may do")

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return Path(os.path.abspath(home.expanduser()))

    @model_validator(mode="after")
    def _fit_together(self) -> Settings:
        if self.lease_sec <= 2 * self.heartbeat_sec:
            raise ValueError(f"RATELANE_LEASE_SEC={self.lease_sec:g} must be more than two heartbeats "
                             f"(RATELANE_HEARTBEAT_SEC={self.heartbeat_sec:g}), or one lost renewal loses the job")
        if self.request_timeout_sec >= self.lease_sec:
            raise ValueError(f"RATELANE_REQUEST_TIMEOUT_SEC={self.request_timeout_sec:g} must be less than "
                             f"RATELANE_LEASE_SEC={self.lease_sec:g}, or no request could ever start")
        if self.clock_offset_sec and not self.testing:
            raise ValueError("RATELANE_CLOCK_OFFSET_SEC is for tests: it needs RATELANE_TESTING=1")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what `load_settings` gathered: it names unknown variables, which the library drops in silence."""
        return (init_settings,)

    @property
    def embedded_broker(self) -> bool:
        """Whether the broker is the one that commands start in this home."""
        return self.broker_url == embedded_broker_url(self.home)

    @property
    def embedded_database(self) -> bool:
        """Whether the database is this home's own SQLite file."""
        return self.database_url == embedded_database_url(self.home)

    def user_agent_names_contact(self) -> bool:
        """Say whether the user agent names a contact that is no placeholder (rule P1)."""
        return names_contact(self.user_agent)


def load_settings(home: Path | None = None) -> Settings:
    """Read the settings of this process afresh; `home` is stronger than ``RATELANE_HOME``.

    Raises `BadInput` for an unknown name (with the nearest known one and where it stands) and for a bad value.
    """
    found = gather(frozenset(Settings.model_fields), home)
    try:
        return Settings(**{name: origin.value for name, origin in found.items()})
    except ValidationError as error:
        raise BadInput(redact_url(explain(error, found))) from None


_current: Settings | None = None


def get_settings() -> Settings:
    """Return the settings of this process, read at the first call and the same ever after."""
    return use_settings(load_settings()) if _current is None else _current


def use_settings(settings: Settings) -> Settings:
    """Make `settings` those of this process, for a command that was given a home or an option of its own."""
    global _current
    _current = settings
    clock.set_offset(settings.clock_offset_sec)
    return settings


def clear_settings() -> None:
    """Forget the settings of this process; for tests."""
    global _current
    _current = None
    clock.set_offset(0)


def environment(settings: Settings) -> dict[str, str]:
    """Return the ``RATELANE_*`` variables with which a child process sees exactly `settings`, wherever it starts."""
    values = settings.model_dump(exclude_none=True)
    return {f"{PREFIX}{name.upper()}": str(value) for name, value in values.items()}


__all__ = [
    "Settings", "clear_settings", "embedded_broker_url", "embedded_database_url", "environment",
    "get_settings", "load_settings", "names_contact", "redact_url", "run_folder", "use_settings",
]
