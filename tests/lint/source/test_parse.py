"""Files become trees whatever Python they are written for, and one bad statement hides no other."""

from __future__ import annotations

import ast
import json
import random
import shutil
import subprocess
import sysconfig
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextkit.lint.source.detect import room_to_recurse
from contextkit.lint.source.newer import as_tree, rewritten
from contextkit.lint.source.parse import MAX_BYTES, Parsed, parse
from tests.scale import cases, n_examples

CORPUS = sorted(Path(sysconfig.get_path("purelib")).glob("[a-e]*/**/*.py"))[:: n_examples(125, 25)]
"""Installed files, valid for the Python that runs the tests."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read(text: str) -> Parsed:
    return parse(textwrap.dedent(text).encode(), "app.py")


def places(tree: ast.AST) -> set[tuple[str, int, int]]:
    """Type, line and column of every name and text outside of f-strings, which 3.11 counts otherwise."""
    inside = {id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in ast.walk(one)}
    return {
        (ast.dump(node), node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Constant | ast.Attribute) and id(node) not in inside
    }


def statements(tree: ast.AST) -> list[tuple[str, int]]:
    return sorted((type(node).__name__, node.lineno) for node in ast.walk(tree) if isinstance(node, ast.stmt))


# What this Python parses


def test_what_this_python_parses_is_taken_as_it_is() -> None:
    n = 0
    for path in CORPUS:
        source = path.read_bytes()
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        parsed, n = parse(source, str(path)), n + 1
        assert ast.dump(parsed.tree, include_attributes=True) == ast.dump(tree, include_attributes=True)
        assert not parsed.notes and (parsed.text == source) == parsed.is_exact
    assert n > n_examples(10, 50)


def test_rewriting_changes_nothing_in_what_this_python_parses() -> None:
    """The scanner and the parts of f-strings, against the interpreter's own parser."""
    n = 0
    for path in CORPUS:
        text = path.read_bytes()
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        ours, n = as_tree(rewritten(text)), n + 1
        assert ast.dump(ours) == ast.dump(tree), path
        assert places(ours) == places(tree), path
    assert n > n_examples(10, 50)


# Newer Python

OLDER = {
    "def f[T](x: T) -> T:\n    return x\n": "def f(x: T) -> T:\n    return x\n",
    "async def f[T: (int, str) = int, *Ts, **P](x): await x\n": "async def f(x): await x\n",
    "class A[T: int = str, *Ts, **P](B[T]):\n    a = b\n": "class A(B[T]):\n    a = b\n",
    "class A[T]: pass\n": "class A: pass\n",
    "def f[\n  T,  # of ]\n\n  U,\n](x):\n    return x\n": "def f(x):\n    return x\n",
    "type X = int\n": "pass\nX = int\n",
    "type X[T] = list[T]; y = 1\n": "pass\nX = list[T]\ny = 1\n",
    "type = 1\ntype[0] = 2\ntype(x)\ntype.y = 3\ntype Y = 4": "type = 1\ntype[0] = 2\ntype(x)\ntype.y = 3\npass\nY = 4",
    "lazy = 1\nlazy.x(lazy)\nlazy import a": "lazy = 1\nlazy.x(lazy)\npass\nimport a\n",
    "if a:\n    lazy import b\nlazy from c import d as e\n": "if a:\n    pass\n    import b\npass\nfrom c import d as e\n",
    "try:\n    pass\nexcept A, B.c: print(1)\n": "try:\n    pass\nexcept (A, B.c): print(1)\n",
    "try:\n    pass\nexcept* A, B:\n    pass\n": "try:\n    pass\nexcept* (A, B):\n    pass\n",
    "x = [*a for a in b]\n": "x = [a for a in b]\n",
    "x = {*a for a in b if c}\n": "x = {a for a in b if c}\n",
    "x = {**a for a in b}\n": "x = {0: a for a in b}\n",
    "f(*a async for a in b)\nf(*a, [*c for c in d])\n": "f(a async for a in b)\nf(*a, [c for c in d])\n",
    "x = t'a {b} {c!r:>{d}}'\n": "x = f'a {b} {c!r:>{d}}'\n",
    "x = Rt'{b}' + tr'\\d{b}'\n": "x = Rf'{b}' + fr'\\d{b}'\n",
    "x = t'{t'{a}'}'\n": "x = f'{f\"{a}\"}'\n",
    'x = f"{a["b"]}"\n': "x = f\"{a['b']}\"\n",
    'x = f"{f"{f"{f"{a}"}"}"}"\n': "x = f'''{f\"\"\"{f'{f\"{a}\"}'}\"\"\"}'''\n",
    'x = f"{a["b"]}" "c" f"d{e["f"]!r:>{g["h"]}}"\n': "x = f\"{a['b']}\" 'c' f\"d{e['f']!r:>{g['h']}}\"\n",
    'x = f"a {b["c"] = } d {e=!s} {f = :>3}{"g"}"\n': ('x = f\'a b["c"] = {b["c"]!r} d e={e!s} f = {f:>3}{"g"}\'\n'),
    'x = f"{{{a["b"]}}}" f"{{}}"\n': "x = f\"{{{a['b']}}}\" f'{{}}'\n",
    'x = f"{\n    a  # } of "\n} {b}", c\nd = e\n': 'x = f"{a} {b}", c\nd = e\n',
    'x = f"""a\n{b["""c"""]}\n d"""\n': "x = f'''a\n{b[\"c\"]}\n d'''\n",
    'x = f"{(lambda y: {y: f"{y}"})(z)}"\n': "x = f\"{(lambda y: {y: f'{y}'})(z)}\"\n",
}
"""Newer code → the same for 3.11."""


