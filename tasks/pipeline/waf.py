"""How a site's firewall says no (rule C1). Pure: rules are data, `judge` reads them.

One sure sign is a block; weak signs are one when two of them come in a row. A word alone is none: a phrase counts
only on a short page that lacks what was expected there. Every rule has a name and can be switched off per site.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from config.lazy import lazy
from tasks.pipeline.waf_rules import TABLE

Kind = Literal["rate", "js_challenge", "cookie_loop", "reset"]
Sign = Literal["response", "reset", "loop", "twin"]

_UNSEEN = re.compile(r"<!--.*?(?:-->|$)|<(script|style|noscript)\b.*?(</\1\s*>|$)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
#: signs are looked for in this much of a body; a block page is short
_HEAD = 20_000


class Rule(BaseModel):
    """A sign: everything that a rule names must be true of what was seen; what it leaves out does not matter.

    `any_of` and `all_of` are texts of the body (case does not matter), `headers` parts of the values of headers that
    came ("" for any value), `cookie` and `location` patterns of the names of cookies set and of a redirect's target.
    `without_headers` are headers that must not have come. `max_text` is the length of the visible text, `max_body` of
    the body. `after_answer`: only from a host that has answered in this attempt; `after_word`: one whose robots.txt
    answered, lately, is enough.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    kind: Kind
    sure: bool = True
    sign: Sign = "response"
    statuses: frozenset[int] = frozenset()
    any_of: tuple[str, ...] = ()
    all_of: tuple[str, ...] = ()
    headers: dict[str, str] = {}
    without_headers: frozenset[str] = frozenset()
    cookie: str = ""
    location: str = ""
    max_text: int | None = None
    max_body: int | None = None
    lacks_content: bool = False
    after_answer: bool = False
    after_word: bool = False
    is_lone_403: bool = False

    @field_validator("headers", mode="after")
    @classmethod
    def _lower(cls, headers: dict[str, str]) -> dict[str, str]:
        return {name.lower(): part for name, part in headers.items()}

    @field_validator("without_headers", mode="after")
    @classmethod
    def _lower_names(cls, names: frozenset[str]) -> frozenset[str]:
        return frozenset(name.lower() for name in names)

    @field_validator("cookie", "location", mode="after")
    @classmethod
    def _pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
        return pattern


def rule_problem(rule: Rule) -> str | None:
    """Return why a rule of a site's own would speak where no firewall does, None if it is fit for use (rule C1)."""
    words = any(text.strip() for text in (*rule.any_of, *rule.all_of))
    if rule.sign != "response":
        return None
    if rule.statuses - {200} or rule.headers or (rule.cookie and words) or rule.location:
        return None
    if words and (rule.max_text is not None or rule.max_body is not None) and rule.lacks_content:
        return None
    if words:
        return "a word alone is no sign: add `lacks_content: true` and `max_text`, or a status other than 200"
    if rule.cookie:
        return "a cookie alone is no sign, good pages set it too: add a status or a text"
    return "names no sign: it would take every answer for a block"


RULES: tuple[Rule, ...] = tuple(Rule.model_validate(row) for row in TABLE)


@dataclass(frozen=True)
class Seen:
    """What came back. `has_expected`: whether the page holds what was looked for (items, an article's text).

    `sign` is ``response`` unless the connection was reset, a redirect went in a circle, or the body is the one of
    another article (``twin``).
    """

    url: str
    host: str
    status: int | None
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()
    body: str = ""
    location: str = ""
    has_expected: bool = False
    sign: Sign = "response"

    @lazy
    def head(self) -> str:
        """The beginning of the body in lower case."""
        return self.body[:_HEAD].lower()

    @lazy
    def text_length(self) -> int:
        """How many characters of it a reader would see, blanks aside."""
        return len("".join(_UNSEEN.sub(" ", self.body).split()))


@dataclass(frozen=True)
class Memory:
    """What this attempt remembers: the hosts that answered, and the weak sign that came last, if nothing came since.

    `heard` are hosts whose robots.txt answered, now or as the stored copy tells.
    """

    answered: frozenset[str] = frozenset()
    weak: str = ""
    lone_403_is_weak: bool = False
    heard: frozenset[str] = frozenset()

    def after(self, seen: Seen, verdict: Verdict | None) -> Memory:
        """Return what is remembered once `seen` was judged; an answer ends a row of weak signs."""
        if verdict is not None:
            return replace(self, weak=verdict.rule)
        if seen.sign != "response" or seen.status is None or not _is_answer(seen.status):
            return self
        return replace(self, answered=self.answered | {seen.host}, weak="")


@dataclass(frozen=True)
class Verdict:
    """A sign was seen: `is_block` if it is sure, or the second weak one in a row; `signs` are the rules that spoke."""

    rule: str
    kind: Kind
    is_block: bool
    signs: tuple[str, ...]


def judge(
    seen: Seen, memory: Memory, switched_off: frozenset[str] = frozenset(), extra: tuple[Rule, ...] = ()
) -> Verdict | None:
    """Return what the response says about the firewall, None if nothing (rule C1).

    `switched_off` names rules that the site does without, `extra` are rules of its own, asked first.
    """
    spoken = [rule for rule in (*extra, *RULES) if rule.name not in switched_off and _speaks(rule, seen, memory)]
    if not spoken:
        return None
    rule = next((rule for rule in spoken if rule.sure), spoken[0])
    if rule.sure:
        return Verdict(rule.name, rule.kind, True, tuple(rule.name for rule in spoken))
    signs = (memory.weak, rule.name) if memory.weak else (rule.name,)
    return Verdict(rule.name, rule.kind, bool(memory.weak), signs)


def _is_answer(status: int) -> bool:
    return 200 <= status < 400 or status in (404, 410)


def _speaks(rule: Rule, seen: Seen, memory: Memory) -> bool:
    return (
        rule.sign == seen.sign
        and (not rule.statuses or seen.status in rule.statuses)
        and not (rule.after_answer and seen.host not in memory.answered)
        and not (rule.after_word and seen.host not in memory.answered | memory.heard)
        and not (rule.is_lone_403 and memory.lone_403_is_weak)
        and not (rule.lacks_content and seen.has_expected)
        and (rule.max_body is None or len(seen.body) <= rule.max_body)
        and _names(rule, seen)
        and (rule.max_text is None or seen.text_length <= rule.max_text)
    )


def _names(rule: Rule, seen: Seen) -> bool:
    return (
        all(text.lower() in seen.head for text in rule.all_of)
        and (not rule.any_of or any(text.lower() in seen.head for text in rule.any_of))
        and not any(name in seen.headers for name in rule.without_headers)
        and all(name in seen.headers and part.lower() in seen.headers[name].lower() for name, part in rule.headers.items())
        and (not rule.cookie or any(re.search(rule.cookie, name) for name in seen.cookies))
        and (not rule.location or _leads(rule.location, seen))
    )


def _leads(pattern: str, seen: Seen) -> bool:
    """Tell whether a redirect leads where the pattern says, and was not already there."""
    return bool(re.search(pattern, seen.location)) and not re.search(pattern, seen.url)
