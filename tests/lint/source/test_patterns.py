"""Which nodes a pattern is shown: those with its names, with its words in their condition.

And that none of them is kept.
"""

from __future__ import annotations

import argparse
import ast
import gc
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.source import files, link, walk
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.rule import Hit, Pattern, View

Lint = Callable[..., list[Finding]]


def told(node: ast.AST, view: View) -> Iterator[Hit]:
    """Every node that is shown, as it stands in the file."""
    start, end = view.bytes_at(node)
    yield Hit(node, view.source[start:end].decode())


def hazard(nodes: tuple[type[ast.AST], ...], **asked: tuple[object, ...]) -> tuple[Hazard, ...]:
    return (Hazard("CKM05", "told", "A", "error", source=(Pattern(nodes, told, **asked),)),)  # type: ignore[arg-type]


NAMED = """
def ask(client, request, other):
    client.create(effort="low", model=M)
    client.create(model="effort", text=f(1))
    client.create(model=M, reasoning=dict(effort=1))
    request["effort"] = other["effort"]
    other = request["effort"]
    send({"effort": 1, "reasoning": 2})
    send({"text": "effort", **other})
"""
SHOWN = {
    ast.Call: [
        'client.create(effort="low", model=M)',
        "client.create(model=M, reasoning=dict(effort=1))",
        "dict(effort=1)",
    ],
    ast.Assign: ['request["effort"] = other["effort"]'],
    ast.Dict: ['{"effort": 1, "reasoning": 2}'],
    ast.keyword: ['effort="low"', "reasoning=dict(effort=1)", "effort=1"],
}


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.__name__)
def test_a_pattern_with_names_is_shown_each_node_that_has_one_itself_and_no_other(
    lint: Lint, kind: type[ast.AST]
) -> None:
    found = lint(NAMED, hazards=hazard((kind,), words=("effort",), names=("effort", "reasoning")))
    assert [finding.message for finding in found] == SHOWN[kind]


def test_a_condition_is_searched_for_its_own_words(lint: Lint) -> None:
    text = (
        "def ask(tools, last, step):\n"
        "    if last:\n        tools = []\n"
        "    if step:\n        tools = last\n"
        "    if last and step:\n        pass\n"
        "    return tools if last else last\n"
    )
    found = lint(text, hazards=hazard((ast.If, ast.IfExp), words=("tools",), is_near=True, tested=(("last", "final"),)))  # type: ignore[arg-type]
    assert [finding.message.split("\n")[0] for finding in found] == ["if last:", "tools if last else last"]


def test_names_and_conditions_say_which_files_are_searched(lint: Lint) -> None:
    rows = hazard((ast.If,), tested=(("nowhere",),))
    assert lint("def ask(prompt):\n    if prompt:\n        nothing()\n", hazards=rows) == []


PLACES = """
@needle(1)
@plain(1)
class Held(base(needle=1)):
    first = call(needle)
    @wrap(needle)
    def method(self, given=needle(2), *, other=lambda: needle(3)):
        try:
            return [f(one, needle) for one in [g(two)
                    for two in needle(4)] if h(one)]
        except E as error:
            raise Refused(needle) from error
        finally:
            done(self,
                 needle=5)
async def main():
    async with opened(needle) as file, other(6) as more:
        while ready(file) and needle(7):
            if plain(8):
                def inner(): return needle(9)
            elif needle(10): more[needle(11)] = plain(12)
            else: x = f"{needle(13)} {plain(14)}"
    match subject(needle):
        case 1: needle(15)
        case _: assert plain(16), needle(17)
"""


def shown(text: str, tmp_path: Path, kind: type[ast.AST], **asked: object) -> set[str]:
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    return {finding.message for finding in find_in_code([tmp_path], LintConfig(), hazard((kind,), **asked))}  # type: ignore[arg-type]


KINDS = (
    ast.Call,
    ast.Assign,
    ast.If,
    ast.Dict,
    ast.Subscript,
    ast.For,
    ast.ListComp,
    ast.FunctionDef,
    ast.keyword,
    ast.Return,
    ast.Try,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_words_leave_out_the_nodes_they_do_not_stand_in_and_no_other(kind: type[ast.AST], tmp_path: Path) -> None:
    texts = [
        PLACES,
        *(Path(module.__file__).read_text("utf-8") for module in (files, link, walk, tarfile, argparse)),
    ]
    n_left_out = 0
    for text in texts:
        everything = shown(text, tmp_path, kind)
        for word in ("needle", "name", "self.", " in "):
            near = {node for node in everything if word in node}
            assert shown(text, tmp_path, kind, words=(word,), is_near=True) == near
            n_left_out += len(everything) - len(near)
    assert n_left_out


def test_no_syntax_is_kept_when_the_lint_is_done(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def ask(messages):\n    for m in messages:\n        m['content'] = f'{m} (cleared)'\n" * 50
    )
    rows = hazard((ast.For, ast.FunctionDef))

    def left() -> int:
        return sum(isinstance(one, ast.AST) for one in gc.get_objects())

    list(find_in_code([tmp_path], LintConfig(), rows, jobs=1))
    gc.collect()
    gc.disable()
    try:
        before = left()
        list(find_in_code([tmp_path], LintConfig(), rows, jobs=1))
        assert left() == before
    finally:
        gc.enable()
