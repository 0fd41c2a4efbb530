"""What Anthropic refuses of tools withdrawn, given back and defined between turns.

Sources: `anthropic.types.beta` 2.11 (beta_request_tool_addition_block_param.py,
beta_request_tool_removal_block_param.py, beta_tool_change_*_param.py), `anthropic.types`
(tool_name_conflict_error_details.py, tool_reference_unresolved_error_details.py,
available_tools_limit_exceeded_error_details.py), mid-conversation system messages docs. Allowed, since the docs say
nothing against it or say so: to withdraw a tool twice, to give back one that is there, to define one again in the same
words, or in others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from contextkit.canonical import Json, canonical
from contextkit.providers.masking import INLINE_TOOLS, TOOL_CHANGES
from contextkit.server.refusals import anthropic_shape as anthropic
from contextkit.server.refusals.refusal import Refusal, Sent

MCP_CLIENT = "mcp-client-2026-09-15"
"""Beta header that a toolset defined in a message needs besides."""
_CHANGES = frozenset({"tool_addition", "tool_removal"})
_SPOKEN = frozenset({"text", *_CHANGES})
"""Types of blocks a system message between turns may hold."""
_BLOCK = frozenset({"type", "tool", "cache_control"})
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "tool_reference": ("name",),
    "mcp_tool_reference": ("server_name", "name"),
    "mcp_toolset_reference": ("server_name",),
}
"""Type of a reference → its fields, every one required."""
_MOST_TOOLS, _MOST_BYTES = 10_000, 4_194_304
"""Most that may be defined behind the first user message."""


@dataclass(slots=True)
class _Known:
    """What is defined up to one place of a conversation."""

    kinds: dict[str, str]
    """Name of a tool → its type without a date; "custom" for functions."""
    servers: set[str]
    """MCP servers whose toolset is there."""
    defined: dict[str, int] = field(default_factory=dict)
    """Name of a tool defined in a message → bytes of its definition."""


def tool_changes(sent: Sent) -> Iterator[Refusal]:
    """A system message holds text and changes; a change needs its beta header, and stands for a tool there is."""
    betas = {name.strip() for name in str(sent.headers.get("anthropic-beta", "")).split(",")}
    known = _declared(sent.body)
    for at in anthropic.placed(sent.body):
        kind = at.block.get("type")
        if at.role == "system" and kind not in _SPOKEN:
            yield anthropic.invalid(f"{at.path}: `{kind}` blocks are not permitted in `system` messages")
        elif kind in _CHANGES:
            yield from _changed(at, known, betas)


def tool_changes_in_turns(sent: Sent) -> Iterator[Refusal]:
    """No change stands in a message that is cleared, nor behind a paused turn."""
    before: Mapping[str, Json] = {}
    for index, message in enumerate(sent.body["messages"]):
        if not isinstance(message, dict):
            return  # the parser says what it should be
        if message.get("role") == "system" and _has_changes(message):
            if message.get("clear_at") == "next_user_message":
                said = "a turn-scoped system message supports text blocks only (clear_at: 'next_user_message')"
                yield anthropic.invalid(f"messages.{index}: {said}")
            elif _is_paused(before):
                yield anthropic.invalid(
                    f"messages.{index}: tool changes are not permitted immediately after a paused `assistant` turn"
                )
        elif message.get("role") != "system":
            before = message


def _is_paused(message: Mapping[str, Json]) -> bool:
    content = message.get("content")
    last = content[-1] if message.get("role") == "assistant" and isinstance(content, list) and content else {}
    return str(last.get("type")).endswith("_tool_result")


def _has_changes(message: Mapping[str, Json]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in _CHANGES for block in content
    )


def _declared(body: Mapping[str, Json]) -> _Known:
    tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
    kinds = {str(tool["name"]): _kind(tool) for tool in tools if isinstance(tool.get("name"), str)}
    return _Known(kinds, {str(tool["mcp_server_name"]) for tool in tools if tool.get("mcp_server_name")})


def _kind(tool: Mapping[str, Json]) -> str:
    """Type of a tool without its date: a newer version is no other type."""
    return str(tool.get("type") or "custom").rsplit("_20", 1)[0]


def _changed(at: anthropic.Placed, known: _Known, betas: set[str]) -> Iterator[Refusal]:
    tool = at.block["tool"]
    kind = str(tool.get("type"))
    if not betas & {TOOL_CHANGES, INLINE_TOOLS}:
        yield anthropic.invalid(f"{at.path}: `{at.block['type']}` blocks require the beta header {TOOL_CHANGES}")
    elif unknown := sorted(set(at.block) - _BLOCK):
        yield anthropic.invalid(f"{at.path}.{unknown[0]}: Extra inputs are not permitted")
    elif kind in _FIELDS:
        yield from _referred(at, _FIELDS[kind], known)
    elif kind == "tool_definition" and at.block["type"] == "tool_addition":
        yield from _inline(at, known, betas)
    else:
        yield anthropic.invalid(f"{at.path}.tool: Input tag found using 'type' does not match any of the expected tags")


def _referred(at: anthropic.Placed, fields: tuple[str, ...], known: _Known) -> Iterator[Refusal]:
    tool = at.block["tool"]
    if missing := [name for name in fields if not isinstance(tool.get(name), str)]:
        yield anthropic.invalid(f"{at.path}.tool.{missing[0]}: Field required")
    elif unknown := sorted(set(tool) - {"type", *fields}):
        yield anthropic.invalid(f"{at.path}.tool.{unknown[0]}: Extra inputs are not permitted")
    elif tool["type"] == "tool_reference" and tool["name"] not in known.kinds:
        said = f"{at.path}.tool: tool_reference_unresolved: no tool named '{tool['name']}' is defined here"
        yield _coded(said, "tool_reference_unresolved")
    elif "server_name" in tool and tool["server_name"] not in known.servers:
        said = f"{at.path}.tool: tool_reference_unresolved: no MCP toolset of a server named '{tool['server_name']}' is defined here"
        yield _coded(said, "tool_reference_unresolved")


def _inline(at: anthropic.Placed, known: _Known, betas: set[str]) -> Iterator[Refusal]:
    """A definition of the shape a `tools` entry has."""
    tool, definition = at.block["tool"], at.block["tool"].get("definition")
    if INLINE_TOOLS not in betas:
        yield anthropic.invalid(f"{at.path}.tool: a `tool_definition` requires the beta header {INLINE_TOOLS}")
    elif unknown := sorted(set(tool) - {"type", "definition"}):
        yield anthropic.invalid(f"{at.path}.tool.{unknown[0]}: Extra inputs are not permitted")
    elif definition is None:
        yield anthropic.invalid(f"{at.path}.tool.definition: Field required")
    elif not isinstance(definition, dict):
        yield anthropic.invalid(f"{at.path}.tool.definition: Input should be an object")
    else:
        yield from anthropic.shape_of_tool(anthropic.Placed(f"{at.path}.tool.definition", "", definition))
        yield from _marked(at, definition)
        yield from _defined(at, definition, known, betas)


def _marked(at: anthropic.Placed, definition: Mapping[str, Json]) -> Iterator[Refusal]:
    is_marked = definition.get("cache_control") is not None
    if is_marked and at.block.get("cache_control") is not None:
        yield anthropic.invalid(f"{at.path}: cache_control goes on the block or in the definition, not both")
    elif is_marked and definition.get("defer_loading"):
        yield anthropic.invalid(f"{at.path}.tool.definition.cache_control: a deferred tool cannot have cache_control")


def _defined(at: anthropic.Placed, definition: Mapping[str, Json], known: _Known, betas: set[str]) -> Iterator[Refusal]:
    """From here on the tool is there, unless its name is that of a tool of another type."""
    kind, name = _kind(definition), definition.get("name")
    if kind == "mcp_toolset":
        if MCP_CLIENT not in betas:
            yield anthropic.invalid(
                f"{at.path}.tool.definition: an `mcp_toolset` requires the beta header {MCP_CLIENT}"
            )
        known.servers.add(str(definition.get("mcp_server_name")))
    elif kind.endswith("_toolset") and name is None:
        known.kinds.setdefault(kind, kind)  # beta_browser_toolset_20260801_param.py: a toolset has no name of its own
    elif not isinstance(name, str):
        yield anthropic.invalid(f"{at.path}.tool.definition.name: Field required")
    elif known.kinds.setdefault(name, kind) != kind:
        said = f"{at.path}.tool: tool_name_conflict: '{name}' is the name of a tool of another type"
        yield _coded(said, "tool_name_conflict")
    else:
        known.defined[name] = len(canonical(definition))
        if len(known.defined) > _MOST_TOOLS or sum(known.defined.values()) > _MOST_BYTES:
            said = f"{at.path}.tool: available_tools_limit_exceeded: more than {_MOST_TOOLS:,} tools or {_MOST_BYTES:,} bytes"
            yield _coded(said, "available_tools_limit_exceeded")


def _coded(message: str, code: str) -> Refusal:
    return replace(anthropic.invalid(message), code=code)
