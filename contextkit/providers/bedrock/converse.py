"""Bedrock Converse: Claude, Nova and others behind `client.converse` of boto3's `bedrock-runtime`.

A body is the keyword arguments of that method, `modelId` among them, with base64 for bytes. Source of every rule:
https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html and botocore 1.44, bedrock-runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from contextkit.canonical import Json, canonical
from contextkit.canonical import parse as read_json
from contextkit.errors import UnreadableRequest, UsageError
from contextkit.models import Model
from contextkit.prompt.block import MARKER, Block
from contextkit.prompt.breakpoints import AUTO_TTL, Plan
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, RenderedBlock
from contextkit.providers.adapter import Answering, chosen_model
from contextkit.providers.bedrock import blocks
from contextkit.providers.bedrock import response as reply
from contextkit.providers.bedrock.blocks import WIRE
from contextkit.providers.bedrock.body import BODY, head_parts, message_parts
from contextkit.providers.body_items import RenderedItems
from contextkit.providers.keyed_blocks import RESULT, KeyedAdapter, KeyedFormat, objects_in, parse_body
from contextkit.providers.neutral import JsonObject
from contextkit.providers.provider import Parsed
from contextkit.providers.rendered_blocks import Trait, expect, render_block
from contextkit.providers.usage import streamed_counters

TTLS = {"5m": 300, "1h": 3600}
"""`cachePoint.ttl` → seconds (CacheTTL)."""
_MARKERS = {300: b',{"cachePoint":{"type":"default"}}', 3600: b',{"cachePoint":{"type":"default","ttl":"1h"}}'}
_FRAMES = {role: (b'{"role":"%b","content":[' % role.encode(), b"]}") for role in ("user", "assistant", "system")}
_UNMARKED_TOOLS = ("nova",)
"""Models that take no cachePoint among their tools (prompt-caching guide, table of models)."""


def _image_flags(block: JsonObject) -> tuple[str, ...]:
    parts = objects_in(block["toolResult"].get("content"), "toolResult.content")
    return ("image",) if any("image" in part for part in parts) else ()


_TRAITS: dict[str, Trait] = {
    "toolUse": Trait(run="tool_use"),
    "toolResult": Trait(run=RESULT, flags=_image_flags),
    "reasoningContent": Trait(can_hold_breakpoint=False, is_thinking=True),
    "image": Trait(flags=lambda block: ("image",)),
    "document": Trait(
        flags=lambda block: ("citations",) if (block["document"].get("citations") or {}).get("enabled") else ()
    ),
}
"""Block → what the cache makes of it: as for Claude's own API, but that every block is a position."""


def _opened(columns: PromptColumns, n: int, params: bytes) -> tuple[bytes, int]:
    """The fields, and `toolConfig` open for the tools, which stand inside it."""
    fields, within = read_json(params), b""
    if not n:
        return canonical(fields)[:-1], 0
    if not columns.levels[0]:
        within = b'"toolConfig":{%b' % _inside(canonical(fields.pop("toolConfig", None) or {}))
    return b"{" + _inside(canonical(fields)) + within, 0


def _inside(fields: bytes) -> bytes:
    """Return the text between the braces of an object, ready for more fields."""
    return fields[1:-1] + b"," if len(fields) > 2 else b""


GRAMMAR = Grammar(
    arrays={"tools": "tools", "system": "system", "messages": "messages"},
    merges_roles=True,
    advances=lambda before, run, opens: True,
    marker=lambda ttl: _MARKERS[ttl],
    message_tokens=3,
    brackets={"tools": (b'"tools":[', b"]}")},
    has_breakpoint_blocks=True,
    opened=_opened,
)


def _body_parts(fields: Mapping[str, Json]) -> Iterator[Block]:
    """The parts of a body, checked."""
    expect(fields.get("toolConfig") or {}, dict, "toolConfig", "an object")
    for part in head_parts(fields):
        yield _checked(part)
    for index, message in enumerate(objects_in(fields.get("messages"), "messages")):
        role = expect(message.get("role"), str, f"messages[{index}].role", "a string")
        expect(_FRAMES.get(role), tuple, f"messages[{index}].role", "'user', 'assistant' or 'system'")
        for part in message_parts(message, index):
            yield _checked(part)


_OBJECTS = ("toolUse", "toolResult", "reasoningContent", "document", "image")
"""Blocks whose fields are read."""


