"""Which tools joined a conversation after it began, read from its log.

Takes the entries of a log, and tools to be announced; gives bodies of `tools` entries and the tool that answers a call.
What was announced stays as it was announced: another definition under the same name is refused, since the model has
read the first one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contextkit.canonical import Json, parse
from contextkit.errors import InvalidTool, UsageError
from contextkit.log.entry import Entry, Kind
from contextkit.tools.late.bridge import call_tool, is_bridge, through
from contextkit.tools.late.search import SEARCH, catalogues
from contextkit.tools.tool import Arguments, Tool
from contextkit.tools.toolbox import Toolable, Toolbox

_WORDS = "New tools. Call each with {bridge}, its name and arguments that fit its schema:"


@dataclass(frozen=True, slots=True)
class Arrival:
    """Tools that are to join."""

    tools: tuple[Tool, ...]
    """All that were given."""
    new: tuple[Tool, ...]
    """Those that were not announced yet."""

    @property
    def body(self) -> Json:
        """Body of the entry that announces the new ones; its text is for providers that are told in words."""
        return {"definitions": [tool.definition for tool in self.new], "text": _WORDS.format(bridge=call_tool.name)}


class LateTools:
    """The tools announced in one conversation; fed every entry of its log, in order."""

    __slots__ = ("_entries", "_found", "_is_stale", "_tools")

    def __init__(self, log: Iterable[Entry] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._entries: dict[str, int] = {}
        """Name → sequence of the entry that announced it first."""
        self._found: dict[str, int] = {}
        """Name that a search found → sequence of the result that holds its definition."""
        self._is_stale = False
        """Whether an epoch took the announcements out of the prompt."""
        for entry in log:
            self.feed(entry)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """In the order they came; those nobody has bound since the log was opened have nothing to run."""
        return tuple(self._tools.values())

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if entry.kind == "tools":
            for tool in map(Tool.raw, parse(entry.body)["definitions"]):
                self._tools.setdefault(tool.name, tool)
                self._entries.setdefault(tool.name, entry.sequence)
            self._is_stale = False
        elif entry.kind == "result" and _SEARCHED in entry.body:
            self._found.update(dict.fromkeys(_found_in(parse(entry.body)), entry.sequence))
        elif entry.kind == "epoch":
            self._begin(parse(entry.body))

    def _begin(self, epoch: Json) -> None:
        """What was found goes with the result that holds it.

        Another tool set takes all, since what belongs to it stands in its head.
        """
        first = epoch["keep_from"]
        self._found = {name: at for name, at in self._found.items() if first is not None and at >= first}
        self._is_stale = bool(self._tools)
        if "tools" in epoch:
            self._tools, self._entries, self._found, self._is_stale = {}, {}, {}, False

    def due(self) -> tuple[Kind, Json] | None:
        """The entry that announces all of them anew, None where the prompt still says them."""
        return ("tools", Arrival(self.tools, self.tools).body) if self._is_stale else None

    def arriving(self, tools: Iterable[Toolable], head: Iterable[Json]) -> Arrival:
        """What `tools` bring, beside the definitions in the `head`.

        Raises `InvalidTool` for a name that is taken with another definition, or stands in the head; `UsageError` for
        no tools at all.
        """
        given = Toolbox(tools)
        if not len(given):
            raise UsageError("no tools were given: late_tools([…]) takes those that have come")
        taken = {Tool.raw(definition).name for definition in head}
        for tool in given:
            if tool.name in taken:
                raise InvalidTool(
                    f"tool {tool.name!r} stands in the head already: leave it out, or give it another name"
                )
            if tool.name in self._tools and self._tools[tool.name].body != tool.body:
                raise InvalidTool(
                    f"tool {tool.name!r} was announced by entry {self._entries[tool.name]} with another definition, which the model has "
                    "read: give it another name, or open an epoch with context.retool(…)"
                )
        return Arrival(given.tools, tuple(tool for tool in given if tool.name not in self._tools))

    def bind(self, tools: Iterable[Tool]) -> None:
        """Let these answer their calls, now that they are announced."""
        self._tools.update((tool.name, tool) for tool in tools if tool.name in self._tools)

    def entry_of(self, name: str) -> int:
        """Sequence of the entry that announced a tool. Raises `KeyError`."""
        return self._entries[name]

    def answering(self, name: str, arguments: Arguments, toolbox: Toolbox) -> Tool | None:
        """The tool that answers a call: of the head, announced, or behind the bridge.

        None where there is none of that name.
        """
        own = toolbox[name] if name in toolbox.names else None
        if own is None:
            return self._tools.get(name) or self.found(toolbox).get(name)
        return through({**self.found(toolbox), **self._tools}, arguments) if is_bridge(own.definition) else own

    @property
    def n_found(self) -> int:
        """How many tools a search has found."""
        return len(self._found)

    def found(self, toolbox: Toolbox) -> dict[str, Tool]:
        """Tools that a search of the toolbox has found, by name; what it does not know any more is left out."""
        known = catalogues(toolbox) if self._found else {}
        return {name: known[name] for name in self._found if name in known}

    def share(self, other: LateTools) -> None:
        """Let the functions of another conversation answer, where both announced the same."""
        self.bind(tool for tool in other.tools if tool.name in self._tools and self._tools[tool.name].body == tool.body)


_SEARCHED = b'"name":"' + SEARCH.encode() + b'"'
"""What stands in a result of the search."""


def _found_in(result: Json) -> list[str]:
    """Names of the tools whose definitions a search gave."""
    blocks = (
        [part["block"] for part in result["content"] if part["type"] == "native"] if result["name"] == SEARCH else []
    )
    return [str(block["name"]) for block in blocks if "name" in block]
