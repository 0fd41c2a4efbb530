"""What an agent keeps outside its window: files, the rule for large results, the plan and when it is said again.

Takes a store and the rules, gives the tools a model works with. One memory may serve many conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import MemoryRefused, UsageError
from contextkit.memory.facts.facts import Facts
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory_tool import tools as memory_tools
from contextkit.memory.offload import Offload, bytes_of
from contextkit.memory.pins import pin_tool
from contextkit.memory.reading import in_declared_form, reading_tool
from contextkit.memory.recall import search_tools
from contextkit.memory.recitation import Recitation
from contextkit.memory.reference import Reference, References
from contextkit.memory.residency import Residency, Rule
from contextkit.memory.search.current import Current
from contextkit.memory.search.index import Index
from contextkit.memory.todo import Todo
from contextkit.tools.tool import Tool

_RULES: dict[str, Any] = {"offload": Offload, "recitation": Recitation, "todo": Todo, "facts": Facts}


class Memory:
    """Files, and how they are used; None switches a part off.

    >>> [tool.name for tool in Memory(FileMemory("memory://tools")).tools()]
    ['memory', 'read_reference', 'todo']
    """

    def __init__(
        self,
        files: FileMemory,
        *,
        offload: Offload | None = Offload(),  # noqa: B008 (frozen)
        todo: Todo | str | None = "todo.md",
        recitation: Recitation | None = Recitation(),  # noqa: B008 (frozen)
        has_file_tool: bool = True,
        has_pin_tool: bool = False,
        fetch: Callable[[str], bytes] | None = None,
        index: Index | None = None,
        facts: Facts | None = None,
        residency: Residency | Rule | None = None,
    ) -> None:
        """`todo` is a path in `files`.

        `residency` chooses how each result that `offload` calls large lives in the window; None keeps all of them as
        references. With `has_pin_tool` the model can pin what no summary may lose.

        `fetch` gets the bytes of a source that was not stored; an `index` makes all of it searchable.
        """
        if not isinstance(files, FileMemory):
            raise UsageError(
                f"a memory is a contextkit.FileMemory, or a Memory over one, not {type(files).__name__}: FileMemory(folder)"
            )
        if fetch is not None and not callable(fetch):
            raise UsageError(f"fetch is a function from a source to its bytes, not {type(fetch).__name__}")
        self.files, self.offload, self.recitation, self.fetch = files, offload, recitation, fetch
        self.todo = Todo(files, todo) if isinstance(todo, str) else todo
        self.index, self.facts = None if index is None else Current(index, self._content), facts
        self.references = References()
        """What was offloaded in any conversation that uses this memory."""
        self.residency = Residency.of(residency)
        self._has_file_tool, self._has_pin_tool = has_file_tool, has_pin_tool
        self._built: tuple[Any, list[Tool]] | None = None
        """Parts that the tools were built for, and the tools."""
        for name, kind in _RULES.items():
            if not isinstance(getattr(self, name), kind | None):
                given = type(getattr(self, name)).__name__
                raise UsageError(
                    f"{name} is {'a path, ' * (name == 'todo')}a contextkit.memory.{kind.__name__} or None, not {given}"
                )

    @classmethod
    def of(cls, memory: Memory | FileMemory) -> Memory:
        """A memory over a bare store, with every rule at its default."""
        return memory if isinstance(memory, Memory) else cls(memory)

    def with_plan(self, path: str) -> Memory:
        """The same files, references and index with another todo list, at `path`.

        The model is told of it by the name of this one.
        """
        other = copy(self)
        if self.todo is not None:
            other.todo = Todo(self.files, path, name=self.todo.name)
        return other

    def tools(self, declared: Iterable[Json] = ()) -> list[Tool]:
        """The tools the model works with, in a fixed order: they belong into the head of a conversation from its first
        call on.

        `declared` are the definitions a log holds already: a tool that was declared by an earlier version keeps that
        definition.
        """
        parts = self.offload, self.todo, self.index
        if self._built is None or self._built[0] != parts:
            self._built = parts, self._build_tools()
        return in_declared_form(self._built[1], declared)

    def _build_tools(self) -> list[Tool]:
        """The tools as this version declares them; their definitions are read from signatures, which takes long."""
        files = memory_tools(self.files) if self._has_file_tool else []
        reading = (
            [] if self.offload is None else [reading_tool(self.references, self._bytes_of, self.offload.read_bytes)]
        )
        todo = self.todo.tools() if self.todo is not None else []
        searching = search_tools(self.index) if self.index is not None else []
        pinning = [pin_tool()] if self._has_pin_tool else []
        return [*files, *reading, *todo, *searching, *pinning]

    def _bytes_of(self, reference: Reference) -> bytes:
        return bytes_of(reference, self.files, self.fetch)

    def _content(self, reference: Reference) -> bytes | None:
        """What a reference names, for the index; None where it is not at hand."""
        try:
            return bytes_of(reference, self.files)
        except MemoryRefused:
            return None
