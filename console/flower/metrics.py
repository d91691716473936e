"""Our figures on Flower's ``/metrics``, read from the database when somebody asks (rule U5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flower.views.monitor import Metrics
from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from config.logs import get_logger, log_event
from config.settings import Settings
from console.flower.desk import desk
from models.db import Database
from models.queries.board.figures import figures

log = get_logger("ratelane.dashboard")
PREFIX = "ratelane_"
#: however often and however many ask, the database is read so often
FRESH_SEC = 10.0


class Figures(Collector):
    """Prints the figures that were read last."""

    def __init__(self) -> None:
        self.found: Mapping[str, Any] | None = None

    def collect(self) -> Iterator[Metric]:
        """Give every metric; without figures only that there are none."""
        yield _gauge("database_up", "Whether the database answered at the last look", 0 if self.found is None else 1)
        if self.found is not None:
            yield from _metrics(self.found)


FIGURES = Figures()


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, what, value=value)


def _by(name: str, what: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    found = GaugeMetricFamily(PREFIX + name, what, labels=[label])
    for word, value in values:
        found.add_metric([word], value)
    return found


def _metrics(found: Mapping[str, Any]) -> Iterator[Metric]:
    yield from _of_jobs(found)
    yield from _of_lanes(found)
    yield from _of_entries(found)
    events = CounterMetricFamily(PREFIX + "protocol_events", "What the protocol refused or repaired", labels=["event"])
    for event, number in found["events"].items():
        events.add_metric([event], number)
    yield events
    yield _by("requests", "Requests of the last five minutes by status", "status", found["requests"].items())
    yield _by("workers", "Workers by what they do", "state", found["workers"].items())


def _of_jobs(found: Mapping[str, Any]) -> Iterator[Metric]:
    ops = found["ops"]
    named = {"queued": "pending", "running": "running", "done": "done", "failed": "dead", "cancelled": "cancelled"}
    yield _by("jobs", "Jobs that are stored, by status", "status", ((status, ops[name]) for status, name in named.items()))
    finished = GaugeMetricFamily(PREFIX + "jobs_finished_last_hour", "Jobs that ended in the last hour",
                                 labels=["status", "outcome"])
    for (status, outcome), number in sorted(found["finished"].items()):
        finished.add_metric([status, outcome], number)
    yield finished
    yield _gauge("jobs_due", "Queued jobs that are due", found["due"])
    yield _gauge("oldest_due_seconds", "How long the due job that waits longest has been due", ops["oldest_pending_sec"])
    yield _gauge("dead_letters_last_hour", "Jobs that failed for good in the last hour", ops["dead_1h"])
    yield _gauge("deadlines_last_hour", "Attempts that used up their running time in the last hour", ops["deadline_1h"])
    yield _gauge("jobs_stuck", "Running jobs whose lease expired, or without progress for long", ops["stuck_running"])


def _of_lanes(found: Mapping[str, Any]) -> Iterator[Metric]:
    paused = found["paused"]
    yield _by("groups_paused", "Groups that are held, by what holds them", "kind",
              ((kind, paused[kind]) for kind in ("cooldown", "operator")))
    yield _gauge("groups_paused_over_an_hour", "Groups that have been held for more than an hour", paused["over_an_hour"])
    yield _gauge("all_paused", "Whether all lanes are paused at once", paused["all"])
    yield _gauge("lanes_ready", "Lanes with a due job that nobody has taken for ten seconds", found["lanes_ready"])
    yield _by("cooldowns_last_hour", "Objections of firewalls in the last hour", "kind", found["cooldowns"].items())
    yield _by("group_backlog", "Waiting jobs of the groups with many", "group", found["groups"].items())


def _of_entries(found: Mapping[str, Any]) -> Iterator[Metric]:
    yield _by("schedule_runs_last_day", "What became of occurrences in the last day", "outcome", found["runs"].items())
    yield _by("entry_last_success_age_seconds", "Seconds since an entry last succeeded", "entry",
              ((name, age) for name, age, _ in found["entries"] if age is not None))
    yield _by("entry_stale", "Whether an entry has gone without a success for too long", "entry",
              ((name, float(stale)) for name, _, stale in found["entries"]))


def read(db: Database, settings: Settings) -> dict[str, Any]:
    """Return the figures."""
    with db.look() as conn:
        return figures(conn, settings.metrics_group_backlog)


class MetricsHandler(Metrics):
    """Flower's own metrics with ours; open, as Flower's are."""

    async def get(self) -> None:
        """Read the figures, unless they are fresh, and print everything; without the database what there is."""
        try:
            FIGURES.found = await desk().shared(read, within=FRESH_SEC)
        except SQLAlchemyError as error:
            FIGURES.found = None
            log_event(log, "dashboard.database_away", error=type(error).__name__)
        await super().get()


def install() -> None:
    """Register the figures with the registry that ``/metrics`` prints."""
    REGISTRY.register(FIGURES)
