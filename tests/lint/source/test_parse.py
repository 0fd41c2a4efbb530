"""Checks how files become syntax trees: encodings, offsets, notebooks, and notes on what cannot be read."""

from __future__ import annotations

import ast
import json
import sys

import pytest

from contextkit.lint.source.parse import MAX_BYTES, parse


def names(tree: ast.AST) -> list[ast.Name]:
    """Return the names of a tree."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)]


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        (b"x = 1\ndef f(:\n", 2, f"not the syntax of Python {sys.version_info.major}.{sys.version_info.minor}"),
        (b"print 'a'\n", 1, "not the syntax of Python"),
        (b"x = 1\ny = '\0'\n", 1, "null bytes"),
        (b"# coding: nonsense\nx = 1\n", 1, "unknown encoding"),
        (b"x = 1\ny = '\xff'\n", 2, "utf-8"),
        (b"# coding: utf-8\ny = '\xff'\n", 1, "utf-8"),
        (b"x = " + b"(" * 5_000 + b")" * 5_000, 1, "nested"),
        (b"x = " + b"-" * 200_000 + b"1", 1, "nested"),
        (b"# " + b"a" * MAX_BYTES, 1, "longer than the 8,000,000"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_that_cannot_be_read_is_one_fault(source: bytes, line: int, words: str) -> None:
    parsed = parse(source, "app.py")
    assert words in parsed.fault and "\n" not in parsed.fault
    assert not parsed.tree.body and parsed.fault_line == line


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python reads template strings")
def test_the_fault_of_newer_syntax_names_the_running_python() -> None:
    parsed = parse(b"x = 1\ny = t'{x}'\n", "app.py")
    assert parsed.fault.startswith("not the syntax of Python 3.") and parsed.fault_line == 2


def test_offsets_count_in_the_text() -> None:
    code = "a = 'é', b\nc = d\n"
    for source, is_exact in (
        (code.encode(), True),
        (code.replace("\n", "\r\n").encode(), True),
        (code.encode("utf-8-sig"), False),
        (b"# coding: utf-8\n" + code.encode(), True),
        (b"# coding: latin-1\n" + code.encode("latin-1"), False),
    ):
        parsed = parse(source, "app.py")
        assert parsed.is_exact is is_exact and not parsed.fault
        lines = parsed.text.split(b"\n")
        found = names(parsed.tree)
        assert {node.id for node in found} == set("abcd")
        for node in found:
            assert lines[node.lineno - 1][node.col_offset : node.end_col_offset] == node.id.encode()


def notebook(*cells: tuple[str, str], language: str = "python") -> bytes:
    """Return a notebook of cells, each with its kind."""
    rows = [{"cell_type": kind, "source": text.splitlines(keepends=True)} for kind, text in cells]
    metadata = {"kernelspec": {"language": language}}
    return json.dumps({"cells": rows, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


def test_the_code_cells_of_a_notebook_are_one_module() -> None:
    cells = [("markdown", "# Title"), ("code", "import os\nx = 1"), ("raw", "no"), ("code", "y = x\n\nz = y\n")]
    parsed = parse(notebook(*cells), "a.ipynb")
    assert [(type(node).__name__, node.lineno) for node in parsed.tree.body] == [
        ("Import", 1),
        ("Assign", 2),
        ("Assign", 3),
        ("Assign", 5),
    ]
    assert not parsed.fault and not parsed.is_exact
    assert [parsed.cell_of(line) for line in range(1, 6)] == [(2, 1), (2, 2), (4, 1), (4, 2), (4, 3)]
    assert parse(b"x = 1\n", "a.py").cell_of(1) is None


def test_what_is_for_ipython_is_left_out() -> None:
    shell = "%pip install a\n!ls 'it\nx = 1\nx?\n?x\nif x:\n    !ls\nfiles = !ls *.py\nnow = %pwd\ny = 5 % x\n"
    timed = ("code", "%%time\nz = 2\n%time ask(1)\nw = 3\n")
    text = ("code", 'text = """\n%s\n!x\n"""\n')
    parsed = parse(notebook(("code", shell), ("code", "%%bash\nls 'it\n"), timed, text), "a.ipynb")
    assert not parsed.fault
    found = {node.id: node for node in names(parsed.tree)}
    assert {"x", "files", "now", "y", "z", "w", "text"} == found.keys()
    assert parsed.cell_of(found["w"].lineno) == (3, 4)


@pytest.mark.xfail(strict=True, reason="the second line of a command is read as Python")
def test_a_command_of_two_lines_is_left_out() -> None:
    assert not parse(notebook(("code", "%pip install a \\\n  b\nx = 1\n")), "a.ipynb").fault


@pytest.mark.parametrize("source", ["", "{", "[]", "{}", '{"cells": 1}', "[" * 100_000, "\xff\xfe"])
def test_what_is_no_notebook_is_one_fault(source: str) -> None:
    parsed = parse(source.encode("latin-1"), "a.ipynb")
    assert parsed.fault and "\n" not in parsed.fault and not parsed.tree.body


def test_a_notebook_in_another_language_is_empty() -> None:
    parsed = parse(notebook(("code", "x <- 1\n"), language="R"), "a.ipynb")
    assert not parsed.tree.body and not parsed.fault
