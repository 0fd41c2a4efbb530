"""`POST /chat/completions`: OpenAI's models through the Chat Completions API.

Takes log entries, gives pieces, prompts and parameters, and the same from a request body. Field names are those of
`openai.types.chat` 3.52. The messages before the first user, assistant or tool message are the system level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
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
from contextkit.providers.openai import chat_reply as answers
from contextkit.providers.openai.chat_messages import (
    KINDS,
    LATE,
    PHASES,
    WIRE,
    definition_tool,
    messages_of,
    noticed,
    result_of,
    said_by,
    tool_definition,
    whole,
)
from contextkit.providers.openai.endings import grammar, inherited, layout_of, marks_of, plan_of, prompt_of
from contextkit.providers.provider import Parsed, Reply, Turn

GRAMMAR = grammar("messages")
_SEGMENTS = frozenset({"tools", "messages"})
_SYSTEM = frozenset({"system", "developer"})
_PARTS: Mapping[tuple[Level, str], Trait] = {
    ("system", "developer"): Trait(run="head"),
    ("system", "system"): Trait(run="head"),
    ("messages", "developer"): Trait(run="other"),
    ("messages", "system"): Trait(run="other"),
    ("messages", "user"): Trait(run="user"),
}
"""Messages written part by part, since each part can carry a mark."""
_WHOLE: Mapping[str, Trait] = {
    "assistant": Trait(run="other", is_markable=False),
    "tool": Trait(run="tool", is_markable=False),
    "function": Trait(run="tool", is_markable=False),
}
"""Messages that are one piece."""
_TOOL = Trait(is_markable=False)
_SPEECH = ("content", "tool_calls", "refusal", "function_call", "audio")


class OpenAIChat:
    """An OpenAI model behind `client.chat.completions.create`.

    `max_tokens` goes out as `max_completion_tokens`; `system_role` is who says the system prompt (`system` before o1). Everything else
    is a parameter of the endpoint and is sent as given. Models from gpt-5.6 on get one explicit mark, at the end of the system prompt.

    >>> OpenAIChat("gpt-6.1-sol", max_tokens=4096).params["max_completion_tokens"]
    4096
    """

    wire = WIRE
    name = "openai"
    path = "/chat/completions"
    template = 1
    grammar = GRAMMAR
    betas: tuple[str, ...] = ()
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, model: str, *, max_tokens: int | None = None, ttl: str = "30m", prompt_cache_key: str | None = None,
        system_role: str = "developer", **params: Json,
    ) -> None:  # fmt: skip
        if ttl != "30m" or system_role not in tuple(_SYSTEM):
            raise UsageError(f"ttl={ttl!r}, system_role={system_role!r}: Chat takes ttl '30m' and the role 'developer' or 'system'")
        given = {"max_completion_tokens": max_tokens, "prompt_cache_key": prompt_cache_key}
        self.model: Model = model_named(model)
        self.telling = telling(Endpoint(WIRE, self.model)).name
        self.announcing = announcing(Asked(WIRE, self.model)).name
        self.noticing = noticing(Asked(WIRE, self.model)).name
        self._kinds = {**KINDS, "phase": PHASES[self.telling], "tools": LATE[self.announcing], "notice": noticed(self.noticing)}
        self.params: Mapping[str, Json] = {"model": model, **{name: value for name, value in given.items() if value is not None}, **params}
        self.plan = plan_of(self.model, ttl, self.params)
        self.system_role = system_role

    def head(self, system: Json, tools: Json, entry: int) -> Iterator[Piece]:
        """Pieces of the tools, and of the one message that opens the conversation."""
        cuts = [_tool(definition_tool(definition), self.model.name) for definition in tools]
        for message in messages_of(self.system_role, system):
            cuts += _message(message, "system", "system", self.model.name)
        yield from (replace(found.piece, entry=entry) for found in cuts)

    def pieces(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[Piece]:
        """Pieces of one entry; Chat shows no thinking, so there is none to drop."""
        for message in self._kinds[entry.kind](read_json(entry.body)):
            for found in _message(message, "messages", "messages", self.model.name):
                yield replace(found.piece, entry=entry.sequence)

    def prompt(self, layout: Layout, params: Mapping[str, Json]) -> Prompt:
        """What the cache sees: explicit marks, and the implicit one where the request leaves it on."""
        return prompt_of(layout, inherited(layout, params), params, self.model)

    def parse(self, body: Json) -> Parsed:
        """A request body of this endpoint."""
        return parse(body)

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body."""
        messages = _messages(body)
        n_head = _n_head(messages)
        role = self.system_role if n_head == 1 else ""
        system = [part for message in messages[:n_head] for part in said_by(message, role)]
        definitions = [tool_definition(tool) for tool in body.get("tools") or []]
        return system, definitions, [_turn(message, self.model.name) for message in messages[n_head:]]

    def reply(self, response: Any) -> Reply:
        """A `ChatCompletion` or its dict."""
        return answers.reply(response)

    def is_complete(self, response: Mapping[str, Json]) -> bool:
        """Whether a finish reason came."""
        return response["choices"][0].get("finish_reason") is not None

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """What a completion says it is billed."""
        return answers.usage(response.get("usage") or {})

    def joined(self, events: Iterable[Any]) -> Mapping[str, Json]:
        """What chunks amount to."""
        return answers.joined(events)


