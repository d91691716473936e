"""sites.yaml: what is accepted, and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.errors import BadInput
from console.sites_file import SitesFile, read_sites_file

GOOD = """\
defaults: {interval_sec: 7.5, track_checkpoint: false}
rate_groups:
  - {key: city-waf, host: "*.example-city.gov", adapter: "*"}
sites:
  - site_code: example
    name: Example city
    base_url: http://www.example-city.gov
    cms_adapter: list
    user_agent: "Reader/1 (mail@reader.test)"
    headers: {Accept-Language: zh-CN, X-Year: 2026}
    targets:
      - target_code: example_news
        name: News
        interval_sec: 0.5
        track_checkpoint: true
        enabled: true
        options:
          list_url: "/news/index_{page}.html"
          item: "ul.list li.item"
          link: "a@href"
      - target_code: example_law
        options: {list_url: /law/, item: li, link: a@href, max_pages: 50}
schedule:
  timezone: Asia/Shanghai
  entries: {snapshot: {at: 23:15}, snapshot_recent: {every: 1h}}
"""


def read(folder: Path, text: str) -> SitesFile:
    file = folder / "sites.yaml"
    file.write_text(text, encoding="utf-8")
    return read_sites_file(file)


def refused(folder: Path, text: str) -> list[str]:
    """Return the problems of a file, each without the folder."""
    with pytest.raises(BadInput) as caught:
        read(folder, text)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_a_good_file_becomes_sites_targets_rules_and_schedule(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert [site.site_code for site in found.sites] == ["example"]
    assert found.sites[0].options == {
        "user_agent": "Reader/1 (mail@reader.test)", "headers": {"Accept-Language": "zh-CN", "X-Year": "2026"},
    }
    assert [(rule.key, rule.host, rule.site) for rule in found.rules] == [("city-waf", "*.example-city.gov", "*")]
    assert found.schedule.timezone == "Asia/Shanghai"
    assert found.schedule.entries["snapshot"] == {"at": ["23:15"]}
    assert found.warnings == ()


def test_a_target_has_its_own_values_or_the_defaults_of_the_file(tmp_path: Path) -> None:
    news, law = read(tmp_path, GOOD).targets
    assert (news.interval_sec, news.track_checkpoint, news.enabled) == (0.5, True, True)
    assert (law.interval_sec, law.track_checkpoint, law.enabled) == (7.5, False, None)
    assert law.options == {"list_url": "/law/", "item": "li", "link": "a@href", "max_pages": 50}


def test_without_defaults_the_interval_is_ten_seconds_and_checkpoints_are_kept(tmp_path: Path) -> None:
    law = read(tmp_path, changed("defaults: {interval_sec: 7.5, track_checkpoint: false}\n", "")).targets[1]
    assert (law.interval_sec, law.track_checkpoint) == (10.0, True)


def test_codes_that_look_like_numbers_stay_as_they_are_written(tmp_path: Path) -> None:
    found = read(tmp_path, changed("site_code: example\n", "site_code: 0012\n"))
    assert found.sites[0].site_code == "0012"


def test_anchors_and_merge_keys_are_understood(tmp_path: Path) -> None:
    text = changed("        options:\n          list_url", "        options: &rules\n          list_url").replace(
        "options: {list_url: /law/, item: li, link: a@href, max_pages: 50}", "options: {<<: *rules, list_url: /law/}"
    )
    assert read(tmp_path, text).targets[1].options == {"item": "ul.list li.item", "link": "a@href", "list_url": "/law/"}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("interval_sec: 0.5", "interval_sec: -5", "14: sites[0].targets[0].interval_sec: must not be below 0 (is -5)"),
        ("interval_sec: 0.5", "interval_sec: fast", "14: sites[0].targets[0].interval_sec: must be a number of seconds (is the text 'fast')"),
        ("interval_sec: 0.5", "interval_sec: .inf", "14: sites[0].targets[0].interval_sec: must be a number of seconds (is the number .inf)"),
        ("interval_sec: 0.5", "interval_sec: true", "14: sites[0].targets[0].interval_sec: must be a number of seconds (is the flag true)"),
        ("interval_sec: 0.5", "interval_sec: [1]", "14: sites[0].targets[0].interval_sec: must be a number of seconds (is a list)"),
        ("interval_sec: 7.5", "interval_sec: -1", "1: defaults.interval_sec: must not be below 0 (is -1)"),
        ("enabled: true", "enabled: yes", "16: sites[0].targets[0].enabled: must be true or false (is the text 'yes')"),
        ("enabled: true", "enabeld: true", "16: sites[0].targets[0].enabeld: is no known key; did you mean enabled?"),
        ("rate_groups:", "rate_group:", "2: rate_group: is no known key; did you mean rate_groups?"),
        ("base_url:", "base-url:", "7: sites[0].base-url: is no known key; did you mean base_url?"),
        ("    name: Example city\n", "    targets: []\n", "11: sites[0].targets: stands twice, first on line 6"),
        ("site_code: example\n", "site_code: two words\n", "5: sites[0].site_code: must be 1 to 200 of A-Z a-z 0-9 . _ : - (is 'two words')"),
        ("site_code: example\n", "site_code: ''\n", "5: sites[0].site_code: must be 1 to 200 of A-Z a-z 0-9 . _ : - (is '')"),
        ("site_code: example\n", "site_code: [a]\n", "5: sites[0].site_code: must be text (is a list)"),
        ("target_code: example_law", "target_code: example_news", "21: sites[0].targets[1].target_code: example_news stands twice, on lines 12 and 21"),
        ("cms_adapter: list", "cms_adapter: lisst", "8: sites[0].cms_adapter: no adapter is called 'lisst'; there are: "),
        ('          item: "ul.list li.item"\n', "", "17: sites[0].targets[0].options.item: is required"),
        ("max_pages: 50", "max_pages: none", "22: sites[0].targets[1].options.max_pages: input should be a valid integer"),
        ("max_pages: 50", "max_page: 50", "22: sites[0].targets[1].options.max_page: is no known key; did you mean max_pages?"),
        ("max_pages: 50", 'title: "a[["', "22: sites[0].targets[1].options.title: cannot read the selector 'a[['"),
        ("options: {list_url: /law/, item: li, link: a@href, max_pages: 50}", "options: [li]", "22: sites[0].targets[1].options: must be a mapping (is a list)"),
        ("{key: city-waf,", "{key: City,", "3: rate_groups[0].key: may hold a-z 0-9 . _ : [ ] - only (is 'City')"),
        ("{key: city-waf,", "{key: _seed,", "3: rate_groups[0].key: must not start with _"),
        ("{key: city-waf,", "{", "3: rate_groups[0].key: is required"),
        ('{key: city-waf, host: "*.example-city.gov", adapter: "*"}', "{key: all}", "3: rate_groups[0]: names neither host, adapter nor site"),
        ("X-Year: 2026", '"X Year": 2026', "10: sites[0].headers.X Year: is no name of a header"),
        ("X-Year: 2026", '"X-Year": "a\\nb"', "10: sites[0].headers.X-Year: must be one printable line"),
        ("timezone: Asia/Shanghai", "timezone: Asia/Shanghaj", "24: schedule.timezone: must be the name of a time zone"),
        ("{at: 23:15}", "23:15", "25: schedule.entries.snapshot: must be a mapping"),
        ("    name: Example city", "\tname: Example city", "6: is indented with a tab; YAML allows spaces only"),
        ("headers: {", "headers: [", "10: is not YAML ("),
    ],
)
def test_a_mistake_is_told_with_line_and_key(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert any(line.startswith(f"sites.yaml:{problem}") for line in refused(tmp_path, changed(old, new)))


def test_a_second_site_with_the_same_code_names_both_lines(tmp_path: Path) -> None:
    again = "  - {site_code: example, base_url: http://b.test, cms_adapter: list}\nschedule:"
    assert refused(tmp_path, changed("schedule:", again)) == [
        "sites.yaml:23: sites[1].site_code: example stands twice, on lines 5 and 23"
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = changed("interval_sec: 7.5", "interval_sec: -1").replace("enabled: true", "enabled: 1").replace("item: li, ", "")
    assert [line.split(": ")[0] for line in refused(tmp_path, text)] == ["sites.yaml:1", "sites.yaml:16", "sites.yaml:22"]


def test_of_very_many_mistakes_twenty_are_told(tmp_path: Path) -> None:
    sites = "".join(f"  - {{site_code: 's {at}', base_url: http://h, cms_adapter: list}}\n" for at in range(30))
    lines = refused(tmp_path, f"sites:\n{sites}")
    assert len(lines) == 21
    assert lines[-1] == "sites.yaml: … and 10 more problems"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "sites.yaml: is empty; it must hold `sites:`"),
        ("# nothing\n", "sites.yaml: is empty; it must hold `sites:`"),
        ("- a\n", "sites.yaml:1: must be a mapping (is a list)"),
        ("hello\n", "sites.yaml:1: must be a mapping (is the text 'hello')"),
        ("defaults: {}\n", "sites.yaml:1: sites: is required"),
        ("sites: {a: b}\n", "sites.yaml:1: sites: must be a list (is a mapping)"),
        ("sites: [x]\n", "sites.yaml:1: sites[0]: must be a mapping (is the text 'x')"),
        ("sites:\n- !!python/object:os.system x\n", "sites.yaml:2: sites[0]: must be a mapping"),
    ],
)
def test_a_file_that_is_no_list_of_sites_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (line,) = refused(tmp_path, text)
    assert line.startswith(problem)


def test_a_list_of_sites_may_be_empty(tmp_path: Path) -> None:
    assert read(tmp_path, "sites: []\n").sites == ()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.yaml: cannot be read \(No such file"):
        read_sites_file(tmp_path / "nowhere.yaml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_sites_file(tmp_path)


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gbk.yaml").write_bytes("sites: [] # 政府".encode("gbk"))
    with pytest.raises(BadInput, match="is not UTF-8 text"):
        read_sites_file(tmp_path / "gbk.yaml")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_text(GOOD, encoding="utf-8-sig")
    assert len(read_sites_file(tmp_path / "bom.yaml").targets) == 2


def test_an_alias_that_contains_itself_is_refused(tmp_path: Path) -> None:
    text = changed("{at: 23:15}", "&loop {at: *loop}")
    assert any("is nested too deeply" in line for line in refused(tmp_path, text))


def test_options_that_are_missing_altogether_are_told_for_the_target(tmp_path: Path) -> None:
    text = changed("        options: {list_url: /law/, item: li, link: a@href, max_pages: 50}\n", "")
    assert refused(tmp_path, text) == [
        f"sites.yaml:21: sites[0].targets[1].options.{name}: is required" for name in ("item", "link", "list_url")
    ]


def test_a_user_agent_without_contact_is_warned_about(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, changed("Reader/1 (mail@reader.test)", "Mozilla/5.0")).warnings
    assert "sites.yaml:9: sites[0].user_agent: names no contact" in warning


def test_an_unusable_address_is_warned_about_and_gets_a_lane_of_its_own(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, changed("http://www.example-city.gov", "www.example-city.gov")).warnings
    assert "sites.yaml:7: sites[0].base_url:" in warning
    assert "site:example" in warning


def test_a_firewall_rule_can_be_switched_off_by_its_name_only(tmp_path: Path) -> None:
    from tasks.pipeline.waf import RULES

    name = RULES[0].name
    text = changed("    headers:", f"    waf_off: [{name}]\n    headers:")
    assert read(tmp_path, text).sites[0].options["waf_off"] == [name]
    assert refused(tmp_path, text.replace(f"[{name}]", "[no_such_rule]"))[0].startswith(
        "sites.yaml:10: sites[0].waf_off[0]: no rule is called 'no_such_rule'"
    )