@pytest.mark.parametrize("newer", OLDER)
def test_newer_syntax_is_read(newer: str) -> None:
    parsed = parse(newer.encode(), "app.py")
    assert not parsed.notes and not parsed.is_template and parsed.is_exact
    try:
        same = ast.parse(newer)
    except SyntaxError:
        same = ast.parse(OLDER[newer])
    assert ast.dump(parsed.tree) == ast.dump(same)


@pytest.mark.parametrize("newer", OLDER)
def test_every_name_stands_where_it_is_written(newer: str) -> None:
    for end in ("\n", "\r\n"):
        source = ("é = 'é'; a = a\n" + newer).replace("\n", end).encode()
        parsed = parse(source, "app.py")
        lines = parsed.text.splitlines()
        names = [node for node in ast.walk(parsed.tree) if isinstance(node, ast.Name)]
        for name in names:
            assert name.end_lineno == name.lineno and name.end_col_offset is not None
            assert lines[name.lineno - 1][name.col_offset : name.end_col_offset].decode() == name.id
        assert len(names) > 2


def test_a_string_with_lines_in_its_braces_ends_where_it_is_written() -> None:
    parsed = read('x = f"{\n    a\n} b" + f"{\nc}" ; y = 1\nz = 2\n')
    assert [(one.lineno, one.end_lineno, one.end_col_offset) for one in parsed.tree.body] == [
        (1, 4, 3),
        (4, 4, 11),
        (5, 5, 5),
    ]


SCRIPT = """
import ast, json, sys, warnings
warnings.simplefilter("ignore")
def told(node):
    if isinstance(node, ast.AST):
        if type(node).__name__ == "TypeAlias":
            node.name.ctx = ast.Store()
            return ["Assign", [["targets", [told(node.name)]], ["value", told(node.value)], ["type_comment", "None"]]]
        fields = [[name, told(getattr(node, name))] for name in node._fields if name != "type_params"]
        at = [node.lineno, node.col_offset] if isinstance(node, (ast.Name, ast.Attribute, ast.Call)) else []
        return [type(node).__name__, fields, *at]
    if isinstance(node, list):
        ours = (ast.Pass, ast.Constant)  # `pass` in place of `type`, and the empty texts that 3.12.1 puts into formats
        return [told(one) for one in node if not (isinstance(one, ours) and not getattr(one, "value", ""))]
    return repr(node)
"""


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14", "3.15"])
def test_another_python_reads_the_same(version: str) -> None:
    """The tree of that Python's own parser, with places, for the samples and for its own tests of newer syntax."""
    python = shutil.which(f"python{version}") or ""
    if not python or subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} on this machine")
    script = SCRIPT + textwrap.dedent(
        """
        import os
        files = [os.path.join(os.path.dirname(ast.__file__), "test", f"test_{name}.py") for name in sys.argv[1].split()]
        texts = json.load(sys.stdin) + [open(file, encoding="utf-8").read() for file in files if os.path.exists(file)]
        for text in texts:
            try:
                print(json.dumps([text, told(ast.parse(text))]))
            except SyntaxError:
                pass
        """
    )
    names = "dataclasses generic_class type_params type_aliases patma grammar typing enum tstring except_star"
    ran = subprocess.run(
        [python, "-c", script, names], input=json.dumps([*OLDER]), capture_output=True, text=True, check=True
    )
    told: dict[str, object] = {}
    exec(SCRIPT, told)
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    for text, wanted in rows:
        parsed = parse(text.encode(), "app.py")
        assert not parsed.notes
        assert json.loads(json.dumps(told["told"](parsed.tree))) == wanted, text[:200]  # type: ignore[operator]
    assert len(rows) > 10


# One bad statement

BAD = (
    "x = = 1",
    "foo(",
    "print 'x'",
    "def f(:",
    "return )",
    "x = {1: 2",
    "if x",
    "'abc",
    "@",
    "import",
    "a b c",
    "else:",
    "elif x:",
    "  ) + 1",
    "try:",
    "raise E, 'x'",
    "x = f'{'",
    'x = f"{a',
    "$x",
    "`x`",
    "with open(x) as",
)


