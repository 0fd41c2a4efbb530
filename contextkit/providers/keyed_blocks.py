"""The adapter of endpoints whose messages are lists of blocks, each named by its one key: Bedrock Converse and Gemini.

`KeyedFormat` is the table of one endpoint's rendering and parsing; `KeyedAdapter` is the `Provider` made of it. Also
here: base64 in JSON and `bytes` in SDK objects (`packed`, `unpacked`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json, canonical
from contextkit.canonical import parse as read_json
from contextkit.errors import UnreadableRequest
from contextkit.log.entry import Entry, Native
from contextkit.models import Model, model_named
from contextkit.prompt.block import MARKER, Block
from contextkit.prompt.breakpoints import LOOKBACK, Plan
from contextkit.prompt.normal_form import VERBATIM, normal
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.adapter import Adapter
from contextkit.providers.body_items import BodyItem, RenderedItems, render_items
from contextkit.providers.cache_keys import keyed
from contextkit.providers.masking import Endpoint
from contextkit.providers.neutral import JsonObject, Parts, Tools, announcement, reminder, user_content
from contextkit.providers.provider import Parsed, ReplyCall, Turn, assistant_body
from contextkit.providers.rendered_blocks import expect
from contextkit.providers.reply_json import object_of

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
"""Fields whose keys a model, a tool or an author chose: nothing below them is a field of the endpoint. The first three are
Bedrock's (botocore 1.44, Converse), the others Gemini's (google.genai.types 3.4)."""


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
"""Options for phases, late tools and events that use a system message."""


@dataclass(frozen=True, slots=True)
class KeyedFormat:
    """Rendering and parsing of one endpoint's blocks."""

    wire: str
    """The endpoint."""
    provider: str
    """Provider whose newest row stands in for a model that is like none of the table."""
    grammar: Grammar
    """How its body is written and counted."""
    keying: str
    """Name of its table in `facts/parameters.toml`: the parameters that invalidate each level."""
    model_field: str
    """Field of the body that names the model."""
    model_role: str
    """Role of the model."""
    parts: Parts
    """Its parts of messages."""
    tools: Tools
    """Its tool definitions."""
    render_call: Callable[[str, str, Json], Json]
    """(id, name, arguments) → block."""
    parse_call: Callable[[JsonObject, int], ReplyCall | None]
    """(block, its number among the calls) → call, None for every other block."""
    text_of: Callable[[JsonObject], str]
    """The text of a block, empty for thinking and calls."""
    render_result: Callable[[JsonObject], Json]
    """Body of a `result` entry → block."""
    parse_result: Callable[[JsonObject, list[ReplyCall]], Json]
    """(block, open calls) → body of a `result` entry, None for every other block."""
    body_parts: Callable[[Mapping[str, Json]], Iterator[Block]]
    """The parts of a body in order, checked; raises `UnreadableRequest` where it is not of this endpoint."""
    render: Callable[[Level, str, JsonObject, Model], RenderedBlock]
    """(level, role, block, model) → the rendered block."""
    params: Callable[[Mapping[str, Json]], dict[str, Json]]
    """The fields of a body that hold no blocks."""
    keyed_params: Callable[[Mapping[str, Json]], Mapping[str, Json]] = lambda params: params
    """Parameters → those of them and of their fields that a cache may be keyed on."""
    normalize_block: Callable[[JsonObject], JsonObject] = lambda block: block
    """A block of system text or of a message in normal form."""
    normalize_body: Callable[[Json], Json] = lambda body: body
    """A body with the field names that the other functions know."""
    marker_seconds: Callable[[Json], int] = lambda marker: 0
    """A marker that stands by itself → the lifetime it asks for."""
    adjust_prompt: Callable[[Prompt, PromptLayout, Mapping[str, Json]], Prompt] = lambda prompt, layout, params: prompt
    """(prompt, layout, parameters) → the prompt, with what the cache knows beside the layout's breakpoints."""


