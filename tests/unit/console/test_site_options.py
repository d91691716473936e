"""What a file says of a site itself: identity, secrets by reference, proxy, its firewall's rules (rules P1, C1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.errors import BadInput
from console.sites_file import SitesFile, read_sites_file

HEAD = """\
sites:
  - site_code: town
    base_url: http://www.town.test
    cms_adapter: list
"""
TARGET = "    targets: [{target_code: news, options: {list_url: /n/, item: li, link: a@href}}]\n"


def read(folder: Path, *lines: str) -> SitesFile:
    (folder / "sites.yaml").write_text(HEAD + "".join(f"    {line}\n" for line in lines) + TARGET, encoding="utf-8")
    return read_sites_file(folder / "sites.yaml")


def refused(folder: Path, *lines: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        read(folder, *lines)
    return [line.removeprefix(f"{folder}/sites.yaml:") for line in str(caught.value).splitlines()]


def test_everything_a_site_can_say_is_stored_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOWN_TOKEN", "TOWN_USER", "TOWN_PASSWORD", "PROXY_PASSWORD"):
        monkeypatch.setenv(name, "hush-hush")
    found = read(
        tmp_path, 'headers: {Authorization: "Bearer ${TOWN_TOKEN}", X-Kind: A}', 'cookies: {lang: zh, session: "${TOWN_TOKEN}"}',
        'proxy: "http://reader:${PROXY_PASSWORD}@proxy.test:3128"', 'basic_auth: {user: "${TOWN_USER}", password: "${TOWN_PASSWORD}"}',
        "legacy_tls: true", "waf_off: [status_405]",
        "waf_extra: [{name: puzzle, kind: js_challenge, statuses: [200], any_of: [请完成拼图], lacks_content: true, max_text: 300}]",
        "own_addresses: [10.0.0.7, '[fd00::1]']",
    )
    assert found.sites[0].options == {
        "headers": {"Authorization": "Bearer ${TOWN_TOKEN}", "X-Kind": "A"},
        "cookies": {"lang": "zh", "session": "${TOWN_TOKEN}"}, "proxy": "http://reader:${PROXY_PASSWORD}@proxy.test:3128",
        "basic_auth": {"user": "${TOWN_USER}", "password": "${TOWN_PASSWORD}"}, "legacy_tls": True,
        "waf_off": ["status_405"], "own_addresses": ["10.0.0.7", "fd00::1"],
        "waf_extra": [{"name": "puzzle", "kind": "js_challenge", "statuses": [200], "any_of": ["请完成拼图"],
                       "lacks_content": True, "max_text": 300}],
    }
    assert found.warnings == ()
    assert "hush" not in repr(found)


def test_a_variable_that_is_not_set_here_is_a_note_and_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOWN_TOKEN", raising=False)
    (note,) = read(tmp_path, 'headers: {X-Api-Key: "${TOWN_TOKEN}"}').warnings
    assert note.endswith("sites.yaml:5: sites[0].headers: the environment variable TOWN_TOKEN is not set here; the workers need it")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("basic_auth: {user: ann, password: opensesame}", "5: sites[0].basic_auth.password: is a secret: put it into the environment and write ${NAME} in its place"),
        ("basic_auth: {user: ann}", "5: sites[0].basic_auth.password: is required"),
        ("basic_auth: 'ann:opensesame'", "5: sites[0].basic_auth: must be a mapping"),
        ("basic_auth: {user: 'a:b', password: '${P}'}", "5: sites[0].basic_auth.user: must not hold a colon"),
        ("headers: {Authorization: Bearer opensesame}", "5: sites[0].headers.Authorization: is a secret: put it"),
        ("headers: {X-Access-Token: opensesame}", "5: sites[0].headers.X-Access-Token: is a secret: put it"),
        ("headers: 'X-Token: opensesame'", "5: sites[0].headers: must be a mapping"),
        ("headers: {X-Key: '${}'}", "5: sites[0].headers.X-Key: ${} names no environment variable"),
        ("headers: {X-Key: '${9X}'}", "5: sites[0].headers.X-Key: ${9X} names no environment variable"),
        ("headers: {X-Key: '${OPEN'}", "5: sites[0].headers.X-Key: begins a ${ that nothing ends"),
        ("headers: {Cookie: a=b}", "5: sites[0].headers.Cookie: has a key of its own: `cookies`"),
        ("headers: {User-Agent: x}", "5: sites[0].headers.User-Agent: has a key of its own: `user_agent`"),
        ("headers: {Host: x}", "5: sites[0].headers.Host: is not the file's to choose"),
        ("headers: {X-Town: 市}", "5: sites[0].headers.X-Town: must be ASCII"),
        ("cookies: {session: opensesame}", "5: sites[0].cookies.session: is a secret: put it"),
        ("cookies: {lang: 'zh; path=/'}", "5: sites[0].cookies.lang: must not hold a semicolon"),
        ("proxy: proxy.test:3128", "5: sites[0].proxy: must be http://host:port or https://host:port"),
        ("proxy: 'socks5://proxy.test'", "5: sites[0].proxy: must be http://host:port or https://host:port"),
        ("proxy: 'http://ann:opensesame@proxy.test'", "5: sites[0].proxy: holds a password in the clear: put it into the environment"),
        ("legacy_tls: yes", "5: sites[0].legacy_tls: must be true or false (is the text 'yes')"),
        ("waf_off: [status_450]", "5: sites[0].waf_off[0]: no rule is called 'status_450'; did you mean status_405?"),
        ("own_addresses: [10.0.0.0/8]", "5: sites[0].own_addresses[0]: must be one IP address (is '10.0.0.0/8')"),
        ("own_addresses: [8.8.8.8]", "5: sites[0].own_addresses[0]: is a public address"),
        ("user_agents: x", "5: sites[0].user_agents: is no known key; did you mean user_agent?"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_without_the_secret(tmp_path: Path, line: str, problem: str) -> None:
    found = refused(tmp_path, line)
    assert found[0].startswith(problem)
    assert "opensesame" not in "".join(found)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("{name: x}", "6: sites[0].waf_extra[0].kind: is required"),
        ("{name: x, kind: rude, statuses: [444]}", "6: sites[0].waf_extra[0].kind: input should be 'rate', 'js_challenge'"),
        ("{name: x, kind: rate, statutes: [444]}", "6: sites[0].waf_extra[0].statutes: is no known key; did you mean statuses?"),
        ("{name: x, kind: rate, location: '['}", "6: sites[0].waf_extra[0].location: is no regular expression"),
        ("{name: status_405, kind: rate, statuses: [444]}", "6: sites[0].waf_extra[0]: a rule is called status_405 already"),
        ("{name: x, kind: rate}", "6: sites[0].waf_extra[0]: names no sign"),
        ("{name: x, kind: rate, cookie: HWWAFSESID}", "6: sites[0].waf_extra[0]: a cookie alone is no sign"),
        ("{name: x, kind: rate, any_of: [验证码]}", "6: sites[0].waf_extra[0]: a word alone is no sign"),
        ("{name: x, kind: rate, statuses: [200], any_of: [验证码], max_text: 100}", "6: sites[0].waf_extra[0]: a word alone is no sign"),
        ("rate", "6: sites[0].waf_extra[0]: input should be a valid dictionary"),
    ],
)
def test_a_rule_of_the_sites_own_is_judged_at_its_line(tmp_path: Path, rule: str, problem: str) -> None:
    assert refused(tmp_path, "waf_extra:", f"  - {rule}")[0].startswith(problem)


def test_credentials_in_the_address_are_refused_without_being_told(tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text(HEAD.replace("http://www", "http://ann:opensesame@www"))
    with pytest.raises(BadInput, match=r"3: sites\[0\].base_url: must not hold a user or a password") as caught:
        read_sites_file(tmp_path / "sites.yaml")
    assert "opensesame" not in str(caught.value)


@pytest.mark.parametrize("host", ["http://static.town.test", "Static.town.test", "static.town.test/a", "*", "static.town.test:80"])
def test_an_allowed_host_is_a_host_as_the_crawl_writes_it(tmp_path: Path, host: str) -> None:
    text = HEAD + TARGET.replace("link: a@href", f"link: a@href, allowed_hosts: ['{host}']")
    (tmp_path / "sites.yaml").write_text(text)
    with pytest.raises(BadInput, match=r"allowed_hosts\[0\]: must be a host in lower case, such as static.example.org"):
        read_sites_file(tmp_path / "sites.yaml")
