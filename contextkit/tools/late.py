"""Tools that a prompt does not hold from the beginning, and the three ways to call them.

`call_tool` stands in the head from the beginning and calls tools that were announced later. `deferred` declares tools
whose definitions are in the request and not in the prompt: they cost nothing and key nothing, and are expanded where a
search references them (Claude: tool-search docs; OpenAI: responses/function_tool_param.py). `tool_search` is a search
that the program runs; its result is the definitions that match. OpenAI's Responses have an item for it
(responses/tool_search_tool_param.py, `execution: "client"`); elsewhere it is a function, and what it finds is called
through `call_tool`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from contextkit.canonical import Json
from contextkit.errors import InvalidCall, InvalidTool, UsageError
from contextkit.tools.definition import sealed
from contextkit.tools.tool import Arguments, Function, Tool, Toolable, Toolbox

_NAME = "call_tool"
call_tool = Tool.raw(
    {
        "name": _NAME,
        "description": "Call a tool that was announced after this conversation began: its name, and arguments "
        "that fit the schema given there.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's name, as announced."},
                "arguments": {"type": "object", "description": "Its arguments, as its schema says."},
            },
            "required": ["name", "arguments"],
        },
    }
)
"""The bridge, as it stands among `Context(…, tools=[…, call_tool])`; its bytes never change, whatever tools come."""


def is_bridge(definition: Json) -> bool:
    """Return whether a neutral definition is the bridge's."""
    return bool(definition == call_tool.definition)


def through(tools: Mapping[str, Tool], arguments: Arguments) -> Tool:
    """The bridge, ready to make one call: what runs is the tool that `arguments` name.

    Running it raises `InvalidCall`, in words for the model, where there is no such tool, or its arguments do not fit.

    >>> ping = Tool.raw({"name": "ping"}, run=lambda arguments: f"pong {arguments}")
    >>> asked = {"name": "ping", "arguments": {"n": 1}}
    >>> through({"ping": ping}, asked).run(asked)
    "pong {'n': 1}"
    """
    if not isinstance(arguments, Mapping):
        return _bridge(_refusing("call_tool takes a JSON object with name and arguments"))
    name, inner = arguments.get("name"), arguments.get("arguments", {})
    target = tools.get(name) if isinstance(name, str) else None
    if target is None:
        known = f"it calls {', '.join(tools)}" if tools else "no tool was announced yet"
        return _bridge(_refusing(f"call_tool knows no tool named {name!r}; {known}"))
    bridge = _bridge(_awaiting(target, inner) if target.is_async else lambda given: target.run(inner))
    return replace(bridge, sort_keys=target.sort_keys)


def _bridge(run: Function) -> Tool:
    return Tool.raw(call_tool.definition, run=run)


def _awaiting(target: Tool, inner: Mapping[str, Json]) -> Function:
    async def call(given: Mapping[str, Json]) -> object:
        return await target.arun(inner)

    return call


def _refusing(why: str) -> Function:
    def refuse(given: Mapping[str, Json]) -> object:
        raise InvalidCall(why)

    return refuse


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
    returns `tool_references(…)`.

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


def tool_references(toolbox: Toolbox, names: Iterable[str]) -> list[Json]:
    """Return what a search tool of your own answers: references that load the deferred tools of these names behind the
    prompt.

    Claude expands them where they stand. Raises `InvalidTool` for a name that is not deferred here: the provider would
    refuse it.

    >>> tool_references(Toolbox(deferred([{"name": "ping"}], "anthropic_messages")), ["ping"])
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


SEARCH = "tool_search"
"""What the search is called, on every wire."""
_WIRE = "openai_responses"
_WHAT = "Find tools that are not loaded yet, by what they do. What is found can be called from then on."
_PARAMETERS: Json = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words."}},
    "required": ["query"],
    "additionalProperties": False,
}
Find = Callable[[str, Toolbox], Iterable[str]]
"""(query, catalogue) → names, the best first."""


@dataclass(frozen=True, slots=True)
class Search:
    """What runs when the model searches."""

    catalogue: Toolbox
    """What can be found."""
    find: Find
    """How."""
    limit: int
    """Tools a search loads at most."""

    def __call__(self, arguments: Mapping[str, Json]) -> list[Json]:
        """The definitions of what was found, as the parts of a result."""
        names = list(self.find(str(arguments.get("query", "")), self.catalogue))[: self.limit]
        found = [tool for tool in deferred(self.catalogue, _WIRE) if tool.name in names]
        found.sort(key=lambda tool: names.index(tool.name))
        told = (
            f"Found. Call each with {call_tool.name}, its name and arguments that fit its schema:"
            if found
            else "No tool does that."
        )
        return [{"type": "text", "text": told}, *({"type": "native", **tool.definition["native"]} for tool in found)]


def tool_search(
    tools: Iterable[Toolable], *, find: Find | None = None, limit: int = 5, description: str = _WHAT
) -> Tool:
    """A search over `tools`, to stand among the tools of a conversation; they cost nothing until it finds them.

    `find` takes the query and the toolbox and gives names, the best first; without it, words of the query are looked
    for in names, descriptions and parameters. Raises `InvalidTool` for a provider's own tool, `UsageError` for no tools
    or a limit below 1.

    >>> search = tool_search([{"name": "get_weather", "description": "The weather in a city."}, {"name": "send_mail"}])
    >>> [part["block"]["name"] for part in search.run({"query": "weather in Ghent"})[1:]]
    ['get_weather']
    """
    catalogue = Toolbox(tools)
    if not len(catalogue) or type(limit) is not int or limit < 1:
        raise UsageError("tool_search([…]) takes one tool or more, and limit=… a number from 1")
    if SEARCH in catalogue:
        raise InvalidTool(f"a tool named {SEARCH!r} cannot be found by the search of that name: give it another name")
    deferred(catalogue, _WIRE)
    block = {"type": SEARCH, "execution": "client", "description": description, "parameters": _PARAMETERS}
    instead = {"name": SEARCH, "description": description, "parameters": _PARAMETERS}
    return Tool.raw(
        {"native": {"wire": _WIRE, "block": block}, "instead": instead}, run=Search(catalogue, find or by_words, limit)
    )


def catalogues(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Every tool that a search among `tools` can find, by its name."""
    return {
        found.name: found for tool in tools if isinstance(tool.function, Search) for found in tool.function.catalogue
    }


def by_words(query: str, catalogue: Toolbox) -> list[str]:
    """Names of the tools that share words with the query, those that share rare ones first.

    >>> by_words("mail", Toolbox([{"name": "list_files"}, {"name": "send_mail"}, {"name": "read_mail", "description": "Read mail."}]))
    ['send_mail', 'read_mail']
    """
    said = {tool.name: _words(" ".join((tool.name, tool.description, *_parameters(tool)))) for tool in catalogue}
    spread = Counter(word for words in said.values() for word in words)
    rare = {word: math.log(1 + len(said) / spread[word]) for word in _words(query) if spread[word]}
    worth = {name: sum(rare.get(word, 0.0) for word in words) for name, words in said.items()}
    return sorted((name for name in worth if worth[name] > 0), key=lambda name: -worth[name])


def _parameters(tool: Tool) -> Iterable[str]:
    return (tool.parameters or {}).get("properties", {})  # type: ignore[no-any-return]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))
