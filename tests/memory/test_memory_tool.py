"""The memory tool beside the SDK's own: the same commands, the same texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool
from anthropic.lib.tools._beta_functions import ToolError
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.errors import ToolRefusal
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory_tool import PARAMETERS, tools
from contextkit.providers.anthropic.blocks import TOOL_FORMAT as TOOLS
from contextkit.providers.openai import chat as chat_messages
from contextkit.providers.openai import responses as responses_items
from contextkit.tools.tool import Toolbox

Command = dict[str, Any]


def ours(memory: FileMemory, command: Command) -> tuple[str, bool]:
    [one] = tools(memory)
    try:
        return str(one.run(command)), False
    except ToolRefusal as refusal:
        return str(refusal), True


def theirs(memory: BetaLocalFilesystemMemoryTool, command: Command) -> tuple[str, bool]:
    try:
        return str(memory.call(command)), False
    except ToolError as error:
        return str(error), True


def compared(answer: tuple[str, bool]) -> tuple[str, bool]:
    """Without the one difference: a folder's size is that of its files here, of its entry on the disk there."""
    text, is_error = answer
    if not text.startswith("Here're"):
        return answer
    header, first, *rows = text.split("\n")
    return "\n".join(
        [header, sizeless(first), *(sizeless(row) if row.endswith("/") else row for row in rows)]
    ), is_error


def sizeless(row: str) -> str:
    return re.sub(r"^[\d.]+[BKMG]\t", "?\t", row)


def tidy(root: Path, mine: FileMemory) -> None:
    """The SDK makes the folder a file is to be moved to before it knows whether there is one to move, and leaves it
    when there is none."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not mine.exists(path.relative_to(root).as_posix()):
            path.rmdir()


PATHS = st.sampled_from(
    [f"/memories/{name}" for name in ["a.md", "b.txt", "folder", "folder/c.md", "folder/deep/d.md", "e f.md", "ü.md"]]
)
PLACES = st.one_of(PATHS, PATHS, st.just("/memories"))
TEXTS = st.text(st.sampled_from("ab\n\r\tü .`{"), max_size=12)
OLD = st.text(st.sampled_from("ab\n"), min_size=1, max_size=3)
NUMBERS = st.integers(-2, 6)


def a(command: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Command]:
    return st.fixed_dictionaries({"command": st.just(command), **fields})


COMMANDS = st.one_of(
    a("view", path=PLACES),
    a("view", path=PATHS, view_range=st.one_of(st.none(), st.lists(NUMBERS, max_size=3))),
    a("create", path=PATHS, file_text=TEXTS),
    a("create", path=PATHS, file_text=TEXTS),
    a("str_replace", path=PATHS, old_str=OLD, new_str=TEXTS),
    a("insert", path=PATHS, insert_line=NUMBERS, insert_text=TEXTS),
    a("delete", path=PLACES),
    a("rename", old_path=PLACES, new_path=PLACES),
)


def test_the_same_commands_give_the_texts_of_the_sdk(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    n_examples = 2_000 if request.config.getoption("--full") else 15
    counted = {"same, done": 0, "same, refused": 0, "no text there": 0}

    @settings(max_examples=n_examples, deadline=None, database=None, derandomize=True)
    @given(st.tuples(TEXTS, TEXTS), st.lists(COMMANDS, min_size=6, max_size=20))
    def same(texts: tuple[str, str], commands: list[Command]) -> None:
        folder = tmp_path_factory.mktemp("both")
        mine, reference = FileMemory(folder / "ours"), BetaLocalFilesystemMemoryTool(str(folder / "theirs"))
        begun = [
            {"command": "create", "path": f"/memories/{path}", "file_text": text}
            for path, text in zip(("a.md", "folder/c.md"), texts, strict=True)
        ]
        for command in [*begun, *commands]:
            said = ours(mine, command)
            try:
                expected = theirs(reference, command)
            except OSError:  # a file where it needs a folder, a folder moved into itself: the SDK has no text for these
                assert said[1], (command, said)
                counted["no text there"] += 1
                continue
            finally:
                tidy(folder / "theirs/memories", mine)
            assert compared(said) == compared(expected), command
            counted["same, refused" if said[1] else "same, done"] += 1

    same()
    print(counted)
    assert min(counted["same, done"], counted["same, refused"]) > 2 * n_examples


@pytest.fixture
def memory(tmp_path: Path) -> FileMemory:
    return FileMemory(tmp_path / "store")


def test_a_folder_is_shown_two_levels_deep_and_counts_what_is_in_it(memory: FileMemory) -> None:
    for path, size in {"a.md": 1536, "deep/one/two/three.md": 4096, "deep/b.md": 0, ".hidden/x.md": 10}.items():
        memory.write(path, "x" * size)
    assert ours(memory, {"command": "view", "path": "/memories"})[0].splitlines() == [
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:",
        "5.5K\t/memories",
        "1.5K\t/memories/a.md",
        "4K\t/memories/deep/",
        "0B\t/memories/deep/b.md",
        "4K\t/memories/deep/one/",
    ]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ({"command": "view", "path": "/etc/passwd"}, "Path must start with /memories, got: /etc/passwd"),
        ({"command": "view", "path": "/memoriesfoo"}, "Path must start with /memories, got: /memoriesfoo"),
        ({"command": "view", "path": "/memories/../../etc/passwd"}, "'..' leads to another folder"),
        ({"command": "create", "path": "/memories/%2e%2e/x", "file_text": ""}, "another spelling of a way out"),
        ({"command": "create", "path": "/memories/.contextkit/lock", "file_text": ""}, "the store's own folder"),
        ({"command": "create", "path": "/memories/A.md", "file_text": ""}, "differs from it by case"),
        ({"command": "str_replace", "path": "/memories/a.md", "old_str": "", "new_str": "x"}, "old_str is empty"),
        ({"command": "insert", "path": "/memories/a.md", "insert_text": "x"}, "The command insert needs insert_line."),
        ({"command": "erase", "path": "/memories"}, "command: must be one of 'view'"),
        ({"command": "view", "path": 3}, "path: must be text"),
        ({"command": "view", "path": "/memories/image.png"}, "is not UTF-8 text"),
    ],
)
def test_what_is_refused_says_why(memory: FileMemory, command: Command, text: str) -> None:
    memory.write("a.md", "text")
    memory.write("image.png", b"\x89PNG\xff")
    said, is_error = ours(memory, command)
    assert is_error and text in said


def test_each_provider_gets_the_form_it_knows(memory: FileMemory) -> None:
    [one] = tools(memory)
    assert TOOLS.sent(one.definition) == {"type": "memory_20250818", "name": "memory"}
    assert chat_messages.TOOLS.sent(one.definition)["function"]["name"] == "memory"
    assert responses_items.TOOLS.sent(one.definition)["parameters"] == PARAMETERS
    assert Toolbox(tools(memory)).names == ("memory",)
    one.run({"command": "create", "path": "/memories/a.md", "file_text": "x"})
    assert [row.path for row in memory.list()] == ["a.md"]