class KeyedAdapter(Adapter):
    """One endpoint and model; `format` renders and parses its blocks."""

    format: ClassVar[KeyedFormat]

    def __init__(self, model: Model, path: str, params: Mapping[str, Json], plan: Plan) -> None:
        super().__init__(Endpoint(self.wire, model), params, self.format.model_field)
        self.path, self.plan = path, plan

    def render_static_prefix(self, system: Json, tools: Json, entry: int) -> Iterator[RenderedBlock]:
        """Render tools and system text."""
        blocks: list[tuple[Level, JsonObject]] = [("tools", self.format.tools.sent(definition)) for definition in tools]
        blocks += [("system", block) for block in self.format.parts.blocks(map(_as_text, system))]
        for level, block in blocks:
            yield replace(self.format.render(level, "", block, self.model), entry=entry)

    def render_entry(self, entry: Entry, *, keeps_thinking: bool = True) -> Iterator[RenderedBlock]:
        """Render one entry; `keeps_thinking=False` where its prefix has changed."""
        role, blocks = self._role_and_blocks(entry.kind, read_json(entry.body))
        for block in blocks:
            rendered = self.format.render("messages", role, block, self.model)
            if keeps_thinking or not rendered.is_thinking:
                yield replace(rendered, entry=entry.sequence)

    def prompt(self, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
        """The prompt that the cache sees."""
        return _prompt(self.format, layout, params)

    def parse(self, body: Json) -> Parsed:
        """Parse a request body of this endpoint."""
        return parse_body(self.format, body)

    def turns(self, body: Json) -> tuple[Json, Json, list[Turn]]:
        """System parts, tool definitions and turns of a request body."""
        system: list[Json] = []
        tools: list[Json] = []
        messages: list[tuple[str, list[Json]]] = []
        for part in self.format.body_parts(self.format.normalize_body(body)):
            if part.type == MARKER:
                continue
            if part.level == "tools":
                tools.append(self.format.tools.definition(part.value))
                continue
            block = self.format.normalize_block(part.value)
            if part.level == "system":
                system.append(self.format.parts.part(block))
            elif messages and messages[-1][0] == part.role:
                messages[-1][1].append(block)
            else:
                messages.append((part.role, [block]))
        return system, tools, list(self._turns(messages))

    def _role_and_blocks(self, kind: str, body: Any) -> tuple[str, list[Json]]:
        """The role and blocks of an entry."""
        match kind:
            case "user" if body.get("role") == "system" and self.noticing in _SYSTEM:
                return "system", self.format.parts.blocks(body["content"])
            case "user":
                return "user", self.format.parts.blocks(user_content(body))
            case "assistant":
                return self.format.model_role, self._reply_blocks(body)
            case "result":
                return "user", [self.format.render_result(body)]
            case "epoch":
                return "user", self.format.parts.blocks(body["summary"])
            case "phase":
                return self._notice_blocks(self.telling, body.get("text", ""))
            case "tools":
                return self._notice_blocks(self.announcing, announcement(body))
            case "notice":
                return self._notice_blocks(self.noticing if "event" in body else "", body.get("text", ""))
        raise KeyError(kind)

    def _notice_blocks(self, option: str, message: str) -> tuple[str, list[Json]]:
        """A notice of the program: in a system message, as a reminder in the user's turn, or as plain text of it."""
        role = "system" if option in _SYSTEM else "user"
        content = message if role == "system" or not option else reminder(message)
        return role, [text(content)] if content else []

    def _reply_blocks(self, body: JsonObject) -> list[Json]:
        """A reply of the model: its own blocks, or another wire's reply as blocks of this one."""
        if body["native"]["wire"] == self.wire:
            return list(body["native"]["body"])
        calls = [
            self.format.render_call(call["id"], call["name"], object_of(call["arguments"])) for call in body["calls"]
        ]
        return [text(body["text"])] * bool(body["text"]) + calls

    def _turns(self, messages: list[tuple[str, list[Json]]]) -> Iterator[Turn]:
        """Each result as an entry of its own, and the rest of a user message as one entry behind them."""
        open_calls: list[ReplyCall] = []
        for role, blocks in messages:
            if role == self.format.model_role:
                native, reply_text, calls = parse_blocks(self.format, blocks, self.model.name)
                open_calls = list(calls)
                reply = assistant_body(self.wire, native.model, read_json(native.body), reply_text, calls)
                yield Turn("assistant", reply)
                continue
            results = [self.format.parse_result(block, open_calls) for block in blocks]
            yield from (Turn("result", body) for body in results if body is not None)
            rest = [self.format.parts.part(block) for block, body in zip(blocks, results, strict=True) if body is None]
            if rest:
                yield Turn("user", {"content": rest, **({} if role == "user" else {"role": role})})


def parse_blocks(
    format: KeyedFormat, blocks: Iterable[JsonObject], model: str
) -> tuple[Native, str, tuple[ReplyCall, ...]]:
    """The blocks of a reply in normal form, its text and its calls."""
    plain = [normal(format.normalize_block(block)) for block in blocks]
    calls: list[ReplyCall] = []
    for block in plain:
        if (call := format.parse_call(block, len(calls))) is not None:
            calls.append(call)
    return Native(format.wire, model, canonical(plain)), "".join(map(format.text_of, plain)), tuple(calls)


def parse_body(format: KeyedFormat, body: Json, near: Iterable[RenderedItems] = ()) -> Parsed:
    """Parse a request body into its blocks, breakpoints and parameters; `near` as in `render_items`.

    Raises `UnreadableRequest` where it is not one.
    """
    fields = format.normalize_body(expect(body, dict, "body", "an object"))
    model = model_named(expect(fields.get(format.model_field), str, format.model_field, "a string"), format.provider)
    columns = PromptColumns(
        format.grammar, strips_thinking=model.strips_thinking, tool_prompt_tokens=model.tool_prompt_tokens
    )
    blocks: list[BodyItem] = []
    markers: dict[int, Json] = {}
    for part in format.body_parts(fields):
        if part.type != MARKER:
            blocks.append(BodyItem(part.level, part.value, "" if part.level == "system" else part.role))
        elif blocks:
            markers[len(blocks) - 1] = part.value
    items = render_items(
        blocks, [], lambda item: [format.render(item.level, item.role, item.value, model)], columns, (model,), near=near
    )
    breakpoints = tuple(
        Breakpoint(index, format.marker_seconds(marker), LOOKBACK)
        for index, marker in markers.items()
        if items.columns.breakpoint_offsets[index] >= 0
    )
    layout, params = PromptLayout(items.columns, len(blocks), breakpoints), format.params(fields)
    return Parsed(model.name, params, layout, _prompt(format, layout, params), items)


def _prompt(format: KeyedFormat, layout: PromptLayout, params: Mapping[str, Json]) -> Prompt:
    columns, n = layout.columns, layout.n
    flags = columns.raised(n)
    prompt = keyed(format.keying, format.keyed_params(params), flags, columns, n, layout.breakpoints)
    return format.adjust_prompt(prompt, layout, params)


def text(content: str) -> Json:
    """Text as a block."""
    return {"text": content}


def objects_in(value: Json, path: str) -> list[dict[str, Json]]:
    """`value` as a list of objects that are not empty, empty for null.

    Raises `UnreadableRequest` with the path of what is none.
    """
    items: list[dict[str, Json]] = expect([] if value is None else value, list, path, "an array")
    for index, item in enumerate(items):
        if not isinstance(item, dict) or not item:
            raise UnreadableRequest(f"{path}[{index}]", "Input should be an object that is not empty")
    return items


def _as_text(part: JsonObject) -> Json:
    """A part as a system prompt takes it: as text."""
    if part["type"] == "native" or "text" in part:
        return part
    return {"type": "text", "text": str(part.get("url") or f"[{part['type']}]")}
