"""Texts and pages of the demo site: always the same for the same article, in Chinese and English."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, timedelta
from html import escape

_FIRST_DAY = date(2025, 1, 1)
_SUBJECTS = ("公共交通", "河道治理", "教育经费", "老旧小区改造", "食品安全", "人才引进", "绿化养护", "数据开放")
_KINDS = ("通知公告", "实施方案", "征求意见稿", "结果公示", "工作简报")
_SENTENCES = (
    "为进一步规范管理，经研究决定，现将有关事项通知如下。",
    "各有关单位应当按照职责分工，认真组织落实，确保各项措施按期完成。",
    "本办法自发布之日起施行，有效期五年，由主管部门负责解释。",
    "公示期间如有异议，请以书面形式向办公室反映，并留下联系方式。",
    "本次工作共投入资金若干万元，惠及居民数千户，群众满意度明显提高。",
    "The office publishes this notice in two languages so that residents of every district can follow the plan.",
    "Work on the embankment starts in spring and ends before the season of heavy rain; footpaths stay open meanwhile.",
    "Comments may be handed in at the counter or sent by letter; every comment is answered within thirty days.",
)


def title(column: str, number: int) -> str:
    """Return the title of article `number` of `column`."""
    draw = random.Random(f"{column}/{number}")
    return f"关于{draw.choice(_SUBJECTS)}的{draw.choice(_KINDS)} No. {number} ({column})"


def day(number: int) -> date:
    """Return the publication date of article `number`: one a day."""
    return _FIRST_DAY + timedelta(days=number)


def paragraphs(column: str, number: int) -> list[str]:
    """Return the paragraphs of an article; the first one names it, so no two articles are alike."""
    draw = random.Random(f"{column}/{number}")
    return [f"{title(column, number)}。", *("".join(draw.sample(_SENTENCES, 4)) for _ in range(3))]


def article_page(column: str, number: int, charset: str) -> str:
    """Return the HTML of an article."""
    body = "\n".join(f"<p>{escape(text)}</p>" for text in paragraphs(column, number))
    return _page(title(column, number), charset, (
        f'<h1>{escape(title(column, number))}</h1>\n<span class="date">{day(number).isoformat()}</span>\n'
        f'<article class="content">\n{body}\n</article>\n<p><a href="index_1.html">返回</a></p>'))


def list_page(
    column: str, numbers: Sequence[int], pinned: Sequence[int], page: int, pages: int, charset: str
) -> str:
    """Return the HTML of list page `page` of `pages` with `pinned` rows above `numbers`."""
    rows = [_row(column, number, "item pinned") for number in pinned] + [_row(column, number, "item") for number in numbers]
    following = f'<a class="next" href="index_{page + 1}.html">下一页</a>' if page < pages else ""
    listing = "\n".join(rows)
    return _page(column, charset, f'<ul class="list">\n{listing}\n</ul>\n<p>第 {page} / {pages} 页 {following}</p>')


def front_page(name: str, columns: Sequence[str], charset: str) -> str:
    """Return the HTML of the site's first page."""
    links = "\n".join(f'<li><a href="/{column}/index_1.html">{escape(column)}</a></li>' for column in columns)
    return _page(name, charset, f"<h1>{escape(name)}</h1>\n<ul>\n{links}\n</ul>")


def _row(column: str, number: int, classes: str) -> str:
    return (f'<li class="{classes}"><a href="art_{number}.html">{escape(title(column, number))}</a>'
            f'<span class="date">{day(number).isoformat()}</span></li>')


def _page(name: str, charset: str, body: str) -> str:
    return (f'<!DOCTYPE html>\n<html lang="zh"><head><meta charset="{charset}"><title>{escape(name)}</title></head>\n'
            f"<body>\n{body}\n</body></html>\n")
