"""How rate groups and their lanes are called, and what of a URL decides it (rule R1). The only place that spells them.

Every key is text in `[a-z0-9._:\\[\\]-]`, at most 200 characters. Keys that start with `_` belong to the internal
lanes, so no host, site or rule may make one. A name that does not fit is shortened and gets a digest behind `:x`, which
no port and no plain code can look like: two names never share a key by accident.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import socket
from urllib.parse import SplitResult, urlsplit

import idna

LANE_PREFIX = "rg."
#: longest key of a rate group, in characters
MAX_KEY = 200

_KEY = re.compile(r"[a-z0-9._:\[\]-]{1,200}")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_DIGEST = re.compile(r":x[0-9a-f]{32}$")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def lane_name(key: str) -> str:
    """Return the name of the lane (queue) of the rate group `key`."""
    return LANE_PREFIX + key


def is_key(text: str) -> bool:
    """Say whether `text` can be the key of a rate group, internal lanes included."""
    return _KEY.fullmatch(text) is not None


def key_problem(text: str) -> str | None:
    """Return why a person may not use `text` as the key of a rate group, in words; None if it is fine."""
    if not text:
        return "must not be empty"
    if len(text) > MAX_KEY:
        return f"must not be longer than {MAX_KEY} characters (has {len(text)})"
    if not is_key(text):
        return f"may hold a-z 0-9 . _ : [ ] - only (is {text!r})"
    if text.startswith("_"):
        return f"must not start with _: such lanes are internal (is {text!r})"
    return None


def host_of(base_url: str) -> str | None:
    """Return the host of `base_url` without its port, as rules match it; None if the URL is unusable (rule R1).

    Lower case, no user info, no trailing dot, IDNA, IPv6 in brackets; one spelling for every way to write an address.
    """
    parts = _split(base_url)
    return None if parts is None else _host(parts.hostname or "")


def host_key(base_url: str) -> str | None:
    """Return the key of the rate group of the host of `base_url`, a port that is not the default included (rule R1).

    None if the URL is unusable: no http(s) URL, no host, a bad port.
    """
    parts, host = _split(base_url), host_of(base_url)
    if parts is None or host is None:
        return None
    port = "" if parts.port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
    key = f"host:{host}" if host.startswith("_") else host
    # http://site:8080 would otherwise share its key with the site whose code is 8080
    return _fit(key + port, exact=not (host == "site" and port))


def site_key(code: str) -> str:
    """Return the key of the group of one site alone: `site:<code>`, made to fit the alphabet without collisions."""
    return _fit(f"site:{code}", exact=not _DIGEST.search(f"site:{code}"))


def host_glob(pattern: str) -> str:
    """Return the host glob `pattern` in the spelling that `host_of` gives: lower case, no trailing dot, IDNA."""
    labels = pattern.strip().lower().removesuffix(".").split(".")
    return ".".join(label if label.isascii() else _idna(label) or label for label in labels)


def _fit(name: str, *, exact: bool) -> str:
    if exact and is_key(name):
        return name
    slug = re.sub(r"[^a-z0-9._:\[\]-]", "-", name.lower())[: MAX_KEY - 34]
    return f"{slug}:x{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _split(url: str) -> SplitResult | None:
    """Return the parts of an http(s) URL; None if programs could disagree on where it leads."""
    text = url.strip()
    if re.search(r"[\x00-\x20\x7f\\]", text):
        return None
    try:
        parts = urlsplit(text)
        usable = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _host(name: str) -> str | None:
    if ":" in name:
        return _ipv6(name)
    host = name.lower() if name.isascii() else _idna(name)
    host = (host or "").removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return _ipv4(host)
    fits = len(host) <= 253 and all(_LABEL.fullmatch(label) for label in host.split("."))
    return host if fits else None


def _idna(name: str) -> str | None:
    try:
        return idna.encode(name, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        return None


def _ipv4(text: str) -> str | None:
    # the system's own reading: 127.1 and 0x7f.1 lead to the same host as 127.0.0.1
    try:
        return socket.inet_ntoa(socket.inet_aton(text))
    except OSError:
        return None


def _ipv6(text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    if address.scope_id:
        return None
    return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{address.compressed}]"
