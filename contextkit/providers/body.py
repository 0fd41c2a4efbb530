"""The walk over a request body: its tools, system blocks and content blocks, as they stand there.

`BodyReader` is one instance per endpoint, defined in `<endpoint>/body.py`. Its two functions `head_parts` and
`message_parts` are the only code that takes a body apart. `BodyReader.blocks` makes `Block`s of the parts, to compare
prompts (diff, lint, watch, proxy); the endpoint's `parse` renders them, to key a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from typing import Any, NamedTuple

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest
from contextkit.prompt.block import Block, block_of, listed, mapped, marker_in, name_in, type_in
from contextkit.prompt.prompt import Level

SYSTEM_ROLES = ("system", "developer")  # a tuple: a role may be anything, also what has no hash


MARKER = "marker"
"""Type of a part that is a cache marker by itself and no block."""


class BodyPart(NamedTuple):
    """One tool, system block or content block of a request body, as the walk of its endpoint yields it.

    `BodyReader` makes a `Block` of it, to compare prompts; `parse` makes a `RenderedBlock` of it, to key a cache.
    """

    level: Level
    """tools, system or messages."""
    path: str
    """`messages[4].content[1]`."""
    message: int
    """Index of its message, -1 outside of messages."""
    role: str
    """Role of its message; `system` for system text, its name for a tool."""
    type: str
    """text, image, document, thinking, call, result, tool, the endpoint's own word for anything else, or `MARKER`."""
    value: Json
    """As parsed; of a marker, what the marker holds."""
    field: str = ""
    """Field of the tool or message that holds it; empty where it is the whole of it."""


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Reads the blocks of one endpoint's request bodies, tolerantly: no field has to be there.

    Every function raises `UnreadableRequest` with the path of a value whose JSON type is wrong.
    """

    endpoint: str
    """Key in `BODIES`."""
    is_body: Callable[[Mapping[str, Json]], bool]
    """Whether a parsed body is one of this endpoint; asked in the order of `BODIES`."""
    message_field: str
    """Field that holds the messages."""
    block_fields: frozenset[str]
    """Fields whose content is blocks; `toolConfig.tools` for a field inside another."""
    head_parts: Callable[[Mapping[str, Json]], Iterator[BodyPart]]
    """Tools and system text that stand in fields of their own."""
    message_parts: Callable[[Json, int, Level], Iterator[BodyPart]]
    """Parts of one message: its value, index and level."""
    model_field: str = "model"
    """Field that names the model."""
    has_system_messages: bool = False
    """Whether system text opens the array of messages."""
    fixed_body: Callable[[Level, Json], bytes | None] = lambda level, value: None
    """(level, value) → bytes that stand for a block whose own are no part of the prompt; None for every other block."""
    is_framed: bool = True
    """Whether two neighbouring messages of one role differ from one message of both."""

    def messages(self, fields: Mapping[str, Json]) -> list[Json]:
        """The messages; a string, where the endpoint takes one, is one message of the user."""
        value = fields.get(self.message_field)
        if isinstance(value, str):
            return [{"role": "user", "content": value}]
        if isinstance(value, dict):
            return [value]
        if not isinstance(value, list):
            raise UnreadableRequest(self.message_field, "Input should be an array")
        return value

    def n_system_messages(self, messages: list[Json]) -> int:
        """Count the leading messages that are system text."""
        if not self.has_system_messages:
            return 0
        return sum(1 for _ in takewhile(_is_system_message, messages))

    def head_blocks(self, fields: Mapping[str, Json]) -> Iterator[Block]:
        """Blocks of tools and system text that stand in fields of their own."""
        return self._blocks(self.head_parts(fields))

    def message_blocks(self, message: Json, index: int, level: Level) -> Iterator[Block]:
        """Blocks of one message."""
        return self._blocks(self.message_parts(message, index, level))

    def _blocks(self, parts: Iterable[BodyPart]) -> Iterator[Block]:
        """Parts as blocks; a marker that stands by itself marks the block before it."""
        block: Block | None = None
        for part in parts:
            if part.type == MARKER:
                if block is not None and (block.level, block.message) == (part.level, part.message):
                    block = replace(block, marker=marker_in(part.value))
                continue
            if block is not None:
                yield block
            block = block_of(part.level, part.path, part.message, part.role, part.type, part.value)
            fixed = self.fixed_body(part.level, part.value)
            if fixed is not None:
                block = replace(block, body=fixed)
        if block is not None:
            yield block

    def blocks(self, fields: Mapping[str, Json]) -> Iterator[Block]:
        """Every block of a body: tools, system text, then messages, in the order of the prompt."""
        return self._blocks(self.parts(fields))

    def parts(self, fields: Mapping[str, Json]) -> Iterator[BodyPart]:
        """Every part of a body, in the same order."""
        messages = self.messages(fields)
        n_system = self.n_system_messages(messages)
        return chain(
            self.head_parts(fields),
            *(
                self.message_parts(message, index, "system" if index < n_system else "messages")
                for index, message in enumerate(messages)
            ),
        )

    def params(self, fields: Mapping[str, Any]) -> dict[str, Json]:
        """Top-level fields that hold no blocks."""
        params = {name: value for name, value in fields.items() if name not in self.block_fields}
        for path in self.block_fields:
            outer, _, inner = path.partition(".")
            value = params.get(outer)
            if inner and isinstance(value, dict) and inner in value:
                params[outer] = {name: field for name, field in value.items() if name != inner}
        return params


def _is_system_message(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") in SYSTEM_ROLES


def json_items(value: Json) -> list[Json]:
    """An array, empty for anything else: `is_body` may look where no array is."""
    return value if isinstance(value, list) else []


def content_parts(fields: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Objects in the `content` of each of `messages`."""
    for message in json_items(fields.get("messages")):
        content = message.get("content") if isinstance(message, dict) else None
        for part in json_items(content):
            if isinstance(part, dict):
                yield part


def tool_parts(fields: Mapping[str, Json]) -> Iterator[BodyPart]:
    """A list of tool definitions."""
    for index, tool in enumerate(listed(fields.get("tools"), "tools")):
        path = f"tools[{index}]"
        name = name_in(mapped(tool, path), "function", "custom") or str(tool.get("type", ""))
        yield BodyPart("tools", path, -1, name, "tool", tool)


def parts_of_content(
    level: Level, content: Json, path: str, message: int, role: str, types: Mapping[str, str]
) -> Iterator[BodyPart]:
    """Parts of content that is a text or an array; none where it is null. `types` as in `type_in`.

    Raises `UnreadableRequest` for anything else.
    """
    if isinstance(content, str):
        yield BodyPart(level, path, message, role, "text", content, "content")
        return
    for index, value in enumerate(listed(content, path)):
        yield BodyPart(level, f"{path}[{index}]", message, role, type_in(value, types), value, "content")


def has_chat_messages(fields: Mapping[str, Json]) -> bool:
    """Return whether `messages` holds what only OpenAI Chat takes: leading system text, tool roles, `tool_calls`."""
    messages = [message for message in json_items(fields.get("messages")) if isinstance(message, dict)]
    starts_with_system = bool(messages) and messages[0].get("role") in SYSTEM_ROLES
    return starts_with_system or any(message.get("role") == "tool" or "tool_calls" in message for message in messages)
