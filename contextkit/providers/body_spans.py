"""Where the parts of a request body stand in its bytes: system text, tools, blocks and breakpoints.

Takes a JSON text and its parsed value, gives `Span`s, so that a part can be replaced and every other byte stays. `elements`
and `members` give the spans of the values of a JSON text without decoding them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.providers.body import SYSTEM_ROLES

Span = tuple[int, int]
"""Start, and the place behind the end."""
FindSpans = Callable[[bytes, Mapping[str, Json]], Iterator[Span]]
"""Takes a body and its parsed value, gives the spans of a part."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
_BLANK = b" \t\r\n"


def members(body: bytes, start: int = 0) -> dict[bytes, Span]:
    """Key, as it is spelled between its quotes, → where its value stands, of the object that begins at or behind
    `start`.

    >>> members(b'{"a": [1, 2], "b":"x"}')
    {b'a': (6, 12), b'b': (18, 21)}
    """
    spans = {}
    for first, last in _items(body, start):
        key = _TOKEN.match(body, first)
        colon = body.index(b":", key.end() if key else first)
        spans[body[first + 1 : key.end() - 1 if key else first]] = _trimmed(body, colon + 1, last)
    return spans


def elements(body: bytes, start: int) -> list[Span]:
    """Return the spans of the elements of the array that begins at or behind `start`.

    >>> elements(b'[1, "a,b", {}]', 0)
    [(1, 2), (4, 9), (11, 13)]
    """
    return list(_items(body, start))


def _items(body: bytes, start: int) -> Iterator[Span]:
    """Yield the spans between the commas of the object or array."""
    depth, at = 0, start
    for token in _TOKEN.finditer(body, start):
        sign = body[token.start()]
        if sign in b"[{":
            depth += 1
            at = token.end() if depth == 1 else at
        elif sign in b"]}" or (sign == 0x2C and depth == 1):
            if depth == 1 and body[at : token.start()].strip():
                yield _trimmed(body, at, token.start())
            at = token.end() if depth == 1 else at
            depth -= sign != 0x2C
            if not depth:
                return


def _trimmed(body: bytes, start: int, end: int) -> Span:
    while body[start] in _BLANK:
        start += 1
    while body[end - 1] in _BLANK:
        end -= 1
    return start, end


# System text
# ----------------------------------------------------------------------------------------------------------------------


def _fields(*names: str) -> FindSpans:
    """Fields that hold system text."""

    def spans(body: bytes, fields: Mapping[str, Json]) -> Iterator[Span]:
        for name in names:
            if fields.get(name):
                yield members(body)[name.encode()]

    return spans


def _system_messages(name: str) -> FindSpans:
    """Messages of the system in the array `name`, and `instructions`."""
    instructions = _fields("instructions")

    def spans(body: bytes, fields: Mapping[str, Json]) -> Iterator[Span]:
        yield from instructions(body, fields)
        messages = fields.get(name)
        if isinstance(messages, list) and any(is_system_message(message) for message in messages):
            places = elements(body, members(body)[name.encode()][0])
            yield from (span for span, message in zip(places, messages, strict=True) if is_system_message(message))

    return spans


def is_system_message(message: Json) -> bool:
    """Return whether a message is system text."""
    return isinstance(message, dict) and message.get("role") in SYSTEM_ROLES


SYSTEM_SPANS: Mapping[str, FindSpans] = {
    "anthropic_messages": _fields("system"),
    "openai_chat": _system_messages("messages"),
    "openai_responses": _system_messages("input"),
    "gemini": _fields("systemInstruction", "system_instruction"),
}
"""Endpoint → where its system text stands."""


# Tools
# ----------------------------------------------------------------------------------------------------------------------


def _listed(fields: Mapping[str, Json]) -> tuple[list[Json], Callable[[bytes], list[Span]]]:
    """Tools that are a list of their own."""
    tools = fields.get("tools")
    return (tools if isinstance(tools, list) else []), lambda body: elements(body, members(body)[b"tools"][0])


def _declared(fields: Mapping[str, Json]) -> tuple[list[Json], Callable[[bytes], list[Span]]]:
    """Gemini's functions: a list inside one of its tools; where several hold some, none is touched."""
    tools, _ = _listed(fields)
    places = [
        (at, name) for at, tool in enumerate(tools) if isinstance(tool, dict) for name in _DECLARATIONS if name in tool
    ]
    at, name = places[0] if len(places) == 1 else (-1, "")
    declared = tools[at][name] if name else []

    def find(body: bytes) -> list[Span]:
        tool = elements(body, members(body)[b"tools"][0])[at]
        return elements(body, members(body, tool[0])[name.encode()][0])

    return (declared if isinstance(declared, list) else []), find


_DECLARATIONS = ("functionDeclarations", "function_declarations")


def tools_in(endpoint: str, fields: Mapping[str, Json]) -> tuple[list[Json], Callable[[bytes], list[Span]]]:
    """The tools of a body, and a function that finds their spans in its bytes."""
    return _declared(fields) if endpoint == "gemini" else _listed(fields)


