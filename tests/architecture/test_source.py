"""What the source may not contain, and how large its pieces may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.command_line import ROOT

ROOMS = ("config", "models", "routing", "tasks", "console")
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 300, 50
#: a module of tests is a list of sentences, read one at a time
MOST_LINES_OF_TESTS = 500
_SQL = frozenset({"select", "insert", "update", "delete", "text"})
_UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_MAY_SLEEP = ("tests/support/", "tests/chaos/")


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield path, relative to the project, and text of every Python file in `folders`."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def calls(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and last name of everything that is called: ``time.sleep(1)`` is a ``sleep``."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            if name:
                yield node.lineno, name


def sql_of(text: str) -> Iterator[str]:
    """Yield how a source makes SQL: what it imports from SQLAlchemy to write statements, and raw statements."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sqlalchemy":
            yield from (f"line {node.lineno}: imports {one.name}" for one in node.names if one.name in _SQL)
    yield from (f"line {line}: {name}" for line, name in calls(text) if name == "exec_driver_sql")


def refusals_without_words(text: str) -> Iterator[int]:
    """Yield the lines that raise NotImplementedError without a sentence that says why it is refused for good."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            words = node.exc.args if isinstance(node.exc, ast.Call) else []
            if getattr(raised, "id", "") == "NotImplementedError" and not words:
                yield node.lineno


def long_functions(text: str) -> Iterator[str]:
    """Yield name and length of each function that is longer than it may be."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_LINES_OF_A_FUNCTION:
                yield f"{node.name}: {length} lines"


def test_statements_are_written_in_models_alone() -> None:
    found = [f"{path}: {what}" for path, text in sources(*(set(ROOMS) - {"models"})) for what in sql_of(text)]

    assert found == []


def test_nothing_is_left_unfinished() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    marks = [f"{path}: {mark[0]}" for path, text in sources(*ROOMS, "scripts", "tests", "benchmarks")
             for mark in _UNFINISHED.finditer(text) if path != here]
    stubs = [f"{path}:{line}" for path, text in sources(*ROOMS) for line in refusals_without_words(text)]

    assert marks + stubs == []


def test_tests_wait_for_signals_and_do_not_sleep() -> None:
    found = [f"{path}:{line}" for path, text in sources("tests") if not path.startswith(_MAY_SLEEP)
             for line, name in calls(text) if name == "sleep"]

    assert found == []


def test_files_stay_small() -> None:
    limits = dict.fromkeys((*ROOMS, "scripts", "tests/support"), MOST_LINES) | {"tests": MOST_LINES_OF_TESTS}
    found = {f"{path}: {lines} lines" for folder, limit in limits.items() for path, text in sources(folder)
             if (lines := len(text.splitlines())) > limit}

    assert found == set()


def test_functions_stay_small() -> None:
    found = [f"{path}: {what}" for path, text in sources(*ROOMS, "scripts", "tests") for what in long_functions(text)
             if not path.startswith("models/migrations/versions/")]

    assert found == []


def test_no_module_is_called_after_nothing() -> None:
    assert [path for path, _ in sources(*ROOMS) if re.search(r"(^|/)(utils?|helpers?|common|misc)(\.py|/)", path)] == []


def test_the_checks_see_what_they_look_for() -> None:
    assert list(sql_of("from sqlalchemy import Table, select\nconn.exec_driver_sql('x')")) == [
        "line 1: imports select", "line 2: exec_driver_sql"]
    assert list(refusals_without_words("raise NotImplementedError\nraise NotImplementedError()")) == [1, 2]
    assert list(refusals_without_words("raise NotImplementedError('drop the database instead')")) == []
    assert (1, "sleep") in list(calls("time.sleep(1)"))
    assert list(long_functions("def f():\n" + "    x = 1\n" * 60)) == ["f: 61 lines"]
