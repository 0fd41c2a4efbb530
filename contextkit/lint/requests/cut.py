"""One captured call, cut into blocks; where it goes on from another call of its conversation, only what is new is read.

Takes a call with its raw body, gives a `RecordedCall`. The bytes are compared first: as far as they agree with an
earlier
call, its blocks are taken over without being parsed again. Knows nothing of rules.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import orjson

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.lint.requests.rule import RecordedCall
from contextkit.models import MODELS, Model, find_model, model_named
from contextkit.prompt.block import Block, json_bytes
from contextkit.prompt.diff import Change, changes, common_bytes
from contextkit.providers.body import BodyReader
from contextkit.providers.endpoints import BODIES, reader_of
from contextkit.providers.server_state import named_in

MOST_BYTES = 64 << 20
"""Larger bodies are not read: no provider takes them (Anthropic's limit is 32 MB,
https://platform.claude.com/docs/en/api/overview)."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the messages of a body stand in its bytes."""

    start: int
    """Of the first one, behind the bracket."""
    ends: array[int]
    """Byte behind each message."""
    blocks: array[int]
    """Blocks of system text and messages up to each message."""
    first: int
    """Index of the first block that stands in the array."""


@dataclass(frozen=True, slots=True)
class Located(RecordedCall):
    """A call whose messages can be found in its bytes."""

    places: Places | None = None
    """None where the body is spelled in a way that nobody's SDK writes: it is then always parsed whole."""


def cut(
    call: ModelCall, before: RecordedCall | None = None, *, index: int = 0, verdict: str = "", rerouted: str = ""
) -> RecordedCall | None:
    """Cut the call into blocks; None where no body was recorded, or the body is not a model call.

    Blocks in front of the first byte that differs from `before`, an earlier call, are reused without parsing. Raises
    `UnreadableRequest` with the place for a body that cannot be read.
    """
    if not isinstance(call.prompt, Bodies):
        return None
    raw = call.prompt.request
    if len(raw) > MOST_BYTES:
        raise UnreadableRequest("body", f"{len(raw):,} bytes are more than any provider takes, it was not looked at")
    made = _continued(call, raw, before) or _whole(call, raw)
    return replace(made, index=index, verdict=verdict, rerouted=rerouted) if made else None


def slim(sent: RecordedCall) -> RecordedCall:
    """The call without its raw bytes and arrays: what is kept of calls further back."""
    call, params = replace(sent.call, prompt=None), sent.params
    return RecordedCall(
        call,
        b"",
        params,
        sent.wire,
        sent.blocks,
        params,
        sent.row,
        sent.usage,
        sent.verdict,
        sent.index,
        sent.rerouted,
        sent.in_headers,
    )


RECENT = 8
"""Latest calls among which `nearest` looks."""


def nearest(calls: Sequence[RecordedCall], raw: bytes) -> RecordedCall | None:
    """The call that shares the most leading bytes with a body: cutting can begin where they differ."""
    if len(calls) < 2:
        return calls[0] if calls else None
    return max(calls, key=lambda call: common_bytes(call.raw, raw))


def compare(before: RecordedCall, after: RecordedCall) -> tuple[Change, ...]:
    """Every difference in the prompts of two neighbouring calls, in cache order; empty where `after` only continues."""
    if before.wire != after.wire:
        return ()
    return changes(
        before.blocks,
        after.blocks,
        is_framed=BODIES[before.wire].is_framed,
        n_cached=reach_of(before),
        has_stored_history=named_in(after.params) is not None,
        strips_thinking=after.row.strips_thinking,
    )


def reach_of(sent: RecordedCall) -> int:
    """The number of leading blocks that the provider may have cached: up to the last marker, or all on an implicit
    cache.
    """
    if sent.row.cache != "breakpoints":
        return len(sent.blocks)
    options = sent.params.get("prompt_cache_options")
    is_explicit = isinstance(options, dict) and options.get("mode") == "explicit"
    if sent.params.get("cache_control") is not None or (sent.row.provider == "openai" and not is_explicit):
        return len(sent.blocks)  # marked by the provider, on the last block that can carry it
    return next((i + 1 for i in range(len(sent.blocks) - 1, -1, -1) if sent.blocks[i].marker is not None), 0)


def row_of(model: str, wire: str) -> Model:
    """The row of a model, or one assumed after its nearest relative.

    For a call that names no model, the usual one of its wire.

    >>> row_of("anthropic/claude-opus-4.5", "openai_chat").name
    'claude-opus-4-5'
    """
    stand_in = MODELS[_STAND_INS[wire]]
    if model in ("", "None"):
        return replace(stand_in, name=model, provider="", confidence="UNSURE", source="assumed from the wire")
    return find_model(model) or model_named(model, stand_in.provider)


def is_one_model(one: Model, other: Model) -> bool:
    """Return whether two rows are of one model: the same row, or one with its date and one without.

    >>> is_one_model(MODELS["claude-sonnet-4-5"], MODELS["claude-sonnet-4-5-20250929"]), is_one_model(MODELS["gpt-5"], MODELS["gpt-5-mini"])
    (True, False)
    """
    short, long = sorted((one.name, other.name), key=len)
    return one is other or short == long or (long.startswith(short) and _is_date(long[len(short) :]))


_DATE = re.compile(r"-latest|-preview|(?:[-@](?:\d{3,8}|\d{4}-\d\d-\d\d|\d\d-\d\d))?(?:[-@]v\d+)?(?::\d+)?")
"""A date or a release behind a model's name: `-20250929`, `-2025-08-07`, `@20250929-v1:0`, `-001`; not `-6`, which is
another model's."""


def _is_date(rest: str) -> bool:
    return _DATE.fullmatch(rest) is not None


_STAND_INS = {
    "anthropic_messages": "claude-sonnet-4-6",
    "bedrock_converse": "claude-sonnet-4-6",
    "openai_chat": "gpt-5.1",
    "openai_responses": "gpt-5.1",
    "gemini": "gemini-2.5-pro",
}


def _parsed(raw: bytes) -> dict[str, Json]:
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise UnreadableRequest("body", f"not JSON from byte {error.pos:,} on ({error.msg.split(':')[0]})") from None
    if not isinstance(fields, dict):
        raise UnreadableRequest("body", "Input should be an object")
    return fields


def _whole(call: ModelCall, raw: bytes) -> Located | None:
    fields = _parsed(raw)
    shape = reader_of(fields, f"{call.provider} {call.model}".lower())
    if shape is None:
        return None
    messages = shape.messages(fields)
    head = list(shape.head_blocks(fields))
    cuts = _cut_messages(shape, messages, 0, shape.n_system_messages(messages))
    counts = list(map(len, cuts))
    ends = _located(raw, shape.message_field, messages) if isinstance(fields.get(shape.message_field), list) else None
    places = Places(ends[0], ends[1], array("q", accumulate(counts)), len(head)) if ends else None
    return _made(call, raw, shape, fields, [*head, *(block for blocks in cuts for block in blocks)], places)


def _continued(call: ModelCall, raw: bytes, before: RecordedCall | None) -> Located | None:
    """`call` cut from where its bytes leave those of `before`, None where they share no message."""
    places = before.places if isinstance(before, Located) else None
    if before is None or places is None or not before.raw:
        return None
    n_shared = bisect_right(places.ends, common_bytes(before.raw, raw))
    if not n_shared or raw[places.ends[n_shared - 1] : places.ends[n_shared - 1] + 1] not in (b",", b"]"):
        return None
    at = places.ends[n_shared - 1]
    fields = _parsed(raw[: places.start] + raw[at + (raw[at] == 44) :])
    shape = BODIES[before.wire]
    new = fields.get(shape.message_field)
    if not isinstance(new, list):
        return None  # the array's name stands elsewhere once more
    old = before.body[shape.message_field]
    fields[shape.message_field] = messages = [*old[:n_shared], *new]
    head = _reused_head(shape, fields, before, places)
    cuts = _cut_messages(shape, new, n_shared, shape.n_system_messages(messages))
    blocks = [
        *head,
        *before.blocks[places.first : places.first + places.blocks[n_shared - 1]],
        *(block for part in cuts for block in part),
    ]
    tail = _tail_ends(raw, at, new)
    counts = accumulate(map(len, cuts), initial=places.blocks[n_shared - 1])
    if tail is None:
        return _made(call, raw, shape, fields, blocks, None)
    grown = Places(
        places.start, places.ends[:n_shared] + tail, places.blocks[: n_shared - 1] + array("q", counts), len(head)
    )
    return _made(call, raw, shape, fields, blocks, grown)


def _reused_head(shape: BodyReader, fields: Mapping[str, Json], before: RecordedCall, places: Places) -> list[Block]:
    """Blocks of tools and system; those of `before` where they are the same, so that they are one object, not two."""
    old = before.blocks[: places.first]
    new = list(shape.head_blocks(fields))
    if len(old) != len(new):
        return new
    return [
        one if one.body == other.body and one.marker == other.marker and one.path == other.path else other
        for one, other in zip(old, new, strict=True)
    ]


def _cut_messages(shape: BodyReader, messages: list[Json], first: int, head: int) -> list[list[Block]]:
    """Blocks of each of `messages`, of which the first is number `first` and all before number `head` are system text."""
    return [
        list(shape.message_blocks(one, i, "system" if i < head else "messages"))
        for i, one in enumerate(messages, first)
    ]


@dataclass(frozen=True, slots=True)
class _JsonStyle:
    """One way clients write JSON."""

    opening: str
    """Between the array's name and its first message."""
    comma: bytes
    """Between two messages."""
    dumps: Callable[[Json], bytes]
    """A message."""


_SPELLINGS = (
    _JsonStyle('":[', b",", json_bytes),  # the SDKs of Anthropic and OpenAI, JavaScript
    _JsonStyle('": [', b", ", lambda value: json.dumps(value).encode()),  # requests, aiohttp
    _JsonStyle('":[', b",", lambda value: json.dumps(value, separators=(",", ":")).encode()),
)


def _located(raw: bytes, name: str, messages: list[Json]) -> tuple[int, array[int]] | None:
    """Byte of the first message and the end of each.

    None where they are spelled in no way we know, so that nothing can be said.
    """
    for style in _SPELLINGS:
        opening = f'"{name}{style.opening}'.encode()
        start = raw.find(opening) + len(opening)
        ends = _ends(raw, start, messages, style) if start >= len(opening) else None
        if ends is not None:
            return start, ends
    return None


def _ends(raw: bytes, start: int, messages: list[Json], style: _JsonStyle) -> array[int] | None:
    at, ends = start, array("q")
    for message in messages:
        body = style.dumps(message)
        if not raw.startswith(body, at):
            return None
        ends.append(at + len(body))
        at += len(body) + len(style.comma)
    return ends if ends and raw[ends[-1] : ends[-1] + 1] == b"]" else None


def _tail_ends(raw: bytes, at: int, messages: list[Json]) -> array[int] | None:
    """Ends of the messages that follow the one that ends at `at`."""
    if not messages:
        return array("q")
    spelled_so = (_ends(raw, at + len(one.comma), messages, one) for one in _SPELLINGS if raw.startswith(one.comma, at))
    return next((ends for ends in spelled_so if ends is not None), None)


def _made(
    call: ModelCall,
    raw: bytes,
    shape: BodyReader,
    fields: dict[str, Json],
    blocks: list[Block],
    places: Places | None,
) -> Located:
    params = shape.params(fields)
    named = params.get("model") if isinstance(params.get("model"), str) else call.model
    row = row_of(call.model or str(named), shape.endpoint)
    return Located(call, raw, fields, shape.endpoint, tuple(blocks), params, row, call.usage, "", 0, places=places)
