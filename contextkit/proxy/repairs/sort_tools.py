"""`sort-tools`: tools by name, in the order a conversation began with.

Takes a body and the memory of its conversation, gives the same tools in another order. A tool that joins later goes
behind those that were there; a marker stays at the place it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextkit.canonical import Json
from contextkit.providers.body_spans import Span, tool_marker, tool_name, tools_in
from contextkit.proxy.repairs.memory import Memory
from contextkit.proxy.repairs.splices import Rope


def sort_tools(rope: Rope, endpoint: str, fields: Mapping[str, Json], memory: Memory) -> Rope | None:
    """The body with its tools in order, None where they are, or where two share a name."""
    tools, find_spans = tools_in(endpoint, fields)
    names = [tool_name(tool) for tool in tools]
    if not names or len(set(names)) < len(names) or "" in names:
        return None
    memory.tools += sorted(set(names) - set(memory.tools))
    order = sorted(range(len(names)), key=lambda index: memory.tools.index(names[index]))
    if order == list(range(len(names))):
        return None
    body = bytes(rope)
    return _reordered(rope, body, find_spans(body), order)


def _reordered(rope: Rope, body: bytes, spans: Sequence[Span], order: Sequence[int]) -> Rope:
    return rope.replaced(
        (*span, _with_marker(rope, body, spans[source], span)) for span, source in zip(spans, order, strict=True)
    )


def _with_marker(rope: Rope, body: bytes, source: Span, place: Span) -> Rope:
    """The tool at `source` with the marker of the one at `place`, or without one."""
    bare, mine, theirs = rope.cut(*source), tool_marker(body, source), tool_marker(body, place)
    if mine is not None:
        bare = rope.cut(source[0], mine[0]) + rope.cut(mine[1], source[1])
    if theirs is None:
        return bare
    size = len(bytes(bare))
    return bare.cut(0, size - 1) + Rope.new(b",") + rope.cut(*_trimmed_comma(body, theirs)) + bare.cut(size - 1, size)


def _trimmed_comma(body: bytes, span: Span) -> Span:
    start, end = span
    while body[start : start + 1] in (b",", b" ", b"\n", b"\t", b"\r"):
        start += 1
    return start, end - (body[end - 1 : end] == b",")
