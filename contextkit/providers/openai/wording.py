"""What Chat Completions and Responses share: one adapter, told by a table how an endpoint words things.

Takes log entries, gives pieces, prompts and parameters, and the same from a request body. The messages before the first
user, assistant or tool message are the system level. Knows no field that only one of the two endpoints has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from contextkit.cache.prompt import Prompt
from contextkit.canonical import Json, canonical
from contextkit.canonical import parse as read_json
from contextkit.layout.layout import Layout
from contextkit.layout.segment import Level, Piece
from contextkit.layout.track import Grammar, Track
from contextkit.log.entry import Entry
from contextkit.models import model_named
from contextkit.providers.cutting import Cut, Trait, cut, expect
from contextkit.providers.foreign import announcement, heard, reminder, taken
from contextkit.providers.masking.mechanisms import Endpoint
from contextkit.providers.neutral.adapter import Adapter
from contextkit.providers.neutral.parts import Tools
from contextkit.providers.openai.endings import inherited, layout_of, marks_of, plan_of, prompt_of
from contextkit.providers.provider import Parsed, Turn
from contextkit.providers.settings.affinity import split
from contextkit.providers.stateful.reasoning import strips

SYSTEM = frozenset({"system", "developer"})
_PARTS: Mapping[tuple[Level, str], Trait] = {
    ("system", "developer"): Trait(run="head"),
    ("system", "system"): Trait(run="head"),
    ("messages", "developer"): Trait(run="other"),
    ("messages", "system"): Trait(run="other"),
    ("messages", "user"): Trait(run="user"),
}
"""Messages written part by part, since each part can carry a mark."""
Said = Callable[[Mapping[str, Json]], list[Json]]
"""Body of an entry → messages or items."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How one endpoint words a conversation."""

    wire: str
    """The endpoint."""
    grammar: Grammar
    """How it is written and counted."""
    array: str
    """Field that holds messages or items."""
    segments: frozenset[str]
    """Fields that are segments, not parameters."""
    text: str
    """Type of a text part."""
    opened: Callable[[str, Json], list[Json]]
    """(role, neutral parts) → the message that says them."""
    replied: Said
    """What the model said."""
    answered: Said
    """What a tool gave."""
    said_by: Callable[[Mapping[str, Json], str], Iterator[Json]]
    """(message, role it should have) → neutral parts."""
    tools: Tools
    """How it spells tools."""
    listed: Callable[[Mapping[str, Json]], tuple[list[Json], int]]
    """Body → its messages or items, checked, and how many stand before the first of `array`."""
    role: Callable[[Mapping[str, Json]], str]
    """Who says a message; "" for an item nobody says."""
    besides: Callable[[Mapping[str, Json]], dict[str, Json]]
    """What a message says besides role and content, in order."""
    tool: Callable[[Mapping[str, Json]], Trait]
    """A tool → what the cache makes of it."""
    one: Callable[[Mapping[str, Json], str, str], Cut]
    """(message, path, model) → one that is a single piece."""
    turns: Callable[[list[Json], str], Iterable[Turn]]
    """(messages behind the head, model) → turns."""
    ways: Mapping[str, Said] = field(default_factory=dict)
    """How a phase, a late tool or an event is told, where only this endpoint knows the way."""


