"""Answering the routes: who asks, what is asked, one call on a thread of the desk, and problem details for everything else."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

from pydantic import BaseModel, ValidationError
from tornado.web import HTTPError, url

from config.errors import BadInput, RatelaneError, Unknown
from config.logs import log_event
from config.settings import Settings, redact_url
from console.flower.api import asked, openapi
from console.flower.api.calls import Refused
from console.flower.api.routes import ROUTES, Route
from console.flower.handlers import Guarded, log, problem
from models.db import Database
from models.queries.board.paging import Page

#: a larger body is no request of ours
MOST_BYTES = 64 * 1024
_JSON = "application/json"


class ApiHandler(Guarded):
    """One path of the API; its methods are those that the table has for it."""

    SUPPORTED_METHODS = (*Guarded.SUPPORTED_METHODS, "TRACE")

    def initialize(self, routes: dict[str, Route], names: tuple[str, ...]) -> None:
        """Take the routes of the path by method, and the names of its parameters."""
        self.routes, self.names = routes, names

    def prepare(self) -> None:
        """Let in whoever may ask this, else raise the HTTPError that says why not."""
        super().prepare()
        if not self.asks_login and not self.person.is_local and not self.unauthenticated_api:
            raise HTTPError(401, "log in: this server asks nobody who he is, and this is not the machine it runs on")
        if self.request.method not in self.routes:
            raise HTTPError(405, f"{self.request.method} is not one of {', '.join(self.routes)}")

    def require_role(self) -> None:
        """Require an operator for what the table has as an action; a method that it has not is refused as such."""
        if self.request.method in self.routes:
            super().require_role()

    async def get(self, *values: str) -> None:
        """Answer the request."""
        await self._answer(*values)

    post = get

    async def _answer(self, *values: str) -> None:
        route = self.routes[str(self.request.method)]
        query, body = checked(route.query, self._query()), self._body(route)
        by = self.operator(getattr(body, "reason", ""))
        path = dict(zip(self.names, values, strict=True))
        for value in path.values():
            asked.require_text(value)
        found = await self.ask(_call, route, path, query, body, by)
        if isinstance(found, Page):
            self._tell_next(found)
            found = found.rows
        self.set_status(route.status)
        self._send(found, _JSON)

    def _tell_next(self, found: Page) -> None:
        if found.next is not None:
            query = {name: values[-1] for name, values in self.request.query_arguments.items()}
            more = urlencode(query | {"cursor": found.next.encode()})
            self.set_header("X-Next-Cursor", found.next)
            self.set_header("Link", f'<{self.request.path}?{more}>; rel="next"')

    def _query(self) -> dict[str, str]:
        try:
            return {name: values[-1].decode() for name, values in self.request.query_arguments.items()}
        except UnicodeDecodeError:
            raise BadInput("the address holds bytes that are no text") from None

    def _body(self, route: Route) -> Any:
        raw = self.request.body
        if len(raw) > MOST_BYTES:
            raise HTTPError(413, f"a body has at most {MOST_BYTES} bytes")
        if route.body is None:
            return None
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != _JSON and (raw or kind):
            raise HTTPError(415, f"send {_JSON}")
        try:
            # strictly: `0` is not false and `7` no moment, where JSON has words for both
            return route.body.model_validate_json(raw or b"{}", strict=True)
        except ValidationError as error:
            raise asked.Invalid(error) from None

    def log_exception(self, kind: Any, value: Any, trace: Any) -> None:
        """Log what is our fault; what was asked wrongly is answered, not logged."""
        if isinstance(value, HTTPError | RatelaneError | asked.Invalid):
            return
        log_event(log, "dashboard.error", level=40, path=self.request.path, exc_info=(kind, value, trace))

    def write_error(self, status_code: int, **given: Any) -> None:
        """Answer problem details (RFC 9457)."""
        error = given.get("exc_info", (None, None))[1]
        if status_code == 400 and not hasattr(self, "person"):
            # Tornado takes addresses and forms apart before anybody has looked who asks: what is wrong comes after that
            error = self._unreadable()
            status_code = error.status_code
        self._send_problem(error, status_code)

    def _unreadable(self) -> HTTPError:
        try:
            self.prepare()
            unquote_to_bytes(self.request.path).decode()
        except HTTPError as error:
            return error
        except UnicodeDecodeError:
            return HTTPError(422, "the address holds bytes that are no text")
        return HTTPError(415, f"send {_JSON}")

    def _send_problem(self, error: BaseException | None, status: int) -> None:
        more: dict[str, Any] = {}
        status, detail = _status_of(error, status), ""
        if isinstance(error, asked.Invalid):
            more["errors"] = error.errors
        if isinstance(error, RatelaneError | asked.Invalid):
            detail = str(error)
        elif isinstance(error, HTTPError):
            detail = error.log_message or ""
        self.set_status(status)
        if status == 401 and self.application.options.basic_auth:
            self.set_header("WWW-Authenticate", 'Basic realm="flower"')
        if status == 405:
            self.set_header("Allow", ", ".join(self.routes))
        if status == 503:
            self.set_header("Retry-After", "5")
        self._send(problem(status, redact_url(detail), **more), "application/problem+json")

    def _send(self, document: Any, kind: str) -> None:
        self.set_header("Content-Type", kind)
        self.finish(json.dumps(document, ensure_ascii=False, default=str))


class DocumentHandler(ApiHandler):
    """The OpenAPI document."""

    async def _answer(self, *values: str) -> None:
        checked(asked.Asked, self._query())
        self._send(openapi.document(self.root(openapi.ROOT)), _JSON)


class NothingHandler(ApiHandler):
    """What is no path of the API."""

    def prepare(self) -> None:
        """Refuse it, to whom may ask at all."""
        Guarded.prepare(self)
        raise HTTPError(404, "the API has no such path; /openapi.json lists all of them")


def _status_of(error: BaseException | None, status: int) -> int:
    if isinstance(error, Unknown):
        return 404
    if isinstance(error, Refused):
        return 409
    # what Tornado itself cannot read is bad input like any other
    return 422 if isinstance(error, BadInput | asked.Invalid) or status == 400 else status


def checked(model: type[BaseModel], found: Any) -> Any:
    """Return what was asked as a `model`; raises Invalid, naming each field, if it cannot be."""
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise asked.Invalid(error) from None


def _call(db: Database, settings: Settings, route: Route, path: dict[str, str], query: Any, body: Any, by: Any) -> Any:
    return route.call(asked.Request(db, settings, path, query, body, by))


def handlers() -> list[Any]:
    """Return the handlers of all routes, for Flower's list: paths in words before those with a name in them."""
    by_path: dict[str, dict[str, Route]] = defaultdict(dict)
    for route in ROUTES:
        by_path[route.path][route.method] = route
    found = [url(openapi.ROOT + r"/openapi\.json", DocumentHandler, {"routes": {"GET": None}, "names": ()})]
    for path in sorted(by_path, key=lambda path: [part.startswith("{") for part in path.split("/")]):
        names = tuple(re.findall(r"\{(\w+)\}", path))
        found.append(url(openapi.ROOT + re.sub(r"\{\w+\}", "([^/]+)", path), ApiHandler,
                         {"routes": by_path[path], "names": names}))
    return [*found, url(openapi.ROOT + r"(?:/.*)?", NothingHandler, {"routes": {}, "names": ()})]
