"""Names that people type: each must exist, or the answer names the one that looks most like it."""

from __future__ import annotations

from config.errors import Unknown
from models import queries
from models.db import Database


def require_target(db: Database, target_code: str) -> None:
    """Raise Unknown, naming the nearest known target, if there is none called `target_code`."""
    with db.look() as conn:
        if queries.interval(conn, target_code) is None:
            raise Unknown(_unknown("target", target_code, queries.nearest_target(conn, target_code)))


def require_site(db: Database, site_code: str) -> None:
    """Raise Unknown, naming the nearest known site, if there is none called `site_code`."""
    with db.look() as conn:
        known = queries.known_sites(conn)
    if site_code not in known:
        raise Unknown(_unknown("site", site_code, queries.nearest(site_code, known)))


def require_group(db: Database, group: str) -> None:
    """Raise Unknown, naming the nearest known rate group, if there is none called `group`."""
    with db.look() as conn:
        known = queries.known_groups(conn)
    if group not in known:
        raise Unknown(_unknown("rate group", group, queries.nearest(group, known)))


def _unknown(what: str, name: str, nearest: str | None) -> str:
    hint = f"the nearest one is {nearest}" if nearest else "none is loaded yet: `ratelane load sites.yaml`"
    return f"no {what} is called {name!r}; {hint}"
