from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from config.clock import monotonic
from tasks.pipeline.waf import RULES, Memory, Rule, Seen, judge

HOST = "www.example.org"
URL = f"http://{HOST}/a/1.html"
FRESH = Memory()
ANSWERED = Memory(answered=frozenset({HOST}))
LONG = "<p>" + "各有关单位请遵照执行。" * 200 + "</p>"


def seen(status: int | None, body: str = "", **more: Any) -> Seen:
    return Seen(URL, HOST, status, body=body, **more)


SURE = [
    ("river_412", "js_challenge", seen(412, "<html><script>$_ts={}</script>"), FRESH),
    ("river_202", "js_challenge", seen(202, "<script>var $_ts=window['$_ts'];</script>"), FRESH),
    ("jiasule_521", "js_challenge", seen(521, "<script>document.cookie='__jsl_clearance'</script>"), FRESH),
    ("cloudflare_header", "js_challenge", seen(403, "", headers={"cf-mitigated": "challenge"}), ANSWERED),
    ("cloudflare_page", "js_challenge", seen(503, "<title>Just a moment...</title><script src=/cdn-cgi/challenge-platform/x>"), FRESH),
    ("edgeone_cookie", "js_challenge", seen(200, "<script>EO_Bot_Ssid=1;__tst_status=2</script>"), FRESH),
    ("aliyun_cookie", "js_challenge", seen(200, "<html><script>var arg1='3A8F';</script></html>"), FRESH),
    ("wzws_challenge", "js_challenge", seen(200, "<script>var wzwschallenge='x'</script>"), FRESH),
    ("yunsuo_cookie", "js_challenge", seen(200, "<script>security_verify_data</script>", cookies=("yunsuo_session_verify",)), FRESH),
    ("yunsuo_redirect", "js_challenge", seen(302, location="http://h/?security_verify_data=31"), FRESH),
    ("status_405", "rate", seen(405, LONG), FRESH),
    ("status_412", "rate", seen(412, '{"code":-412}'), FRESH),
    ("status_418", "rate", seen(418), FRESH),
    ("status_429", "rate", seen(429, LONG), FRESH),
    ("status_567", "rate", seen(567), FRESH),
    ("bare_503", "rate", seen(503, "<center><h1>503 Service Temporarily Unavailable</h1></center><hr>nginx"), FRESH),
    ("empty_503", "rate", seen(503), FRESH),
    ("asked_to_wait_503", "rate", seen(503, LONG, headers={"retry-after": "5"}), FRESH),
    ("captcha_redirect", "rate", seen(302, location="http://h.org/captcha?from=1"), FRESH),
    ("safedog_page", "rate", seen(200, "<img src=http://safedogsite/x>"), FRESH),
    ("named_firewall", "rate", seen(403, "<h1>403</h1><img src=//errors.aliyun.com/images/x.png>"), FRESH),
    ("known_phrase", "rate", seen(200, "<h1>访问过于频繁，请稍后再试</h1>"), FRESH),
    ("answered_403", "rate", seen(403, "no"), ANSWERED),
    ("cookie_loop", "cookie_loop", seen(302, sign="loop", cookies=("c",)), FRESH),
]


@pytest.mark.parametrize(("name", "kind", "what", "memory"), SURE, ids=[row[0] for row in SURE])
def test_one_sure_sign_is_a_block(name: str, kind: str, what: Seen, memory: Memory) -> None:
    verdict = judge(what, memory)
    assert verdict is not None
    assert (verdict.rule, verdict.kind, verdict.is_block) == (name, kind, True)


@pytest.mark.parametrize(("name", "kind", "what", "memory"), SURE, ids=[row[0] for row in SURE])
def test_a_rule_that_is_switched_off_does_not_speak(name: str, kind: str, what: Seen, memory: Memory) -> None:
    verdict = judge(what, memory, frozenset({name}))
    assert verdict is None or name not in verdict.signs


WEAK = [
    ("other_403", "rate", seen(403, "no"), FRESH),
    ("other_503", "rate", seen(503, LONG), FRESH),
    ("reset", "reset", seen(None, sign="reset"), ANSWERED),
    ("twin_body", "rate", seen(200, LONG, sign="twin", has_expected=True), ANSWERED),
]


@pytest.mark.parametrize(("name", "kind", "what", "memory"), WEAK, ids=[row[0] for row in WEAK])
def test_a_weak_sign_is_a_block_only_in_a_row(name: str, kind: str, what: Seen, memory: Memory) -> None:
    first = judge(what, memory)
    assert first is not None
    assert (first.rule, first.is_block) == (name, False)
    second = judge(what, memory.after(what, first))
    assert second is not None
    assert (second.rule, second.kind, second.is_block, second.signs) == (name, kind, True, (name, name))


