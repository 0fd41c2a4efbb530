"""Bytes as JSON has them, and back: some SDKs take and give pictures and proofs as `bytes` where the wire has base64.

Takes and gives values; knows no endpoint.

An adapter whose messages are lists of blocks, each named by its one key: Bedrock Converse and Gemini.

Takes the words of one endpoint (`Words`: entry → blocks, block → piece, each read both ways), gives a `Provider`. Knows
no endpoint.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical
from contextkit.canonical import parse as read_json
from contextkit.errors import UnreadableRequest
from contextkit.log.entry import Entry, Native
from contextkit.models import Model, model_named
from contextkit.prompt.breakpoints import LOOKBACK, Plan
from contextkit.prompt.normal_form import VERBATIM, normal
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.adapter import Adapter
from contextkit.providers.masking import Endpoint
from contextkit.providers.provider import (
    Block,
    Cut,
    Parsed,
    Parts,
    ReplyCall,
    Tools,
    Trait,
    Turn,
    announcement,
    assistant_body,
    cut,
    expect,
    keyed,
    object_of,
    reminder,
    user_content,
)

RAW: Mapping[str, frozenset[str]] = {
    "bedrock_converse": frozenset({"bytes", "redactedContent"}),
    "gemini": frozenset({"data", "thoughtSignature", "voiceSampleAudio", "consentAudio", "continuationToken"}),
}
"""Wire → keys of base64 where the SDK takes and gives bytes."""
FREE = VERBATIM | {
    "additionalModelRequestFields",
    "promptVariables",
    "requestMetadata",
    "responseSchema",
    "responseJsonSchema",
    "labels",
    "customConfigs",
    "headers",
}
"""Fields whose keys a model, a tool or an author chose: nothing below them is the wire's. The second line is Bedrock's
(botocore 1.44, Converse), the third Gemini's (google.genai.types 3.4)."""


def packed(value: Any) -> Json:
    """`value` with bytes as base64, at any depth.

    >>> packed({"image": {"source": {"bytes": b"hi"}}})
    {'image': {'source': {'bytes': 'aGk='}}}
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: packed(item) for key, item in value.items()}
    return [packed(item) for item in value] if isinstance(value, list | tuple) else value


def unpacked(value: Json, keys: frozenset[str]) -> Any:
    """`value` with the base64 under `keys` as bytes, but for what a model, a tool or an author wrote.

    >>> unpacked({"bytes": "aGk=", "input": {"bytes": "aGk="}}, frozenset({"bytes"}))
    {'bytes': b'hi', 'input': {'bytes': 'aGk='}}
    """
    return _each(value, keys, lambda text: base64.b64decode(text.translate(_STANDARD)))


def standard(value: Json, keys: frozenset[str]) -> Json:
    """`value` with the base64 under `keys` in the standard alphabet: some SDKs write the one for URLs.

    >>> standard({"data": "_-A="}, frozenset({"data"}))
    {'data': '/+A='}
    """
    return _each(value, keys, lambda text: text.translate(_STANDARD))


_STANDARD = str.maketrans("-_", "+/")


def _each(value: Json, keys: frozenset[str], change: Callable[[str], Any]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: change(item)
            if key in keys and isinstance(item, str)
            else item
            if key in FREE
            else _each(item, keys, change)
            for key, item in value.items()
        }
    return [_each(item, keys, change) for item in value] if isinstance(value, list) else value


RESULT = "tool_result"
"""Run of the blocks that answer a call."""
_SYSTEM = ("system_notice", "bridge_system")
"""Ways to tell that use a system message."""


@dataclass(frozen=True, slots=True)
class Place:
    """One block of a body and where it stands."""

    level: Level
    """tools, system or messages."""
    role: str
    """Who speaks, "" outside messages."""
    block: Block
    """The block."""
    frame: tuple[bytes, bytes] = (b"", b"")
    """What opens and closes its message."""
    path: str = "body"
    """Where it stands, for errors."""


@dataclass(frozen=True, slots=True)
class Words:
    """How one endpoint words a conversation."""

    wire: str
    """The endpoint."""
    grammar: Grammar
    """How it is written and counted."""
    keying: str
    """Name of its table in `facts/parameters.toml`: which parameter invalidates what."""
    model_field: str
    """Field of the body that names the model."""
    speaker: str
    """Role of the model."""
    parts: Parts
    """How it spells parts."""
    call: Callable[[str, str, Json], Json]
    """(id, name, arguments) → block."""
    called: Callable[[Block, int], ReplyCall | None]
    """(block, its number among the calls) → call, None for every other block."""
    spoken: Callable[[Block], str]
    """What a block says in words, "" for thinking and calls."""
    result: Callable[[Block], Json]
    """Body of a `result` entry → block."""
    resulted: Callable[[Block, list[ReplyCall]], Json]
    """(block, calls that are open) → body of a `result` entry, None for every other block."""
    tools: Tools
    """How it spells tools."""
    placed: Callable[[str, str, Block], Place]
    """(level, role, block) → the block in its place: its spelling and frame."""
    places: Callable[[Mapping[str, Json]], Iterator[Place]]
    """Body → its blocks, in order."""
    params: Callable[[Mapping[str, Json]], dict[str, Json]]
    """Body → what is no block."""
    keyed: Callable[[Mapping[str, Json]], Mapping[str, Json]]
    """Parameters → those of them and of their fields a cache may be keyed on."""
    trait: Callable[[Place, Model], Trait]
    """What the cache makes of a block."""
    spelled: Callable[[Json], Json] = lambda body: body
    """A body in the one spelling that is understood."""
    lifetime: Callable[[Place], int | None] = lambda place: None
    """Seconds a block asks for that is a marker; None for every other."""
    seen: Callable[[Prompt, PromptLayout, Mapping[str, Json]], Prompt] = lambda prompt, layout, params: prompt
    """What the cache sees beside the layout's own marks."""
    provider: str = ""
    """Provider whose newest row stands in for a model that is like none of the table."""


