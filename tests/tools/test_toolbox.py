"""A set of tools: sealed, ordered, found by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.errors import InvalidTool
from contextkit.tools.adopt import adopted
from contextkit.tools.tool import Tool, Toolbox, tool


def search(query: str) -> str:
    """Search the web."""
    return query


@tool
def browser_open(url: str) -> str:
    """Open a page."""
    return url


class Page:
    def browser_click(self, at: str) -> str:
        """Click."""
        return at


SERVER = {"type": "web_search_20250305", "name": "web_search"}
RAW = {"name": "browser_close", "description": "Close.", "input_schema": {"type": "object", "properties": {}}}


def test_takes_everything_a_tool_is_made_of_in_the_order_given() -> None:
    box = Toolbox([search, browser_open, RAW, SERVER, Page().browser_click, Tool.raw({"name": "_private"})])
    assert box.names == ("search", "browser_open", "browser_close", "web_search", "browser_click", "_private")
    assert box.definitions() == [one.definition for one in box]
    assert box.families == {"browser": ("browser_open", "browser_close", "browser_click"), "web": ("web_search",)}
    assert len(box) == 6
    assert box["browser_open"] is browser_open
    assert "search" in box
    assert browser_open in box
    assert "other" not in box
    with pytest.raises(KeyError):
        box["other"]


def test_nothing_is_a_toolbox_too() -> None:
    assert (list(Toolbox()), Toolbox([]).families) == ([], {})
    assert Toolbox().digest == Toolbox(()).digest


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(
        InvalidTool, match=r"two tools are named 'search'; rename one: tool\(name=…\), or Tool.from_mcp"
    ):
        Toolbox([browser_open, search, {"name": "search"}])
    with pytest.raises(InvalidTool, match="two tools are named 'browser_open'"):
        Toolbox([browser_open, browser_open])


def test_what_is_no_tool_is_refused() -> None:
    with pytest.raises(
        InvalidTool, match=r"'fetch' is the name of a tool; give the tool itself: .*context\.toolbox\['fetch'\]"
    ):
        Toolbox(["fetch"])  # type: ignore[list-item]
    with pytest.raises(InvalidTool, match="int is no tool; give a function, a Tool, or a definition dict"):
        Toolbox([3])  # type: ignore[list-item]


def test_what_has_another_order_in_each_process_is_refused() -> None:
    both: dict[Any, None] = dict.fromkeys([search, browser_open])
    for unordered in (set(both), frozenset(both), set[Any]()):
        with pytest.raises(InvalidTool, match="tools are a list: a set has another order in each process"):
            Toolbox(unordered)
    assert Toolbox.sorted({search, browser_open}).names == ("browser_open", "search")
    assert Toolbox(both.keys()).names == ("search", "browser_open")  # the keys of a dict keep theirs


def test_a_dict_of_tools_and_a_text_are_refused_empty_ones_too() -> None:
    for wrong in ({search: 1}, {"search": search}, {}, "", b""):
        with pytest.raises(InvalidTool, match="tools are a list of functions, Tools or definition dicts, not "):
            Toolbox(wrong)  # type: ignore[arg-type]


def test_sealed() -> None:
    box = Toolbox([search])
    before = box.digest
    box.definitions()[0]["name"] = "other"
    box.families["x"] = ()
    assert box.digest == before


@given(st.permutations(["a", "b_1", "b_2", "C"]))
def test_digest_is_of_the_order_and_sorting_forgets_it(names: list[str]) -> None:
    tools = [{"name": name} for name in names]
    assert (Toolbox(tools).digest == Toolbox.sorted(tools).digest) == (names == sorted(names))
    assert Toolbox.sorted(tools).names == ("C", "a", "b_1", "b_2")


def test_digest_is_of_the_definitions_alone() -> None:
    ran = Tool.raw(RAW, run=lambda arguments: None)
    assert Toolbox([ran]).digest == Toolbox([RAW]).digest
    assert Toolbox([{**RAW, "description": "Shut."}]).digest != Toolbox([RAW]).digest
    assert len(Toolbox([RAW]).digest) == 16


def test_functions_for_the_tools_a_body_declares_need_no_order() -> None:
    declared = [{"name": "search", "description": "", "parameters": {"type": "object"}}, RAW]
    assert [one.name for one in adopted([dict(one) for one in declared], {search})] == ["search", "browser_close"]
