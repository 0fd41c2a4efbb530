"""One block of a request body: its bytes without markers, its type, its words; what every wire's table is made of.

Takes JSON values, gives `Block`s. Knows no wire of its own.
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
    """One block of a prompt: a tool definition, a system block, a message's content block."""

    level: Level
    """Where it stands."""
    path: str
    """`tools[2]`, `system[0]`, `messages[4].content[1]`, in the words of its own wire (`input[3]`,
    `contents[0].parts[1]`)."""
    message: int
    """Index of the message it belongs to, -1 outside of messages."""
    role: str
    """Of its message, in its wire's words; for system text `system`, for tools the tool's name."""
    type: str
    """text, image, document, thinking, call, result, tool, or the wire's own word for anything else."""
    value: Json
    """As parsed, markers included."""
    body: bytes
    """Its JSON without markers, keys in the order they were sent."""
    marker: Mapping[str, Json] | None
    """Its cache marker (`cache_control`, `cachePoint`, `prompt_cache_breakpoint`), None where it has none."""


def text_of(block: Block) -> str:
    """The words of a block, its nested parts' included; empty for pictures and calls without any.

    >>> text_of(block_of("messages", "messages[0].content", 0, "user", "text", "hi"))
    'hi'
    >>> result = {"toolResult": {"content": [{"json": {"result": "a.py"}}]}}
    >>> text_of(block_of("messages", "messages[0].content[0]", 0, "user", "result", result))
    'a.py'
    """
    return "\n".join(_words(block.value))


def _words(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _words(part)
    elif isinstance(value, dict):
        for key in _WORDS:
            yield from _words(value.get(key))
        for key in _DATA:
            yield from _texts(value.get(key))


_WORDS = tuple(built_in_table("fields.toml")["text"]["words"])
_DATA = tuple(built_in_table("fields.toml")["text"]["data"])
"""What a tool gave back as data: every text in it may be what the model reads."""


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def block_of(level: Level, path: str, message: int, role: str, kind: str, value: Json) -> Block:
    """A block, its markers taken out of the bytes."""
    body = spelled(value)
    if not any(name in body for name in _MARKER_BYTES):
        return Block(level, path, message, role, kind, value, body, None)
    marker = marker_of(value)
    bare = spelled(_unmarked(value))
    return Block(level, path, message, role, kind, value, bare, marker_in(marker))


def spelled(value: Json) -> bytes:
    """Compact JSON in the order of its keys.

    Raises `UnreadableRequest` for what is nested deeper than any provider takes.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        raise UnreadableRequest("body", "nested deeper than 254 levels") from None


def marker_in(marker: Json) -> Mapping[str, Json] | None:
    """A marker of another form than an object still marks."""
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
    """The name of a tool, looked for in itself and in what it wraps."""
    inside = [value, *(value.get(key) for key in keys)] if isinstance(value, dict) else []
    return next((str(one["name"]) for one in inside if isinstance(one, dict) and "name" in one), "")


def type_in(value: Json, kinds: Mapping[str, str]) -> str:
    """The type of a block by its `type`, or by the key it has where it has none."""
    if not isinstance(value, dict):
        return "text"
    kind = value.get("type")
    if isinstance(kind, str):
        return kinds.get(kind) or next((name for ending, name in _ENDINGS.items() if kind.endswith(ending)), kind)
    named = [key for key in kinds if key in value]  # the first that holds something: a thought is a text that says so
    return next((kinds[key] for key in named if value[key]), kinds[named[0]] if named else next(iter(value), "text"))


_ENDINGS = {"_call_output": "result", "_tool_result": "result", "_call": "call", "_tool_use": "call"}
