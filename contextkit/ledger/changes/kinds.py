"""Names the kind of a change: `named_changes` says of each difference between two prompts what it is, and how that shows.

The functions of `system.py`, `tools.py` and `messages.py` are called from the narrowest on: `clock` comes before
`system_rebuilt`. Lint's codes stand for kinds (`lint/hazards.toml`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from contextkit.canonical import Json, canonical
from contextkit.ledger.changes import messages, system, tools
from contextkit.ledger.changes.comparison import Comparison
from contextkit.ledger.changes.settings import changed_settings, setting_kind
from contextkit.ledger.parsed_call import ParsedCall, compare
from contextkit.ledger.prompts import read_body
from contextkit.ledger.verdict import Cause, Gap
from contextkit.prompt.diff import Change, difference
from contextkit.prompt.prompt import Level
from contextkit.redact import redact, redact_text

Kind = Literal[
    "clock",
    "date",
    "id",
    "environment",
    "recall",
    "plan",
    "instruction_file",
    "volatile_end",
    "system_rebuilt",
    "identity",
    "reminder_in_system",
    "tool_order",
    "tools_arrived",
    "tool_selection",
    "tools_dropped",
    "tools_deferred",
    "schema_order",
    "tool_description",
    "tool_catalogue",
    "tools_rewritten",
    "permission",
    "server_tool",
    "citations",
    "reasoning",
    "history_converted",
    "window",
    "shortened",
    "reminder_removed",
    "content_shape",
    "result_order",
    "messages_merged",
    "call_ids",
    "json_rewritten",
    "text_rewritten",
    "image",
    "attachments",
    "first_messages",
    "message_edited",
]
"""Kinds of change in the text of a prompt."""
Namer = Callable[[Comparison, Change], str | None]
"""Function that says in one line how a change shows its kind; None where it is of another one."""

_SYSTEM: tuple[Level, ...] = ("system",)
_TOOLS: tuple[Level, ...] = ("tools",)
_MESSAGES: tuple[Level, ...] = ("messages",)
_FRONT: tuple[Level, ...] = ("system", "messages")
"""Text at the front of the messages is treated like system text."""
_NAMERS: Sequence[tuple[Kind, tuple[Level, ...], Namer]] = (
    ("history_converted", _MESSAGES, messages.converted_for_model),
    ("messages_merged", _MESSAGES, messages.messages_merged),
    ("content_shape", _FRONT, messages.shape_changed),
    ("call_ids", _MESSAGES, messages.ids_changed),
    ("date", _FRONT, system.date),
    ("clock", _FRONT, system.clock),
    ("tool_order", _TOOLS, tools.order),
    ("result_order", _MESSAGES, messages.order_changed),
    ("server_tool", _TOOLS, tools.server_tool_toggled),
    ("citations", _MESSAGES, tools.citations_toggled),
    ("text_rewritten", _MESSAGES, messages.text_rewritten),
    ("json_rewritten", _MESSAGES, messages.json_rewritten),
    ("id", _FRONT, system.identifier),
    ("reminder_in_system", _SYSTEM, system.reminder),
    ("schema_order", _TOOLS, tools.schema_order),
    ("attachments", _MESSAGES, messages.attachments_moved),
    ("image", _MESSAGES, messages.image_changed),
    ("tool_description", _TOOLS, tools.volatile_value),
    ("reminder_removed", _MESSAGES, messages.reminder_removed),
    ("reasoning", _MESSAGES, messages.reasoning_removed),
    ("instruction_file", _FRONT, system.instruction_file),
    ("system_rebuilt", _SYSTEM, system.instructions_left_out),
    ("tools_deferred", _TOOLS, tools.deferred),
    ("recall", _FRONT, system.recall),
    ("tool_catalogue", _TOOLS, tools.catalogue),
    ("shortened", _MESSAGES, messages.shortened_in_place),
    ("plan", _FRONT, system.plan),
    ("plan", _FRONT, system.progress),
    ("environment", _FRONT, system.environment),
    ("id", _FRONT, system.labelled_identifier),
    ("tool_description", _TOOLS, tools.short_value),
    ("clock", _FRONT, system.clock_added),
    ("tools_dropped", _TOOLS, tools.dropped),
    ("date", _FRONT, system.date_added),
    ("id", _FRONT, system.identifier_added),
    ("permission", _TOOLS, tools.permission),
    ("window", _MESSAGES, messages.window_moved),
    ("tools_arrived", _TOOLS, tools.server_changed),
    ("system_rebuilt", _SYSTEM, system.rebuilt_for_model),
    ("tools_arrived", _TOOLS, tools.arrived),
    ("first_messages", _MESSAGES, messages.first_messages_changed),
    ("tool_selection", _TOOLS, tools.selection),
    ("volatile_end", _SYSTEM, system.volatile_end),
    ("reminder_in_system", _SYSTEM, system.grown),
    ("identity", _SYSTEM, system.identity),
    ("system_rebuilt", _SYSTEM, system.rebuilt),
    ("tools_rewritten", _TOOLS, tools.rewritten),
    ("message_edited", _MESSAGES, messages.edited),
)
"""Kind, levels on which its function is called, function; the narrower first. The last of each level always answers."""


@dataclass(frozen=True, slots=True)
class NamedChange:
    """A change with its kind."""

    change: Change
    """The blocks that differ."""
    kind: Kind
    """What it is."""
    text: str
    """How that shows, in one line."""

    @property
    def is_narrow(self) -> bool:
        """Return whether the kind says more than that the level changed."""
        return self.kind not in ("system_rebuilt", "tools_rewritten", "message_edited")


def gap_of(named: NamedChange) -> Gap:
    """Make the gap of a change, without its size."""
    sides = [redact(blocks[0].body) if blocks else b"" for blocks in (named.change.was, named.change.now)]
    offset, was, now = difference(*sides)
    path = (named.change.now or named.change.was)[0].path
    place = f"{path} byte {offset:,}" if all(sides) else path
    return Gap("program_bytes", _CAUSES[named.change.level], 0, place, named.text, kind=named.kind, was=was, now=now)


_CAUSES: Mapping[Level, Cause] = {
    "tools": "tools_changed",
    "system": "system_changed",
    "messages": "messages_changed",
}


def gaps_between(one: ParsedCall, other: ParsedCall) -> Iterator[Gap]:
    """Yield what a request changes against another one, of which nothing else is known: the first change of a cached block,
    then the settings that key the cache.
    """
    first = next((named for named in named_changes(one, other) if named.change.is_cached), None)
    if first is not None:
        yield gap_of(first)
    for path, was, now in changed_settings(_settings(one), _settings(other)):
        old, new = ("" if side is None else redact(canonical(side)).decode() for side in (was, now))
        kind = setting_kind(path)
        yield Gap("program_use", "params_changed", 0, path, f"{path} changed", kind=kind, was=old, now=new)


def _settings(sent: ParsedCall) -> Mapping[str, Json]:
    read = read_body(sent.raw, sent.call.provider, sent.call.model)
    return read.settings if read else {}


def named_changes(before: ParsedCall, after: ParsedCall) -> list[NamedChange]:
    """Name every change of `after` against an earlier call, in cache order."""
    both = Comparison(before, after, compare(before, after))
    return [_named(both, change) for change in both.changes]


def _named(both: Comparison, change: Change) -> NamedChange:
    kinds = ((kind, text) for kind, levels, name in _NAMERS if change.level in levels and (text := name(both, change)))
    kind, text = next(kinds)  # the last function of each level always answers
    return NamedChange(change, kind, redact_text(text))
