"""Checks that the source detector raises for no file and that its work grows with the size of a file, not faster."""

from __future__ import annotations

import ast
import copy
import random
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.source.detect import find_in_code
from tests.lint.source.conftest import named
from tests.lint.test_source_cases import CASES
from tests.scale import n_examples

INSTALLED = sorted(Path(sysconfig.get_path("purelib")).glob("[a-p]*/**/*.py"))
SENDS = re.compile(rb"messages|system_prompt|_tokens")
MOST_GROWTH = 2.6
"""How many times as much work a program of twice the size may be."""


def real_files() -> list[Path]:
    """Return the cases, and installed files that hold words of prompts."""
    drawn = random.Random(1).sample(INSTALLED, min(len(INSTALLED), n_examples(400, 4_000)))
    return [*sorted(CASES.glob("*.py")), *(file for file in drawn if SENDS.search(file.read_bytes()))]


def mutated(tree: ast.Module, rng: random.Random) -> str:
    """Return a program in which some expressions and statements stand where others stood."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)]
    for _ in range(8):
        parent = rng.choice(nodes)
        kind = rng.choice([ast.expr, ast.stmt])
        others = [node for node in nodes if isinstance(node, kind)]
        for name, value in ast.iter_fields(parent):
            if isinstance(value, list) and value and all(isinstance(one, kind) for one in value):
                value[rng.randrange(len(value))] = copy.deepcopy(rng.choice(others))
            elif isinstance(value, kind) and rng.random() < 0.5:
                setattr(parent, name, copy.deepcopy(rng.choice(others)))
    return ast.unparse(ast.fix_missing_locations(tree))


def mangled(source: bytes, rng: random.Random) -> bytes:
    """Return a file of which some lines are gone, doubled or moved, and some bytes are others."""
    lines = source.split(b"\n")
    for _ in range(5):
        at = rng.randrange(len(lines))
        lines[at : at + rng.randrange(4)] = rng.choice([[], lines[at : at + 2] * 2, [b""], lines[-3:]])
    text = bytearray(b"\n".join(lines))
    for _ in range(3 if text else 0):
        text[rng.randrange(len(text))] = rng.randrange(256)
    return bytes(text)


def test_no_mutation_of_a_real_file_raises(tmp_path: Path) -> None:
    rng, files = random.Random(2), real_files()
    assert len(files) > 40
    for n, file in enumerate(files):
        source = file.read_bytes()
        (tmp_path / f"lines_{n}.py").write_bytes(mangled(source, rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                text = mutated(ast.parse(source), rng)
        except (SyntaxError, ValueError, RecursionError, TypeError, AttributeError, KeyError):
            continue  # no tree, or one that cannot be printed
        (tmp_path / f"tree_{n}.py").write_text(text, "utf-8", "replace")
    found = {one.code for one in find_in_code([tmp_path], LintConfig(), hazards())}
    assert {"CK000", "CKS01", "CKT11"} <= found


# Work
# ----------------------------------------------------------------------------------------------------------------------


def n_calls(folder: Path, source: str) -> int:
    """Count the calls of Python functions while a program is linted."""
    (folder / "app.py").write_text(source, "utf-8")
    n = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal n
        n += event == "call"

    sys.setprofile(count)
    try:
        list(find_in_code([folder / "app.py"], LintConfig(), hazards()))
    finally:
        sys.setprofile(None)
    return n


HEAD = "import time\nimport anthropic\nclient = anthropic.Anthropic()\n"
ASK = "def ask(messages):\n{}    return client.messages.create(system=system, messages=messages)\n"
SHAPES: dict[str, Callable[[int], str]] = {
    "variables": lambda n: ASK.format(
        "    v0 = time.time()\n" + "".join(f"    v{i + 1} = f'{{v{i}}}'\n" for i in range(n)) + f"    system = v{n}\n"
    ),
    "functions": lambda n: (
        "".join(f"def f{i + 1}():\n    return f{i}() + 'x'\n" for i in range(n))
        + "def f0():\n    return 'x'\n"
        + ASK.format(f"    system = f{n}()\n")
    ),
    "calls made twice": lambda n: (
        "def f0(a, b):\n    return a + b\n"
        + "".join(f"def f{i + 1}(a, b):\n    return f{i}(f{i}(a, b), f{i}(b, a))\n" for i in range(n))
        + ASK.format(f"    system = f{n}('x', 'y')\n")
    ),
    "parts": lambda n: ASK.format(
        "    parts = []\n" + "    parts.append(str(time.time()))\n" * n + "    system = ''.join(parts)\n"
    ),
    "alternatives": lambda n: ASK.format(
        "    if 0:\n        system = 'x'\n"
        + "".join(f"    elif messages[{i}]:\n        system = 'y'\n" for i in range(n))
        + "    else:\n        system = 'z'\n"
    ),
    "methods": lambda n: (
        "class A:\n"
        + "".join(
            f"    def m{i}(self):\n        self.v{i} = self.m{(i * 7 + 3) % n}()\n        return self.v{i}\n"
            for i in range(n)
        )
        + "    def ask(self, messages):\n        return client.messages.create(system=self.m0(), messages=messages)\n"
    ),
    "requests": lambda n: "".join(ASK.format("    system = 'x'\n").replace("ask", f"ask_{i}") for i in range(n)),
    "a long sum": lambda n: ASK.format("    system = " + " + ".join(["'a'"] * n) + "\n"),
}


@pytest.mark.parametrize("shape", named(SHAPES, {"parts", "alternatives"}))
def test_twice_the_program_is_twice_the_work(shape: str, tmp_path: Path) -> None:
    few, many = (n_calls(tmp_path, HEAD + SHAPES[shape](n)) for n in (150, 300))
    assert many <= MOST_GROWTH * few, f"{few:,} calls, then {many:,}"


@pytest.mark.parametrize("file", sorted(CASES.glob("*.py")), ids=lambda file: file.stem)
def test_twice_the_functions_of_a_file_are_twice_the_work(file: Path, tmp_path: Path) -> None:
    source = file.read_text("utf-8")
    own = re.findall(r"^(?:async def|def|class) (\w+)", source, re.MULTILINE)
    body = source[re.search(r"^(?:async def|def|class) ", source, re.MULTILINE).start() :]  # type: ignore[union-attr]

    def times(n: int) -> str:
        copies = [re.sub(rf"\b({'|'.join(own)})\b", rf"\1_{i}", body) for i in range(n)]
        return source.removesuffix(body) + "\n\n".join(copies)

    few, many = n_calls(tmp_path, times(3)), n_calls(tmp_path, times(6))
    assert many <= MOST_GROWTH * few, f"{few:,} calls, then {many:,}"
