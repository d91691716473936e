"""One URL, one spelling: the canonical form that items are known by (rule P2), and who a URL belongs to.

Pure. Query arguments are never sorted and the slash at the end stays as linked; escapes of GBK bytes stay bytes.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import SplitResult, urlsplit, urlunsplit

from w3lib.url import safe_url_string

_DEFAULT_PORTS = {"http": 80, "https": 443}
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")
_BLANK = re.compile(r"[\t\n\r]")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")


def join(base: str, link: str) -> str:
    """Return `link` as an absolute URL, seen from `base`; unlike urllib's, doubled slashes stay (rule P2)."""
    link = _BLANK.sub("", link).strip()
    if _SCHEME.match(link):
        return link
    root = urlsplit(base)
    if link.startswith("//"):
        return f"{root.scheme}:{link}"
    path, query, fragment = _parts(link)
    if path.startswith("/"):
        pass
    elif path:
        path = (root.path.rpartition("/")[0] or "") + "/" + path
    else:
        path, query = root.path, query if query is not None else root.query
    return urlunsplit((root.scheme, root.netloc, path, query or "", fragment))


def _parts(link: str) -> tuple[str, str | None, str]:
    rest, _, fragment = link.partition("#")
    path, mark, query = rest.partition("?")
    return path, query if mark else None, fragment


def canonical(link: str, base: str = "", charset: str = "utf-8") -> str:
    """Return the canonical form of a link on a page of `charset` (rule P2).

    Scheme and host in lower case (IDNA), no default port, user info or fragment, dots resolved, escapes in upper
    case. Raises ValueError if it is no HTTP address.
    """
    absolute = join(base, link) if base else _BLANK.sub("", link).strip()
    try:
        parts = urlsplit(safe_url_string(absolute, encoding=charset, path_encoding="utf-8"))
        netloc = _netloc(parts)
    except (ValueError, LookupError) as error:
        raise ValueError(f"not an address: {link[:200]!r}") from error
    if parts.scheme.lower() not in _DEFAULT_PORTS or not netloc:
        raise ValueError(f"not an HTTP address: {link[:200]!r}")
    path = _upper_escapes(_without_dots(parts.path or "/"))
    return urlunsplit((parts.scheme.lower(), netloc, path, _upper_escapes(parts.query), ""))


def host_key(url: str) -> str:
    """Return the host of a URL in lower case, with its port if that is not the default (rule R1); "" if it has none."""
    try:
        return _netloc(urlsplit(url))
    except ValueError:
        return ""


def _netloc(parts: SplitResult) -> str:
    host = (parts.hostname or "").rstrip(".")
    if not host:
        return ""
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    host = f"[{host}]" if ":" in host else host
    port = parts.port
    return host if port is None or port == _DEFAULT_PORTS.get(parts.scheme.lower()) else f"{host}:{port}"


def _upper_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda found: found.group().upper(), text)


def _without_dots(path: str) -> str:
    if "/." not in path:
        return path
    kept: list[str] = []
    parts = path.split("/")[1:]
    for part in parts:
        if part == "..":
            if kept:
                kept.pop()
        elif part != ".":
            kept.append(part)
    if parts[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def is_private(address: str) -> bool:
    """Tell whether an IP address is not one of the public internet (loopback, link-local, RFC 1918, shared …)."""
    try:
        ip = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return not (mapped or ip).is_global


@dataclass(frozen=True)
class Scope:
    """Where a crawl may go: the hosts of its group and the target's `allowed_hosts` (rules P3, P4).

    `hosts` holds host keys (``www.example.org``, ``127.0.0.1:8080``) and globs, which match the host without its port.
    `home` is the host key of the site's base URL. `own_addresses` are private IP addresses that belong to the site
    beside those of its named hosts.
    """

    home: str
    hosts: frozenset[str] = frozenset()
    own_addresses: frozenset[str] = frozenset()

    def covers(self, url: str) -> bool:
        """Tell whether a URL lies in the group, so that it may be fetched."""
        key = host_key(url)
        if not key:
            return False
        return self.names(key) or any(_is_glob(glob) and fnmatchcase(bare_host(key), glob) for glob in self.hosts)

    def names(self, key: str) -> bool:
        """Tell whether a host key is named in so many words: its addresses are the site's own, even private ones."""
        return key == self.home or key in self.hosts


def _is_glob(text: str) -> bool:
    return "*" in text or "?" in text


def bare_host(key: str) -> str:
    """Return a host key without its port."""
    return key if key.endswith("]") else re.sub(r":\d+$", "", key)
