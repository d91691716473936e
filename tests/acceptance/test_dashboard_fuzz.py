"""The API under thousands of requests made from its own document: no error of ours, no answer that it does not name (U4)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import clean_environment
from tests.support.dashboard import EVE, TWO_PEOPLE, flower
from tests.support.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]
SITES = """
sites:
  - {site_code: one, base_url: http://www.one.example, cms_adapter: feed,
     targets: [{target_code: one_news, interval_sec: 1, options: {url: /feed.xml}}]}
"""
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "negative_data_rejection", "unsupported_method", "allow_header_conformance",
          "missing_required_header", "ignored_auth")


def test_the_api_answers_only_what_its_document_names(store: Store, tmp_path: Path) -> None:
    store.load(SITES)
    for _ in range(3):
        store.submit("one_news")
    with flower(store, *TWO_PEOPLE) as board:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("st")), "run", f"{board.api}/openapi.json", "-a", ":".join(EVE),
             "-c", ",".join(CHECKS), "--phases", "coverage,fuzzing", "--seed", "1", "-n", "10", "--no-shrink", "--continue-on-failure",
             "--warnings", "off"],
            cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=140, check=False)
        found = re.search(r"(\d+) generated", done.stdout)

        assert done.returncode == 0, done.stdout[-6_000:]
        assert found is not None and int(found[1]) > 1_000, done.stdout[-2_000:]
        assert re.search(r"Tested: +26", done.stdout), done.stdout[-2_000:]
        assert "dashboard.error" not in board.log
