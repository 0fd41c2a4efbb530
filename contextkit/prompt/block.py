"""Blocks of request bodies as they were sent, to compare prompts with.

A `Block` is for reading: diff, lint, watch and proxy compare blocks of two bodies. Its counterpart for building and for
cache keys is `RenderedBlock` (`prompt/prompt.py`). The two differ in bytes and in extent: a `Block` has its keys in the
order they were sent, so that a changed order is found, and is the smallest unit a finding can name; a `RenderedBlock`
has the normal form that digests are taken of, and is a whole message where the endpoint caches whole messages.

`block_of` makes a `Block`, `providers.provider.render_block` a `RenderedBlock`, both from a JSON value. Neither is made
of the other. This module knows no endpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest
from contextkit.facts.load import built_in_table
from contextkit.prompt.normal_form import MARKERS, VERBATIM, marker_of
from contextkit.prompt.prompt import Level

_MARKER_BYTES = tuple(f'"{name}"'.encode() for name in sorted(MARKERS))


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a request body: a tool definition, a system block, a content block of a message."""

    level: Level
    """tools, system or messages."""
    path: str
    """`tools[2]`, `system[0]`, `messages[4].content[1]`, with the field names of its endpoint (`input[3]`,
    `contents[0].parts[1]`)."""
    message: int
    """Index of the message it belongs to, -1 outside of messages."""
    role: str
    """Role of its message, as sent; `system` for system text, its name for a tool."""
    type: str
    """text, image, document, thinking, call, result, tool, or the endpoint's own name for anything else."""
    value: Json
    """As parsed, markers included."""
    body: bytes
    """Its JSON without markers, keys in the order they were sent."""
    marker: Mapping[str, Json] | None
    """Its cache marker (`cache_control`, `cachePoint`, `prompt_cache_breakpoint`), None where it has none."""


def text_of(block: Block) -> str:
    """The text of a block and of its nested parts; empty for images, and for calls without any.

    >>> text_of(block_of("messages", "messages[0].content", 0, "user", "text", "hi"))
    'hi'
    >>> result = {"toolResult": {"content": [{"json": {"result": "a.py"}}]}}
    >>> text_of(block_of("messages", "messages[0].content[0]", 0, "user", "result", result))
    'a.py'
    """
    return "\n".join(_texts(block.value))


def _texts(value: Json) -> Iterator[str]:
    """The texts in fields that hold text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        for key in _TEXT_FIELDS:
            yield from _texts(value.get(key))
        for key in _DATA_FIELDS:
            yield from _all_texts(value.get(key))


_TEXT_FIELDS = tuple(built_in_table("fields.toml")["text"]["words"])
_DATA_FIELDS = tuple(built_in_table("fields.toml")["text"]["data"])
"""Fields that hold data of a tool: every text in them may be what the model reads."""


def _all_texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _all_texts(part)


def block_of(level: Level, path: str, message: int, role: str, kind: str, value: Json) -> Block:
    """Make a block; its bytes are without markers."""
    body = json_bytes(value)
    if not any(name in body for name in _MARKER_BYTES):
        return Block(level, path, message, role, kind, value, body, None)
    marker = marker_of(value)
    bare = json_bytes(_unmarked(value))
    return Block(level, path, message, role, kind, value, bare, marker_in(marker))


def json_bytes(value: Json) -> bytes:
    """Compact JSON, keys in their order.

    Raises `UnreadableRequest` for a value that is nested deeper than any provider accepts.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        raise UnreadableRequest("body", "nested deeper than 254 levels") from None


def marker_in(marker: Json) -> Mapping[str, Json] | None:
    """A marker as an object; one of another form still marks its block."""
    return marker if isinstance(marker, dict) else None if marker is None else {"type": str(marker)}


def _unmarked(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: item if key in VERBATIM else _unmarked(item) for key, item in value.items() if key not in MARKERS}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def listed(value: Json, path: str) -> list[Json]:
    """An array, empty where there is none; raises `UnreadableRequest` for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnreadableRequest(path, "Input should be an array")
    return value


def mapped(value: Json, path: str) -> dict[str, Json]:
    """An object; raises `UnreadableRequest` for anything else."""
    if not isinstance(value, dict):
        raise UnreadableRequest(path, "Input should be an object")
    return value


def name_in(value: Json, *keys: str) -> str:
    """The name of a tool: its own, or that of an object under one of `keys`."""
    inside = [value, *(value.get(key) for key in keys)] if isinstance(value, dict) else []
    return next((str(one["name"]) for one in inside if isinstance(one, dict) and "name" in one), "")


def type_in(value: Json, kinds: Mapping[str, str]) -> str:
    """The type of a block: by its `type`, or by its key where it has none; `kinds` maps both to neutral types."""
    if not isinstance(value, dict):
        return "text"
    kind = value.get("type")
    if isinstance(kind, str):
        return kinds.get(kind) or next((name for ending, name in _ENDINGS.items() if kind.endswith(ending)), kind)
    named = [key for key in kinds if key in value]  # the first that holds something: a thought is a text that says so
    return next((kinds[key] for key in named if value[key]), kinds[named[0]] if named else next(iter(value), "text"))


_ENDINGS = {"_call_output": "result", "_tool_result": "result", "_call": "call", "_tool_use": "call"}