class Speaker(Adapter):
    """An adapter of one of OpenAI's endpoints; its words come from `words`."""

    words: ClassVar[Wording]
    path: str
    name = "openai"
    system_role = "developer"

    def __init__(self, endpoint: Endpoint, ttl: str, params: Mapping[str, Json]) -> None:
        self.affinity, params, self.headers = split(params, self.headers)
        super().__init__(endpoint, params)
        self._kinds = _kinds(self.words, self.telling, self.announcing, self.noticing)
        self.plan = plan_of(self.model, ttl, self.params)

    def head(self, system: Json, tools: Json, entry: int) -> Iterator[Piece]:
        """Pieces of the tools, and of the one message that opens the conversation."""
        cuts = [_tool(self.words, self.words.tools.sent(taken(one, self.model)), self.model.name) for one in tools]
        for message in self.words.opened(self.system_role, system):
            cuts += _message(self.words, message, "system", "system", self.model.name)
        yield from (replace(found.piece, entry=entry) for found in cuts)

    def pieces(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[Piece]:
        """Pieces of one entry.

        `keeps_thinking=False` where its prefix has changed and the API would drop its reasoning.
        """
        for message in self._kinds[entry.kind](read_json(entry.body)):
            for found in _message(self.words, message, "messages", self.words.array, self.model.name):
                if keeps_thinking or not found.piece.is_thinking:
                    yield replace(found.piece, entry=entry.sequence)

    def prompt(self, layout: Layout, params: Mapping[str, Json]) -> Prompt:
        """What the cache sees: explicit marks, and the implicit one where the request leaves it on."""
        return prompt_of(layout, inherited(layout, params), params, self.model)

    def parse(self, body: Json) -> Parsed:
        """A request body of this endpoint."""
        return understood(self.words, body)

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body."""
        messages, _ = self.words.listed(body)
        n_head = _n_head(self.words, messages)
        role = self.system_role if n_head == 1 else ""
        system = [part for message in messages[:n_head] for part in self.words.said_by(message, role)]
        definitions = [self.words.tools.definition(tool) for tool in body.get("tools") or []]
        return system, definitions, list(self.words.turns(messages[n_head:], self.model.name))


def _kinds(words: Wording, telling: str, announcing: str, noticing: str) -> dict[str, Said]:
    """Entry kind → messages or items, where phases, late tools and events are told in these ways."""

    def said(role: str, text: str) -> list[Json]:
        return words.opened(role, [{"type": "text", "text": text}])

    ways: dict[str, Said] = {
        **dict.fromkeys(("allowed_tools", "decoding"), lambda body: []),
        "developer": lambda body: said("developer", body["text"]),
        "reminder": lambda body: said("user", reminder(body["text"])) if body.get("text") else [],
        "bridge": lambda body: said("user", reminder(announcement(body))),
        **words.ways,
    }
    return {
        "user": lambda body: words.opened("user", heard(body)),
        "assistant": words.replied,
        "result": words.answered,
        "epoch": lambda body: words.opened("user", body["summary"]),
        "phase": ways[telling],
        "tools": ways[announcing],
        "notice": lambda body: ways[noticing](body) if "event" in body else said("user", body["text"]),
    }


def understood(words: Wording, body: Json) -> Parsed:
    """A request body: its segments, marks and parameters.

    Raises `UnreadableRequest` where it is not one.
    """
    fields = expect(body, dict, "body", "an object")
    model = model_named(expect(fields.get("model"), str, "model", "a string"), "openai")
    params = {name: value for name, value in fields.items() if name not in words.segments}
    track, cuts = (
        Track(words.grammar, strips_thinking=strips(words.wire, model, params)),
        list(_cuts(words, fields, model.name)),
    )
    track.extend(found.piece for found in cuts)
    marks = marks_of(track, cuts, params)
    layout = layout_of(track, marks, model)
    return Parsed(model.name, params, layout, prompt_of(layout, marks, params, model))


def _cuts(words: Wording, fields: Mapping[str, Json], model: str) -> Iterator[Cut]:
    for index, tool in enumerate(expect(fields.get("tools") or [], list, "tools", "an array")):
        yield _tool(words, expect(tool, dict, f"tools[{index}]", "an object"), model)
    messages, offset = words.listed(fields)
    n_head = _n_head(words, messages)
    for index, message in enumerate(messages):
        yield from _message(
            words, message, "system" if index < n_head else "messages", f"{words.array}[{index - offset}]", model
        )


def _n_head(words: Wording, messages: list[Json]) -> int:
    """How many messages open the conversation before anybody else speaks."""
    return next((index for index, message in enumerate(messages) if words.role(message) not in SYSTEM), len(messages))


def _tool(words: Wording, tool: Mapping[str, Json], model: str) -> Cut:
    return cut(tool, "tools", "", words.tool(tool), model)


def _message(words: Wording, message: Mapping[str, Json], level: Level, path: str, model: str) -> Iterable[Cut]:
    """One message, part by part or as a whole."""
    trait = _PARTS.get((level, words.role(message)))
    return [words.one(message, path, model)] if trait is None else _each(words, message, level, trait, path, model)


def _each(
    words: Wording, message: Mapping[str, Json], level: Level, trait: Trait, path: str, model: str
) -> Iterator[Cut]:
    """The parts of a message; what it says besides role and content (a name) stands in its opening."""
    more, role = words.besides(message), words.role(message)
    said = {"role": role, **more}
    opener, speaker = canonical(said)[:-1] + b',"content":[', canonical(said).decode() if more else role
    for index, part in enumerate(_content(words, message.get("content"), f"{path}.content")):
        is_turn = trait.run == "user" and not index
        yield cut(part, level, "" if index else speaker, trait, model, (opener, b"]}"), is_turn=is_turn)


def _content(words: Wording, content: Json, path: str) -> list[Json]:
    """Content as a list of parts: a string is one text part."""
    if isinstance(content, str):
        return [{"type": words.text, "text": content}]
    for index, part in enumerate(expect(content or None, list, path, "a string or a non-empty array")):
        kind = expect(
            expect(part, dict, f"{path}[{index}]", "an object").get("type"), str, f"{path}[{index}].type", "a string"
        )
        if kind == words.text:
            expect(part.get("text"), str, f"{path}[{index}].text", "a string")
    return list(content)
