"""Row by row: what firewalls were seen to answer, as whole responses, and what the crawl makes of each (rule C1).

``sure`` is a block at once, ``weak`` one if another weak sign follows, ``none`` is the site's own business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from config.errors import HostCooldown
from tasks.pipeline.fetcher import FetchFailed
from tasks.pipeline.firewall import Firewall
from tasks.pipeline.page import FetchedPage
from tests.support.crawl_ports import target

SITE = "http://www.town.test"
ASKED = f"{SITE}/news/1.html"
TEXT = "各有关单位：现将有关事项通知如下，请认真贯彻执行。" * 40
HTML, JSON = "text/html; charset=utf-8", "application/json"
NGINX = "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"


@dataclass(frozen=True)
class Met:
    """An answer, and whether the host answered before and the page holds what was expected."""

    status: int
    body: str | bytes = ""
    headers: dict[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()
    location: str = ""
    hops: tuple[str, ...] = ()
    after_answer: bool = False
    has_expected: bool = False
    kind: str = HTML

    def page(self, url: str = ASKED) -> FetchedPage:
        raw = self.body if isinstance(self.body, bytes) else self.body.encode()
        set_cookie = {"set-cookie": ", ".join(f"{name}=x1y2z3; Path=/" for name in self.cookies)} if self.cookies else {}
        headers = {"content-type": self.kind} | self.headers | set_cookie
        return FetchedPage(url, url, self.status, headers, raw, self.hops, self.cookies, self.location)


def good(**more: Any) -> Met:
    return Met(200, f"<html><body><h1>通知</h1><div class=content>{TEXT}</div></body></html>", has_expected=True, **more)


ALIYUN_405 = (
    '<!doctypehtml><html lang="zh-cn"><title>405</title><div class="message">很抱歉，由于您访问的URL有可能对网站造成安全威胁，您的访问被阻断。'
    "Sorry, your request has been blocked as it may cause potential threats to the server's security.</div>"
    '<img src="https://errors.aliyun.com/images/TB1TpamHpXXXXaJXXXXeB7nYVXX-104-162.png"></html>')
RIVER = (
    '<!DOCTYPE html><html><head><meta http-equiv="Content-Type" content="text/html; charset=utf-8"><meta id="eR5" content="x">'
    "<script type=\"text/javascript\">$_ts=window['$_ts'];if(!$_ts)$_ts={};$_ts.nsd=8121;</script>"
    '<script type="text/javascript" charset="iso-8859-1" src="/4QbVtADbnLVIc/c.FxJzG50F.js" r="m"></script></head><body></body></html>')
JIASULE = "<script>document.cookie=('_')+('_')+('j')+('s')+('l')+('_clearance_s=1793.1|-1|x;Max-age=3600');location.href=location.pathname+location.search</script>"
CF_521 = (
    "<!DOCTYPE html><html><head><title>www.town.test | 521: Web server is down</title></head><body><h1>Web server is down</h1>"
    "<span>Error code 521</span><p>The web server is not returning a connection. As a result, the web page is not displaying.</p>"
    "<script>(function(){function d(){var b=a.getElementById('cf-footer-item-ip')}})();</script></body></html>")
CHALLENGE = (
    '<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title></head><body><noscript>Enable JavaScript and cookies to '
    "continue</noscript><script>(function(){window._cf_chl_opt={cvId:'3'};var a=document.createElement('script');"
    "a.src='/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1';})();</script></body></html>")
EDGEONE = "<html><head><script>var EO_Bot_Ssid=2886729728;document.cookie='__tst_status='+(1+2)+'#;';document.cookie='EO_Bot_Ssid='+EO_Bot_Ssid;location.reload()</script></head></html>"
ACW = "<html><script>\nvar arg1='3A9E6B0F';var _0x4818=['\\x63'];setTimeout(function(){document.cookie='acw_sc__v2='+x;location.reload()},2);</script></html>"
YUNSUO = "<script>function go(){location='/?security_verify_data='+s;}setTimeout('go()',50)</script>"
SAFEDOG = '<html><body><a href="http://bbs.safedog.cn">网站防火墙</a><img src="http://404.safedog.cn/safedogsite/broswer_logo.jpg"></body></html>'
APACHE_403 = '<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN"><html><head><title>403 Forbidden</title></head><body><h1>Forbidden</h1><p>You don\'t have permission to access this resource.</p></body></html>'
CF_1015 = "<html><title>Access denied | www.town.test used Cloudflare to restrict access</title><h1>Error 1015</h1><h2>You are being rate limited</h2></html>"

SURE = [
    ("403 from a host that answered: nginx deny", Met(403, NGINX.format("403 Forbidden"), after_answer=True), "rate"),
    ("403 from a host that answered: ModSecurity", Met(403, APACHE_403, after_answer=True), "rate"),
    ("403 that names its firewall, at first contact", Met(403, ALIYUN_405), "rate"),
    ("405 of Aliyun", Met(405, ALIYUN_405, {"server": "Tengine"}), "rate"),
    ("412 with a script and cookies", Met(412, RIVER, cookies=("FSSBBIl1UgzbN7N80S", "FSSBBIl1UgzbN7N80T")), "js_challenge"),
    ("202 with the same script", Met(202, RIVER, cookies=("FSSBBIl1UgzbN7N80S",)), "js_challenge"),
    ("412 in JSON", Met(412, '{"code":-412,"message":"request was banned"}', kind=JSON), "rate"),
    ("418", Met(418, "I'm a teapot"), "rate"),
    ("429 of nginx", Met(429, NGINX.format("429 Too Many Requests"), {"retry-after": "60"}), "rate"),
    ("429 of an API", Met(429, '{"error":"slow down"}', kind=JSON, after_answer=True), "rate"),
    ("503 of nginx's limit_req", Met(503, NGINX.format("503 Service Temporarily Unavailable")), "rate"),
    ("503 that asks to wait", Met(503, f"<h1>维护中</h1>{TEXT}", {"retry-after": "120"}), "rate"),
    ("521 with Jiasule's script", Met(521, JIASULE, {"x-via-jsl": "f9a7b2c,-"}, ("__jsluid_h",)), "js_challenge"),
    ("567 of EdgeOne", Met(567, "<html><title>567</title></html>", {"server": "TencentEdgeOne"}, ("EO_Bot_Ssid",)), "rate"),
    ("200 with EdgeOne's cookie script", Met(200, EDGEONE, {"server": "TencentEdgeOne"}), "js_challenge"),
    ("200 with Aliyun's cookie script", Met(200, ACW, cookies=("acw_tc",)), "js_challenge"),
    ("200 with Yunsuo's script", Met(200, YUNSUO, cookies=("yunsuo_session_verify",)), "js_challenge"),
    ("200 with Safedog's page", Met(200, SAFEDOG, cookies=("safedog-flow-item",)), "rate"),
    ("200 with WZWS's script", Met(200, "<html><script>var wzwschallenge='x';eval(p)</script></html>", {"wzws-ray": "1"}), "js_challenge"),
    ("200 of Yundun's block page", Met(200, "<h1>拦截提示</h1><a href='http://bbs.yundun.com'>反馈</a>", {"server": "YUNDUN"}), "rate"),
    *[(f"200 that says {words}", Met(200, f"<html><body><h2>{words}，请稍后再试</h2></body></html>"), "rate")
      for words in ("访问过于频繁", "请输入验证码", "安全验证", "检测到有异常请求", "您的访问被拦截")],
    ("200 of an API that says so", Met(200, '{"msg":"访问频繁"}', kind=JSON), "rate"),
    ("403 challenge of Cloudflare", Met(403, CHALLENGE, {"cf-mitigated": "challenge", "server": "cloudflare", "cf-ray": "8f1"}), "js_challenge"),
    ("503 challenge without the header", Met(503, CHALLENGE, {"server": "cloudflare", "cf-ray": "8f1"}), "js_challenge"),
    ("challenge in another language", Met(403, CHALLENGE.replace("Just a moment...", "请稍候…"), {"cf-ray": "8f1"}), "js_challenge"),
    ("Cloudflare's 1015", Met(429, CF_1015, {"server": "cloudflare", "cf-ray": "8f1"}), "rate"),
]
SURE_HOPS = [
    ("to Yunsuo's check", "/?security_verify_data=313932302c31303830", "js_challenge"),
    *[(f"to {where}", where, "rate") for where in (
        "/captcha?from=%2Fnews%2F1.html", "/sorry/index?continue=x", "/verify/", "https://sec.town.test/b?r=x",
        "https://waf.tencent.com/403page?id=1", "/WafCaptcha")],
]
WEAK = [
    ("403 at first contact", Met(403, NGINX.format("403 Forbidden"))),
    ("503 with a page of its own", Met(503, f"<html><h1>Service Unavailable</h1><p>{TEXT}</p></html>")),
]
NONE = [
    *[(f"Cloudflare's {status} of a dead origin", Met(status, CF_521.replace("521", str(status)), {"server": "cloudflare", "cf-ray": "8f1"}))
      for status in (520, 521, 522, 523, 524)],
    ("a page of the site's own with 521", Met(521, f"<html><p>{TEXT}</p><script>track()</script></html>")),
    *[(f"a good page with the cookie {cookie}", good(cookies=(cookie,), headers={"server": "YUNDUN"})) for cookie in (
        "yunsuo_session_verify", "HWWAFSESID", "safedog-flow-item", "yd_cookie", "acw_tc", "__jsluid_h", "EO_Bot_Ssid")],
    ("a short page with such a cookie", Met(200, "<p>本栏目暂无内容。</p>", cookies=("yunsuo_session_verify", "HWWAFSESID"))),
    ("a contact form with a captcha", Met(200, f"<form>联系我们<div class=g-recaptcha></div><script src='https://www.google.com/recaptcha/api.js'></script></form><p>{TEXT}</p>")),
    ("a short contact form with a captcha", Met(200, "<form><input name=mail><script src='https://www.google.com/recaptcha/api.js'></script></form>")),
    ("a form whose field is a captcha", good(hops=(f"{SITE}/old",))),
    ("a tiny legal page", Met(200, "<html><body><p>京ICP备05000000号</p></body></html>")),
    ("a tiny legal page that was expected", Met(200, "<p>本规定自发布之日起施行。</p>", has_expected=True)),
    ("an article about verification", Met(200, "<h1>关于开展安全验证工作的通知</h1>", has_expected=True)),
    ("a long page that speaks of it", Met(200, f"<p>系统提示访问过于频繁</p><p>{TEXT}</p>")),
    ("a file", Met(200, b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", kind="application/pdf")),
    ("a picture", Met(200, b"\x89PNG\r\n\x1a\n\x00\x00", kind="image/png")),
    ("a packed file", Met(200, b"\x1f\x8b\x08\x00rate limit", kind="application/gzip")),
    ("an API's error code", Met(200, '{"code":-999,"data":null}', kind=JSON)),
    ("an API's other error code", Met(200, '{"errcode":-1}', kind=JSON)),
    ("an empty body", Met(200, "", {"content-length": "0"})),
    ("not found", Met(404, NGINX.format("404 Not Found"))),
    ("gone", Met(410)),
    ("a server error that speaks of it", Met(500, "<h1>访问被拒绝</h1>")),
    ("a bad gateway", Met(502, NGINX.format("502 Bad Gateway"), after_answer=True)),
    ("a good page with Cloudflare's script", good(headers={"cf-ray": "8f1"})),
    ("a good page that names a firewall", Met(200, f"<p>errors.aliyun.com {TEXT}</p>", has_expected=True)),
]
NO_HOPS = ["/news/verification.html", "/captchas-explained/", "https://sec.gov/news/1", "/login", "/news/1.html?v=2"]


def firewall(met: Met | None = None) -> Firewall:
    made = Firewall(target(SITE), lone_403_is_weak=False)
    if met is not None and met.after_answer:
        assert made.judge(good().page(f"{SITE}/list"), has_expected=True) is None
    return made


@pytest.mark.parametrize(("met", "kind"), [row[1:] for row in SURE], ids=[row[0] for row in SURE])
def test_a_sure_sign_is_a_block_with_evidence(met: Met, kind: str) -> None:
    with pytest.raises(HostCooldown) as caught:
        firewall(met).judge(met.page(), has_expected=met.has_expected)
    evidence = caught.value.evidence
    assert (evidence.kind, evidence.status, evidence.url) == (kind, met.status, ASKED)
    assert set(met.headers.items()) <= set(evidence.headers.items())
    assert all(f"{name}=***" in evidence.headers["set-cookie"] for name in met.cookies)
    assert met.page().text.startswith(evidence.body)


@pytest.mark.parametrize(("where", "kind"), [row[1:] for row in SURE_HOPS], ids=[row[0] for row in SURE_HOPS])
def test_a_redirect_to_a_check_is_a_block_before_it_is_followed(where: str, kind: str) -> None:
    location = where if where.startswith("http") else SITE + where
    with pytest.raises(HostCooldown) as caught:
        firewall().judge_hop(Met(302, location=location, hops=(f"{SITE}/n/1",)).page())
    assert (caught.value.evidence.kind, caught.value.evidence.hops) == (kind, (f"{SITE}/n/1", ASKED))


@pytest.mark.parametrize("met", [row[1] for row in WEAK], ids=[row[0] for row in WEAK])
def test_a_weak_sign_is_a_block_if_another_follows(met: Met) -> None:
    wall = firewall(met)
    verdict = wall.judge(met.page(), has_expected=False)
    assert verdict is not None
    assert not verdict.is_block
    with pytest.raises(HostCooldown):
        wall.judge(met.page(f"{SITE}/news/2.html"), has_expected=False)


@pytest.mark.parametrize("met", [row[1] for row in NONE], ids=[row[0] for row in NONE])
def test_what_is_no_sign_is_none_however_often_it_comes(met: Met) -> None:
    wall = firewall(met)
    for number in range(3):
        assert wall.judge(met.page(f"{SITE}/news/{number}.html"), has_expected=met.has_expected) is None


@pytest.mark.parametrize("where", NO_HOPS)
def test_other_redirects_are_no_sign(where: str) -> None:
    firewall().judge_hop(Met(302, location=where if where.startswith("http") else SITE + where).page())


def test_a_circle_with_a_cookie_is_a_block_and_one_without_is_none() -> None:
    hop = Met(302, cookies=("ct6t",), location=ASKED)
    with pytest.raises(HostCooldown) as caught:
        firewall().judge_failure(FetchFailed("loop", ASKED, "", hop.page()))
    assert caught.value.evidence.kind == "cookie_loop"
    firewall().judge_failure(FetchFailed("loop", ASKED, "", Met(302, location=ASKED).page()))


@pytest.mark.parametrize("kind", ["unreachable", "timeout", "truncated", "malformed"])
def test_a_host_that_nobody_reaches_is_no_block(kind: str) -> None:
    """Refused and timed-out connections are the network's: they back off as failures, not as pauses of ten minutes."""
    wall = firewall(good(after_answer=True))
    for _ in range(3):
        wall.judge_failure(FetchFailed(kind, ASKED, ""))


