"""`place-breakpoints`: markers for a client that sets none, where contextkit would set them.

Takes a body, gives it with markers. On `/v1/messages`: at the end of the head, at the end of the conversation, and on
the way there where the last request ended too far back. On OpenAI's endpoints: at the end of the head, as the end of
the conversation is marked by the provider itself; only for models whose row takes markers (gpt-5.6 and later). Other
wires cache without markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.models import model_named
from contextkit.prompt.breakpoints import Plan, plan
from contextkit.prompt.prompt import PromptColumns
from contextkit.providers import PARSERS
from contextkit.proxy.repairs.memory import Memory
from contextkit.proxy.repairs.splices import Rope, Span, elements, members


@dataclass(frozen=True, slots=True)
class _Marking:
    """How one wire is marked."""

    name: bytes
    """The field of a marker."""
    value: bytes
    """What stands in it."""
    text: bytes
    """Type of the block that a plain text stands for."""
    has_tail: bool
    """Whether the end of the conversation is ours to mark."""
    is_off: Callable[[Mapping[str, Json]], bool]
    """Whether the client has decided otherwise."""
    blocks: Callable[[bytes, Mapping[str, Json]], Iterator[Span]]
    """Every block in the order of the prompt."""


def place_breakpoints(rope: Rope, wire: str, fields: Mapping[str, Json], memory: Memory) -> Rope | None:
    """The body with markers; None where the client sets some, the model takes none, or the prompt is too short for any.

    Raises `UnreadableRequest` or `UnknownModel` for a body whose rules nobody knows.
    """
    marking, row = _MARKINGS[wire], model_named(str(fields.get("model")))
    if row.cache != "breakpoints" or marking.is_off(fields):
        return None
    layout, body = PARSERS[wire](fields).layout, bytes(rope)
    if layout.breakpoints or b'"%b"' % marking.name in body:
        return None
    places = _places(marking, layout.columns, layout.n, row.min_tokens, memory, list(marking.blocks(body, fields)))
    return rope.replaced(_marked(rope, body, place, marking) for place in places) if places else None


def _places(
    marking: _Marking, columns: PromptColumns, n: int, min_tokens: int, memory: Memory, spans: list[Span]
) -> list[Span]:
    """Where the blocks to mark stand; nowhere where the body is not cut as the prompt is."""
    rules = Plan(has_tail=marking.has_tail, min_tokens=min_tokens)
    marks = plan(columns, n, min(memory.n_segments, n), rules)
    memory.n_segments = n
    if len(spans) != n:
        return []
    return sorted(
        spans[mark.segment] for mark in marks
    )  # the body may hold its levels in another order than the prompt


def _tools(body: bytes, fields: Mapping[bytes, Span]) -> Iterator[Span]:
    if b"tools" in fields and body[fields[b"tools"][0]] == ord("["):
        yield from elements(body, fields[b"tools"][0])


def _anthropic(body: bytes, parsed: Mapping[str, Json]) -> Iterator[Span]:
    fields = members(body)
    yield from _tools(body, fields)
    if b"system" in fields and body[slice(*fields[b"system"])] != b'""':
        yield from _of_content(body, fields[b"system"])
    for start, _ in elements(body, fields[b"messages"][0]):
        yield from _of_content(body, members(body, start)[b"content"])


_IN_PARTS = ("system", "developer", "user")
"""Who speaks in parts that can be marked; what others say is one block."""


def _openai(array: str) -> Callable[[bytes, Mapping[str, Json]], Iterator[Span]]:
    def blocks(body: bytes, parsed: Mapping[str, Json]) -> Iterator[Span]:
        fields = members(body)
        yield from _tools(body, fields)
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


def _marked(rope: Rope, body: bytes, span: Span, marking: _Marking) -> tuple[int, int, Rope]:
    """A block with a marker behind its last field; a text becomes the block it stands for."""
    (start, end), marker = span, b'"%b":%b' % (marking.name, marking.value)
    if body[start] == ord('"'):
        opening = b'[{"type":"%b","text":' % marking.text
        return start, end, Rope.new(opening) + rope.cut(start, end) + Rope.new(b"," + marker + b"}]")
    return end - 1, end - 1, Rope.new(b"," + marker)


def _is_explicit(fields: Mapping[str, Json]) -> bool:
    """`explicit` without a marker switches caching off (openai/types/chat/completion_create_params.py).

    `instructions` take no marker.
    """
    options = fields.get("prompt_cache_options")
    return bool(fields.get("instructions")) or (isinstance(options, dict) and options.get("mode") == "explicit")


_BREAKPOINT = (b"prompt_cache_breakpoint", b'{"mode":"explicit"}')
_MARKINGS: Mapping[str, _Marking] = {
    "anthropic_messages": _Marking(
        b"cache_control",
        b'{"type":"ephemeral"}',
        b"text",
        True,
        lambda fields: fields.get("cache_control") is not None,
        _anthropic,
    ),
    "openai_chat": _Marking(*_BREAKPOINT, b"text", False, _is_explicit, _openai("messages")),
    "openai_responses": _Marking(*_BREAKPOINT, b"input_text", False, _is_explicit, _openai("input")),
}
"""Wire → how it is marked."""
