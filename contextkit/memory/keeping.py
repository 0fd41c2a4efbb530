"""The memory of one conversation: what goes to files as it is written, what is recited, what a reference brings back.

Takes the entries of a log, in order, and bodies about to be written; gives bodies. Keeps nothing that the log does not
say.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping

from contextkit.canonical import Json, parse
from contextkit.errors import MemoryRefused, UsageError
from contextkit.log.entry import Entry, Kind
from contextkit.log.log import Log
from contextkit.log.turns import Turns
from contextkit.log.variation import Steps, Variation, unvaried, varied
from contextkit.memory.memory import Memory
from contextkit.memory.offload import Offloaded, offload, restore, size_of, store_binary, without_binary
from contextkit.memory.recitation import Recital
from contextkit.memory.reference import Reference
from contextkit.terminal import sanitize
from contextkit.tools.tool import Tool
from contextkit.tools.toolbox import Toolbox

_READER = "read_reference"
"""The tool whose result is a piece of what was kept outside, and stays in the window."""
_TELLING = frozenset({"opened", "epoch"})
"""Entries that may set the tools of the head."""


NO_READER = (
    "the model has no read_reference, as this conversation was begun without a memory: open it with tools=[…], memory=…, "
    "allow_new_head=True, or give it context.late_tools(context.memory.tools())"
)


class Keeping:
    """A memory, or none, at work in one conversation."""

    __slots__ = ("_recital", "_steps", "_tools", "can_read", "memory", "variation")

    def __init__(self, memory: Memory | None, variation: Variation | None, log: Iterable[Entry]) -> None:
        if not isinstance(variation, Variation | None):
            raise UsageError(f"variation is a contextkit.Variation, not {type(variation).__name__}")
        self.memory, self.variation = memory, variation
        self._tools = () if memory is None else tuple(memory.tools())
        self.can_read = False
        """Whether the model has the tool that reads references: not where the conversation was begun without a memory.
        """
        self._recital = Recital()
        self._steps = Steps() if variation is None else Steps(variation.window, variation.similarity)
        for entry in log:
            self.feed(entry)

    def check(self, model: str, binds_thinking: bool) -> None:
        """Raises `UsageError` where the rules ask for what a model does not take."""
        rule = None if self.memory is None else self.memory.recitation
        if rule is not None and not rule.stays and binds_thinking:
            raise UsageError(
                f"Recitation(stays=False) takes words out of the history, and {model} binds its thinking to what stood before it: "
                "leave stays as it is, or use another model"
            )

    def follow(self, log: Log) -> None:
        """Let what this log says be found by searching."""
        if self.memory is not None and self.memory.index is not None:
            self.memory.index.follow(log)

    def joined(self, toolbox: Toolbox) -> Toolbox:
        """The tools of a conversation and, behind them, those of its memory.

        Of two with one name the conversation's stands.
        """
        return Toolbox([*toolbox, *(tool for tool in self._tools if tool.name not in toolbox.names)])

    def rebound(self, tools: Iterable[Tool]) -> list[Tool]:
        """`tools` with those of a todo list answered by the list of this memory: a sub-agent has its caller's tools,
        not its plan.
        """
        todo = None if self.memory is None else self.memory.todo
        own = {} if todo is None else {tool.name: tool for tool in todo.tools()}
        return [own[tool.name] if tool.name in own and own[tool.name].body == tool.body else tool for tool in tools]

    @property
    def own(self) -> dict[str, bytes]:
        """The tools of the memory, name → definition: what the prompt tells the model to call."""
        return {tool.name: tool.body for tool in self._tools}

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if self.variation is not None:
            self._steps.feed(entry)
        if self.memory is None:
            return
        self._recital.feed(entry)
        if entry.kind == "tools":
            self.can_read = self.can_read or _has_reader(parse(entry.body)["definitions"])
        elif entry.kind in _TELLING and (told := parse(entry.body).get("tools")) is not None:
            self.can_read = _has_reader(told)
        for reference in references_of(entry):
            self.memory.references.add(reference)

    def due(self, turns: Turns) -> tuple[Kind, Json] | None:
        """The entry that should stand behind what was said, None where none is due."""
        if self.memory is None or self.memory.recitation is None or self.memory.todo is None or turns.open_calls:
            return None
        body = (
            self._recital.due(self.memory.recitation, turns, self.memory.todo.told())
            if turns.has_pending_user
            else None
        )
        return None if body is None else ("notice", body)

    def written(self, body: Mapping[str, Json], source: str | None = None) -> Json:
        """Body of a result about to be written: what is large stored, told in another form where that is due."""
        if not isinstance(source, str | None):
            raise UsageError(f"source is the URL or path a result came from, not {type(source).__name__}")
        if self.variation is not None and (self.variation.is_always or self._steps.is_in_rut):
            return varied(self._kept(body, source), self.variation.form(body["call_id"], self._steps.forms))
        return self._kept(body, source)

    def _kept(self, body: Mapping[str, Json], source: str | None = None) -> Json:
        """Body of a result, its large parts stored.

        Where the store takes no more, they stay in the window, with a warning.
        """
        if self.memory is None:
            return {**body, "content": without_binary(body["content"])}
        try:
            found = self._offloaded(body, self.memory, source)
        except (MemoryRefused, OSError) as refused:
            warnings.warn(sanitize(f"a result of {body['name']!r} stays in the window: {refused}"), stacklevel=5)
            return {**body, "content": without_binary(body["content"])}
        told = {"references": [reference.body for reference in found.references]} if found.references else {}
        return {**body, "content": found.content, **told}

    def _offloaded(self, body: Mapping[str, Json], memory: Memory, source: str | None) -> Offloaded:
        """The parts with what is large stored, and what no provider takes."""
        stored = store_binary(body["content"], memory.files)
        rule = memory.offload
        if rule is None or body["name"] == _READER:
            return stored
        if not self.can_read and any(size_of(part, rule) > rule.above_bytes for part in stored.content):
            raise MemoryRefused(NO_READER)
        large = offload(stored.content, memory.files, rule, is_error=body["is_error"], source=source)
        return Offloaded(large.content, (*stored.references, *large.references))

    def restored(self, entry: Entry) -> list[Json]:
        """The parts of a result as the tool gave them.

        Raises `MemoryRefused` where a part is in no file any more, `UsageError` where there are references and no
        memory.
        """
        content, references = unvaried(parse(entry.body)), list(references_of(entry))
        if not references:
            return content
        if self.memory is None:
            raise UsageError(
                f"entry {entry.sequence} has {len(references)} parts in the files of a memory: open the conversation with it, "
                "Context(…, memory=FileMemory(folder))"
            )
        return restore(content, references, self.memory.files, self.memory.fetch)


def _has_reader(definitions: Iterable[Json]) -> bool:
    return any(definition.get("name") == _READER for definition in definitions)


def references_of(entry: Entry) -> Iterator[Reference]:
    """The references an entry keeps; costs a look at its bytes where it keeps none."""
    if entry.kind in ("result", "epoch") and b'"references":' in entry.body:
        body = parse(entry.body)
        replaced = body.get("replaced", {}).values()
        for told in (body, *replaced):
            yield from map(Reference.of, told.get("references", ()))
