"""`POST /responses`: OpenAI's models through the Responses API, without state on the server.

Takes log entries, gives pieces, prompts and parameters, and the same from a request body. Field names are those of
`openai.types.responses` 3.52. `instructions` are the same developer message that stands first in the input, and are read as it; the
developer and system messages before any other item are the system level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Any

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.canonical import parse as read_json
from contextkit.errors import UnreadableRequest, UsageError
from contextkit.layout.layout import Layout
from contextkit.layout.normal_form import marker_of
from contextkit.layout.segment import Level, Piece
from contextkit.layout.track import Track
from contextkit.log.entry import Entry
from contextkit.models import Model, model_named
from contextkit.providers.cutting import Cut, Trait, cut, expect
from contextkit.providers.changes.mechanisms import noticing
from contextkit.providers.late.mechanisms import Asked, announcing
from contextkit.providers.masking.mechanisms import Endpoint, telling
from contextkit.providers.openai import responses_reply as answers
from contextkit.providers.openai.endings import TTLS, grammar, inherited, layout_of, marks_of, plan_of, prompt_of
from contextkit.providers.openai.responses_items import (
    KINDS,
    LATE,
    OUTPUTS,
    PHASES,
    WIRE,
    definition_tool,
    items_of,
    noticed,
    result_of,
    said_by,
    tool_definition,
    whole,
)
from contextkit.providers.provider import Parsed, Reply, Turn

GRAMMAR = grammar("input")
_SEGMENTS = frozenset({"tools", "input", "instructions"})
_SYSTEM = frozenset({"system", "developer"})
_STATEFUL = ("previous_response_id", "conversation")
_PARTS: Mapping[tuple[Level, str], Trait] = {
    ("system", "developer"): Trait(run="head"),
    ("system", "system"): Trait(run="head"),
    ("messages", "developer"): Trait(run="other"),
    ("messages", "system"): Trait(run="other"),
    ("messages", "user"): Trait(run="user"),
}
"""Messages written part by part, since each part can carry a mark."""
_OUTPUT = Trait(run="tool", is_markable=False)
_ITEM = Trait(run="other", is_markable=False)
_ITEMS: Mapping[str, Trait] = {
    "function_call_output": _OUTPUT,
    "custom_tool_call_output": _OUTPUT,
    "computer_call_output": _OUTPUT,
    "local_shell_call_output": _OUTPUT,
    "shell_call_output": _OUTPUT,
    "apply_patch_call_output": _OUTPUT,
    "reasoning": Trait(run="other", is_markable=False, is_thinking=True),
}
"""Type of an item that is one piece → what the cache makes of it; `_ITEM` for the others."""
_TOOLS: Mapping[bool, Trait] = {False: Trait(is_markable=False), True: Trait(is_markable=False, is_silent=True)}
"""Whether a tool's loading is deferred; until it is loaded it is not in the prefix (responses/function_tool_param.py)."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
}
"""Type of an item → fields that must be strings."""


