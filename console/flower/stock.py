"""Flower's own API, which knows no roles: what changes something there needs an operator too (rule U3)."""

from __future__ import annotations

from typing import Any

from flower.api import BaseApiHandler
from tornado.web import HTTPError

from console.flower import people
from console.flower.desk import desk


class OperatorsOnly(BaseApiHandler):
    """Refuses a change to whoever has logged in as a viewer; everything else is Flower's matter, as it was."""

    def prepare(self) -> None:
        """Let in whom Flower lets in, but for viewers who would change something: shut down, revoke, apply."""
        super().prepare()
        if self.request.method in people.SAFE_METHODS or not self.current_user:
            return
        name = people.name_of(self.current_user, self.request.headers)
        if not people.logged_in(name, desk().settings.dashboard_operators).may_act:
            raise HTTPError(403, "your login has the role of a viewer")


def guarded(route: Any) -> Any:
    """Return a route of Flower's list, with `OperatorsOnly` before its handler if it is one of Flower's API."""
    if not isinstance(route, tuple) or not issubclass(route[1], BaseApiHandler):
        return route
    path, handler, *more = route
    return (path, type(handler.__name__, (OperatorsOnly, handler), {}), *more)
