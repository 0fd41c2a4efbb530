"""No two adapters are alike: what they have in common stands in one place.

Counted as `docs/architecture.md` says, from the tokens of each file.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROVIDERS = ROOT / "contextkit" / "providers"
FOLDERS = ("anthropic", "openai", "openai_compatible", "bedrock", "gemini")
SHARED = ("blockwise", "neutral")
"""Folders of what adapters have in common."""
ADAPTERS = {
    "Messages": "anthropic/*.py",
    "Chat": "openai/chat*.py",
    "Responses": "openai/responses*.py",
    "compatible": "openai_compatible/*.py",
    "Converse": "bedrock/*.py",
    "Gemini": "gemini/*.py",
}
"""Adapter → the files that are its own."""
MOST_ALIKE = 0.20
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of(source: str) -> list[str]:
    """Lines that hold code, each as its tokens: no blanks, comments and docstrings.

    >>> lines_of('def f(a):  # why\\n    \"\"\"What.\"\"\"\\n\\n    return  a')
    ['def f ( a ) :', 'return a']
    """
    docstrings, lines = set(docstring_lines(source)), dict[int, list[str]]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        for line in range(token.start[0], token.end[0] + 1) if token.type not in _NO_CODE else ():
            if line not in docstrings:
                lines.setdefault(line, []).append(token.string)
    return [" ".join(lines[line]) for line in sorted(lines)]


def docstring_lines(source: str) -> Iterator[int]:
    """Lines of docstrings, those of fields and tables included: expressions that are a text and nothing else."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def code_of(pattern: str) -> list[str]:
    return [line for path in sorted(PROVIDERS.glob(pattern)) for line in lines_of(path.read_text(encoding="utf-8"))]


def words_of(pattern: str) -> Counter[str]:
    """Lines that say something of their own: imports and lone brackets are alike everywhere."""
    return Counter(
        line for line in code_of(pattern) if not line.startswith(("import ", "from ")) and re.search(r"\w", line)
    )


def in_common(one: str, other: str) -> tuple[float, Counter[str]]:
    """The lines two adapters both have, and their share of the smaller one."""
    mine, theirs = words_of(ADAPTERS[one]), words_of(ADAPTERS[other])
    return (mine & theirs).total() / min(mine.total(), theirs.total()), mine & theirs


@pytest.mark.parametrize(("one", "other"), list(combinations(ADAPTERS, 2)))
def test_no_two_adapters_say_the_same(one: str, other: str) -> None:
    share, lines = in_common(one, other)
    assert share <= MOST_ALIKE, lines.most_common()


def test_every_folder_of_an_adapter_is_counted() -> None:
    speaking = re.compile(r"^    wire = |^    words, wire", re.MULTILINE)
    found = {path.parent.name for path in PROVIDERS.rglob("*.py") if speaking.search(path.read_text(encoding="utf-8"))}
    assert found <= set(FOLDERS) == {pattern.split("/")[0] for pattern in ADAPTERS.values()}


def test_the_page_says_how_it_is_counted() -> None:
    page = " ".join((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split())
    assert [folder for folder in (*FOLDERS, *SHARED) if f"`{folder}/`" not in page] == []
    (one, other), share = max(
        ((pair, in_common(*pair)[0]) for pair in combinations(ADAPTERS, 2)), key=lambda found: found[1]
    )
    assert f"more than {MOST_ALIKE * 100:.0f} % in common, {one} and {other} the most, {share * 100:.0f} %" in page
