"""What operators change of sites and targets: who belongs where, what is crawled, and intervals set back."""

from __future__ import annotations

from typing import Any

from console.actions.names import require_site, require_target
from models import queries
from models.catalogue import Catalogue, LoadReport
from models.db import Database
from models.operations import Operator
from models.pacing import OperatorPacing
from routing import resolver


def reset_interval(db: Database, target_code: str, by: Operator) -> dict[str, Any]:
    """Clear what objections made of a target's interval and return its interval document (rule C5).

    Raises BadInput, naming the nearest target, if it is unknown.
    """
    require_target(db, target_code)
    OperatorPacing(db).reset_interval(target_code, by)
    return interval(db, target_code)


def interval(db: Database, target_code: str) -> dict[str, Any]:
    """Return a target's interval document; raises BadInput, naming the nearest target, if it is unknown."""
    require_target(db, target_code)
    with db.look() as conn:
        return queries.interval(conn, target_code) or {}


def enable_target(db: Database, target_code: str, by: Operator) -> bool:
    """Enable a target; returns whether it was disabled. Raises BadInput, naming the nearest one, if it is unknown."""
    require_target(db, target_code)
    return Catalogue(db).enable(target_code, by)


def disable_target(db: Database, target_code: str, by: Operator) -> bool:
    """Disable a target, which cancels its queued scheduled jobs (rule J1); returns whether it was enabled."""
    require_target(db, target_code)
    return Catalogue(db).disable(target_code, by)


def assign_group(db: Database, site_code: str, group: str, by: Operator) -> LoadReport:
    """Assign a site to a rate group by hand; its queued jobs move with it (rules R1, R2)."""
    require_site(db, site_code)
    return resolver.assign(Catalogue(db), site_code, group, by)


def groups(db: Database, site_code: str | None = None) -> list[dict[str, Any]]:
    """Return site, group and rule of all sites or of one; raises BadInput, naming the nearest, for an unknown site."""
    if site_code is not None:
        require_site(db, site_code)
    return resolver.groups(Catalogue(db), site_code)