class OpenAIResponses:
    """An OpenAI model behind `client.responses.create`.

    `ttl` is the lifetime of everything the request writes, `30m` or `12h`. Everything else is a parameter of the endpoint and is sent
    as given; `store=False` and encrypted reasoning are the defaults, so that the log is all there is. Models from gpt-5.6 on get one
    explicit mark, at the end of the system prompt.

    >>> OpenAIResponses("gpt-6.1-sol", max_output_tokens=4096).params["store"]
    False
    """

    wire = WIRE
    name = "openai"
    path = "/responses"
    template = 1
    grammar = GRAMMAR
    betas: tuple[str, ...] = ()
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, model: str, *, max_output_tokens: int | None = None, ttl: str = "30m", **params: Json) -> None:
        if ttl not in tuple(TTLS):
            raise UsageError(f"ttl={ttl!r}: Responses takes '30m' or '12h'")
        given = {} if max_output_tokens is None else {"max_output_tokens": max_output_tokens}
        if ttl != "30m":
            params["prompt_cache_options"] = {"ttl": ttl, **(params.get("prompt_cache_options") or {})}
        self.model: Model = model_named(model)
        self.telling = telling(Endpoint(WIRE, self.model)).name
        self.announcing = announcing(Asked(WIRE, self.model)).name
        self.noticing = noticing(Asked(WIRE, self.model)).name
        self._kinds = {**KINDS, "phase": PHASES[self.telling], "tools": LATE[self.announcing], "notice": noticed(self.noticing)}
        self.params: Mapping[str, Json] = {
            "model": model, **given, "store": False, "include": ["reasoning.encrypted_content"], **params
        }  # fmt: skip
        self.plan = plan_of(self.model, ttl, self.params)

    def head(self, system: Json, tools: Json, entry: int) -> Iterator[Piece]:
        """Pieces of the tools, and of the one developer message that opens the conversation."""
        cuts = [_tool(definition_tool(definition), self.model.name) for definition in tools]
        for item in items_of("developer", system):
            cuts += _item(item, "system", "system", self.model.name)
        yield from (replace(found.piece, entry=entry) for found in cuts)

    def pieces(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[Piece]:
        """Pieces of one entry; `keeps_thinking=False` where its prefix has changed and the API would drop its reasoning."""
        for item in self._kinds[entry.kind](read_json(entry.body)):
            for found in _item(item, "messages", "input", self.model.name):
                if keeps_thinking or not found.piece.is_thinking:
                    yield replace(found.piece, entry=entry.sequence)

    def prompt(self, layout: Layout, params: Mapping[str, Json]) -> Prompt:
        """What the cache sees: explicit marks, and the implicit one where the request leaves it on."""
        return prompt_of(layout, inherited(layout, params), params, self.model)

    def parse(self, body: Json) -> Parsed:
        """A request body of this endpoint."""
        return parse(body)

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body."""
        items = _items(body)
        n_head = _n_head(items)
        role = "developer" if n_head == 1 else ""
        system = [part for item in items[:n_head] for part in said_by(item, role)]
        definitions = [tool_definition(tool) for tool in body.get("tools") or []]
        return system, definitions, list(_turns(items[n_head:], self.model.name))

    def reply(self, response: Any) -> Reply:
        """A `Response` or its dict."""
        return answers.reply(response)

    def is_complete(self, response: Mapping[str, Json]) -> bool:
        """Whether the model came to an end, its own or a limit's."""
        return response.get("status") in ("completed", "incomplete")

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """What a response says it is billed."""
        return answers.usage(response.get("usage") or {})

    def joined(self, events: Iterable[Any]) -> Mapping[str, Json]:
        """What stream events amount to."""
        return answers.joined(events)


def parse(body: Json) -> Parsed:
    """A `/responses` body: its segments, marks and parameters.

    Raises `UnreadableRequest` where it is not one or leans on state the server holds, `UnknownModel` for a model without a row.
    """
    fields = expect(body, dict, "body", "an object")
    model = model_named(expect(fields.get("model"), str, "model", "a string"))
    params = {name: value for name, value in fields.items() if name not in _SEGMENTS}
    track, cuts = Track(GRAMMAR, strips_thinking=model.strips_thinking), list(_cuts(fields, model.name))
    track.extend(found.piece for found in cuts)
    marks = marks_of(track, cuts, params)
    layout = layout_of(track, marks, model)
    return Parsed(model.name, params, layout, prompt_of(layout, marks, params, model))


def _cuts(fields: Mapping[str, Json], model: str) -> Iterator[Cut]:
    for index, tool in enumerate(expect(fields.get("tools") or [], list, "tools", "an array")):
        yield _tool(expect(tool, dict, f"tools[{index}]", "an object"), model)
    items = _items(fields)
    n_head, offset = _n_head(items), int(bool(fields.get("instructions")))
    for index, item in enumerate(items):
        yield from _item(item, "system" if index < n_head else "messages", f"input[{index - offset}]", model)


def _items(fields: Mapping[str, Json]) -> list[Json]:
    """The input as a list of items, `instructions` before the others."""
    for name in _STATEFUL:
        if fields.get(name) is not None:
            raise UnreadableRequest(name, "the conversation is on the server, not in this request: send the whole input instead")
    given = fields.get("input")
    said = [{"role": "user", "content": given}] if isinstance(given, str) else expect(given, list, "input", "a string or an array")
    instructions = expect(fields.get("instructions") or "", str, "instructions", "a string")
    for index, item in enumerate(said):
        _check(expect(item, dict, f"input[{index}]", "an object"), f"input[{index}]")
    return [{"role": "developer", "content": instructions}, *said] if instructions else list(said)


def _check(item: Mapping[str, Json], path: str) -> None:
    kind = _kind(item)
    if kind == "item_reference":
        raise UnreadableRequest(f"{path}.type", "item_reference stands for an item on the server: send the item itself")
    if kind == "message":
        expect(item.get("role"), str, f"{path}.role", "a string")
    for name in _FIELDS.get(expect(kind, str, f"{path}.type", "a string"), ()):
        expect(item.get(name), str, f"{path}.{name}", "a string")
    if kind in OUTPUTS:
        expect(item.get("output"), (str, list), f"{path}.output", "a string or an array")


def _kind(item: Mapping[str, Json]) -> Json:
    """The type of an item: one without is a message if somebody says it, else a reference (responses/response_input_item_param.py)."""
    return item.get("type") or ("message" if "role" in item else "item_reference" if "id" in item else None)


def _n_head(items: list[Json]) -> int:
    """How many messages open the conversation before anybody else speaks."""
    return next((index for index, item in enumerate(items) if _kind(item) != "message" or item["role"] not in _SYSTEM), len(items))


def _tool(tool: Mapping[str, Json], model: str) -> Cut:
    return cut(tool, "tools", "", _TOOLS[bool(tool.get("defer_loading"))], model)


def _item(item: Mapping[str, Json], level: Level, path: str, model: str) -> Iterable[Cut]:
    """One item, part by part or as a whole."""
    trait = _PARTS.get((level, item["role"])) if _kind(item) == "message" else None
    return [_one(item, path, model)] if trait is None else _each(item, level, trait, path, model)


def _one(item: Mapping[str, Json], path: str, model: str) -> Cut:
    said = whole(item)
    if said["type"] == "message":
        expect(said["role"] == "assistant" or None, bool, f"{path}.role", "'developer', 'system', 'user' or 'assistant'")
        expect(said.get("content"), (str, list), f"{path}.content", "a string or an array")
    return replace(cut(said, "messages", "item", _ITEMS.get(said["type"], _ITEM), model), marker=marker_of(item))


def _each(item: Mapping[str, Json], level: Level, trait: Trait, path: str, model: str) -> Iterator[Cut]:
    """The parts of a message; what it says besides role and content stands in its opening."""
    plain = whole(item)
    said = {"role": plain["role"], **{key: plain[key] for key in sorted(plain) if key not in ("type", "role", "content")}}
    opener, role = canonical(said)[:-1] + b',"content":[', plain["role"] if len(said) == 1 else canonical(said).decode()
    for index, part in enumerate(_content(item.get("content"), f"{path}.content")):
        is_turn = trait.run == "user" and not index
        yield cut(part, level, "" if index else role, trait, model, (opener, b"]}"), is_turn=is_turn)


def _content(content: Json, path: str) -> list[Json]:
    """Content as a list of parts: a string is one text part."""
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    for index, part in enumerate(expect(content or None, list, path, "a string or a non-empty array")):
        kind = expect(expect(part, dict, f"{path}[{index}]", "an object").get("type"), str, f"{path}[{index}].type", "a string")
        if kind == "input_text":
            expect(part.get("text"), str, f"{path}[{index}].text", "a string")
    return list(content)


def _turns(items: list[Json], model: str) -> Iterator[Turn]:
    for is_model, group in groupby(items, key=lambda item: answers.is_output(whole(item))):
        if is_model:
            yield Turn("assistant", answers.turn(list(map(whole, group)), model))
        else:
            yield from map(_said, group)


def _said(item: Mapping[str, Json]) -> Turn:
    return Turn("result", result_of(item)) if _kind(item) in OUTPUTS else Turn("user", {"content": list(said_by(item, "user"))})