def test_a_bad_statement_at_any_place_hides_no_other() -> None:
    """Every statement of the file is still there, at its line, and the notes are about the lines around the bad one."""
    rng, n = random.Random(1), 0
    for path in CORPUS:
        source = path.read_bytes()
        if b"\r" in source or len(source) > 60_000 or not source.isascii():
            continue
        tree, lines = ast.parse(source), source.decode().split("\n")
        kept = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        first = [one for one in kept if not lines[one.lineno - 1][: one.col_offset].strip()]
        for node in rng.sample(first, min(3, len(first))):
            decorators = [one.lineno for one in getattr(node, "decorator_list", ())]
            at = min([node.lineno, *decorators]) - 1
            bad = rng.choice(BAD)
            text = "\n".join([*lines[:at], " " * node.col_offset + bad, *lines[at:]])
            parsed = parse(text.encode(), "app.py")
            moved = {(type(one).__name__, one.lineno + (one.lineno > at)) for one in kept}
            lost = moved - set(statements(parsed.tree))
            assert parsed.notes and not {one for one in lost if one[0] != "Pass"}, (path, at, bad, lost)
            n += 1
    assert n > n_examples(20, 100)


def test_a_head_that_is_no_python_keeps_its_block() -> None:
    parsed = read(
        """
        class A:
            def f(self, :
                x = 1
                if y z:
                    a = 2
                elif w:
                    b = 3
                else
                    c = 4
            def g(self): return 5
        match a:
            case b c:
                d = 6
            case _:
                e = 7
        """
    )
    assert [note.line for note in parsed.notes] == [3, 5, 9, 13]
    values = sorted(node.value for node in ast.walk(parsed.tree) if isinstance(node, ast.Constant))
    assert set(range(1, 8)) == set(values)


def test_a_note_says_where_and_why() -> None:
    parsed = read("x = 1\nprint 'a'\ny = (1,\n     2 3)\n")
    assert [note.line for note in parsed.notes] == [2, 3]
    assert parsed.notes[0].message.startswith("not read: Missing parentheses in call to 'print'")


def test_a_file_of_python_2_is_notes_and_what_is_python_3_too() -> None:
    parsed = read("import os\ndef f(x):\n    print x, `x`\n    exec 'a' in b\n    return os.path\n" * 50)
    assert len(parsed.notes) == 100
    assert [name for name, _ in statements(parsed.tree)].count("Return") == 50


# Files as they come


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        (b"x = 1\ny = '\0'\n", 2, "null bytes"),
        (b"# coding: nonsense\nx = 1\n", 1, "unknown encoding"),
        (b"x = 1\ny = '\xff'\n", 2, "utf-8"),
        (b"# " + b"a" * MAX_BYTES, 1, "longer than the 8,000,000"),
    ],
)
def test_what_cannot_be_read_at_all_is_one_note(source: bytes, line: int, words: str) -> None:
    parsed = parse(source, "app.py")
    ((at, message),) = parsed.notes
    assert at == line and words in message and not parsed.tree.body


def test_a_template_is_no_python_and_no_fault() -> None:
    parsed = parse(b"from {{folder}}.crew import {{name}}Crew\n{% if a %}\nx = 1\n{% endif %}\n", "app.py")
    assert parsed.is_template and not parsed.notes and not parsed.tree.body
    assert not read('x = f"{{a}} {b["c"]}"\n').is_template


@pytest.mark.parametrize("newer", ["", "type X = int\n"])
def test_offsets_count_in_the_text(newer: str) -> None:
    code = f"a = 'é', b\n{newer}c = d\n"
    for source, is_exact in (
        (code.encode(), True),
        (code.encode("utf-8-sig"), True),
        (b"# coding: latin-1\n" + code.encode("latin-1"), False),
    ):
        parsed = parse(source, "app.py")
        assert parsed.is_exact is is_exact
        lines = parsed.text.splitlines()
        for node in ast.walk(parsed.tree):
            if isinstance(node, ast.Name):
                assert lines[node.lineno - 1][node.col_offset : node.end_col_offset] == node.id.encode()


# Depth

