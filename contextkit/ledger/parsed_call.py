"""A recorded call with its request body parsed into blocks, as lint, `watch` and conversation matching see it.

`parse_call` takes a call with the bytes of its body; as far as these agree with an earlier call of the conversation, its
blocks are taken over without being parsed again. `BodyParser` takes bodies that somebody parsed already, and takes over
the messages that a recent body had before.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import orjson

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest
from contextkit.ledger.body_json import BodyJson, continued_body, whole_body
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.models import MODELS, Model, find_model, model_named
from contextkit.prompt.block import Block, json_bytes
from contextkit.prompt.diff import Change, changes, common_bytes
from contextkit.providers.body import BodyReader
from contextkit.providers.body_items import n_leading, spelled
from contextkit.providers.client_names import NO_NAMES, ClientNames, client_names
from contextkit.providers.endpoints import BODIES, reader_for, reader_of
from contextkit.providers.histories import named_in

MOST_BYTES = 64 << 20
"""Larger bodies are not read: no provider takes them (Anthropic's limit is 32 MB,
https://platform.claude.com/docs/en/api/overview)."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the blocks of a body's messages stand."""

    body: BodyJson
    """The body, with the ends of its messages."""
    blocks: array[int]
    """Blocks of system text and messages up to each message."""
    first: int
    """Index of the first block that stands in the array."""


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call whose request body was parsed; a `PromptCall` of `prompt/conversations.py`."""

    call: ModelCall
    """As recorded."""
    body: Mapping[str, Json]
    """The request body."""
    endpoint: str
    """The wire format: anthropic_messages, openai_chat, openai_responses, gemini, bedrock_converse; empty for a body of
    no known one, which has no blocks."""
    blocks: Sequence[Block]
    """All blocks, in cache order: tools, system, messages."""
    params: Mapping[str, Json]
    """Top-level fields that are not blocks."""
    client: ClientNames
    """Session, agent and context window as its client names them."""
    previous: str = ""
    """The name of the stored history that the request continues; empty where it sends its whole history."""
    places: Places | None = None
    """Where its messages stand in `raw`; None where the body is spelled as no SDK does, so that it is parsed whole."""

    @property
    def raw(self) -> bytes:
        """The body's bytes; empty where they are not kept."""
        return self.call.prompt.request if isinstance(self.call.prompt, Bodies) else b""

    @property
    def row(self) -> Model:
        """The model table on it."""
        return row_of(_named_model(self.call, self.params), self.endpoint)

    @property
    def usage(self) -> Usage | None:
        """What was billed."""
        return self.call.usage

    @property
    def model(self) -> str:
        """The requested model."""
        return self.call.model

    @property
    def session(self) -> str:
        """The recorded session, else the one that the client names."""
        return self.call.session or self.client.session

    @property
    def agent(self) -> str:
        """The sub-agent that the client names."""
        return self.client.agent

    @property
    def window(self) -> str:
        """The context window that the client names."""
        return self.client.window

    @property
    def names(self) -> tuple[str, ...]:
        """Names that a later request may refer to."""
        return tuple(filter(None, (self.call.id, self.previous)))


def parse_call(
    call: ModelCall,
    before: ParsedCall | None = None,
    *,
    in_headers: ClientNames = NO_NAMES,
) -> ParsedCall | None:
    """Parse the body of a call into blocks; None where no body was recorded, or the body is not a model call.

    `in_headers` are the names in the headers of its request.

    Blocks in front of the first byte that differs from `before`, an earlier call, are reused without parsing. Raises
    `UnreadableRequest` with the place for a body that cannot be read.
    """
    if not isinstance(call.prompt, Bodies):
        return None
    raw = call.prompt.request
    if len(raw) > MOST_BYTES:
        raise UnreadableRequest("body", f"{len(raw):,} bytes are more than any provider takes, it was not looked at")
    made = _continued(call, raw, before) or _whole(call, raw)
    if made is None:
        return None
    client = client_names(made.params, in_headers)
    return replace(made, client=client)


def _named_model(call: ModelCall, fields: Mapping[str, Json]) -> str:
    """The model of a call as recorded, or as its body names it; empty where neither does."""
    named = fields.get("model")
    return call.model or (named if isinstance(named, str) else "")


RECENT = 8
"""Latest calls among which `nearest` looks."""


def nearest(calls: Sequence[ParsedCall], raw: bytes) -> ParsedCall | None:
    """Return the call that shares the most leading bytes with a body: cutting can begin where they differ."""
    if len(calls) < 2:
        return calls[0] if calls else None
    return max(calls, key=lambda call: common_bytes(call.raw, raw))


def compare(before: ParsedCall, after: ParsedCall) -> tuple[Change, ...]:
    """Return every difference in the prompts of two neighbouring calls, in cache order; none if `after` only continues."""
    if before.endpoint != after.endpoint:
        return ()
    return changes(
        before.blocks,
        after.blocks,
        is_framed=BODIES[before.endpoint].is_framed,
        n_cached=reach_of(before),
        has_stored_history=named_in(after.params) is not None,
        strips_thinking=after.row.strips_thinking,
    )


def reach_of(sent: ParsedCall) -> int:
    """Count the leading blocks that the provider may have cached: up to the last marker, or all on an implicit
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
    """Return the row of a model, or one assumed after its nearest relative.

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


def _whole(call: ModelCall, raw: bytes) -> ParsedCall | None:
    fields = _parsed(raw)
    shape = reader_of(fields, f"{call.provider} {call.model}".lower())
    if shape is None:
        return None
    shape = reader_for(shape.endpoint, _named_model(call, fields))
    messages = shape.messages(fields)
    head = list(shape.head_blocks(fields))
    cuts = _cut_messages(shape, messages, 0, shape.n_system_messages(messages))
    counts = list(map(len, cuts))
    body = whole_body(raw, fields, shape.message_field)
    places = Places(body, array("q", accumulate(counts)), len(head)) if body.ends else None
    return _made(call, raw, shape, fields, [*head, *(block for blocks in cuts for block in blocks)], places)


def _continued(call: ModelCall, raw: bytes, before: ParsedCall | None) -> ParsedCall | None:
    """Return `call` parsed from where its bytes leave those of `before`; None where they share no message."""
    if before is None or before.places is None:
        return None
    places = before.places
    body = continued_body(raw, places.body, _parsed)
    if body is None:
        return None
    fields, n_shared = body.fields, body.n_shared
    shape = reader_for(before.endpoint, _named_model(call, fields))
    messages = fields[shape.message_field]
    head = _reused_head(shape, fields, before, places)
    cuts = _cut_messages(shape, messages[n_shared:], n_shared, shape.n_system_messages(messages))
    blocks = [
        *head,
        *before.blocks[places.first : places.first + places.blocks[n_shared - 1]],
        *(block for part in cuts for block in part),
    ]
    counts = accumulate(map(len, cuts), initial=places.blocks[n_shared - 1])
    grown = Places(body, places.blocks[: n_shared - 1] + array("q", counts), len(head))
    return _made(call, raw, shape, fields, blocks, grown)


def _reused_head(shape: BodyReader, fields: Mapping[str, Json], before: ParsedCall, places: Places) -> list[Block]:
    """Return the blocks of tools and system; those of `before` where they are the same, so that they are one object, not two."""
    old = before.blocks[: places.first]
    new = list(shape.head_blocks(fields))
    if len(old) != len(new):
        return new
    return [
        one if one.body == other.body and one.marker == other.marker and one.path == other.path else other
        for one, other in zip(old, new, strict=True)
    ]


def _cut_messages(shape: BodyReader, messages: list[Json], first: int, head: int) -> list[list[Block]]:
    """Return the blocks of each of `messages`, of which the first is number `first` and all before number `head` are system text.

    Raises `UnreadableRequest` where they are nested too deep to be compared.
    """
    json_bytes(messages)
    return [
        list(shape.message_blocks(one, i, "system" if i < head else "messages"))
        for i, one in enumerate(messages, first)
    ]


def _made(
    call: ModelCall,
    raw: bytes,
    shape: BodyReader,
    fields: dict[str, Json],
    blocks: list[Block],
    places: Places | None,
) -> ParsedCall:
    stored = named_in(fields)
    return ParsedCall(
        call,
        fields,
        shape.endpoint,
        tuple(blocks),
        shape.params(fields),
        NO_NAMES,
        stored.name if stored else "",
        places=places,
    )


_RECENT = 8
_NOT_A_REQUEST = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError, UnreadableRequest)


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages of a recent body."""

    keys: list[bytes]
    """Endpoint and value of each message, as `spelled`."""
    blocks: list[list[Block]]
    """The blocks of each message."""
    sizes: list[int]
    """The bytes of each message's blocks."""