def tool_name(tool: Json) -> str:
    """The name of a tool of any endpoint; its type where it has none, as hosted tools."""
    fields = tool if isinstance(tool, dict) else {}
    inner = fields.get("function")
    named = inner if isinstance(inner, dict) else fields
    return str(named.get("name") or fields.get("type") or "")


def tool_marker(body: bytes, tool: Span) -> Span | None:
    """Return the span of a tool's marker, with the comma before it, or else the one behind it."""
    value = members(body[: tool[1]], tool[0]).get(b"cache_control")
    if value is None:
        return None
    start = body.rindex(b'"cache_control"', tool[0], value[0])
    before = len(body[:start].rstrip()) - 1
    if body[before : before + 1] == b",":
        return before, value[1]
    behind = body.find(b",", value[1], tool[1])
    return start, behind + 1 if behind >= 0 else value[1]


# Breakpoints
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MarkerForm:
    """How a breakpoint is written at one endpoint."""

    name: bytes
    """The field of a marker."""
    value: bytes
    """The value of that field."""
    text: bytes
    """Type of the block that a plain text stands for."""
    has_tail: bool
    """Whether the end of the conversation is marked by the client; else the provider marks it."""
    is_decided: Callable[[Mapping[str, Json]], bool]
    """Whether the client has chosen how its request is cached."""
    blocks: FindSpans
    """Every block in the order of the prompt."""


def _tool_spans(body: bytes, fields: Mapping[bytes, Span]) -> Iterator[Span]:
    if b"tools" in fields and body[fields[b"tools"][0]] == ord("["):
        yield from elements(body, fields[b"tools"][0])


def _anthropic(body: bytes, parsed: Mapping[str, Json]) -> Iterator[Span]:
    fields = members(body)
    yield from _tool_spans(body, fields)
    if b"system" in fields and body[slice(*fields[b"system"])] != b'""':
        yield from _of_content(body, fields[b"system"])
    for start, _ in elements(body, fields[b"messages"][0]):
        yield from _of_content(body, members(body, start)[b"content"])


_IN_PARTS = ("system", "developer", "user")
"""Who speaks in parts that can be marked; what others say is one block."""


def _openai(array: str) -> FindSpans:
    def blocks(body: bytes, parsed: Mapping[str, Json]) -> Iterator[Span]:
        fields = members(body)
        yield from _tool_spans(body, fields)
        if isinstance(parsed[array], list):
            for span, message in zip(elements(body, fields[array.encode()][0]), parsed[array], strict=True):
                is_message = message.get("type", "message") == "message" and message.get("role") in _IN_PARTS
                yield from _of_content(body, members(body, span[0])[b"content"]) if is_message else [span]
        else:
            yield fields[array.encode()]

    return blocks


def _of_content(body: bytes, span: Span) -> list[Span]:
    """A text is one block, null none."""
    kinds = {ord("["): lambda: elements(body, span[0]), ord('"'): lambda: [span]}
    return kinds.get(body[span[0]], list[Span])()


def _is_explicit(fields: Mapping[str, Json]) -> bool:
    """`explicit` without a marker switches caching off (openai/types/chat/completion_create_params.py).

    `instructions` take no marker.
    """
    options = fields.get("prompt_cache_options")
    return bool(fields.get("instructions")) or (isinstance(options, dict) and options.get("mode") == "explicit")


_OPENAI_MARKER = (b"prompt_cache_breakpoint", b'{"mode":"explicit"}')
MARKERS: Mapping[str, MarkerForm] = {
    "anthropic_messages": MarkerForm(
        b"cache_control",
        b'{"type":"ephemeral"}',
        b"text",
        True,
        lambda fields: fields.get("cache_control") is not None,
        _anthropic,
    ),
    "openai_chat": MarkerForm(*_OPENAI_MARKER, b"text", False, _is_explicit, _openai("messages")),
    "openai_responses": MarkerForm(*_OPENAI_MARKER, b"input_text", False, _is_explicit, _openai("input")),
}
"""Endpoint → how a breakpoint is written there."""


# Identity of a conversation
# ----------------------------------------------------------------------------------------------------------------------

_SYSTEM_FIELDS = ("system", "instructions", "systemInstruction", "system_instruction")
_MARKER_FIELDS = ("cache_control", "prompt_cache_breakpoint")


def agent_of(endpoint: str, fields: Mapping[str, Json]) -> tuple[Json, Json]:
    """The properties that distinguish an agent from another with the same messages: endpoint, model and whether it has
    tools; and its system text.
    """
    system = next((fields[name] for name in _SYSTEM_FIELDS if fields.get(name)), "")
    return [endpoint, fields.get("model"), bool(fields.get("tools"))], system


def without_markers(message: Json) -> Json:
    """A message without breakpoints, a lone text as the block it stands for."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content}]}
    if not isinstance(content, list):
        return message
    return {**message, "content": [_unmarked(block) for block in content]}


def _unmarked(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name not in _MARKER_FIELDS}
