"""Tools that are declared from the beginning and loaded when a search finds them.

Takes tools; gives their deferred definitions, and what a search tool of your own returns to load some. A deferred
definition is in the request and not in the prompt: it costs nothing, keys nothing, and is expanded where it is
referenced (Claude: tool-search docs; OpenAI: responses/function_tool_param.py). At least one tool must not be deferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.errors import InvalidTool, UsageError
from contextkit.tools.definition import sealed
from contextkit.tools.tool import Tool
from contextkit.tools.toolbox import Toolable, Toolbox


def _claude(definition: Mapping[str, Json]) -> Json:
    return {
        "name": definition["name"],
        "description": definition["description"],
        "input_schema": definition["parameters"],
    }


def _responses(definition: Mapping[str, Json]) -> Json:
    if "format" in definition:
        return {"type": "custom", **{key: definition[key] for key in ("name", "description", "format")}}
    return {
        "type": "function",
        **{key: definition[key] for key in ("name", "description", "parameters")},
        "strict": False,
    }


_FORMS: Mapping[str, Callable[[Mapping[str, Json]], Json]] = {
    "anthropic_messages": _claude,
    "openai_responses": _responses,
}
"""Endpoint that can defer → a function tool in its words."""


def deferred(tools: Iterable[Toolable], wire: str) -> list[Tool]:
    """The tools with their loading deferred, as `wire` says it; what runs them stays.

    Put a search beside them: the provider's (`{"type": "tool_search_tool_bm25_20251119", "name":
    "tool_search_tool_bm25"}` for Claude, `{"type": "tool_search"}` for Responses), or on Claude a tool of your own that
    returns `found_tools(…)`.

    Raises `UsageError` for an endpoint that cannot defer, `InvalidTool` for a provider's own tool.

    >>> [ping] = deferred([{"name": "ping"}], "anthropic_messages")
    >>> ping.definition["native"]["block"]["defer_loading"]
    True
    """
    if wire not in _FORMS:
        raise UsageError(f"{wire} cannot defer a tool: give all tools at the beginning, or late ones through call_tool")
    return [_deferred(tool, wire) for tool in Toolbox(tools)]


def _deferred(tool: Tool, wire: str) -> Tool:
    if tool.is_native:
        raise InvalidTool(
            f"tool {tool.name!r} is a provider's own; write defer_loading into its block where the provider takes it"
        )
    block = {**_FORMS[wire](tool.definition), "defer_loading": True}
    return replace(tool, body=sealed(tool.name, {"native": {"wire": wire, "block": block}}))


def found_tools(toolbox: Toolbox, names: Iterable[str]) -> list[Json]:
    """What a search tool of your own returns: references that load the deferred tools of these names, behind the
    prompt.

    Claude expands them where they stand. Raises `InvalidTool` for a name that is not deferred here: the provider would
    refuse it.

    >>> found_tools(Toolbox(deferred([{"name": "ping"}], "anthropic_messages")), ["ping"])
    [{'type': 'native', 'wire': 'anthropic_messages', 'block': {'type': 'tool_reference', 'tool_name': 'ping'}}]
    """
    return [_reference(toolbox, name) for name in names]


def _reference(toolbox: Toolbox, name: str) -> Json:
    native = toolbox[name].definition.get("native", {}) if name in toolbox.names else {}
    if not native.get("block", {}).get("defer_loading"):
        raise InvalidTool(
            f"tool {name!r} is not a deferred one of this conversation: give it to deferred(…) when the conversation begins"
        )
    return {"type": "native", "wire": "anthropic_messages", "block": {"type": "tool_reference", "tool_name": name}}
