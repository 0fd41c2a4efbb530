"""A search for tools that the model asks for and the program runs: what it finds stands in the log behind the question.

Takes tools that stand in no request; gives one tool, `tool_search`, whose result is the definitions that match.
OpenAI's Responses have an item for it (responses/tool_search_tool_param.py, `execution: "client"`); elsewhere it is a
function, and what it finds is called through `call_tool`. Knows nothing of logs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.errors import InvalidTool, UsageError
from contextkit.tools.late.bridge import call_tool
from contextkit.tools.late.deferred import deferred
from contextkit.tools.tool import Tool
from contextkit.tools.toolbox import Toolable, Toolbox

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
