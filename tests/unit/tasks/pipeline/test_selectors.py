from __future__ import annotations

import pytest

from tasks.pipeline.selectors import Document, Selector, text_of

ROW = Document(
    '<?xml version="1.0" encoding="gbk"?><ul><li class="row" data-id="7"><a href=" /a/1 " title="whole">cut…</a>'
    "<i>2026-11-30</i></li></ul>",
    "http://h/x/",
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("li.row a", "cut…"), ("li.row a@href", "/a/1"), ("li@data-id", "7"), ("a@missing", None), ("b", None),
        ("//li/a", "cut…"), ("//a/@href", "/a/1"), ("xpath: //li/i/text()", "2026-11-30"), (".//li/@data-id", "7"),
        ("xpath:string(//i)", "2026-11-30"), ("xpath:count(//li)", "1.0"),
    ],
)
def test_a_selector_takes_a_text_or_an_attribute(source: str, expected: str | None) -> None:
    assert Selector(source).value(ROW.root) == expected


@pytest.mark.parametrize("source", ["a", "a@href", "li", "//a/@href", "//li"])
def test_a_link_is_found_on_the_node_or_inside_it(source: str) -> None:
    assert Selector(source).link(ROW.root) == "/a/1"


@pytest.mark.parametrize("source", ["li[", "string(//i)", "//li[", "xpath:", "a >> b", "li:nope"])
def test_a_selector_that_cannot_be_read_says_so(source: str) -> None:
    with pytest.raises(ValueError, match="cannot read the selector"):
        Selector(source)


def test_the_empty_selector_is_the_node_itself() -> None:
    row = Selector("li").first(ROW.root)
    assert Selector("@data-id").value(row) == "7"
    assert Selector(".").first(row) is row


def test_text_has_a_line_for_each_block_and_no_scripts() -> None:
    root = Document("<div><p>甲<b>乙</b></p><script>x</script><!-- y --><p> 丙<br>丁 </p><style>z</style>戊</div>", "").root
    assert text_of(root) == "甲乙\n丙\n丁\n戊"


@pytest.mark.parametrize("markup", ["", "   ", "\x00", "<?xml version='1.0'?>", "no markup at all", "<!-- -->"])
def test_any_page_is_a_document(markup: str) -> None:
    assert Selector("li").first(Document(markup, "http://h/").root) is None


def test_a_deeply_nested_page_has_a_text() -> None:
    assert isinstance(text_of(Document("<div>" * 5000 + "x", "").root), str)


def test_links_are_relative_to_the_base_that_the_page_names() -> None:
    assert Document('<base href="/y/"><p>', "http://h/x/").base == "http://h/y/"
    assert ROW.base == "http://h/x/"
