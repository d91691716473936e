"""Values out of JavaScript literals (rule P1, the gkmlpt index page)."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.pipeline.jsliteral import json_of, literal, value_of

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-10**9, 10**9) | st.text(), lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=6), inner, max_size=4), max_leaves=12)


@given(_ANY)
def test_json_is_a_literal(value: object) -> None:
    text = json.dumps(value)
    assert literal(text) == (value, len(text))
    assert literal(json.dumps(value, ensure_ascii=False))[0] == value


@given(_ANY)
def test_keys_without_quotes_single_quotes_and_commas_at_the_end_are_read(value: object) -> None:
    text = "{plain: '" + json.dumps(value)[:0] + "it\\'s', $b_1 : " + json.dumps(value) + ", /* a */ c: [1, 2,], // d\n}"
    assert literal(text)[0] == {"plain": "it's", "$b_1": value, "c": [1, 2]}


@pytest.mark.parametrize(
    ("text", "value"), [("'a\\u5173\\x41\\n'", "a关A\n"), ("'\\ud83d\\ude00'", "😀"), ("0x1F", 31), ("-1.5e2", -150.0),
                        ("undefined", None), ("'\\\n'", ""), ('"\\u003Cp>"', "<p>"), ("NaN", None)])
def test_escapes_numbers_and_words(text: str, value: object) -> None:
    assert literal(text)[0] == value


@pytest.mark.parametrize("text", ["", "location.host", "{a}", "{a: b}", "[1 2]", "'open", "{", "[" * 80, "{'a': 1"])
def test_what_is_no_literal_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        literal(text)


def test_a_property_is_found_between_expressions_and_look_alikes() -> None:
    text = "x.SID = 1; var NOSID: 2, MY_SID: 3; if (SID == 4) {} window._CONFIG = {a: f(), SID: g(), 'SID': '755001'}"
    assert value_of("SID", text.replace("x.SID = 1; ", "")) == "755001"
    with pytest.raises(LookupError):
        value_of("TREE", text)
    with pytest.raises(ValueError, match="no literal"):
        value_of("SID", "SID: location.host")


@given(_ANY.filter(lambda value: isinstance(value, dict | list) and value), st.data())
def test_every_beginning_of_a_document_is_cut_off_and_no_other_trouble(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    with pytest.raises(ValueError, match=re.compile("^cut off")):
        json_of(cut)


@pytest.mark.parametrize("text", ["{'a': 1}", "oops", "{}}", '{"a" 1}', "[1,,2]"])
def test_what_is_no_json_is_not_taken_for_a_beginning_of_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^no JSON"):
        json_of(text)
