"""The only writer of sites, targets and new groups, and of what a file says about the schedule.

What it owns: the rows of `sites` and `targets` as far as a file or an operator decides them, the insertion of rows
into `rate_groups`, and the rows of `schedule_config`.

Invariants: a load is one transaction, all or nothing. Writers of the catalogue wait for each other. Only the baseline
of an interval is written, never what objections made of it (rule C5). When a site changes its group, its queued jobs
go with it in the same transaction and the receiving group takes over the later pause and pace (rule R2); groups are
locked first, in key order, then jobs, then targets. Nothing is ever deleted but what a file no longer says about the
schedule.

When it dies: the transaction is rolled back and nothing has happened.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from config.errors import BadInput
from config.logs import get_logger, log_event
from models.base import db_now
from models.catalogue_plan import (
    CataloguePlan,
    Choice,
    Choose,
    Difference,
    Guests,
    Refuse,
    SitePlan,
    Standing,
    Stored,
    TargetPlan,
    compare,
    refuse_nothing,
)
from models.db import Database
from models.operations import Operator
from models.schedules import schedule_config
from models.sites import sites, targets
from models.statements import moves, postgres, sqlite
from models.statements import schedule_config as entries
from models.statements import sites as rows
from models.statements.operations import log_operation

__all__ = ["Catalogue", "CataloguePlan", "Choice", "Choose", "Guests", "LoadReport", "SitePlan", "Standing",
           "TargetPlan", "preview"]

_log = get_logger(__name__)


@dataclass(frozen=True)
class LoadReport:
    """What a load did: how many sites, targets and groups the plan has, every change in words, and what to know."""

    sites: int
    targets: int
    groups: int
    changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Catalogue:
    """Write access to sites and targets.

    Disabling a target cancels its queued scheduled jobs (rule J1); `now` is for tests.
    """

    def __init__(self, db: Database, now: datetime | None = None) -> None:
        self._db, self._now = db, now
        self._hot: Any = postgres if db.dialect == "postgresql" else sqlite

    def load(
        self, plan: CataloguePlan, *, dry_run: bool = False, prune: bool = False, by: Operator | None = None
    ) -> LoadReport:
        """Make the stored sites and targets, and what is said of the schedule, what `plan` says; with `prune`, disable the
        targets it does not name.

        With `dry_run` nothing is written and the report says what would be. `by` is who prunes.
        """
        if dry_run:
            with self._db.look() as conn:
                found = compare(_stored(conn), plan, prune=prune)
        else:
            with self._db.write() as conn:
                moves.be_alone(conn)
                found = compare(_stored(conn), plan, prune=prune)
                self._carry_out(conn, found)
                if prune and by is not None:
                    for code in found.disabled:
                        log_operation(conn, by, "load_prune", target_code=code, at=self._at())
            _tell(found)
        return _report(found, plan)

    def assign(
        self, site_code: str, group: str | None, choose: Choose, by: Operator | None = None,
        refuse: Refuse = refuse_nothing,
    ) -> LoadReport:
        """Assign a site to `group` explicitly, which no rule overrides (rule R1); None lifts the assignment.

        Sites of the same host come along. Raises BadInput if the site is unknown, or `refuse` has anything to say.
        """
        with self._db.write() as conn:
            moves.be_alone(conn)
            stored = _stored(conn)
            if site_code not in stored.sites:
                raise BadInput(_unknown("site", site_code, stored.sites))
            found = compare(stored, CataloguePlan((), (), choose, refuse), assigned={site_code: group})
            self._carry_out(conn, found)
            if by is not None:
                details = {"site_code": site_code, "assigned": group,
                           "moved": [{"site_code": site, "from": old, "to": new} for site, old, new in found.moves]}
                log_operation(conn, by, "groups_assign", group_key=found.groups[site_code], details=details, at=self._at())
        _tell(found)
        return LoadReport(1, 0, 1, found.changed, found.notes)

    def enable(self, target_code: str, by: Operator | None = None) -> bool:
        """Enable a target; return whether it was disabled. Raises BadInput if it is unknown."""
        return self._switch(target_code, True, by)

    def disable(self, target_code: str, by: Operator | None = None) -> bool:
        """Disable a target, which deletes nothing; return whether it was enabled. Raises BadInput if it is unknown."""
        return self._switch(target_code, False, by)

    def groups(self, site_code: str | None = None) -> list[dict[str, Any]]:
        """Return `{"site_code", "group", "rule"}` of every site, or of one, sorted by code; unknown: no row."""
        lines = select(sites.c.site_code, sites.c.group_key.label("group"), sites.c.group_rule.label("rule"))
        if site_code is not None:
            lines = lines.where(sites.c.site_code == site_code)
        with self._db.read() as conn:
            return [dict(row) for row in conn.execute(lines.order_by(sites.c.site_code)).mappings()]

    def _switch(self, target_code: str, enabled: bool, by: Operator | None) -> bool:
        with self._db.write() as conn:
            moves.be_alone(conn)
            stored = _stored(conn)
            row = stored.targets.get(target_code)
            if row is None:
                raise BadInput(_unknown("target", target_code, stored.targets))
            if row["enabled"] == enabled:
                return False
            change = {"target_code": target_code, "enabled": enabled}
            groups = {code: site["group_key"] for code, site in stored.sites.items()}
            found = Difference(changed_targets=[change], groups=groups, disabled=[] if enabled else [target_code])
            self._carry_out(conn, found)
            if by is not None:
                action = "target_enable" if enabled else "target_disable"
                log_operation(conn, by, action, target_code=target_code, at=self._at())
        return True

    def _at(self) -> dict[str, Any]:
        return {} if self._now is None else {"p_now": self._now}

    def _carry_out(self, conn: Connection, found: Difference) -> None:
        now = _moment(conn, self._now)
        moves.add_groups(conn, found.groups.values(), now)
        touched = {key for _site, old, new in found.moves for key in (old, new)}
        touched |= {found.groups[home] for _t, old, new in found.rehomed for home in (old, new) if home in found.groups}
        emptied = moves.lanes_of_scheduled(conn, found.disabled) if found.disabled else []
        locked = moves.lock_groups(conn, touched | set(emptied))
        _hand_over(conn, found, locked, now)
        if found.disabled:
            moves.cancel_scheduled(conn, found.disabled, now)
        rows.add_sites(conn, found.new_sites, now)
        rows.change_sites(conn, found.changed_sites, now)
        rows.add_targets(conn, found.new_targets, now)
        rows.change_targets(conn, found.changed_targets, now)
        entries.keep(conn, found.schedule.kept, found.schedule.removed, now)
        # those that lost jobs; the receiving ones are woken
        self._hot.refresh(conn, sorted(locked), self._now)


def _hand_over(conn: Connection, found: Difference, locked: dict[str, moves.GroupRow], now: datetime) -> None:
    """Move queued jobs with their sites and pauses with their groups; wake the lanes that received something."""
    giving: dict[str, set[str]] = defaultdict(set)
    for site_code, old, new in found.moves:
        giving[new].add(old)
        moves.move_queued(conn, site_code, new, now)
    for target_code, _old, site_code in found.rehomed:
        new = found.groups[site_code]
        if moves.move_queued_target(conn, target_code, site_code, new, now):
            giving[new] |= set()
    for key in sorted(giving):
        # from the rows as they were locked: of two moves in one load neither sees what the other took over
        moves.take_over(conn, [locked[old] for old in sorted(giving[key]) if old in locked], locked[key])
    moves.wake(conn, giving, now)


def preview(plan: CataloguePlan) -> LoadReport:
    """Return what loading `plan` would do where nothing is stored yet; needs no database."""
    return _report(compare(Stored({}, {}), plan), plan)


def _report(found: Difference, plan: CataloguePlan) -> LoadReport:
    groups = {found.groups[site.site_code] for site in plan.sites}
    return LoadReport(len(plan.sites), len(plan.targets), len(groups), found.changed, found.notes)


def _stored(conn: Connection) -> Stored:
    return Stored(
        {row["site_code"]: dict(row) for row in conn.execute(select(sites)).mappings()},
        {row["target_code"]: dict(row) for row in conn.execute(select(targets)).mappings()},
        {row.name: row.document for row in conn.execute(select(schedule_config))},
    )


def _moment(conn: Connection, now: datetime | None) -> datetime:
    moment = conn.execute(select(db_now()), {"p_now": now}).scalar_one()
    assert isinstance(moment, datetime)
    return moment


def _tell(found: Difference) -> None:
    for site_code, old, new in found.moves:
        log_event(_log, "site.moved", site=site_code, old=old, new=new)


def _unknown(what: str, code: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(code, list(known), n=1)
    return f"no {what} is called {code!r}" + (f"; did you mean {near[0]!r}?" if near else "")