class Speaker(Adapter):
    """One endpoint and model, its words from `words`."""

    words: ClassVar[Words]

    def __init__(self, model: Model, path: str, params: Mapping[str, Json], plan: Plan) -> None:
        super().__init__(Endpoint(self.wire, model), params, self.words.model_field)
        self.path, self.plan = path, plan

    def render_static_prefix(self, system: Json, tools: Json, entry: int) -> Iterator[RenderedBlock]:
        """Pieces of tools and system."""
        words = self.words
        places = [words.placed("tools", "", words.tools.sent(definition)) for definition in tools]
        places += [words.placed("system", "", block) for block in words.parts.blocks(map(_in_words, system))]
        yield from (replace(_cut(words, place, self.model).block, entry=entry) for place in places)

    def render_entry(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[RenderedBlock]:
        """Pieces of one entry; `keeps_thinking=False` where its prefix has changed."""
        role, blocks = self._role_and_blocks(entry.kind, read_json(entry.body))
        for block in blocks:
            piece = _cut(self.words, self.words.placed("messages", role, block), self.model).block
            if keeps_thinking or not piece.is_thinking:
                yield replace(piece, entry=entry.sequence)

    def prompt(self, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
        """What the cache sees."""
        return _prompt(self.words, layout, params)

    def parse(self, body: Json) -> Parsed:
        """A request body of this endpoint."""
        return understood(self.words, body)

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body."""
        words = self.words
        places = [place for place in words.places(words.spelled(body)) if words.lifetime(place) is None]
        system = [words.parts.part(place.block) for place in places if place.level == "system"]
        tools = [words.tools.definition(place.block) for place in places if place.level == "tools"]
        said = groupby((place for place in places if place.level == "messages"), key=lambda place: place.role)
        return system, tools, list(self._turns([(role, [place.block for place in group]) for role, group in said]))

    def _role_and_blocks(self, kind: str, body: Any) -> tuple[str, list[Json]]:
        """The role and blocks of an entry."""
        words = self.words
        told: Mapping[str, Callable[[], tuple[str, list[Json]]]] = {
            "user": lambda: self._user_blocks(body),
            "assistant": lambda: (words.speaker, self._replied(body)),
            "result": lambda: ("user", [words.result(body)]),
            "epoch": lambda: ("user", words.parts.blocks(body["summary"])),
            "phase": lambda: self._notice_blocks(self.telling, body.get("text", "")),
            "tools": lambda: self._notice_blocks(self.announcing, announcement(body)),
            "notice": lambda: self._notice_blocks(self.noticing if "event" in body else "", body.get("text", "")),
        }
        return told[kind]()

    def _user_blocks(self, body: Block) -> tuple[str, list[Json]]:
        """What a user said, or the program in a system message between turns, where the model takes one."""
        is_system = body.get("role") == "system" and self.noticing in _SYSTEM
        return "system" if is_system else "user", self.words.parts.blocks(
            body["content"] if is_system else user_content(body)
        )

    def _notice_blocks(self, how: str, news: str) -> tuple[str, list[Json]]:
        """What the program says: in a system message, in the user's turn as a reminder, or as the user's own words."""
        role = "system" if how in _SYSTEM else "user"
        said = news if role == "system" or not how else reminder(news)
        return role, [text(said)] if said else []

    def _replied(self, body: Block) -> list[Json]:
        """What the model said: its own blocks, or another wire's reply in these words."""
        if body["native"]["wire"] == self.wire:
            return list(body["native"]["body"])
        calls = [self.words.call(call["id"], call["name"], object_of(call["arguments"])) for call in body["calls"]]
        return [text(body["text"])] * bool(body["text"]) + calls

    def _turns(self, messages: list[tuple[str, list[Json]]]) -> Iterator[Turn]:
        """Each result is an entry of its own, what else the user says one behind them."""
        open_calls: list[ReplyCall] = []
        for role, blocks in messages:
            if role == self.words.speaker:
                native, said, calls = reading(self.words, blocks, self.model.name)
                open_calls = list(calls)
                yield Turn("assistant", assistant_body(self.wire, native.model, read_json(native.body), said, calls))
                continue
            results = [self.words.resulted(block, open_calls) for block in blocks]
            yield from (Turn("result", body) for body in results if body is not None)
            rest = [self.words.parts.part(block) for block, body in zip(blocks, results, strict=True) if body is None]
            if rest:
                yield Turn("user", {"content": rest, **({} if role == "user" else {"role": role})})


def reading(words: Words, blocks: Iterable[Block], model: str) -> tuple[Native, str, tuple[ReplyCall, ...]]:
    """A reply's own blocks in normal form, its text and its calls."""
    said = [normal(words.placed("messages", words.speaker, block).block) for block in blocks]
    calls: list[ReplyCall] = []
    for block in said:
        call = words.called(block, len(calls))
        calls += [call] if call is not None else []
    return Native(words.wire, model, canonical(said)), "".join(map(words.spoken, said)), tuple(calls)


def understood(words: Words, body: Json) -> Parsed:
    """A request body: its segments, marks and parameters.

    Raises `UnreadableRequest` where it is not one.
    """
    fields = words.spelled(expect(body, dict, "body", "an object"))
    model = model_named(expect(fields.get(words.model_field), str, words.model_field, "a string"), words.provider)
    columns, marks = (
        PromptColumns(
            words.grammar, strips_thinking=model.strips_thinking, tool_prompt_tokens=model.tool_prompt_tokens
        ),
        dict[int, Breakpoint](),
    )
    for place in words.places(fields):
        ttl = words.lifetime(place)
        if ttl is None:
            columns.append(_cut(words, place, model).block)
        elif len(columns) and columns.breakpoint_offsets[-1] >= 0:
            marks[len(columns) - 1] = Breakpoint(len(columns) - 1, ttl, LOOKBACK)
    layout, params = PromptLayout(columns, len(columns), tuple(marks.values())), words.params(fields)
    return Parsed(model.name, params, layout, _prompt(words, layout, params))


def text(said: str) -> Json:
    """Text as a block."""
    return {"text": said}


def listed(value: Json, path: str) -> list[dict[str, Json]]:
    """`value` as a list of objects, empty for null; raises `UnreadableRequest` at the place where it is none."""
    found: list[dict[str, Json]] = expect([] if value is None else value, list, path, "an array")
    for index, item in enumerate(found):
        if not isinstance(item, dict) or not item:
            raise UnreadableRequest(f"{path}[{index}]", "Input should be an object that says something")
    return found


def _in_words(part: Block) -> Json:
    """A part as a system prompt takes it: as text."""
    has_words = part["type"] == "native" or "text" in part
    return part if has_words else {"type": "text", "text": str(part.get("url") or f"[{part['type']}]")}


def _cut(words: Words, place: Place, model: Model) -> Cut:
    trait = words.trait(place, model)
    is_turn = place.role == "user" and trait.run != RESULT
    return cut(place.block, place.level, place.role, trait, model.name, place.frame, is_turn=is_turn)


def _prompt(words: Words, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
    columns, n = layout.columns, layout.n
    return words.seen(
        keyed(words.keying, words.keyed(params), columns.raised(n), columns, n, layout.breakpoints), layout, params
    )
