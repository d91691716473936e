"""The signs of a firewall, as data (rule C1); `tasks.pipeline.waf` says what the columns mean.

The order is the order of trust in the kind: a challenge that carries a status of its own is a challenge first.
"""

from __future__ import annotations

from typing import Any

#: a page whose reader sees more characters than this is no block page
SHORT_TEXT = 600

#: what firewalls and limiters tell a visitor; each counts only on a short page that lacks the expected content
PHRASES = (
    "访问过于频繁", "访问太频繁", "访问频繁", "操作过于频繁", "请求过于频繁", "请输入验证码", "安全验证", "人机验证",
    "滑动验证", "检测到有异常请求", "检测到异常访问", "您的访问被拦截", "您的访问被阻断", "您的请求被拦截", "访问被拒绝",
    "您的请求可能存在威胁", "请求存在威胁", "网站防火墙", "当前访问疑似", "您的ip", "too many requests",
    "unusual traffic", "rate limit", "request blocked", "access denied", "verify you are human",
)

#: what only the block pages of firewalls name; each counts only on a short page that lacks the expected content
FIREWALLS = (
    "errors.aliyun.com", "wangshan.360.cn", "wzws-waf-cgi", "bbs.yundun.com", "waf.tencent.com",
    "hwclouds.com/waf", "yunjiasu-nginx", "wangsu.com/waf", "security.anquanbao",
)

TABLE: tuple[dict[str, Any], ...] = (
    # --- a browser is asked for: waiting ten minutes does not help ---
    {"name": "river_412", "kind": "js_challenge", "statuses": {412}, "any_of": ["<script"]},
    {"name": "river_202", "kind": "js_challenge", "statuses": {202, 200}, "all_of": ["$_ts", "<script"],
     "lacks_content": True, "max_text": SHORT_TEXT},
    {"name": "jiasule_521", "kind": "js_challenge", "statuses": {521}, "any_of": ["<script"],
     "without_headers": ["cf-ray"], "max_text": 120},
    {"name": "cloudflare_header", "kind": "js_challenge", "headers": {"cf-mitigated": "challenge"}},
    {"name": "cloudflare_page", "kind": "js_challenge", "statuses": {403, 503},
     "all_of": ["/cdn-cgi/challenge-platform"], "any_of": ["just a moment", "_cf_chl_opt"]},
    {"name": "edgeone_cookie", "kind": "js_challenge", "statuses": {200}, "all_of": ["eo_bot_ssid", "__tst_status"],
     "max_body": 5_000, "lacks_content": True},
    {"name": "aliyun_cookie", "kind": "js_challenge", "statuses": {200}, "all_of": ["var arg1=", "<script"],
     "lacks_content": True, "max_text": SHORT_TEXT},
    {"name": "wzws_challenge", "kind": "js_challenge", "statuses": {200}, "all_of": ["wzwschallenge", "<script"],
     "lacks_content": True, "max_text": SHORT_TEXT},
    {"name": "yunsuo_cookie", "kind": "js_challenge", "cookie": "^yunsuo_session_verify$", "lacks_content": True,
     "any_of": ["security_verify_data"]},
    {"name": "yunsuo_redirect", "kind": "js_challenge", "location": r"[?&]security_verify_data="},
    # --- the answer to haste ---
    {"name": "status_405", "kind": "rate", "statuses": {405}},
    {"name": "status_412", "kind": "rate", "statuses": {412}},
    {"name": "status_418", "kind": "rate", "statuses": {418}},
    {"name": "status_429", "kind": "rate", "statuses": {429}},
    {"name": "status_567", "kind": "rate", "statuses": {567}},
    {"name": "bare_503", "kind": "rate", "statuses": {503}, "max_body": 600, "max_text": 120,
     "any_of": ["service temporarily unavailable", "service unavailable"]},
    {"name": "empty_503", "kind": "rate", "statuses": {503}, "max_body": 0},
    {"name": "asked_to_wait_503", "kind": "rate", "statuses": {503}, "headers": {"retry-after": ""}},
    {"name": "captcha_redirect", "kind": "rate",
     "location": r"(?i)^https?://([^/]*/(captcha|sorry|verify|antispider|wafcaptcha)([/?.]|$)|(waf\.tencent\.com|sec\.[^/]+\.[^/]+)/)"},
    {"name": "safedog_page", "kind": "rate", "all_of": ["safedogsite"], "max_text": SHORT_TEXT, "lacks_content": True},
    {"name": "named_firewall", "kind": "rate", "statuses": {200, 403}, "any_of": FIREWALLS, "max_text": SHORT_TEXT,
     "lacks_content": True},
    {"name": "known_phrase", "kind": "rate", "statuses": {200}, "any_of": PHRASES, "max_text": SHORT_TEXT,
     "lacks_content": True},
    {"name": "answered_403", "kind": "rate", "statuses": {403}, "after_answer": True, "is_lone_403": True},
    {"name": "cookie_loop", "kind": "cookie_loop", "sign": "loop", "cookie": "."},
    # --- weak: two in a row ---
    {"name": "other_403", "kind": "rate", "statuses": {403}, "sure": False},
    {"name": "other_503", "kind": "rate", "statuses": {503}, "sure": False},
    {"name": "reset", "kind": "reset", "sign": "reset", "after_word": True, "sure": False},
    {"name": "twin_body", "kind": "rate", "sign": "twin", "sure": False},
)
