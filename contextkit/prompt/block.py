"""Blocks of request bodies as they were sent.

A `Block` is the smallest unit a finding can name: a tool definition, a system block, a content block of a message. The
walk of an endpoint over a body (`providers/body.py`) makes it; diff, lint, watch and conversation matching compare its
bytes, which have their keys in the order they were sent, so that a changed order is found. What a cache keys is another
thing, a `RenderedBlock` (`prompt/prompt.py`): in normal form, and a whole message where the endpoint caches whole
messages. This module knows no endpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import orjson

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest
from contextkit.facts.load import built_in_table
from contextkit.prompt.normal_form import MARKERS, VERBATIM, marker_of
from contextkit.prompt.prompt import Level

_MARKER_BYTES = tuple(f'"{name}"'.encode() for name in sorted(MARKERS))


@dataclass(slots=True)
class Block:
    """One block of a request body; its bytes are written when they are first asked for."""

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
    """text, image, document, thinking, call, result, tool, the endpoint's own name for anything else, or `MARKER`."""
    value: Json
    """As parsed, markers included; of a `MARKER`, what the marker holds."""
    field: str = ""
    """Field of the tool or message that holds it; empty where it is the whole of it."""
    fixed: bytes | None = None
    """The bytes that stand for it, where its own are no part of the prompt."""
    beside: Mapping[str, Json] | None = None
    """The cache marker that stood beside it, where its endpoint writes markers so."""
    _body: bytes = dataclasses.field(default=b"", init=False, repr=False, compare=False)
    _marker: Mapping[str, Json] | None = dataclasses.field(default=None, init=False, repr=False, compare=False)

    @property
    def body(self) -> bytes:
        """Its JSON without markers, keys in the order they were sent.

        Raises `UnreadableRequest` for a value that is nested deeper than any provider accepts.
        """
        if not self._body:
            self._write()
        return self._body

    @property
    def marker(self) -> Mapping[str, Json] | None:
        """Its cache marker (`cache_control`, `cachePoint`, `prompt_cache_breakpoint`), None where it has none."""
        if not self._body:
            self._write()
        return self._marker

    def marked(self, marker: Json) -> Block:
        """Return the block with a marker that stood beside it."""
        return dataclasses.replace(self, beside=marker_in(marker))

    def _write(self) -> None:
        body, self._marker = json_bytes(self.value), self.beside
        if any(name in body for name in _MARKER_BYTES):
            self._marker = self.beside or marker_in(marker_of(self.value))
            body = json_bytes(_unmarked(self.value))
        self._body = body if self.fixed is None else self.fixed


MARKER = "marker"
"""Type of what is a cache marker by itself and no block."""


def text_of(block: Block) -> str:
    """Return the text of a block and of its nested parts; empty for images, and for calls without any.

    >>> text_of(Block("messages", "messages[0].content", 0, "user", "text", "hi"))
    'hi'
    >>> result = {"toolResult": {"content": [{"json": {"result": "a.py"}}]}}
    >>> text_of(Block("messages", "messages[0].content[0]", 0, "user", "result", result))
    'a.py'
    """
    return "\n".join(_texts(block.value))


def _texts(value: Json) -> Iterator[str]:
    """Yield the texts in fields that hold text."""
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


def json_bytes(value: Json) -> bytes:
    """Write compact JSON, keys in their order.

    Raises `UnreadableRequest` for a value that is nested deeper than any provider accepts.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        raise UnreadableRequest("body", "nested deeper than 254 levels") from None


def marker_in(marker: Json) -> Mapping[str, Json] | None:
    """Return a marker as an object; one of another form still marks its block."""
    return marker if isinstance(marker, dict) else None if marker is None else {"type": str(marker)}


def _unmarked(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: item if key in VERBATIM else _unmarked(item) for key, item in value.items() if key not in MARKERS}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value


def listed(value: Json, path: str) -> list[Json]:
    """Return an array, empty where there is none; raises `UnreadableRequest` for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnreadableRequest(path, "Input should be an array")
    return value


def mapped(value: Json, path: str) -> dict[str, Json]:
    """Return an object; raises `UnreadableRequest` for anything else."""
    if not isinstance(value, dict):
        raise UnreadableRequest(path, "Input should be an object")
    return value


def name_in(value: Json, *keys: str) -> str:
    """Return the name of a tool: its own, or that of an object under one of `keys`."""
    inside = [value, *(value.get(key) for key in keys)] if isinstance(value, dict) else []
    return next((str(one["name"]) for one in inside if isinstance(one, dict) and "name" in one), "")


def type_in(value: Json, kinds: Mapping[str, str]) -> str:
    """Return the type of a block: by its `type`, or by its key where it has none; `kinds` maps both to neutral types."""
    if not isinstance(value, dict):
        return "text"
    kind = value.get("type")
    if isinstance(kind, str):
        return kinds.get(kind) or next((name for ending, name in _ENDINGS.items() if kind.endswith(ending)), kind)
    named = [key for key in kinds if key in value]  # the first that holds something: a thought is a text that says so
    return next((kinds[key] for key in named if value[key]), kinds[named[0]] if named else next(iter(value), "text"))


_ENDINGS = {"_call_output": "result", "_tool_result": "result", "_call": "call", "_tool_use": "call"}
