"""Checks files as they come: notes on those that cannot be read, comments that silence, tests that are left out."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from contextkit.cli.main import cli
from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace
from contextkit.lint.source.detect import find_in_code
from tests.lint.source.conftest import Lint

SEND = "    return client.messages.create(model='m', system=system, messages=messages)\n"
CLOCK = f"import time\ndef ask(client, messages):\n    system = f'{{time.time()}}'\n{SEND}"
WIDE = f"import time\ndef ask(client, messages):\n    system = f'''\n    {{{{time.time()}}}}\n    '''{{}}\n{SEND}"
CALLED = f"import time\ndef stamp():{{}}\n    return time.time()\ndef ask(client, messages):\n    system = str(stamp())\n{SEND}"
TESTS = ("tests/helper", "test/unit/helper", "test_app", "app_test", "pkg/tests", "conftest")
NO_TESTS = ("app", "testing", "latest/app", "contest", "protests/app", "test")


@pytest.mark.parametrize("source", [b"def f(:\n", b"x = '\0'\n", b"# coding: nonsense\n", bytes(range(256))])
def test_a_file_that_cannot_be_read_is_a_note_and_exit_code_1(
    source: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_bytes(source)
    (tmp_path / "app.py").write_text(CLOCK, "utf-8")
    notes, found = [], []
    for one in find_in_code([tmp_path], LintConfig(), hazards()):
        (notes if one.code == "CK000" else found).append(one)
    assert [one.code for one in found] == ["CKS01"]
    (note,) = notes
    assert isinstance(note.place, CodePlace) and note.place.file.endswith("broken.py") and "\n" not in note.message
    (tmp_path / "app.py").unlink()
    assert cli.main(["lint", str(tmp_path)], standalone_mode=False) == 1
    assert "CK000" in capsys.readouterr().out


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "data.py").open("wb") as file:
        file.truncate(200_000_000)
    (finding,) = find_in_code([tmp_path], LintConfig(), hazards())
    assert finding.code == "CK000" and "200,000,000" in finding.message


def test_a_missing_file_is_a_note(tmp_path: Path) -> None:
    (finding,) = find_in_code([tmp_path / "none.py"], LintConfig(), hazards())
    assert finding.code == "CK000" and "No such file" in finding.message


@pytest.mark.skipif(sys.platform == "win32", reason="neither links nor pipes without a privilege there")
def test_links_in_circles_and_what_is_no_file_are_passed_by(tmp_path: Path, lint: Lint) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "itself.py").symlink_to(tmp_path / "itself.py")
    (tmp_path / ".#app.py").symlink_to("ada@host.example:1")  # an editor's lock
    os.mkfifo(tmp_path / "pipe.py")  # would be waited for
    assert [one.code for one in lint(CLOCK)] == ["CKS01"]


@pytest.mark.parametrize(
    ("before", "encoding"), [("", "utf-8"), ("", "utf-8-sig"), ("# -*- coding: latin-1 -*-\n", "latin-1")]
)
def test_a_finding_points_at_the_column_in_every_encoding(before: str, encoding: str, tmp_path: Path) -> None:
    text = f"{before}import time\ndef ask(client, messages):\n    system = 'é' + str(time.time())\n{SEND}"
    (tmp_path / "app.py").write_bytes(text.encode(encoding))
    (finding,) = find_in_code([tmp_path], LintConfig(), hazards())
    assert isinstance(finding.place, CodePlace)
    assert text.splitlines()[finding.place.line - 1][finding.place.column - 1 :].startswith("time.time()")


def test_a_finding_in_a_notebook_points_at_its_cell(tmp_path: Path) -> None:
    cells = [{"cell_type": "markdown", "source": "# Title"}, {"cell_type": "code", "source": CLOCK}]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}), "utf-8")
    (finding,) = find_in_code([tmp_path], LintConfig(), hazards())
    assert isinstance(finding.place, CodePlace) and finding.place.file.endswith("a.ipynb#cell2")
    assert finding.place.line == 3 and finding.fix is None


@pytest.mark.parametrize(
    ("comment", "is_found"),
    [
        ("# noqa", False),
        ("# noqa: CKS01", False),
        ("# NOQA: E501, CKS01", False),
        ("# noqa: E501", True),
        ("# noqa:E501 CKS01", False),
        ("# contextkit: frozen", False),
        ("# frozen", True),
    ],
)
def test_a_comment_silences_its_line(comment: str, is_found: bool, lint: Lint) -> None:
    assert bool(lint(CLOCK.replace("()}'", f"()}}'  {comment}"))) is is_found
    assert bool(lint(WIDE.format(f"  {comment}"))) is (is_found or "frozen" in comment)


def test_a_comment_on_a_def_declares_a_result_that_stays(lint: Lint) -> None:
    assert [one.code for one in lint(CALLED.format(""))] == ["CKS01"]
    assert lint(CALLED.format("  # contextkit: frozen")) == []


@pytest.mark.parametrize(
    "config",
    [
        LintConfig(select=("CKT",)),
        LintConfig(ignore=("CKS",)),
        LintConfig(exclude=("app.py",)),
        LintConfig(per_file_ignores={"app.py": ("CKS01",)}),
    ],
    ids=["select", "ignore", "exclude", "per-file-ignores"],
)
def test_settings_leave_a_finding_out(config: LintConfig, lint: Lint) -> None:
    assert lint(CLOCK, config) == []
    assert [one.code for one in lint(CLOCK, LintConfig(select=("CKS01",), ignore=("CKS",)))] == ["CKS01"]


def test_templates_of_projects_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "{{cookiecutter.project}}").mkdir()
    (tmp_path / "{{cookiecutter.project}}" / "app.py").write_text("{% if cookiecutter.with_prompt %\n")
    assert list(find_in_code([tmp_path], LintConfig(), hazards())) == []


def test_tests_are_left_out_unless_they_are_wanted(tmp_path: Path, lint: Lint) -> None:
    lint(**dict.fromkeys((*TESTS, *NO_TESTS), CLOCK))
    for config, wanted in ((LintConfig(), NO_TESTS), (LintConfig(tests=True), (*TESTS, *NO_TESTS))):
        found = find_in_code([tmp_path], config, hazards())
        places = {one.place.file for one in found if isinstance(one.place, CodePlace)}
        assert places == {str(tmp_path / f"{one}.py") for one in wanted}


@pytest.mark.parametrize("named", ["test_app.py", "tests", "tests/unit", "tests/unit/test_app.py"])
def test_tests_that_are_named_are_looked_at(named: str, tmp_path: Path, lint: Lint) -> None:
    lint(**{"test_app": CLOCK, "tests/unit/test_app": CLOCK})
    assert len(list(find_in_code([tmp_path / named], LintConfig(), hazards()))) == 1


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path, lint: Lint) -> None:
    lint(CLOCK)
    assert len(list(find_in_code([tmp_path, tmp_path / "app.py"], LintConfig(), hazards()))) == 1
