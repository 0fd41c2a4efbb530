"""`read_reference` reads parts of stored results within a limit, by ranges, by several ids, by a text."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, tool
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.errors import FileMissing, HeadChanged, InvalidCall
from contextkit.log.log import Log
from contextkit.memory import FileMemory, Memory, Offload
from contextkit.memory.offload import offload
from contextkit.memory.reading import EARLIER_DEFINITIONS, parse_part
from contextkit.tools.late import call_tool
from contextkit.tools.tool import Tool
from tests.laws.wires import answer

_numbers = count()
MODEL = AnthropicMessages("claude-sonnet-5-5", max_tokens=64)
USAGE = Usage(10, 0, 0, 0, 5)


def stored(*texts: str, rule: Offload = Offload()) -> tuple[Tool, list[str]]:  # noqa: B008 (frozen)
    """The tool of a memory that holds these texts, and their ids."""
    memory = Memory(FileMemory(f"memory://reading-{next(_numbers)}"), offload=rule)
    references = offload([{"type": "text", "text": text} for text in texts], memory.files, Offload(2, 1)).references
    for reference in references:
        memory.references.add(reference)
    [read] = [one for one in memory.tools() if one.name == "read_reference"]
    return read, [reference.id for reference in references]


def rows(n: int, word: str = "row") -> str:
    return "\n".join(f"{word} {number}" for number in range(1, n + 1))


def test_one_call_returns_up_to_the_threshold() -> None:
    text = rows(10_000)
    read, [name] = stored(text)
    shown = str(read.run({"id": name}))
    assert 15_900 <= len(shown.encode()) <= 16_100 and shown.endswith("go on with start_line=1901]")
    read, [name] = stored(text, rule=Offload(read_tokens=500))
    assert len(str(read.run({"id": name}))) < 2_100


def test_a_page_hardly_larger_than_the_threshold_is_read_in_one_call() -> None:
    text = "x" * 99 + ("\n" + "x" * 99) * 175
    read, [name] = stored(text)
    assert read.run({"id": name}) == f"{text}\n[lines 1 to 176 of 176]"


def test_several_ranges_and_several_references_are_read_at_once() -> None:
    read, [one, other] = stored(rows(900), rows(900, "line"))
    shown = read.run({"id": one, "ranges": ["3-4", "800-", f"{other}:5-5", other]})
    parts = str(shown).split("[reference ")
    assert parts[1] == f"{one}]\nrow 3\nrow 4\n[lines 3 to 4 of 900; go on with start_line=5]\n"
    assert parts[2].startswith(f"{one}]\nrow 800\n") and parts[2].endswith("\nrow 900\n[lines 800 to 900 of 900]\n")
    assert parts[3] == f"{other}]\nline 5\n[lines 5 to 5 of 900; go on with start_line=6]\n"
    assert parts[4].endswith("line 900\n[lines 1 to 900 of 900]")
    assert str(read.run({"ranges": [f"{other}:2-2"]})) == "line 2\n[lines 2 to 2 of 900; go on with start_line=3]"
    both = str(read.run({"id": one, "start_line": 900, "ranges": [f"{other}:900"]}))
    assert "row 900" in both and "line 900" in both


def test_what_did_not_fit_is_named() -> None:
    read, ids = stored(*(rows(5_000, word) for word in ("a", "b", "c")))
    shown = str(read.run({"ranges": [ids[0], f"{ids[1]}:10-20", ids[2]]}))
    assert shown.endswith(f"[this call is full; not read: {ids[1]}:10-20, {ids[2]}]") and len(shown) < 16_400


def test_a_reference_that_is_not_there_does_not_spoil_the_others() -> None:
    read, [name] = stored(rows(900))
    shown = str(read.run({"ranges": [f"{name}:1-1", "ab" * 8, f"{name}:2000"]}))
    assert "row 1\n" in shown and "[no reference is named 'abab" in shown and "[start_line=2000: there are" in shown
    with pytest.raises(FileMissing):
        read.run({"id": "ab" * 8})


def test_lines_are_found_by_what_they_hold() -> None:
    read, [name] = stored(rows(900) + "\nthe Secret figure is 4711\n" + rows(900))
    assert read.run({"id": name, "find": "secret  FIGURE"}) == (
        '901: the Secret figure is 4711\n[1 of 1801 lines hold "secret  FIGURE"]'
    )
    assert read.run({"id": name, "find": "zebra"}) == '[0 of 1801 lines hold "zebra"]'
    assert "902: row 1\n" in str(read.run({"ranges": [f"{name}:902-"], "find": "row 1"}))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"id": " "}, {"id": "abcdef", "start_line": 0}, {"id": "abcdef", "n_lines": 0}, {"ranges": ["abcdef:x"]}],
)
def test_what_names_nothing_to_read_is_refused_in_words(arguments: dict[str, Any]) -> None:
    read, _ = stored(rows(900))
    with pytest.raises(InvalidCall):
        read.run(arguments)


@given(st.text(max_size=40), st.sampled_from(["", "abcdef"]))
def test_any_range_is_read_or_refused(text: str, id: str) -> None:
    with suppress(InvalidCall):
        assert parse_part(text, id).id


# Conversations begun with an earlier definition
# ----------------------------------------------------------------------------------------------------------------------


@tool
def fetch(url: str) -> str:
    """Get a page."""
    return rows(5_000)


def memory_at(folder: Path) -> Memory:
    return Memory(FileMemory(folder / "files"), todo=None, recitation=None, has_file_tool=False)


def begun_earlier(folder: Path, **more: Any) -> None:
    """A conversation in `folder` as an earlier version began it."""
    definitions = [fetch.definition, parse(EARLIER_DEFINITIONS[0])]
    with Context.open(folder, MODEL, system="Careful.", tools=map(Tool.raw, definitions), **more) as context:
        context.user("Read it.")


def test_a_conversation_begun_earlier_keeps_its_definition(tmp_path: Path) -> None:
    begun_earlier(tmp_path)
    memory = memory_at(tmp_path)
    with Context.open(tmp_path, MODEL, system="Careful.", tools=[fetch], memory=memory) as context:
        assert context.request()["tools"][1]["input_schema"]["required"] == ["id"]
        calls = [("call", "c1", "fetch", {"url": "https://example.com"})]
        context.receive(answer(MODEL.wire, "r1", calls, USAGE), context.request())
        entry = context.result(context.calls[0], context.calls[0].run())
        name = parse(entry.body)["references"][0]["digest"][:16]
        calls = [("call", "c2", "read_reference", {"id": name, "start_line": 4_999})]
        context.receive(answer(MODEL.wire, "r2", calls, USAGE), context.request())
        assert context.calls[0].run() == "row 4999\nrow 5000\n[lines 4999 to 5000 of 5000]"
        context.interrupt("enough")
        agent = context.spawn("Go on.")
        assert agent.request()["tools"] == context.request()["tools"]
        branch = context.fork()
        assert branch.request()["tools"] == context.request()["tools"]
        agent.close()
    with Context.open(tmp_path, MODEL, system="Careful.", tools=[fetch], memory=memory_at(tmp_path)) as context:
        assert context.agent(context.agents[0]).request()["tools"] == context.request()["tools"]
    with pytest.raises(HeadChanged):
        Context.open(tmp_path, MODEL, system="Careful.", tools=[], memory=memory_at(tmp_path))


def test_a_late_tool_announced_earlier_is_bound_again(tmp_path: Path) -> None:
    log, memory = Log(), memory_at(tmp_path)
    context = Context(MODEL, system="Careful.", tools=[fetch, call_tool], log=log)
    context.user("Go.")
    context.late_tools([Tool.raw(parse(EARLIER_DEFINITIONS[0]))])
    again = Context(MODEL, log=log, memory=memory)
    again.late_tools(memory.tools())
    before = context.request().body
    assert again.request().body == before


def test_a_tool_of_that_name_that_is_somebody_s_own_is_left_alone() -> None:
    own = Tool.raw({"name": "read_reference", "description": "Mine.", "parameters": {"type": "object"}}, run=str)
    memory = Memory(FileMemory(f"memory://own-{next(_numbers)}"), has_file_tool=False, todo=None, recitation=None)
    context = Context(MODEL, tools=[own], memory=memory)
    assert context.toolbox["read_reference"] is own
