"""Who asks, and what they may do: viewer or operator (rule U3). Pure.

Flower says who somebody is (basic authentication, OAuth, or nobody asked). Whoever has logged in may look; operators are
those that the setting `dashboard_operators` names. Where Flower asks nobody, only somebody at this very machine acts.
"""

from __future__ import annotations

import ipaddress
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

#: what a proxy adds: behind one the address of the connection says nothing of who asks
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip")
SAFE_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Person:
    """Somebody who may look: `name` as operations record it, None for whoever acts in this process's name.

    `may_act` is the role of operators; `is_local` says that no login was needed because the asker sits at this machine.
    """

    name: str | None
    may_act: bool
    is_local: bool = False

    @property
    def role(self) -> str:
        """``operator`` or ``viewer``."""
        return "operator" if self.may_act else "viewer"


def logged_in(name: str, operators: str) -> Person:
    """Return the person behind a login; `operators` are names or globs with commas between, ``*`` means everybody."""
    patterns = [pattern.strip() for pattern in operators.split(",")]
    return Person(name, any(fnmatchcase(name, pattern) for pattern in patterns if pattern))


def name_of(user: object, headers: Mapping[str, str]) -> str:
    """Return the name of whom Flower has let in: `user` is the address that OAuth gave, True after basic authentication."""
    if isinstance(user, str):
        return user
    encoded = headers.get("Authorization", "").partition(" ")[2]
    return b64decode(encoded).decode().partition(":")[0]


def without_login(peer: str, host: str, headers: Mapping[str, str] | Iterable[str]) -> Person:
    """Return who somebody is where nobody logs in: operator at this machine, viewer from anywhere else.

    `peer` is the other end of the connection, `host` the name by which the browser knows us: a page of a stranger whose
    name was made to lead here (DNS rebinding) has another one than this machine's. A proxy's headers make a viewer.
    """
    forwarded = any(name in headers for name in FORWARDED)
    local = is_loopback(peer) and is_loopback(host_of(host)) and not forwarded
    return Person(None, may_act=local, is_local=local)


def is_loopback(address: str) -> bool:
    """Say whether an address, or ``localhost``, is this machine's own."""
    if address.lower().rstrip(".") == "localhost":
        return True
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def host_of(host: str) -> str:
    """Return the name in a ``Host`` header, without port and brackets; nothing if it cannot be read."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def foreign_site(headers: Mapping[str, str], host: str) -> str:
    """Return why a state-changing request comes from another site's page, "" if it does not (rule U4).

    Browsers say where a request comes from, and pages cannot make them lie; a program that is no browser says nothing.
    """
    site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
    if site is not None:
        return "" if site == "same-origin" else f"the request comes from another site ({site})"
    if origin is None:
        return ""
    try:
        netloc = urlsplit(origin).netloc
    except ValueError:
        netloc = ""
    return "" if netloc and netloc.lower() == host.lower() else "the request comes from another origin"