def _checked(part: Block) -> Block:
    if part.type == MARKER:
        return part
    if not isinstance(part.value, dict) or not part.value:
        raise UnreadableRequest(part.path, "Input should be an object that is not empty")
    for kind in _OBJECTS:
        if kind in part.value:
            expect(part.value[kind], dict, f"{part.path}.{kind}", "an object")
    return part


def _params(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in BODY.params(fields).items() if name != "toolConfig" or value}


def _render(level: Level, role: str, block: JsonObject, model: Model) -> RenderedBlock:
    block = blocks.tidied(block)
    trait = _TRAITS.get(next(iter(block)), Trait())
    if level == "tools":
        role = ""
        if any(family in model.name for family in _UNMARKED_TOOLS):
            trait = Trait(can_hold_breakpoint=False)
    is_turn = role == "user" and trait.run != RESULT
    return render_block(block, level, role, trait, model.name, _FRAMES[role] if role else (b"", b""), is_turn=is_turn)


def _marker_seconds(marker: Json) -> int:
    ttl = expect(marker, dict, "cachePoint", "an object").get("ttl") or "5m"
    return TTLS[expect(ttl if ttl in tuple(TTLS) else None, str, "cachePoint.ttl", "'5m' or '1h'")]


FORMAT = KeyedFormat(
    wire=WIRE,
    provider="aws",
    grammar=GRAMMAR,
    keying="bedrock",
    model_field="modelId",
    model_role="assistant",
    parts=blocks.PARTS,
    tools=blocks.TOOLS,
    render_call=blocks.call,
    parse_call=blocks.called,
    text_of=blocks.saying,
    render_result=blocks.result,
    parse_result=blocks.resulted,
    body_parts=_body_parts,
    render=_render,
    params=_params,
    normalize_block=blocks.tidied,
    marker_seconds=_marker_seconds,
)


class BedrockConverse(KeyedAdapter):
    """A model of Bedrock behind `client.converse`, where `client = boto3.client("bedrock-runtime")`.

    `max_tokens` goes out as `inferenceConfig.maxTokens`. `ttl` is the lifetime of the moving cachePoints, `head_ttl`
    that of tools and system (never shorter); `ttl="auto"` lets the planner choose for each cachePoint. A model that
    knows one lifetime takes that. Everything else is a parameter of `converse` and is sent as given.

    >>> BedrockConverse("anthropic.claude-sonnet-5-5", max_tokens=4096).params["inferenceConfig"]
    {'maxTokens': 4096}
    """

    format, wire, name, grammar = FORMAT, WIRE, "aws", GRAMMAR
    answering = Answering(partial(reply.reply, FORMAT), lambda response: "stopReason" in response, reply.joined)

    def __init__(
        self, model: str, *, max_tokens: int | None = None, ttl: str = "5m", head_ttl: str | None = None, **params: Json
    ) -> None:
        """Raises `UsageError` for a lifetime this model does not know."""
        row = chosen_model(model, "aws")
        offered = tuple(TTLS.values()) if row.is_assumed else row.ttls_seconds
        long_ttl_seconds = 0
        if ttl == AUTO_TTL and head_ttl is None:
            ttl = "5m"
            long_ttl_seconds = TTLS["1h"] if TTLS["1h"] in offered else 0
        head = head_ttl or ttl
        if not all(TTLS.get(asked) in offered for asked in (ttl, head)) or TTLS[head] < TTLS[ttl]:
            raise UsageError(
                f"ttl={ttl!r}, head_ttl={head_ttl!r}: {model} takes {offered} seconds, and the longer lifetime first; "
                "or ttl='auto' alone"
            )
        limit = {} if max_tokens is None else {"maxTokens": max_tokens}
        said = {"inferenceConfig": {**limit, **(params.pop("inferenceConfig", None) or {})}} if limit else {}
        plan = Plan(
            head_ttl_seconds=TTLS[head],
            tail_ttl_seconds=TTLS[ttl],
            min_tokens=row.min_tokens,
            long_ttl_seconds=long_ttl_seconds,
        )
        super().__init__(row, f"/model/{quote(model, safe='')}/converse", {**said, **params}, plan)

    def joined(self, events: Iterable[Any]) -> Mapping[str, Json]:
        """Join stream events into a response."""
        answer = super().joined(events)
        usage = answer.get("usage")
        return {**answer, "usage": streamed_counters(usage, self.model.name)} if isinstance(usage, Mapping) else answer


def parse(body: Json, *, near: Iterable[RenderedItems] = ()) -> Parsed:
    """The keyword arguments of a call: its segments, marks and parameters; raises as `parse_body`."""
    return parse_body(FORMAT, body, near)