DEEP = {
    "parentheses": lambda n: "x = " + "(" * n + ")" * n,
    "open brackets": lambda n: "x = " + "[" * n,
    "lines of open brackets": lambda n: "foo(\n" * n,
    "signs": lambda n: "x = " + "-" * n + "1",
    "additions": lambda n: "x = " + " + ".join("a" * n),
    "calls": lambda n: "x = a" + ".b()" * n,
    "arguments": lambda n: "x = " + "f(" * n + ")" * n,
    "f-strings": lambda n: "x = " + "f'{" * n + "1" + "}'" * n,
    "open f-strings": lambda n: "x = " + 'f"{a:\n' * n,
    "formats": lambda n: "x = f'" + "{a:" * n + "}" * n + "'",
    "lambdas": lambda n: "x = " + "lambda: " * n + "1",
    "choices": lambda n: "x = " + "a if b else " * n + "c",
    "branches": lambda n: "if a:\n pass\n" + "elif a:\n pass\n" * n,
    "blocks": lambda n: "".join(" " * level + "if a:\n" for level in range(min(n, 500))),
    "faults": lambda n: "if x:\n    print 'a'\n" * n,
}


@pytest.mark.parametrize("shape", DEEP)
def test_no_depth_hides_the_rest_or_takes_more_than_linear_time(shape: str) -> None:
    """By default one depth, without times: a busy machine would fail them."""
    seconds = []
    with room_to_recurse():
        for n in cases([1_500], [1_500, 15_000]):
            start = time.process_time()
            parsed = parse((DEEP[shape](n) + "\nlast = 1\n").encode(), "app.py")
            seconds.append(time.process_time() - start)
            assert isinstance(parsed.tree.body[-1], ast.Assign)
    assert seconds[-1] < 40 * max(seconds[0], 0.05)


# Notebooks


def notebook(*cells: tuple[str, str], language: str = "python") -> bytes:
    rows = [{"cell_type": kind, "source": text.splitlines(keepends=True)} for kind, text in cells]
    return json.dumps(
        {"cells": rows, "metadata": {"language_info": {"name": language}}, "nbformat": 4, "nbformat_minor": 5}
    ).encode()


def test_the_code_cells_of_a_notebook_are_one_module() -> None:
    source = notebook(
        ("markdown", "# Title"), ("code", "import os\nx = 1"), ("raw", "no"), ("code", "y = x\n\nz = y\n")
    )
    parsed = parse(source, "a.ipynb")
    assert statements(parsed.tree) == [("Assign", 2), ("Assign", 3), ("Assign", 5), ("Import", 1)]
    assert not parsed.notes and not parsed.is_exact
    assert [parsed.cell_of(line) for line in range(1, 6)] == [(2, 1), (2, 2), (4, 1), (4, 2), (4, 3)]
    assert read("x = 1\n").cell_of(1) is None


def test_what_is_for_ipython_is_left_out() -> None:
    source = notebook(
        (
            "code",
            "%pip install a \\\n  b\n!ls 'it\nx = 1\nx?\n?x\nif x:\n    !ls\nfiles = !ls *.py\nnow = %pwd\ny = 5 % x\n",
        ),
        ("code", "%%bash\nls 'it\n"),
        ("code", "%%time\nz = 2\n%time w = ask(1)\n"),
        ("code", 'text = """\n%s\n!x\n"""\n'),
    )
    parsed = parse(source, "a.ipynb")
    assert not parsed.notes
    names = {node.id: node for node in ast.walk(parsed.tree) if isinstance(node, ast.Name)}
    assert {"x", "files", "now", "y", "z", "w", "ask", "text"} == set(names)
    assert parsed.cell_of(names["w"].lineno) == (3, 3)
    lines = parsed.text.splitlines()
    for name, node in names.items():
        assert lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode() == name
    assert "%s\n!x" in ast.dump(parsed.tree).replace("\\n", "\n")


def test_a_bad_cell_hides_no_other() -> None:
    parsed = parse(notebook(("code", "x = (1,"), ("code", "y = f(2)\nz z"), ("code", "w = 1")), "a.ipynb")
    assert [parsed.cell_of(note.line) for note in parsed.notes] == [(1, 1), (2, 2)]
    assert [name for name, _ in statements(parsed.tree)].count("Assign") == 2


@pytest.mark.parametrize("source", [b"", b"{", b"[]", b"{}", b'{"cells": 1}', b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_notebook_is_one_note(source: bytes) -> None:
    ((line, message),) = parse(source, "a.ipynb").notes
    assert line == 1 and message.startswith("not a notebook: ") and "\n" not in message


def test_a_notebook_in_another_language_is_no_code_of_ours() -> None:
    parsed = parse(notebook(("code", "x <- 1\n"), language="R"), "a.ipynb")
    assert not parsed.tree.body and not parsed.notes


@pytest.mark.parametrize(
    "cell",
    [1, None, {}, {"cell_type": "code"}, {"cell_type": "code", "source": 3}, {"cell_type": "code", "source": [1]}],
)
def test_odd_cells_are_passed_over(cell: object) -> None:
    source = json.dumps({"cells": [cell, {"cell_type": "code", "source": "x = 1"}]}).encode()
    parsed = parse(source, "a.ipynb")
    assert statements(parsed.tree)[0][0] == "Assign" and not parsed.notes