@pytest.mark.parametrize(("name", "kind", "what", "memory"), WEAK, ids=[row[0] for row in WEAK])
def test_an_answer_between_them_ends_the_row(name: str, kind: str, what: Seen, memory: Memory) -> None:
    remembered = memory.after(what, judge(what, memory))
    good = Seen("http://other.org/", "other.org", 200, body=LONG, has_expected=True)
    remembered = remembered.after(good, judge(good, remembered))
    again = judge(what, remembered)
    assert again is not None
    assert not again.is_block


def test_a_503_with_a_page_of_its_own_is_not_bare() -> None:
    verdict = judge(seen(503, "<h1>Service Unavailable</h1>" + LONG), FRESH)
    assert verdict is not None
    assert (verdict.rule, verdict.is_block) == ("other_503", False)


def test_two_different_weak_signs_in_a_row_are_a_block() -> None:
    twin = seen(200, LONG, sign="twin", has_expected=True)
    refused = seen(503, LONG)
    verdict = judge(refused, ANSWERED.after(twin, judge(twin, ANSWERED)))
    assert verdict is not None
    assert verdict.signs == ("twin_body", "other_503")
    assert verdict.is_block


def test_every_rule_has_a_test_here_and_a_name_of_its_own() -> None:
    names = [rule.name for rule in RULES]
    assert sorted(names) == sorted([row[0] for row in SURE] + [row[0] for row in WEAK])
    assert len(set(names)) == len(names)


INNOCENT = {
    "a long page that merely speaks of it": seen(200, "<p>访问过于频繁</p>" + LONG),
    "a short page with its content": seen(200, "<div>关于安全验证的通知</div>", has_expected=True),
    "a short legal page": seen(200, "<p>版权所有。未经许可，不得转载。</p>"),
    "a contact form with reCAPTCHA": seen(
        200, "<form><script src='https://www.google.com/recaptcha/api.js'></script><input name=mail></form>"
    ),
    "an article about a firewall's cookie": seen(200, "<script>1</script>var arg1='x'; acw_sc__v2" + LONG, has_expected=True),
    "a firewall's cookie on a good page": seen(200, LONG, cookies=("yunsuo_session_verify", "HWWAFSESID"), has_expected=True),
    "a phrase in a script of a short page": seen(200, "<p>停机通知</p>", has_expected=False),
    "not found": seen(404, "<h1>404</h1>"),
    "gone": seen(410),
    "an origin error behind a CDN": seen(521, "<h1>Web server is down</h1>"),
    "a server error": seen(500, "<h1>访问被拒绝</h1>"),
    "a good page behind Cloudflare": seen(200, LONG + "<script src=/cdn-cgi/challenge-platform/x>just a moment", has_expected=True),
    "a reset at first contact": seen(None, sign="reset"),
    "a redirect that goes in a circle without a cookie": seen(302, sign="loop"),
    "a redirect to an article about verification": seen(302, location="http://h.org/news/verification.html"),
    "a server error that speaks of the service": seen(500, "<h1>Service Unavailable</h1>"),
    "a redirect within the captcha pages": Seen("http://h.org/captcha/old", "h.org", 301, location="http://h.org/captcha/new"),
}


@pytest.mark.parametrize("what", INNOCENT.values(), ids=INNOCENT.keys())
def test_innocent(what: Seen) -> None:
    assert judge(what, FRESH) is None


def test_a_host_whose_robots_txt_answered_has_spoken_but_not_about_its_pages() -> None:
    heard = Memory(heard=frozenset({HOST}))
    for what, rule in ((seen(None, sign="reset"), "reset"), (seen(403), "other_403")):
        verdict = judge(what, heard)
        assert verdict is not None
        assert (verdict.rule, verdict.is_block) == (rule, False)


def test_a_lone_403_is_weak_on_a_target_with_a_forbidden_item() -> None:
    verdict = judge(seen(403), Memory(answered=frozenset({HOST}), lone_403_is_weak=True))
    assert verdict is not None
    assert (verdict.rule, verdict.is_block) == ("other_403", False)


def test_a_site_can_have_rules_of_its_own_which_are_asked_first() -> None:
    own = Rule(name="own", kind="js_challenge", statuses=frozenset({200}), any_of=("请完成拼图",))
    verdict = judge(seen(200, "<p>请完成拼图</p>"), FRESH, extra=(own,))
    assert verdict is not None
    assert (verdict.rule, verdict.kind) == ("own", "js_challenge")


def test_a_rule_with_an_unknown_word_is_refused() -> None:
    with pytest.raises(ValidationError, match="statutes"):
        Rule.model_validate({"name": "x", "kind": "rate", "statutes": [403]})


def test_what_a_reader_sees_is_measured_without_scripts_and_tags() -> None:
    assert seen(200, "<style>p{}</style><script>var a='长';</script><!-- x --><p>短 文</p>").text_length == 2
    assert seen(200, "<p>短</p><!-- never closed").text_length == 1


def test_a_hostile_page_is_measured_in_no_time() -> None:
    before = monotonic()
    for piece in ("<!--", "<script>", "<", "<style "):
        assert seen(200, piece * 200_000).text_length >= 0
    assert monotonic() - before < 5
