"""The pages run: every Python block of README.md and docs/, every command and every link they name.

The blocks of one page run in order in one namespace, in an empty folder of their own. A block fenced as `python no-run`
needs what a test has not (a key, a server); it must still compile."""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import get_args

import click
import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<marks>`{3,})(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)(?P=marks) *$",
    re.MULTILINE | re.DOTALL,
)
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
JUDGE = ROOT / "docs" / "explanation" / "judge.md"
COMMAND = re.compile(r"(?:^|[\s;&|(])contextkit ([a-z][a-z-]*)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")
KINDS_OF_PYTHON = {"python", "python no-run"}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    info: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"

    def compiled(self) -> CodeType:
        """The code, so compiled that a traceback shows the page's own line; `await` may stand at its top level."""
        padded = "\n" * self.line + self.code
        linecache.cache[self.name] = (len(padded), None, padded.splitlines(keepends=True), self.name)
        return compile(padded, self.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def run(self, namespace: dict[str, object]) -> None:
        code = self.compiled()
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, namespace))
        else:
            exec(code, namespace)


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        code = re.sub(rf"^{fence['indent']}", "", fence["code"], flags=re.MULTILINE)
        yield Block(page, line, " ".join(fence["info"].split()), code)


BLOCKS = [block for page in PAGES for block in blocks(page)]
PAGES_THAT_RUN = [page for page in PAGES if any(block.page == page and block.info == "python" for block in BLOCKS)]


def commands() -> set[str]:
    from contextkit.cli.main import cli

    with click.Context(cli) as context:
        return set(cli.list_commands(context))


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    for block in BLOCKS:
        if block.page == page and block.info == "python":
            block.run(module.__dict__)


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.info.startswith("python")], ids=lambda block: block.name
)
def test_a_python_block_compiles_and_is_fenced_as_one_of_two_kinds(block: Block) -> None:
    assert block.info in KINDS_OF_PYTHON
    block.compiled()


def test_every_command_is_on_a_page() -> None:
    written = {name for page in PAGES for name in COMMAND.findall(page.read_text(encoding="utf-8").replace("`", " "))}
    assert commands() - written == set()


def test_every_command_on_a_page_exists() -> None:
    written = {
        (block.name, name)
        for block in BLOCKS
        if block.info in {"bash", "console", "sh"}
        for name in COMMAND.findall(block.code)
    }
    known = commands()
    assert {(where, name) for where, name in written if name not in known} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    missing = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not missing, "\n".join(missing)


def test_the_tree_of_errors_is_that_of_the_code() -> None:
    from contextkit import errors

    tree = "\n".join(
        line.removeprefix("    ") for line in (errors.__doc__ or "").splitlines() if line.startswith("    ")
    )
    assert tree in ARCHITECTURE.read_text(encoding="utf-8")


def test_every_room_kind_of_entry_and_cause_of_a_miss_is_explained() -> None:
    from contextkit.ledger.verdict import Cause, Whose
    from contextkit.log.entry import Kind

    explained, causes = first_cells(ARCHITECTURE), first_cells(JUDGE)
    package = ROOT / "contextkit"
    rooms = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")} | {
        path.name for path in package.glob("*.py")
    }
    assert rooms - {"__init__.py", "__main__.py"} - explained == set()
    assert {*get_args(Kind)} - explained == set()
    assert {*get_args(Cause)} - causes == set()
    assert [whose for whose in get_args(Whose) if f"`{whose}`" not in JUDGE.read_text(encoding="utf-8")] == []


def first_cells(page: Path) -> set[str]:
    """Names in the first cells of the tables of a page."""
    rows = re.findall(r"^\| ([^|]*) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
