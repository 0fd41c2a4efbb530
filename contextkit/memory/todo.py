"""A todo list the model keeps by tool calls, as markdown in a file.

Takes a store and a path, gives the items and a tool that changes them. What else stands in the file stays where it is.
Nothing is removed: an item that is no longer wanted is dropped, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from contextkit.errors import FileMissing, ToolRefusal, UsageError
from contextkit.memory.files.names import names_of
from contextkit.memory.filestore import FileMemory
from contextkit.tools.tool import Tool, tool

T = TypeVar("T", int, str)
STATES = {" ": "open", "x": "done", "-": "dropped"}
"""What stands in the box of an item → what it is."""
_BOXES = {state: box for box, state in STATES.items()}
_ITEM = re.compile(r"^(\s*)[-*] \[([ xX-])\] (.*\S)\s*$")

Action = Literal["add", "done", "reopen", "drop", "reorder"]
_MARKS = {"done": "done", "reopen": "open", "drop": "dropped"}
"""Action → the state that it sets items to."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to do."""

    text: str
    """What."""
    state: str = "open"
    """open, done or dropped."""
    indent: str = ""
    """Blanks before it, for items below items."""

    @property
    def line(self) -> str:
        """As the file writes it."""
        return f"{self.indent}- [{_BOXES[self.state]}] {self.text}"


def parse_items(markdown: str) -> list[Item]:
    """The items of a markdown list, in order.

    >>> [(item.text, item.state) for item in parse_items("# Plan" + chr(10) + "- [x] read" + chr(10) + "* [ ] write")]
    [('read', 'done'), ('write', 'open')]
    """
    return [item for line in markdown.splitlines() if (item := _item(line)) is not None]


class Todo:
    """The list at `path` of a store; raises `PathRefused` for a path that may not be there."""

    def __init__(self, files: FileMemory, path: str = "todo.md", *, name: str | None = None) -> None:
        """`name` is what the model is told the list is called: its path, if left out."""
        if not isinstance(files, FileMemory):
            raise UsageError(f"Todo(files, path): files is a contextkit.FileMemory, not {type(files).__name__}")
        if not isinstance(path, str) or not names_of(path):
            raise UsageError(f"path={path!r}: the name of a markdown file in the store, such as todo.md")
        self._files, self.path = files, path
        self.name = path if name is None else name

    @property
    def root(self) -> str:
        """Where the store is that it stands in."""
        return self._files.root

    @property
    def markdown(self) -> str:
        """The whole file; empty where there is none yet."""
        try:
            return self._files.read(self.path)
        except FileMissing:
            return ""

    @property
    def items(self) -> list[Item]:
        """Every item, in order."""
        return parse_items(self.markdown)

    def add(self, texts: Iterable[str], before: int | None = None) -> list[Item]:
        """Put new items behind all others, or before item `before` (from 1).

        Raises `ToolRefusal` like every change here.
        """
        new = [Item(" ".join(text.split())) for text in _list_of(str, texts, "texts")]
        if not new:
            raise ToolRefusal("nothing to add: give items, a list of texts")
        if not all(item.text for item in new):
            raise ToolRefusal("an item without words: say what is to be done")
        with self._changing() as items:
            at = len(items) if before is None else _place(items, before)
            items[at:at] = new
        return items

    def mark(self, numbers: Iterable[int], state: str) -> list[Item]:
        """Set items (from 1) to open, done or dropped."""
        wanted = _list_of(int, numbers, "numbers")
        if state not in tuple(_BOXES):  # a list has no hash
            raise UsageError(f"state={state!r}: one of {', '.join(_BOXES)}")
        with self._changing() as items:
            if not wanted:
                raise ToolRefusal(f"no item named: give numbers from 1 to {len(items)}")
            for place in [_place(items, number) for number in wanted]:
                items[place] = replace(items[place], state=state)
        return items

    def reorder(self, numbers: Iterable[int]) -> list[Item]:
        """Bring the items into this order; those not named follow as they stood."""
        wanted = _list_of(int, numbers, "numbers")
        with self._changing() as items:
            first = [_place(items, number) for number in wanted]
            if len(set(first)) < len(first) or not first:
                raise ToolRefusal(f"numbers={wanted}: name each item once, in the order they should have")
            rest = [place for place in range(len(items)) if place not in first]
            items[:] = [items[place] for place in [*first, *rest]]
        return items

    def open_items_text(self, most: int = 50) -> str:
        """Return the open items, numbered, and how many are done; empty where none is open.

        This is what is recited: short, and the same text for the same list.
        """
        items = self.items
        still = [(number, item) for number, item in enumerate(items, 1) if item.state == "open"]
        if not still:
            return ""
        lines = [f"{number}. {item.indent}{item.text}" for number, item in still[:most]]
        more = [f"… and {len(still) - most} more"] if len(still) > most else []
        n_done = sum(item.state == "done" for item in items)
        return "\n".join([f"Still to do ({self.name}, {n_done} of {len(items)} done):", *lines, *more])

    def tools(self) -> list[Tool]:
        """The tool `todo`, with which the model keeps the list."""

        def todo(
            action: Action, items: list[str] | None = None, numbers: list[int] | None = None, before: int | None = None
        ) -> str:
            """Keep the list of what is still to do. Add items before you begin, and mark each done as soon as it is.

            Args:
                action: add items; set numbers to done, back to open (reopen) or dropped (drop); reorder: numbers in their new order.
                items: Texts to add, one line each.
                numbers: Numbers of the items meant, as the list shows them.
                before: Where to add: before the item of this number. At the end if left out.

            """
            if action == "add":
                changed = self.add(items or [], before)
            elif action == "reorder":
                changed = self.reorder(numbers or [])
            else:
                changed = self.mark(numbers or [], _MARKS[action])
            rows = (f"{number}. [{_BOXES[one.state]}] {one.indent}{one.text}" for number, one in enumerate(changed, 1))
            return "\n".join(rows)

        return [tool(todo)]

    @contextmanager
    def _changing(self) -> Iterator[list[Item]]:
        """Give the items, and write them as the block leaves them unless it raises."""
        with self._files.alone():
            before = self.markdown
            items = parse_items(before)
            yield items
            self._files.write(self.path, _written(before, items))


def _list_of(kind: type[T], values: Iterable[T], name: str) -> list[T]:
    """Return a list of them. Raises `UsageError` for one that stands alone, and for what is something else."""
    listed = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else None
    if listed is None or any(type(value) is not kind for value in listed):
        example = values if type(values) is kind else kind(1)
        raise UsageError(f"{name} is a list of {kind.__name__}, for example [{example!r}], not {values!r}")
    return listed


def _item(line: str) -> Item | None:
    found = _ITEM.match(line)
    return None if found is None else Item(found[3], STATES[found[2].lower()], found[1])


def _place(items: list[Item], number: int) -> int:
    if not 1 <= number <= len(items):
        raise ToolRefusal(f"there is no item {number}: the list has {len(items)}")
    return number - 1


def _written(before: str, items: list[Item]) -> str:
    """Return the file with its items changed: each stands where an item stood, more follow the last one; other lines stay."""
    lines, rows = before.splitlines(), [item.line for item in items]
    places = [place for place, line in enumerate(lines) if _item(line) is not None]
    end = places[-1] + 1 if places else len(lines)
    lines[end:end] = rows[len(places) :]
    for place, row in zip(places, rows, strict=False):
        lines[place] = row
    return "\n".join(lines) + "\n"
