"""Which characters a page's bytes are (rule P4): Chinese pages name their charset wrongly more often than not.

Order: byte order mark, HTTP header, meta tag in the first 4 kB; each must decode strictly, or the next one is asked;
then a detector; at last GB18030, the superset of what Chinese pages call gb2312 or gbk.
"""

from __future__ import annotations

from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom, to_unicode

#: a shorter text gives detectors nothing to go by
_ENOUGH_BYTES = 200
_ENOUGH_HIGH_BYTES = 24
_SAMPLE_BYTES = 65_536
_ASCII = bytes(range(0x80))


def decode(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Return the text of a page and the name of its charset; never raises, hopeless bytes become U+FFFD."""
    bom_charset, bom = read_bom(body)
    if bom_charset is not None and bom is not None:
        return to_unicode(body[len(bom):], bom_charset), bom_charset
    named = http_content_type_encoding(content_type)
    # Text of some length is valid UTF-8 only if it is UTF-8, whatever the page says.
    if named == "utf-8" or len(body[:_SAMPLE_BYTES].translate(None, _ASCII)) >= _ENOUGH_HIGH_BYTES:
        text = _strictly(body, "utf-8")
        if text is not None:
            return text, "utf-8"
    declared = _declared(named, html_body_declared_encoding(body))
    for charset in [*declared, "utf-8"]:
        text = _strictly(body, charset)
        if text is not None:
            return text, charset
    charset = _closest(body, declared)
    return to_unicode(body, charset), charset


def _declared(*named: str | None) -> list[str]:
    """Return the charsets to try, the most credible first."""
    # Servers name Latin-1 by default, and nearly any bytes decode as it: it is heard last.
    return sorted((charset for charset in named if charset is not None), key=lambda charset: charset == "cp1252")


def _strictly(body: bytes, charset: str) -> str | None:
    try:
        return body.decode(charset)
    except (UnicodeDecodeError, LookupError):
        return None


def _closest(body: bytes, declared: list[str]) -> str:
    """Choose for bytes that fit no declared charset exactly: the guess that decodes, else the least damage."""
    if _strictly(body, "gb18030") is not None:
        return "gb18030"
    guesses = [*declared, "utf-8", "gb18030"]
    if len(body) >= _ENOUGH_BYTES and (detected := _detected(body)) is not None:
        guesses.append(detected)
    return min(guesses, key=lambda charset: to_unicode(body, charset).count("\ufffd"))


def _detected(body: bytes) -> str | None:
    from charset_normalizer import from_bytes

    best = from_bytes(body[:_SAMPLE_BYTES]).best()
    return None if best is None else best.encoding
