from __future__ import annotations

import pytest

from tasks.pipeline.charset import decode

RARE = "关于镕、堃、喆三位同志的任职通知，各有关单位遵照执行。"


def html(meta: str, text: str = RARE) -> str:
    return f"<html><head>{meta}<title>{text}</title></head><body>{text}</body></html>"


@pytest.mark.parametrize(
    "meta",
    [
        '<meta httpequiv="ContentType" content="text/html; charset=gb2312">',
        '<meta http-equiv=Content-Type content=text/html;charset=gbk>',
        "<META charset='gb2312'>",
        '<meta name="x" content="charset=utf-8"><meta charset="gbk">',
    ],
)
def test_w80_a_malformed_meta_still_names_the_charset(meta: str) -> None:
    text, charset = decode(html(meta, "通知公告").encode("gb18030"), "text/html")
    assert "通知公告" in text
    assert charset == "gb18030"


@pytest.mark.parametrize("header", ["text/html; charset=gb2312", "text/html", "text/html; charset=GBK", ""])
def test_w82_a_page_that_says_gb2312_keeps_the_characters_beyond_it(header: str) -> None:
    text, charset = decode(html('<meta charset="gb2312">').encode("gb18030"), header)
    assert RARE in text
    assert charset == "gb18030"


@pytest.mark.parametrize(
    ("header", "meta"),
    [
        ("text/html; charset=utf-8", '<meta charset="gbk">'), ("text/html; charset=utf-8", ""),
        ("text/html; charset=x-none", ""), ("text/html; charset=iso-8859-1", '<meta charset="gbk">'),
    ],
)
def test_w82_a_header_that_lies_is_not_believed(header: str, meta: str) -> None:
    assert RARE in decode(html(meta).encode("gb18030"), header)[0]


def test_utf_8_that_is_called_gbk_is_utf_8() -> None:
    # An even number of characters in each run: these bytes are valid GB18030 as well.
    markup = html('<meta charset="gbk">', "通知公告任免信息")
    assert markup.encode().decode("gb18030")
    assert decode(markup.encode(), "text/html; charset=gb2312") == (markup, "utf-8")


def test_a_byte_order_mark_wins_and_does_not_stay_in_the_text() -> None:
    for codec in ("utf-8-sig", "utf-16"):
        text, _ = decode("<p>通知".encode(codec), "text/html; charset=gbk")
        assert text == "<p>通知"


def test_big5_is_read_where_it_is_declared() -> None:
    assert decode("臺灣通知".encode("big5"), "text/html; charset=big5")[0] == "臺灣通知"


@pytest.mark.parametrize("body", [b"", b"\x00\xff\xfe\x80", b"\xff" * 500, bytes(range(256)) * 3])
def test_hopeless_bytes_are_no_error(body: bytes) -> None:
    assert isinstance(decode(body, "text/html; charset=utf-8")[0], str)


def test_one_broken_byte_does_not_spoil_a_page() -> None:
    body = html('<meta charset="gb2312">').encode("gb18030").replace(b"</title>", b"\xff</title>")
    assert RARE in decode(body, "text/html; charset=gb2312")[0]
