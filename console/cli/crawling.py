"""One crawl from the file to the last job: what is slow to start is started first, the rest happens meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from config import clock
from config.errors import BadInput
from config.settings import Settings
from console.cli.children import Crew, Standby
from console.cli.display import Display, open_display
from console.cli.interrupts import Interrupts
from console.cli.session import Session
from console.cli.stack import Ending
from console.cli.summary import Harvest
from console.sites_file import read_sites_file
from models import queries
from models.catalogue import Catalogue
from models.db import Database, is_transient
from models.migrate import migrate
from models.queries import FINAL
from routing import dispatch, resolver

if TYPE_CHECKING:
    from console.sites_file import SitesFile

#: slots are cheap, but each is a thread
MOST_SLOTS = 128
_SUBMITTED_AT_ONCE = 50
_LOOK_EVERY_SEC = 0.25
#: of the time between two looks at the database, looking itself may take this part
_LOOKING_SHARE = 0.2


@dataclass(frozen=True)
class Order:
    """What the command was asked for; without `targets` all that are enabled, without `workers` nobody of our own."""

    file: Path
    targets: Sequence[str] = ()
    force: bool = False
    workers: int = 1
    concurrency: int | None = None
    for_sec: float | None = None


def crawl_sites(session: Session, order: Order, waiting: Sequence[Standby] = ()) -> Harvest:
    """Carry out a crawl and return what came of it; everything that it started has ended by then.

    Processes that stand by become its workers. Raises BadInput for a bad file or an unknown target (nothing is stored
    then), ServiceAway for a server that is away.
    """
    age, settings = clock.Stopwatch(), session.settings
    described = read_sites_file(order.file)
    _require_known(described, order.targets)
    with Interrupts() as interrupts, open_display(quiet=session.quiet) as display:
        with Crew(settings, display.say, waiting) as crew:
            crew.start_broker_if_ours()
            database = session.open_database()
            migrate(database)
            if order.workers:
                crew.start_workers(order.workers, order.concurrency or slots_of_each(described, order.workers))
            job_ids = _submit_all(session, database, described, order, display)
            _Watch(database, job_ids, crew, Ending(crew, interrupts, display.say), display).run(interrupts, order, age)
            display.close()
        with database.look() as conn:
            return Harvest(queries.documents(conn, job_ids), age.elapsed())


def _require_known(described: SitesFile, names: Sequence[str]) -> None:
    import difflib

    known = [target.target_code for target in described.targets]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise BadInput(f"the file has no target called {name!r}; the nearest one is {near[0]}" if near else
                           f"the file has no target called {name!r}; it has none at all")


def contact_notes(settings: Settings, described: SitesFile) -> list[str]:
    """Return a note if sites would be crawled under a user agent that names no contact (rule P1)."""
    nameless = [site.site_code for site in described.sites if not site.options.get("user_agent")]
    if not nameless or settings.user_agent_names_contact():
        return []
    return [f"{len(nameless)} site(s) are crawled as {settings.user_agent!r}, which names no contact: set "
            "RATELANE_USER_AGENT, or `user_agent` in the file, so that their owners can find you"]


def slots_of_each(described: SitesFile, workers: int) -> int:
    """Return the slots of each of so many workers: together as many as there can be groups, so that they share them.

    A group has at least one site, and the groups are not known yet. With a slot for every group the first worker that is
    ready would take all of them, and leave the others, and the machine's other cores, without work.
    """
    return max(1, min(MOST_SLOTS, -(-len(described.sites) // max(1, workers))))


def _submit_all(
    session: Session, database: Database, described: SitesFile, order: Order, display: Display
) -> list[str]:
    """Load the file, submit a crawl of every wanted target, and return the ids of the jobs that answer."""
    report = Catalogue(database).load(resolver.plan(described))
    for note in (*described.warnings, *contact_notes(session.settings, described), *report.notes):
        display.say(f"note: {note}")
    wanted = _wanted(database, described, order.targets)
    job_ids: list[str] = []
    for start in range(0, len(wanted), _SUBMITTED_AT_ONCE):
        with database.write() as conn:
            for code in wanted[start : start + _SUBMITTED_AT_ONCE]:
                found = dispatch.submit(database, session.settings, code, force=order.force, conn=conn,
                                        dedupe_key=dispatch.default_key("crawl", code, force=order.force))
                job_ids.append(found.job_id)
                for warning in found.warnings:
                    display.say(f"warning: {warning}")
                if not found.created:
                    display.say(f"{code}: going on with job {found.job_id}")
    return list(dict.fromkeys(job_ids))


def _wanted(database: Database, described: SitesFile, names: Sequence[str]) -> list[str]:
    """The targets to crawl: those named, else those of the file that are enabled in the store."""
    if names:
        return list(dict.fromkeys(names))
    with database.look() as conn:
        enabled = {one["target_code"] for one in queries.targets(conn) if one["enabled"]}
    return [target.target_code for target in described.targets if target.target_code in enabled]


class _Watch:
    """Shows progress until every job is final, or the command was ended and nothing of it runs any more."""

    def __init__(self, database: Database, job_ids: list[str], crew: Crew, ending: Ending, display: Display) -> None:
        self._database, self._crew, self._ending, self._display = database, crew, ending, display
        self._active, self._all = list(job_ids), len(job_ids)
        self._looking = clock.Stopwatch()

    def run(self, interrupts: Interrupts, order: Order, age: clock.Stopwatch) -> None:
        """Go on until the end."""
        while self._active and not self._ending.over:
            self._ending.look()
            if order.for_sec is not None and age.elapsed() >= order.for_sec:
                self._ending.park(f"{order.for_sec:g} s are over")
            self._crew.look()
            self._looking = clock.Stopwatch()
            self._look()
            interrupts.wait(max(_LOOK_EVERY_SEC, self._looking.elapsed() / _LOOKING_SHARE))

    def _look(self) -> None:
        try:
            with self._database.look() as conn:
                status = queries.statuses(conn, self._active)
                live = queries.live(conn)
                ended = [job_id for job_id in self._active if status.get(job_id, "cancelled") in FINAL]
                # the export of what was crawled belongs to the job (rule P6)
                behind = queries.exports_of(conn, ended)
        except SQLAlchemyError as error:
            if not is_transient(error):
                raise
            self._display.say("the database does not answer; waiting for it")
            return
        self._active = [*(job_id for job_id in self._active if job_id not in ended), *behind]
        self._all += len(behind)
        self._display.show(live["lanes"], self._all - len(self._active), self._all)
