"""All tools of a conversation, in one order that never changes.

Takes functions, tools and raw definitions; gives them sealed, in order, by name and by family. Knows nothing of who may
use which.

Tools stand first in every prompt: another order, or one tool more, and nothing after them is read from the cache. Give
a fixed order; for lists whose order drifts (MCP servers after a reconnect) use `Toolbox.sorted`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Reversible
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.errors import InvalidTool
from contextkit.tools.mcp import caller, read_pages
from contextkit.tools.tool import Function, Tool, tool

Toolable = Tool | Function | Mapping[str, Json]
"""A tool, a function it is made of, or a definition in any form `Tool.raw` reads."""


@dataclass(frozen=True, slots=True, init=False)
class Toolbox:
    """Tools, sealed and ordered."""

    tools: tuple[Tool, ...]
    """In the order the model sees them."""
    _by_name: dict[str, Tool] = field(repr=False, compare=False)
    """The same, to be found."""

    def __init__(self, tools: Iterable[Toolable] = ()) -> None:
        """Seal `tools` in the order given.

        Raises `InvalidTool` for what has no order, for two of one name, and for what no tool is.
        """
        if isinstance(tools, AbstractSet) and not isinstance(
            tools, Reversible
        ):  # keys of a dict, and ordered sets, can be reversed
            raise InvalidTool(
                "tools are a list: a set has another order in each process, or Toolbox.sorted(…) gives it one"
            )
        made = _as_tools(tools)
        by_name = {one.name: one for one in made}
        if len(by_name) < len(made):
            names = [one.name for one in made]
            twice = next(name for name in by_name if names.count(name) > 1)
            raise InvalidTool(f"two tools are named {twice!r}; rename one: tool(name=…), or Tool.from_mcp(…, prefix=…)")
        object.__setattr__(self, "tools", made)
        object.__setattr__(self, "_by_name", by_name)

    @classmethod
    def sorted(cls, tools: Iterable[Toolable]) -> Toolbox:
        """The tools in the order of their names, whatever order they come in.

        >>> Toolbox.sorted([{"name": "b"}, {"name": "a"}]).names
        ('a', 'b')
        """
        in_order: list[Tool] = sorted(_as_tools(tools), key=lambda one: one.name)
        return cls(in_order)

    @classmethod
    async def from_mcp(cls, session: Any, *, prefix: str = "") -> Toolbox:
        """All tools of an MCP server, every page of them, in the order of their names: the same toolbox after every
        reconnect.

        `session` is an open `mcp.ClientSession` or `mcp.Client`; the tools call it. Raises `InvalidTool` for two tools
        of one name.
        """
        return cls.sorted(Tool.from_mcp(await read_pages(session), call=caller(session), prefix=prefix))

    def definitions(self) -> list[Json]:
        """The neutral definitions, in order; fresh copies."""
        return [one.definition for one in self.tools]

    @property
    def digest(self) -> bytes:
        """16 bytes that change when a definition or the order does."""
        return hashlib.blake2b(canonical(self.definitions()), digest_size=16).digest()

    @property
    def names(self) -> tuple[str, ...]:
        """In order."""
        return tuple(self._by_name)

    @property
    def families(self) -> dict[str, tuple[str, ...]]:
        """Names by what stands before their first underscore; a name without one has no family.

        >>> Toolbox([{"name": "browser_open"}, {"name": "search"}, {"name": "browser_click"}]).families
        {'browser': ('browser_open', 'browser_click')}
        """
        found: dict[str, tuple[str, ...]] = {}
        for name in self.names:
            prefix, underscore, _ = name.partition("_")
            if prefix and underscore:
                found[prefix] = (*found.get(prefix, ()), name)
        return found

    def __getitem__(self, name: str) -> Tool:
        """The tool of that name. Raises `KeyError`, as a mapping does."""
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        """Whether a tool, or a tool of that name, is here."""
        return name in self._by_name or name in self.tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


def _as_tools(tools: Iterable[Toolable]) -> tuple[Tool, ...]:
    if not isinstance(tools, Iterable) or isinstance(tools, str | bytes | Mapping):
        raise InvalidTool(f"tools are a list of functions, Tools or definition dicts, not {type(tools).__name__}")
    return tuple(map(_as_tool, tools))


@singledispatch
def _as_tool(thing: object) -> Tool:
    if not callable(thing):
        raise InvalidTool(f"{type(thing).__name__} is no tool; give a function, a Tool, or a definition dict")
    return tool(thing)


@_as_tool.register(Tool)
def _(thing: Tool) -> Tool:
    return thing


@_as_tool.register(Mapping)
def _(thing: Mapping[str, Json]) -> Tool:
    return Tool.raw(thing)
