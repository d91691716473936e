"""What a crawl sends to its site beside the request itself: who it is, and the secrets that open the door (rule P1).

A file holds secrets by reference alone, ``${NAME}``; the worker looks them up in its environment when a crawl starts.
Rows, logs and evidence hold the reference, never the value. ``$${`` stands for a plain ``${``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

_PART = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
#: headers and cookies that are called like this let somebody in
_TELLING = re.compile(r"(?i)auth|token|secret|passw|session|api-?key|^cookie$")
#: shorter ones stand in every text by chance
_SHORTEST_MASKED = 4
MASK = "***"


class NoAccess(Exception):
    """What the file says of a site cannot be sent: a variable is missing, or holds what no header can."""


@dataclass(frozen=True)
class Access:
    """How one crawl speaks to its site, secrets in the clear: never to be stored, logged or pickled.

    `headers` named in `secret_headers`, `cookies` and `auth` (user, password) are for the site's own host alone.
    """

    user_agent: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_headers: frozenset[str] = frozenset()
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: tuple[str, str] | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    legacy_tls: bool = False
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def mask(self, text: str) -> str:
        """Return `text` without this crawl's secrets: a site may send back what it was sent (rule U6)."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text


def references(text: str) -> list[str]:
    """Return the names of the environment variables that a text of the file refers to."""
    return [found[1] for found in _PART.finditer(text) if found[1] is not None]


def reference_problem(text: str) -> str | None:
    """Return what is wrong with the references of a text, None if nothing is."""
    for name in references(text):
        if not _NAME.fullmatch(name):
            return f"${{{name}}} names no environment variable"
    return "begins a ${ that nothing ends" if "${" in _PART.sub("", text) else None


def needs_reference(name: str) -> bool:
    """Tell whether a header or cookie of this name is a secret, which only the environment may hold."""
    return bool(_TELLING.search(name))


def header_problem(name: str, value: str) -> str | None:
    """Return why a header cannot be sent, None if it can."""
    if not _HEADER.fullmatch(name):
        return "is no name of a header"
    if not value.isprintable():
        return "must be one printable line"
    return None if value.isascii() else "must be ASCII: other characters have no agreed spelling in a header"


def proxy_problem(text: str) -> str | None:
    """Return what is wrong with a proxy's URL as the file has it, None if nothing is; a password must be a reference."""
    wrong = reference_problem(text)
    if wrong is not None or _is_one_reference(text):
        return wrong
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        return "must be http://host:port or https://host:port"
    # the words of the problem must not repeat what may be a password
    if parts.password and not references(parts.password):
        return "holds a password in the clear: put it into the environment and write ${NAME} in its place"
    return None


def variables(options: Mapping[str, Any]) -> list[str]:
    """Return the names of all environment variables that a site's options refer to, sorted."""
    told = [options.get(name) for name in ("headers", "cookies", "proxy", "basic_auth")]
    return sorted({name for text in _texts(told) for name in references(text)})


def open_access(site_code: str, options: Mapping[str, Any], environ: Mapping[str, str], user_agent: str) -> Access:
    """Look up what a site's stored options refer to; raises NoAccess with a sentence that names the variable.

    `user_agent` is for sites that have none of their own.
    """
    vault = _Vault(site_code, environ)
    headers = {name: vault.line(str(value), f"header {name}") for name, value in (options.get("headers") or {}).items()}
    cookies = {name: vault.line(str(value), f"cookie {name}") for name, value in (options.get("cookies") or {}).items()}
    from_vault = frozenset(name.lower() for name, value in (options.get("headers") or {}).items() if references(str(value)))
    auth = None
    if (given := options.get("basic_auth")) is not None:
        auth = vault.line(given["user"], "basic_auth.user"), vault.text(given["password"])
        vault.opened.add(base64.b64encode(":".join(auth).encode()).decode())
    proxy = _proxy(options.get("proxy") or "", vault)
    return Access(
        user_agent=options.get("user_agent") or user_agent, headers=headers, secret_headers=from_vault, cookies=cookies,
        auth=auth, proxy=proxy, legacy_tls=bool(options.get("legacy_tls")), secrets=vault.secrets())


class _Vault:
    """Looks variables up, and remembers what came out."""

    def __init__(self, site_code: str, environ: Mapping[str, str]) -> None:
        self.site_code, self._environ = site_code, environ
        self.opened: set[str] = set()

    def text(self, text: str, *, quoted: bool = False) -> str:
        """Return a text with every reference replaced by the value, percent-encoded if `quoted`."""
        def value(found: re.Match[str]) -> str:
            return "${" if found[1] is None else self._value(found[1], quoted)

        return _PART.sub(value, text)

    def line(self, text: str, what: str) -> str:
        """Return a text for a header; a value that would break it is refused without being told."""
        found = self.text(text)
        if found.isprintable() and found.isascii():
            return found
        names = ", ".join(references(text)) or "the file"
        raise NoAccess(f"site {self.site_code}: {what} cannot be sent: {names} holds more than one line of printable ASCII")

    def _value(self, name: str, quoted: bool) -> str:
        value = self._environ.get(name, "")
        if not value:
            raise NoAccess(f"site {self.site_code}: the environment variable {name} is not set where the worker runs")
        self.opened.add(value)
        if quoted:
            self.opened.add(quote(value, safe=""))
        return quote(value, safe="") if quoted else value

    def secrets(self) -> frozenset[str]:
        return frozenset(value for value in self.opened if len(value) >= _SHORTEST_MASKED)


def _proxy(text: str, vault: _Vault) -> str | None:
    if not text:
        return None
    found = vault.text(text, quoted=not _is_one_reference(text))
    if not found.isprintable() or proxy_problem(re.sub(r"(?<=://)[^/@]*@", "", found)) is not None:
        names = ", ".join(references(text)) or "the file"
        raise NoAccess(f"site {vault.site_code}: the proxy, from {names}, is not http://host:port or https://host:port")
    parts = urlsplit(found)
    if parts.password:
        vault.opened.add(parts.password)
    return found


def _is_one_reference(text: str) -> bool:
    found = _PART.fullmatch(text.strip())
    return found is not None and found[1] is not None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, Iterable):
        for each in value:
            yield from _texts(each)


__all__ = [
    "MASK", "Access", "NoAccess", "header_problem", "needs_reference", "open_access", "proxy_problem",
    "reference_problem", "references", "variables",
]
