"""What all our handlers share: login as Flower has it, roles, `--read_only`, refusal of other sites' posts (rules U3, U4).

A page handler extends `PageHandler`, an API route is answered by `ApiHandler`. The order of the checks is the same for
both: login (401), another site's page (403), role and read-only mode (403), then what the request says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from flower.views import BaseHandler
from sqlalchemy.exc import SQLAlchemyError
from tornado.web import HTTPError

from config.logs import get_logger, log_event
from console.flower import people
from console.flower.desk import desk
from console.flower.people import Person
from console.flower.static import version_of
from models.db import is_transient
from models.operations import Operator, acting
from models.queries import zone

T = TypeVar("T")
log = get_logger("ratelane.dashboard")
#: how our own pages say that a person sits in front of them; everything else is the API's
SURFACE_HEADER = "X-Ratelane-Surface"


class Guarded(BaseHandler):
    """A handler of ours: `person` is set, and may do what the method says, before the method runs."""

    person: Person

    def set_default_headers(self) -> None:
        """Send no header that opens anything to other sites, whatever Flower's own API is set to."""
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("X-Frame-Options", "DENY")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    def check_xsrf_cookie(self) -> None:
        """Do nothing yet: `prepare` looks where a request comes from, after the login."""

    def prepare(self) -> None:
        """Let in whoever may do this, else raise the HTTPError that says why not."""
        self.person = self._who()
        if self.request.method not in people.SAFE_METHODS:
            self._require_own_site()
            self.require_role()

    @property
    def asks_login(self) -> bool:
        """Whether Flower asks who somebody is."""
        options = self.application.options
        return bool(options.basic_auth or options.auth)

    @property
    def may_act(self) -> bool:
        """Whether the asker may change anything now; pages show no action otherwise."""
        return self.person.may_act and not self.application.options.read_only

    def _who(self) -> Person:
        if not self.asks_login:
            # the other end of the connection, not what a header says of it
            context = getattr(self.request.connection, "context", None)
            address = getattr(context, "_orig_remote_ip", None) or getattr(context, "remote_ip", "") or ""
            return people.without_login(address, self.request.host, self.request.headers)
        try:
            user = self.current_user
        except TypeError as error:  # a name that is not ASCII: Flower compares it with what is
            raise HTTPError(401) from error
        if not user:
            raise HTTPError(401)
        return people.logged_in(people.name_of(user, self.request.headers), desk().settings.dashboard_operators)

    def _require_own_site(self) -> None:
        reason = people.foreign_site(self.request.headers, self.request.host)
        if reason:
            raise HTTPError(403, reason)
        told = {"Sec-Fetch-Site", "Origin", "Authorization"} & set(self.request.headers)
        if self.application.options.auth and not told:
            # a session by cookie, and a browser that does not say where the request comes from
            super(BaseHandler, self).check_xsrf_cookie()

    def require_role(self) -> None:
        """Raise the 403 that says why the asker changes nothing."""
        if self.application.options.read_only:
            raise HTTPError(403, "this dashboard is read-only (--read_only)")
        if not self.person.may_act:
            why = ("your login has the role of a viewer" if self.asks_login else
                   "without a login only somebody at this machine may act; set FLOWER_BASIC_AUTH or --auth")
            raise HTTPError(403, why)

    def operator(self, reason: str = "") -> Operator:
        """Return who acts, for the log of operations."""
        surface = "page" if self.request.headers.get(SURFACE_HEADER) == "page" else "api"
        if self.person.name is None:
            return acting(desk().settings, surface, reason)
        return Operator(self.person.name[:200], surface, reason)

    def root(self, path: str) -> str:
        """Return a path of this server with Flower's prefix."""
        prefix = (self.application.options.url_prefix or "").strip("/")
        return f"/{prefix}{path}" if prefix else path

    async def ask(self, read: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Return what ``read(db, settings, …)`` returns, without stopping the event loop.

        A database that does not answer is a 503.
        """
        with self._database_may_be_away():
            return await desk().ask(read, *arguments, **options)

    async def shared(
        self, read: Callable[..., dict[str, Any] | None], *arguments: Any, **options: Any
    ) -> dict[str, Any] | None:
        """As `ask`, for what refreshes by itself: an answer of the last 1.5 s is shared, its age stands in ``age_sec``."""
        with self._database_may_be_away():
            return await desk().shared(read, *arguments, **options)

    @staticmethod
    @contextmanager
    def _database_may_be_away() -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            if not is_transient(error):
                raise
            log_event(log, "dashboard.database_away", error=type(error).__name__)
            raise HTTPError(503, "the database does not answer just now") from error


class PageHandler(Guarded):
    """A page: whoever has logged in may look at it; without login Flower's own way to one.

    `tab` is the tab that is marked in the navigation. Templates get `person`, `may_act`, `api` (the root of the API),
    `asset(name)` (the address of a file of ours) and `zone_name` besides what `render` is given.
    """

    tab = ""

    def prepare(self) -> None:
        """Send a person's browser to Flower's login page if it has one; a program is told 401."""
        try:
            super().prepare()
        except HTTPError as error:
            wants_page = "text/html" in self.request.headers.get("Accept", "")
            if error.status_code == 401 and self.application.options.auth and not self.application.options.basic_auth \
                    and wants_page and self.request.method in people.SAFE_METHODS:
                self._to_login()
                return
            raise

    def _to_login(self) -> None:
        from urllib.parse import urlencode

        self.redirect(f"{self.get_login_url()}?{urlencode({'next': self.request.uri or '/'})}")

    def render(self, template: str, **values: Any) -> None:
        """Render a template of either folder."""
        super().render(template, **{
            "tab": self.tab, "person": self.person, "may_act": self.may_act, "api": self.root("/api/ratelane"),
            "asset": self.asset, "zone_name": str(zone()), **values})

    def asset(self, name: str) -> str:
        """Return the address of a file in our folder of static files; another content has another address."""
        return f"{self.reverse_url('ratelane-static', name)}?v={version_of(name)}"

    def not_found(self, sentence: str) -> HTTPError:
        """Return the 404 to raise for a name that nobody knows."""
        return HTTPError(404, sentence)


def problem(status: int, detail: str, **more: Any) -> dict[str, Any]:
    """Return problem details (RFC 9457)."""
    return {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}


__all__ = ["SURFACE_HEADER", "Guarded", "PageHandler", "problem"]
