"""Nested code: reading it takes a number of steps that is polynomial in its depth, and no depth raises."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import Finding
from contextkit.lint.source.detect import find_in_code

IS_NESTED = sys.version_info >= (3, 12)
"""Whether an f-string may hold one with the same quotes."""
EXPRESSIONS = {
    "list comprehension over": "[a for a in {}]",
    "list comprehension if": "[a for a in xs if {}]",
    "set comprehension over": "{{a for a in {}}}",
    "dict comprehension over": "{{a: 1 for a in {}}}",
    "generator over": "(a for a in {})",
    "enumerate": "[a for i, a in enumerate({})]",
    "set of the time": "[a for a in {{{}, datetime.now()}}]",
    "lambda": "lambda a: {}",
    "called lambda": "(lambda a: a)({})",
    "call": "f({})",
    "model call": "client.messages.create(system={})",
    "chain": "{}.f()",
    "item": "{}[0]",
    "map": "map(f, {})",
    "partial": "partial(f, {})",
    "filter": "filter(lambda tool: {}, tools)",
    "sorted": "sorted({})",
    "join": "', '.join({})",
    "join of a generator": "', '.join(str(a) for a in {})",
    "dumps": "json.dumps({{k: v for k, v in {}.items()}})",
    "ternary": "(a if b else {})",
    "or": "({} or a)",
    "sum": "(a + {})",
    "difference": "({{1}} - {})",
    "list": "[*{}, a]",
    "dict": "{{'a': {}}}",
    "spread dict": "{{**{}, 'tools': []}}",
    "message": "{{'role': 'user', 'content': [{}]}}",
    "system message": "('system', {})",
    "marked blocks": "[{{'type': 'text', 'text': {}}}, {{'type': 'text', 'text': 'a', 'cache_control': {{}}}}]",
    "tool": "[{{'name': 'a', 'parameters': {}}}]",
}
"""What is nested → one level of it."""


def expression(level: str) -> Callable[[int], str]:
    def written(depth: int) -> str:
        text = "xs"
        for _ in range(depth):
            text = level.format(text)
        return f"async def g():\n    x = {text}\n    return x\n"

    return written


def nested(*heads: str, last: str = "pass") -> Callable[[int], str]:
    """Blocks inside blocks."""

    def written(depth: int) -> str:
        lines = [" " * level + heads[level % len(heads)].format(level) for level in range(depth)]
        return "\n".join([*lines, " " * depth + last, ""])

    return written


SHAPES = {name: expression(level) for name, level in EXPRESSIONS.items()} | {
    "f-string": lambda depth: "x = " + "f'{f(" * (depth * IS_NESTED) + "xs" + ")}'" * (depth * IS_NESTED) + "\n",
    "functions": nested("def f{}(a):"),
    "methods": nested("class C{}:", "def f{}(self):"),
    "ifs": nested("if a{}:"),
    "loops": nested("for a{0} in b{0}:", last="messages.append({'role': 'user', 'content': a0})"),
    "while": nested("while a{}:", last="messages.append({'role': 'user', 'content': a0})"),
    "with": nested("with a{0} as b{0}:"),
    "matches": nested("match a{}:", "case {{'k': [b, *_]}}:"),
    "elif": lambda depth: "if a:\n b = 1\n" + "".join(f"elif a == {n}:\n b = {n}\n" for n in range(depth)),
    "long or": lambda depth: "x = " + " or ".join(f"a{n}" for n in range(depth)) + "\n",
    "decorators": lambda depth: "".join(f"@d{n}(f(g))\n" for n in range(depth)) + "def f(): pass\n",
    "decorator": lambda depth: "@" + "d(" * depth + "a" + ")" * depth + "\ndef f(): pass\n",
    "assignments": lambda depth: "".join(f"a{n + 1} = [*a{n}, *a{n}]\n" for n in range(depth)),
    "functions of one another": lambda depth: (
        "def f0(a): return a\n"
        + "".join(f"def f{n + 1}(a): return f{n}(a) + f{n}(a)\n" for n in range(depth))
        + f"system = f{depth}(now())\n"
    ),
    "returned dict": lambda depth: "def f():\n return " + "{'a': " * depth + "b" + "}" * depth + "\n",
    "updated dict": lambda depth: "kwargs.update(" + "{'tools': " * depth + "b" + "}" * depth + ")\n",
}


def found_in(path: Path, source: str) -> list[Finding]:
    path.write_text(source, "utf-8")
    return list(find_in_code([path], LintConfig(), hazards()))


def n_steps(path: Path, source: str) -> int:
    """Python functions called while a file is linted."""
    n = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal n
        n += event == "call"

    sys.setprofile(count)
    try:
        found_in(path, source)
    finally:
        sys.setprofile(None)
    return n


@pytest.mark.parametrize("shape", SHAPES)
def test_the_steps_grow_with_no_more_than_the_third_power_of_the_depth(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "nested.py"
    empty = n_steps(path, "x = 1\n")  # the first file also fills caches
    empty = min(empty, n_steps(path, "x = 1\n"))
    shallow, deep = (n_steps(path, SHAPES[shape](depth)) - empty for depth in (8, 16))
    assert deep <= 8 * max(shallow, 250), (shallow, deep)


def test_the_file_that_hung_the_linter_is_read(tmp_path: Path) -> None:
    source = SHAPES["list comprehension over"](23)
    assert found_in(tmp_path / "nested.py", source) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_no_depth_raises(tmp_path: Path, shape: str) -> None:
    """What the parser refuses, or what is nested too deeply to be walked, is a finding."""
    for depth in (90, 1_000):
        assert {finding.code for finding in found_in(tmp_path / "nested.py", SHAPES[shape](depth))} <= CODES


CODES = {row.code for row in hazards()} | {"CK000"}