class BodyParser:
    """Parses request bodies whose JSON was read already; the messages a recent body had before are not parsed again."""

    def __init__(self) -> None:
        self._recent: OrderedDict[int, _Messages] = OrderedDict()
        self._number = 0

    def parse(
        self, call: ModelCall, fields: Mapping[str, Any], hint: str, *, in_headers: ClientNames = NO_NAMES
    ) -> tuple[ParsedCall, int]:
        """Return the call of a body and the bytes of its message blocks; one that cannot be read has no blocks.

        `hint` is provider and model, for a body whose keys do not tell its endpoint; `in_headers` are the names in the
        headers of the request.
        """
        stored, client = named_in(fields), client_names(fields, in_headers)
        endpoint, n_bytes = "", 0
        blocks: tuple[Block, ...] = ()
        try:
            reader = reader_of(fields, hint)
            if reader is not None:
                endpoint = reader.endpoint
                blocks, n_bytes = self._blocks(reader_for(endpoint, _named_model(call, fields)), fields)
        except _NOT_A_REQUEST:
            pass  # the provider refuses it; it is a conversation of its own
        return ParsedCall(call, fields, endpoint, blocks, fields, client, stored.name if stored else ""), n_bytes

    def _blocks(self, reader: BodyReader, fields: Mapping[str, Any]) -> tuple[tuple[Block, ...], int]:
        messages = reader.messages(fields)
        n_system = reader.n_system_messages(messages)
        keys = [spelled((reader.endpoint, message)) for message in messages]
        nearest, n = 0, 0
        for number, earlier in self._recent.items():
            same = n_leading(keys, earlier.keys)
            if same > n:
                nearest, n = number, same
        known = self._recent.pop(nearest) if n else _Messages([], [], [])
        blocks = known.blocks[:n] + _cut_messages(reader, messages[n:], n, n_system)
        sizes = known.sizes[:n] + [sum(len(block.body) for block in of_one) for of_one in blocks[n:]]
        self._number += 1
        self._recent[self._number] = _Messages(keys, blocks, sizes)
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return (*reader.head_blocks(fields), *(block for of_one in blocks for block in of_one)), sum(sizes)