def parse(body: Json) -> Parsed:
    """A `/chat/completions` body: its segments, marks and parameters.

    Raises `UnreadableRequest` where it is not one, `UnknownModel` for a model without a row.
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
    messages = _messages(fields)
    n_head = _n_head(messages)
    for index, message in enumerate(messages):
        yield from _message(message, "system" if index < n_head else "messages", f"messages[{index}]", model)


def _messages(fields: Mapping[str, Json]) -> list[Json]:
    messages: list[Json] = expect(fields.get("messages"), list, "messages", "an array")
    for index, message in enumerate(messages):
        expect(expect(message, dict, f"messages[{index}]", "an object").get("role"), str, f"messages[{index}].role", "a string")
    return messages


def _n_head(messages: list[Json]) -> int:
    """How many messages open the conversation before anybody else speaks."""
    return next((index for index, message in enumerate(messages) if message["role"] not in _SYSTEM), len(messages))


def _tool(tool: Mapping[str, Json], model: str) -> Cut:
    return cut(tool, "tools", "", _TOOL, model)


def _message(message: Mapping[str, Json], level: Level, path: str, model: str) -> Iterable[Cut]:
    """One message, part by part or as a whole."""
    role = message["role"]
    trait = _PARTS.get((level, role))
    return [_one(message, path, model)] if trait is None else _each(message, level, trait, path, model)


def _one(message: Mapping[str, Json], path: str, model: str) -> Cut:
    role = message["role"]
    trait = expect(_WHOLE.get(role), Trait, f"{path}.role", "'developer', 'system', 'user', 'assistant' or 'tool'")
    said = whole(message)
    if role == "tool":
        expect(said.get("tool_call_id"), str, f"{path}.tool_call_id", "a string")
        expect(said.get("content"), (str, list), f"{path}.content", "a string or an array")
    if not any(said.get(key) is not None for key in _SPEECH) or said.get("content") == []:
        raise UnreadableRequest(f"{path}.content", "Input should be a string or a non-empty array")
    return replace(cut(said, "messages", role, trait, model), marker=marker_of(message))


def _each(message: Mapping[str, Json], level: Level, trait: Trait, path: str, model: str) -> Iterator[Cut]:
    """The parts of a message; what it says besides role and content (a name) stands in its opening."""
    more = {key: message[key] for key in sorted(message) if key not in ("role", "content") and message[key] is not None}
    said = {"role": message["role"], **more}
    opener, role = canonical(said)[:-1] + b',"content":[', canonical(said).decode() if more else message["role"]
    for index, part in enumerate(_content(message.get("content"), f"{path}.content")):
        is_turn = trait.run == "user" and not index
        yield cut(part, level, "" if index else role, trait, model, (opener, b"]}"), is_turn=is_turn)


def _content(content: Json, path: str) -> list[Json]:
    """Content as a list of parts: a string is one text part."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    for index, part in enumerate(expect(content or None, list, path, "a string or a non-empty array")):
        kind = expect(expect(part, dict, f"{path}[{index}]", "an object").get("type"), str, f"{path}[{index}].type", "a string")
        if kind == "text":
            expect(part.get("text"), str, f"{path}[{index}].text", "a string")
    return list(content)


def _turn(message: Mapping[str, Json], model: str) -> Turn:
    if message["role"] == "assistant":
        return Turn("assistant", answers.turn(message, model))
    if message["role"] == "tool":
        return Turn("result", result_of(message))
    return Turn("user", {"content": list(said_by(message, "user"))})
