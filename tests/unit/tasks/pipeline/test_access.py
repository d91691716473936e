"""Secrets stand in the environment alone: how they get out, and that nothing else gets out (rules P1, U6)."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.pipeline.access import Access, NoAccess, open_access, variables

HELD = {"TOKEN": "t0ken-value", "NAME": "ann", "WORD": "p@ss/word", "LINES": "a\r\nX-Evil: 1", "PROXY": "http://u:pr0xy@p.test:1"}


def access(**options: Any) -> Access:
    return open_access("town", options, HELD, "ratelane/1 (+mailto:x@y.test)")


def test_references_are_looked_up_wherever_they_stand() -> None:
    found = access(headers={"Authorization": "Bearer ${TOKEN}", "X-Kind": "$${A}"}, cookies={"sid": "${TOKEN}"},
                   basic_auth={"user": "${NAME}", "password": "${WORD}"}, proxy="http://ann:${WORD}@p.test:3128")
    assert found.headers == {"Authorization": "Bearer t0ken-value", "X-Kind": "${A}"}
    assert (found.secret_headers, found.cookies) == ({"authorization"}, {"sid": "t0ken-value"})
    assert found.auth == ("ann", "p@ss/word")
    assert found.proxy == "http://ann:p%40ss%2Fword@p.test:3128"
    assert access(proxy="${PROXY}").proxy == HELD["PROXY"]


def test_a_site_that_says_nothing_is_spoken_to_as_the_settings_say() -> None:
    assert access() == Access("ratelane/1 (+mailto:x@y.test)")
    assert access(user_agent="own/1").user_agent == "own/1"


@pytest.mark.parametrize(
    "options",
    [{"headers": {"X-A": "${NONE}"}}, {"cookies": {"a": "${NONE}"}}, {"proxy": "${NONE}"},
     {"basic_auth": {"user": "ann", "password": "${NONE}"}}],
)
def test_a_missing_variable_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(NoAccess, match="site town: the environment variable NONE is not set where the worker runs"):
        access(**options)
    assert variables(options) == ["NONE"]


@pytest.mark.parametrize("options", [{"headers": {"X-A": "${LINES}"}}, {"cookies": {"a": "${LINES}"}}, {"proxy": "${LINES}"}])
def test_a_value_that_breaks_the_request_is_refused_and_not_told(options: dict[str, Any]) -> None:
    with pytest.raises(NoAccess, match="LINES") as caught:
        access(**options)
    assert "Evil" not in str(caught.value)


def test_secrets_are_masked_in_every_spelling_and_shown_by_no_repr() -> None:
    found = access(headers={"Authorization": "Bearer ${TOKEN}"}, basic_auth={"user": "${NAME}", "password": "${WORD}"},
                   proxy="http://ann:${WORD}@p.test:3128")
    said = "t0ken-value p@ss/word p%40ss%2Fword YW5uOnBAc3Mvd29yZA== ann"
    assert found.mask(said) == "*** *** *** *** ann"
    assert access(proxy="${PROXY}").mask("pr0xy") == "***"
    assert not any(value in repr(found) for value in ("t0ken", "p@ss", "p%40ss"))
