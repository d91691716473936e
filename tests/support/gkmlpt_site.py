"""A simulator of the gkmlpt platform: one process, many sites, several of them on one host, each with its oddities.

A `GkmlptHost` is served by `console.demo.server.DemoServer` like any demo site, firewalls in front and request log
included. Its `sites` can be exchanged while it is served.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from console.demo.site import Site
from console.demo.waf import Answer

#: midnight in Beijing of 2026-07-07, as the platform writes dates
MIDNIGHT = 1_783_353_600
_API = re.compile(r"/gkmlpt/api/all/(\d+)")
_CONTENT = re.compile(r"/gkmlpt/content/(\d+)/(\d+)/(m?)post_(\d+)\.html")
_HTML, _JSON = "text/html; charset=utf-8", "application/json;charset=UTF-8"
_NOT_FOUND = Answer(404, b"<html><head><title>404</title></head><body><h1>404 Not Found</h1></body></html>",
                    {"Content-Type": _HTML})

#: what becomes of an answer of the API
Trouble = Literal["", "cut", "schema", "maintenance", "500", "phrase", "403", "reset"]


@dataclass
class Switches:
    """How a site deviates from what one would expect."""

    page_size: int = 100
    past_end: Literal["404", "empty", "repeat-last"] = "404"
    unknown_column: Literal["404", "empty", "other"] = "404"
    page_zero: bool = True
    inflation: float = 1.4
    window: int | None = None
    pinned: int = 0
    schemes: Literal["listed", "mixed"] = "listed"
    mobile: bool = False
    titles: Literal["plain", "escaped", "marked"] = "plain"
    dates: Literal["all", "few"] = "all"
    #: how pages are encoded, and what they say of it
    charset: Literal["utf-8", "gb2312", "unsaid", "lying"] = "utf-8"
    content: Literal["page", "detail"] = "page"
    offset: Literal["right", "left out"] = "right"


@dataclass(frozen=True)
class Doc:
    """A document: `page_id` names its address (its own id, unless it was indexed anew); `link`: it is elsewhere."""

    id: int
    title: str
    text: str
    page_id: int
    link: str = ""
    attachments: tuple[str, ...] = ()


def doc(number: int, *, page_id: int | None = None, link: str = "", note: str = "", attachments: tuple[str, ...] = ()) -> Doc:
    """Return a document with a title and a text of its own."""
    page_id = number if page_id is None else page_id
    title = f"关于第{page_id}号事项的通知{note}"
    return Doc(number, title, f"{title}：各有关单位，现将第{page_id}号有关事项通知如下，请认真贯彻执行，何镕基。{note}", page_id, link,
               attachments)


@dataclass
class GkmlptSite:
    """A site below `prefix` of its host; `columns` hold their documents, newest first."""

    sid: str
    prefix: str = ""
    columns: dict[int, list[Doc]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    switches: Switches = field(default_factory=Switches)
    #: each answer of the API is followed by the next of these
    between: list[Callable[[GkmlptSite], None]] = field(default_factory=list)
    #: each answer of the API is disturbed by the next of these, "" leaves one as it is
    troubles: list[Trouble] = field(default_factory=list)
    jumps: dict[int, str] = field(default_factory=dict)

    def docs(self) -> dict[int, Doc]:
        """Every document that has a page, by the id that its address has."""
        return {one.page_id: one for docs in self.columns.values() for one in docs if not one.link}

    def path(self, one: Doc, mobile: bool = False) -> str:
        """Return the path of a document's page."""
        number = one.page_id
        return f"{self.prefix}/gkmlpt/content/{number // 1_000_000}/{number // 1_000}/{'m' if mobile else ''}post_{number}.html"

    def address(self, base: str, one: Doc) -> str:
        """Return the canonical URL of a document."""
        return one.link or f"{base}{self.path(one)}"

    def answer(self, path: str, query: str, base: str) -> Answer:
        """Return the answer to a path below the site's prefix."""
        if path in ("/gkmlpt/index", "/gkmlpt/mindex", "/gkmlpt/policy"):
            return Answer(200, self._index().encode(), {"Content-Type": _HTML})
        if asked := _API.fullmatch(path):
            answer = self._rows(int(asked[1]), {name: value[0] for name, value in parse_qs(query).items()}, base)
            if self.between:
                self.between.pop(0)(self)
            return _disturbed(answer, self.troubles.pop(0)) if self.troubles else answer
        if asked := _CONTENT.fullmatch(path):
            found = self.docs().get(int(asked[4]))
            right = found is not None and (int(asked[1]), int(asked[2])) == (found.page_id // 1_000_000, found.page_id // 1_000)
            return self._page(found) if found is not None and right else _NOT_FOUND
        return _NOT_FOUND

    def _index(self) -> str:
        tree = [{"id": number, "name": self.names.get(number, f"栏目{number}"), "parent": 0,
                 "post_count": self._post_count(docs), "children": [], "jump_url": self.jumps.get(number, "")}
                for number, docs in self.columns.items()]
        top = [{"id": 1, "name": "政策", "parent": 0, "post_count": 0, "children": tree, "jump_url": ""}]
        return (
            "<html><head><title>政府信息公开</title><script>window._CONFIG = {\n  APP_URL: location.origin + '/gkmlpt',\n"
            f"  SID: '{self.sid}', // site\n  TREE: {json.dumps(top, ensure_ascii=False)},\n  SERVICE_AREA_ID: 0,\n"
            "  SEARCH_JSONP_URL: 'http://search.example.cn/jsonp', \n};</script></head><body><div id=app></div></body></html>")

    def _post_count(self, docs: list[Doc]) -> int:
        return int(len(docs) * self.switches.inflation)

    def _rows(self, column: int, asked: dict[str, str], base: str) -> Answer:
        switches, docs = self.switches, self._listed(column, asked.get("sid"))
        if docs is None:
            if switches.unknown_column == "404":
                return _NOT_FOUND
            docs = [] if switches.unknown_column == "empty" else [doc(999_999_000)]
        number, size = int(asked.get("page", "1")), switches.page_size
        if number == 0 and not switches.page_zero:
            return _NOT_FOUND
        number = max(number, 1)
        served = docs[: switches.window] if switches.window else docs
        if number > 1 and (number - 1) * size >= len(served):
            if switches.past_end == "404":
                return _NOT_FOUND
            number = max(1, -(-len(served) // size)) if switches.past_end == "repeat-last" else number
        rows = served[(number - 1) * size : number * size]
        document: dict[str, Any] = {
            "classify": {"id": column, "name": self.names.get(column, f"栏目{column}"), "parent": 1, "theme_count": 0,
                         "post_count": self._post_count(docs), "jump_url": ""},
            "total": len(docs), "articles": [self._row(one, column, base) for one in rows]}
        if switches.offset == "right":
            document["offset"] = (number - 1) * size
        return Answer(200, json.dumps(document).encode(), {"Content-Type": _JSON})

    def _listed(self, column: int, sid: str | None) -> list[Doc] | None:
        if sid is not None and sid != self.sid:
            return None
        if column == 0:
            return list({one.id: one for docs in self.columns.values() for one in docs}.values())
        docs = self.columns.get(column)
        if docs is None:
            return None
        oldest = docs[-self.switches.pinned :] if self.switches.pinned else []
        return [*oldest, *(one for one in docs if one not in oldest)]

    def _row(self, one: Doc, column: int, base: str) -> dict[str, Any]:
        switches, seconds = self.switches, MIDNIGHT + one.id % 1_000 * 86_400
        url = one.link or f"{base}{self.path(one, switches.mobile and one.id % 2 == 0)}"
        if switches.schemes == "mixed" and one.id % 3 == 0 and not one.link:
            url = url.replace("http:", "https:")
        dates = {"create_time": seconds + 4, "created_at": "2026-07-07 08:00:04", "date": seconds,
                 "display_publish_time": seconds + 4, "first_publish_time": 0}
        if switches.dates == "few":
            dates = {"date": seconds, "create_time": 0} if one.id % 2 else {"first_publish_time": seconds}
        return {"id": one.id, "title": self._title(one), "type": "url" if one.link else "normal", "url": f" {url} ",
                "post_url": f"{base}/c{column}/content/post_{one.page_id}.html", "classify_main": column,
                "classify_main_name": self.names.get(column, ""), "identifier": f"1144/2026-{one.id % 100_000:05}",
                "document_number": "", "publisher": "办公室", "keywords": "", "abstract": "", "is_expired": 0,
                "is_abolished": 0, "relation": "[]", **dates,
                "attachment": [{"id": number, "name": name, "type": "doc", "mime": "", "size": "12",
                                "url": f"{base}{self.prefix}/attachment/0/{number}/{number}/{one.id}.doc"}
                               for number, name in enumerate(one.attachments, start=7)]}

    def _title(self, one: Doc) -> str:
        match self.switches.titles:
            case "escaped":
                return "".join(char if char.isascii() else f"%u{ord(char):04X}" for char in one.title)
            case "marked":
                return html.escape(one.title[:4]) + "<br/>" + html.escape(one.title[4:])
        return one.title

    def _page(self, one: Doc) -> Answer:
        charset = {"utf-8": "utf-8", "gb2312": "gb2312", "unsaid": "", "lying": "utf-8"}[self.switches.charset]
        meta = f'<meta charset="{charset}">' if charset else ""
        body = f"<p>{one.text}</p>" * 4
        detail = json.dumps({"id": one.id, "content": body}).replace("<", "\\u003C")
        shown = f'<div class="article-content">{body}</div>' if self.switches.content == "page" else ""
        links = "".join(f'<a class="nfw-cms-attachment" href="{self.prefix}/attachment/0/{number}/{number}/{one.id}.doc">'
                        f"{name}</a>" for number, name in enumerate(one.attachments, start=7))
        text = (
            f"<html><head>{meta}<title>{one.title}</title><script>window._CONFIG = {{ DETAIL: {detail}, now: new Date() }};"
            f'</script></head><body><h1 class="title">{one.title}</h1><div class="classify"><table><tr><td><label>索 引 号：'
            f"</label><span>1144/{one.id}</span></td><td><label>发布日期：</label><span>2026-07-07</span></td></tr></table></div>"
            f"{shown}{links}</body></html>")
        raw = text.encode("utf-8" if self.switches.charset == "utf-8" else "gb18030")
        kind = {"unsaid": "text/html", "gb2312": "text/html; charset=gb2312"}.get(self.switches.charset, _HTML)
        return Answer(200, raw, {"Content-Type": kind})


class GkmlptHost(Site):
    """A host that carries gkmlpt sites below their prefixes, the longest one that fits first."""

    def __init__(self, name: str = "gkmlpt", host: str | None = None, *sites: GkmlptSite, robots: str | None = None) -> None:
        super().__init__(name, host, {}, robots=robots)
        self.sites = list(sites)
        #: path → what stands there besides, such as targets of `type=url` rows
        self.extra: dict[str, Answer] = {}

    def _found(self, path: str) -> Answer:
        parts = urlsplit(path)
        if parts.path == "/robots.txt":
            return _NOT_FOUND if self.robots is None else Answer(200, self.robots.encode(), {"Content-Type": "text/plain"})
        if parts.path in self.extra:
            return self.extra[parts.path]
        if parts.path.startswith("/jsonp/site/"):
            return self._search(parts.path.rpartition("/")[2], parse_qs(parts.query))
        for site in sorted(self.sites, key=lambda site: -len(site.prefix)):
            if parts.path.startswith(f"{site.prefix}/gkmlpt/"):
                return site.answer(parts.path.removeprefix(site.prefix), parts.query, self.base_url)
        return _NOT_FOUND

    def answer(self, path: str, if_none_match: str | None = None) -> Answer:
        """Return what the platform answers; failures and fixed answers of a demo site come first."""
        answer = super().answer(path, if_none_match)
        return self._found(path) if answer.status == 404 and answer.body.startswith(b"<h1>404 Not") else answer

    def _search(self, sid: str, asked: dict[str, list[str]]) -> Answer:
        if "callback" not in asked:
            return Answer(200, b'{"errcode":-1}', {"Content-Type": _JSON})
        number, word = int(asked.get("page", ["1"])[0]), asked.get("text", [""])[0]
        found = [one for site in self.sites if site.sid == sid for one in site.docs().values() if word in one.title]
        rows = [{"id": one.id, "title": one.title.replace(word, f"<em>{word}</em>"), "attachment": "[]",
                 "pub_time": "2026-07-07"} for one in found] if number == 1 else []
        text = f"{asked['callback'][0]}({json.dumps({'results': rows, 'total': len(found)})})"
        return Answer(200, text.encode(), {"Content-Type": "application/javascript"})


def _disturbed(answer: Answer, trouble: Trouble) -> Answer:
    match trouble:
        case "cut":
            return Answer(200, answer.body[: max(1, len(answer.body) * 2 // 3)], {"Content-Type": _JSON})
        case "schema":
            return Answer(200, b'{"errcode":-1,"msg":"error"}', {"Content-Type": _JSON})
        case "maintenance":
            return Answer(200, "<html><body><h1>系统升级</h1></body></html>".encode(), {"Content-Type": _HTML})
        case "phrase":
            return Answer(200, "<html><body>访问过于频繁</body></html>".encode(), {"Content-Type": _HTML})
        case "500" | "403":
            return Answer(int(trouble), b"<html><body>error</body></html>", {"Content-Type": _HTML})
        case "reset":
            return Answer(0, b"")
    return answer


def insert(number: int, column: int) -> Callable[[GkmlptSite], None]:
    """A change between two answers: a document is published."""
    return lambda site: site.columns[column].insert(0, doc(number))


def delete(position: int, column: int) -> Callable[[GkmlptSite], None]:
    """A change between two answers: a document is taken down."""
    return lambda site: site.columns[column].pop(position) and None if position < len(site.columns[column]) else None


def nothing(site: GkmlptSite) -> None:
    """No change between two answers."""
