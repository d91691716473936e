"""The rooms: imports go down, and what the Celery application names by string is there."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, clean_environment

UPPER_ROOMS = ("models", "routing", "tasks", "console")
_DOTTED = re.compile(rf"(?:{'|'.join(UPPER_ROOMS)})(?:\.\w+)+(?::\w+)?")


def python(code: str, home: Path) -> str:
    """Run `code` in a fresh interpreter with a home of its own and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=home, env=clean_environment(RATELANE_HOME=str(home)),
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dotted_names() -> list[str]:
    """Return every string of config/celery.py that names something in an upper room."""
    tree = ast.parse((ROOT / "config" / "celery.py").read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return sorted(text for text in texts if _DOTTED.fullmatch(text))


def test_imports_keep_the_contracts() -> None:
    done = subprocess.run([str(Path(sys.executable).with_name("lint-imports")), "--no-cache"], cwd=ROOT,
                          env=clean_environment(), capture_output=True, text=True, timeout=110, check=False)

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_the_application_names_something_in_routing_models_and_tasks() -> None:
    assert {name.partition(".")[0] for name in dotted_names()} >= {"models", "routing", "tasks"}


@pytest.mark.parametrize("name", dotted_names())
def test_a_name_in_the_application_resolves(name: str, tmp_path: Path) -> None:
    module, _, attribute = name.partition(":")

    python(f"import importlib; found = importlib.import_module({module!r}); {attribute and f'found.{attribute}'}", tmp_path)


def test_importing_the_application_imports_no_upper_room(tmp_path: Path) -> None:
    loaded = json.loads(python("import json, sys, config.celery; print(json.dumps(sorted(sys.modules)))", tmp_path))

    assert "config.celery" in loaded
    assert [name for name in loaded if name.partition(".")[0] in UPPER_ROOMS] == []
