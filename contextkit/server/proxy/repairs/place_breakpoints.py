"""`place-breakpoints`: markers for a client that sets none, where contextkit would set them.

Takes a `/v1/messages` body, gives it with markers at the end of the head, at the end of the conversation, and on the way there where the
last request ended too far back. Other wires cache without markers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.layout.breakpoints import Plan, plan
from contextkit.models import model_named
from contextkit.providers import PARSERS
from contextkit.server.proxy.repairs.memory import Memory
from contextkit.server.proxy.repairs.spans import Span, elements, members
from contextkit.server.proxy.repairs.splices import Rope

_WIRE = "anthropic_messages"
_MARKER = b'"cache_control":{"type":"ephemeral"}'


def place_breakpoints(rope: Rope, wire: str, fields: Mapping[str, Json], memory: Memory) -> Rope | None:
    """The body with markers; None where the client sets some, or the prompt is too short for any.

    Raises `UnreadableRequest` or `UnknownModel` for a body whose rules nobody knows.
    """
    if wire != _WIRE or fields.get("cache_control") is not None:
        return None
    track = (layout := PARSERS[wire](fields).layout).track
    body = bytes(rope)
    if layout.breakpoints or b'"cache_control"' in body:
        return None
    rules = Plan(min_tokens=model_named(str(fields["model"])).min_tokens)
    marks = plan(track, layout.n, min(memory.n_segments, layout.n), rules)
    memory.n_segments = layout.n
    spans = list(_blocks(body))
    places = sorted(spans[mark.segment] for mark in marks)  # the body may hold its levels in another order than the prompt
    return rope.replaced(_marked(rope, body, place) for place in places) if places else None


def _blocks(body: bytes) -> Iterator[Span]:
    """Every block in the order of the prompt."""
    fields = members(body)
    if b"tools" in fields and body[fields[b"tools"][0]] == ord("["):
        yield from elements(body, fields[b"tools"][0])
    if b"system" in fields and body[slice(*fields[b"system"])] != b'""':
        yield from _of_content(body, fields[b"system"])
    for start, _ in elements(body, fields[b"messages"][0]):
        yield from _of_content(body, members(body, start)[b"content"])


def _of_content(body: bytes, span: Span) -> list[Span]:
    """A text is one block, null none."""
    kinds = {ord("["): lambda: elements(body, span[0]), ord('"'): lambda: [span]}
    return kinds.get(body[span[0]], list[Span])()


def _marked(rope: Rope, body: bytes, span: Span) -> tuple[int, int, Rope]:
    """A block with a marker behind its last field; a text becomes the block it stands for."""
    start, end = span
    if body[start] == ord('"'):
        return start, end, Rope.new(b'[{"type":"text","text":') + rope.cut(start, end) + Rope.new(b"," + _MARKER + b"}]")
    return end - 1, end - 1, Rope.new(b"," + _MARKER)
