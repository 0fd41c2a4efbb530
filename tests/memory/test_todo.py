"""The plan in a file: what the model's calls do to it, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.errors import InvalidCall, ToolRefusal
from contextkit.memory import FileMemory, Todo
from contextkit.memory.todo import Item, parse_items


def todo(text: str | None = None) -> Todo:
    files = FileMemory("memory://todo-test")
    if files.exists("todo.md"):
        files.delete("todo.md")
    if text is not None:
        files.write("todo.md", text)
    return Todo(files)


def call(one: Todo, **arguments: Any) -> Any:
    return one.tools()[0].run(arguments)


def test_the_model_adds_ticks_drops_and_reorders() -> None:
    one = todo()
    assert call(one, action="add", items=["read", "write", "check"]) == "1. [ ] read\n2. [ ] write\n3. [ ] check"
    assert call(one, action="done", numbers=[1]).startswith("1. [x] read")
    assert call(one, action="add", items=["plan"], before=1).splitlines()[:2] == ["1. [ ] plan", "2. [x] read"]
    assert call(one, action="reorder", numbers=[3, 1]).splitlines() == [
        "1. [ ] write",
        "2. [ ] plan",
        "3. [x] read",
        "4. [ ] check",
    ]
    assert "[-] check" in call(one, action="drop", numbers=[4])
    assert "[ ] read" in call(one, action="reopen", numbers=[3])
    assert one.open_items_text() == "Still to do (todo.md, 0 of 4 done):\n1. write\n2. plan\n3. read"


def test_what_else_the_file_says_stays_where_it_is() -> None:
    one = todo("# Plan\n\n- [ ] first\n  - [ ] inside\nA note.\n* [X] old\n\nThe end.\n")
    one.mark([1], "done")
    one.add(["last"])
    assert one.markdown == "# Plan\n\n- [x] first\n  - [ ] inside\nA note.\n- [x] old\n- [ ] last\n\nThe end.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "done", "numbers": [3]},
        {"action": "done"},
        {"action": "add"},
        {"action": "add", "items": ["  "]},
        {"action": "add", "items": ["x"], "before": 9},
        {"action": "reorder", "numbers": [1, 1]},
        {"action": "reorder"},
        {"action": "drop", "numbers": [0]},
    ],
)
def test_a_call_that_means_nothing_is_refused_in_words_and_changes_nothing(arguments: dict[str, Any]) -> None:
    one = todo("- [ ] a\n- [x] b\n")
    with pytest.raises(ToolRefusal):
        call(one, **arguments)
    assert one.markdown == "- [ ] a\n- [x] b\n"


def test_an_action_that_does_not_exist_is_refused_by_the_schema() -> None:
    with pytest.raises(InvalidCall):
        call(todo(), action="erase")


def test_nothing_open_is_nothing_to_say() -> None:
    assert todo().open_items_text() == "" and todo("- [x] a\n- [-] b\n").open_items_text() == ""


ITEMS = st.lists(
    st.builds(
        Item,
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=9)
        .map(str.strip)
        .filter(bool),
        st.sampled_from(["open", "done", "dropped"]),
    ),
    max_size=8,
)


@given(ITEMS, st.data())
def test_a_list_reads_back_as_it_was_written_in_any_order(items: list[Item], data: st.DataObject) -> None:
    assert parse_items("\n".join(item.line for item in items)) == items
    if items:
        one = todo("\n".join(item.line for item in items))
        order = data.draw(st.permutations(range(1, len(items) + 1)))
        one.reorder(order)
        assert one.items == [items[number - 1] for number in order]