def test_resets_are_a_block_only_after_an_answer_and_only_two_in_a_row() -> None:
    cold, warm = firewall(), firewall(good(after_answer=True))
    reset = FetchFailed("reset", ASKED, "")
    for _ in range(3):
        cold.judge_failure(reset)
    warm.judge_failure(reset)
    with pytest.raises(HostCooldown) as caught:
        warm.judge_failure(reset)
    assert caught.value.evidence.kind == "reset"


@pytest.mark.parametrize("body", ["", f"<html><title>首页</title><p>{TEXT}</p></html>"], ids=["empty", "the home page"])
def test_one_body_for_every_article_is_a_block_at_the_third(body: str) -> None:
    wall = firewall()
    pages = [Met(200, body).page(f"{SITE}/news/{number}.html") for number in range(3)]
    assert wall.judge(pages[0], has_expected=bool(body), is_article=True) is None
    weak = wall.judge(pages[1], has_expected=bool(body), is_article=True)
    assert weak is not None
    assert (weak.rule, weak.is_block) == ("twin_body", False)
    with pytest.raises(HostCooldown):
        wall.judge(pages[2], has_expected=bool(body), is_article=True)


def test_a_weak_sign_and_another_kind_of_weak_sign_are_two_in_a_row() -> None:
    wall = firewall(good(after_answer=True))
    wall.judge_failure(FetchFailed("reset", ASKED, ""))
    with pytest.raises(HostCooldown) as caught:
        wall.judge(WEAK[1][1].page(), has_expected=False)
    assert caught.value.evidence.signs == ("reset", "other_503")
