"""What a site of the file is sent and how it is judged: identity, secrets by reference, proxy, rules of its firewall."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from config.settings import names_contact
from console.sites_file.document import plain
from console.sites_file.entry import Entry, nearest
from console.sites_file.options import place_of, words_of
from tasks.pipeline.access import (
    header_problem,
    needs_reference,
    proxy_problem,
    reference_problem,
    references,
    variables,
)
from tasks.pipeline.urls import is_private
from tasks.pipeline.waf import RULES, Rule, rule_problem

#: the keys of a site that become its options
SITE_KEYS = (
    "user_agent", "headers", "cookies", "proxy", "basic_auth", "legacy_tls", "waf_off", "waf_extra", "own_addresses",
)
_BY_REFERENCE = "is a secret: put it into the environment and write ${NAME} in its place"

#: remembers something that is no problem, at the line of a key
Warn = Callable[[Entry, str, str], None]


def read_site_options(entry: Entry, warn: Warn) -> dict[str, Any]:
    """Return the options of a site as they are stored, references unresolved; what is wrong becomes a problem."""
    found = {
        "user_agent": _user_agent(entry, warn), "headers": _lines(entry, "headers"), "cookies": _lines(entry, "cookies"),
        "proxy": _proxy(entry), "basic_auth": _basic_auth(entry), "legacy_tls": entry.flag("legacy_tls", False),
        "waf_off": _waf_off(entry), "waf_extra": _waf_extra(entry), "own_addresses": _own_addresses(entry),
    }
    options = {name: value for name, value in found.items() if value}
    for name in variables(options):
        if not os.environ.get(name):
            warn(entry, _named_in(options, name), f"the environment variable {name} is not set here; the workers need it")
    return options


def _user_agent(entry: Entry, warn: Warn) -> str:
    if not entry.has("user_agent"):
        return ""
    agent = entry.text("user_agent")
    if not agent.strip():
        entry.problem("user_agent", "must not be empty")
    elif not agent.isprintable() or not agent.isascii():
        entry.problem("user_agent", f"must be printable ASCII (is {agent!r})")
    elif not names_contact(agent):
        warn(entry, "user_agent", "names no contact: add an address or a page where the site's owner finds you")
    return agent


def _lines(entry: Entry, name: str) -> dict[str, str]:
    """Read a mapping of names to texts for headers, in which secrets are references."""
    node = _mapping(entry, name)
    if node is None:
        return {}
    names = [key.value for key, _value in node.value if isinstance(key, yaml.ScalarNode)]
    lines = Entry(node, entry.key(name), names, entry.problems)
    found = {key: lines.text(key) for key in names}
    for key, value in found.items():
        problem = header_problem(key, value) or reference_problem(value) or _reserved(name, key)
        if problem is None and name == "cookies" and ";" in value:
            problem = "must not hold a semicolon: that ends a cookie"
        if problem is None and needs_reference(key) and not references(value):
            problem = _BY_REFERENCE
        if problem is not None:
            lines.problem(key, problem)
    return found


def _mapping(entry: Entry, name: str) -> yaml.MappingNode | None:
    """Return the mapping of a key that may hold secrets: a problem does not say what stands there instead."""
    node = entry.child(name)
    if node is None or isinstance(node, yaml.MappingNode):
        return node
    entry.problem(name, "must be a mapping")
    return None


def _reserved(name: str, key: str) -> str | None:
    places = {"cookie": "cookies", "user-agent": "user_agent", "proxy-authorization": "proxy"}
    if name == "headers" and key.lower() in places:
        return f"has a key of its own: `{places[key.lower()]}`"
    taken = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding")
    return "is not the file's to choose" if name == "headers" and key.lower() in taken else None


def _proxy(entry: Entry) -> str:
    text = entry.text("proxy", "")
    problem = proxy_problem(text) if text else None
    if problem is not None:
        entry.problem("proxy", problem)
    return text


def _basic_auth(entry: Entry) -> dict[str, str]:
    node = _mapping(entry, "basic_auth")
    if node is None:
        return {}
    pair = Entry(node, entry.key("basic_auth"), ("user", "password"), entry.problems)
    found = {name: pair.text(name) for name in ("user", "password")}
    for name, value in found.items():
        if (problem := reference_problem(value)) is not None:
            pair.problem(name, problem)
    if found["password"] and not references(found["password"]):
        pair.problem("password", _BY_REFERENCE)
    if ":" in found["user"] and not references(found["user"]):
        pair.problem("user", "must not hold a colon: it ends the user's name")
    return found


def _waf_off(entry: Entry) -> list[str]:
    known = [rule.name for rule in RULES]
    found = entry.texts("waf_off")
    for at, (name, line) in enumerate(found):
        if name not in known:
            entry.problems.add(line, f"{entry.key('waf_off')}[{at}]", f"no rule is called {name!r}; {nearest(name, known)}")
    return [name for name, _line in found]


def _waf_extra(entry: Entry) -> list[Mapping[str, Any]]:
    taken = {rule.name for rule in RULES}
    found = []
    for at, node in entry.items("waf_extra"):
        key = f"{entry.key('waf_extra')}[{at}]"
        data = plain(node, key, entry.problems)
        try:
            rule = Rule.model_validate(data)
        except ValidationError as refused:
            for error in refused.errors(include_url=False):
                line, name = place_of(node, key, error["loc"])
                entry.problems.add(line, name, words_of(error, list(Rule.model_fields)))
            continue
        problem = f"a rule is called {rule.name} already" if rule.name in taken else rule_problem(rule)
        if problem is not None:
            entry.problems.add(node, key, problem)
        taken.add(rule.name)
        found.append(data)
    return found


def _own_addresses(entry: Entry) -> list[str]:
    found = []
    for at, (text, line) in enumerate(entry.texts("own_addresses")):
        key = f"{entry.key('own_addresses')}[{at}]"
        try:
            found.append(str(ipaddress.ip_address(text.strip("[]"))))
        except ValueError:
            entry.problems.add(line, key, f"must be one IP address (is {text!r})")
            continue
        if not is_private(found[-1]):
            entry.problems.add(line, key, f"is a public address, which needs no permission (is {text!r})")
    return found


def _named_in(options: Mapping[str, Any], variable: str) -> str:
    return next(name for name in options if variable in variables({name: options[name]}))
