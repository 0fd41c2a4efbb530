"""The audit hook itself: what it notes, in this process and in one that a test starts, and what it passes over."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audit import write_audit

MODULE = Path(__file__).parents[2] / "contextkit" / "somewhere.py"
WAYS = {
    "open": "open(path, 'w').close()",
    "append": "import pathlib; pathlib.Path(path).open('ab').close()",
    "write_text": "import pathlib; pathlib.Path(path).write_text('x')",
    "os.open": "import os; os.close(os.open(path, os.O_RDONLY | os.O_CREAT))",
    "temporary": "import os, tempfile; tempfile.NamedTemporaryFile(dir=os.path.dirname(path)).close()",
    "sqlite": "import sqlite3; sqlite3.connect(path).close()",
    "replace": "import os; os.replace(other, path)",
    "link": "import os; os.symlink(other, path)",
    "library": "import json, shutil; shutil.copyfile(other, path)",
}
NO_WAYS = {
    "read": "open(other).close()",
    "os.read": "import os; os.close(os.open(other, os.O_RDONLY))",
    "read-only sqlite": "import sqlite3; sqlite3.connect(f'file:{other}?mode=ro', uri=True).close()",
    "sqlite without a file": "import sqlite3; sqlite3.connect('').close(); sqlite3.connect(':memory:').close()",
    "no output": "import os; os.close(os.open(os.devnull, os.O_WRONLY))",
    "a pipe": "import os; a, b = os.pipe(); os.fdopen(b, 'w').close(); os.close(a)",
    "a callback": "callback(path)",
    "ours": "import os; from contextkit.private_files import open_private; os.close(open_private(path, os.O_WRONLY | os.O_CREAT))",
    "replacing": "from contextkit.private_files import replacing\nwith replacing(path) as file: file.write(b'x')",
}
CHILD = """
import sys
way, name, path, other = sys.argv[1:]
exec(compile(way, name, "exec"), {"path": path, "other": other})
"""


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    notes = tmp_path / "notes"
    notes.touch()
    monkeypatch.setenv(write_audit.NOTES, str(notes))
    return lambda: notes.read_text("utf-8")


@pytest.fixture
def names(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "other").write_text("", "utf-8")
    return {
        "path": str(tmp_path / "path"),
        "other": str(tmp_path / "other"),
        "callback": lambda path: Path(path).write_text("x", "utf-8"),
    }


@pytest.mark.parametrize("way", WAYS)
def test_a_write_of_a_module_of_ours_is_noted(way: str, noted: Callable[[], str], names: dict[str, object]) -> None:
    exec(compile(WAYS[way], str(MODULE), "exec"), names)
    assert f"{MODULE}:1 " in noted()


@pytest.mark.parametrize("way", NO_WAYS)
def test_what_writes_nothing_or_comes_through_the_helper_is_not(
    way: str, noted: Callable[[], str], names: dict[str, object]
) -> None:
    exec(compile(NO_WAYS[way], str(MODULE), "exec"), names)
    assert noted() == ""


def test_a_process_that_a_test_starts_is_watched_too(noted: Callable[[], str], tmp_path: Path) -> None:
    for name in (str(MODULE), "elsewhere.py"):
        subprocess.run(
            [sys.executable, "-c", CHILD, WAYS["open"], name, tmp_path / "path", tmp_path / "other"], check=True
        )
        found = noted()
        assert f"{MODULE}:1 open {tmp_path / 'path'}\n" == found


FAILING = f"""
def test_writes(tmp_path):
    exec(compile("open(path, 'w').close()", {str(MODULE)!r}, "exec"), {{"path": str(tmp_path / "x")}})

def test_writes_nothing():
    pass
"""


def test_the_test_that_did_it_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(FAILING, "utf-8")
    root = MODULE.parents[1]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-p",
        "tests.conftest",
        "--rootdir",
        tmp_path,
        "-c",
        os.devnull,
        file,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert "1 error" in ran.stdout and "2 passed" in ran.stdout, ran.stdout + ran.stderr
    assert f"{MODULE}:1 open" in ran.stdout
