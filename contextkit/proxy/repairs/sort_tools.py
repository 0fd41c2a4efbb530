"""`sort-tools`: tools by name, in the order a conversation began with.

Takes a body and the memory of its conversation, gives the same tools in another order. A tool that joins later goes
behind those that were there; a marker stays at the place it had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from contextkit.canonical import Json
from contextkit.proxy.repairs.memory import Memory
from contextkit.proxy.repairs.splices import Rope, Span, elements, members


def sort_tools(rope: Rope, wire: str, fields: Mapping[str, Json], memory: Memory) -> Rope | None:
    """The body with its tools in order, None where they are, or where two share a name."""
    tools, find = _TOOLS.get(wire, _listed)(fields)
    names = [_name(tool) for tool in tools]
    if not names or len(set(names)) < len(names) or "" in names:
        return None
    memory.tools += sorted(set(names) - set(memory.tools))
    order = sorted(range(len(names)), key=lambda index: memory.tools.index(names[index]))
    if order == list(range(len(names))):
        return None
    body = bytes(rope)
    return _reordered(rope, body, find(body), order)


_Find = Callable[[bytes], list[Span]]
"""Takes a body, gives where its tools stand."""


def _listed(fields: Mapping[str, Json]) -> tuple[list[Json], _Find]:
    """Tools that are a list of their own."""
    tools = fields.get("tools")
    return (tools if isinstance(tools, list) else []), lambda body: elements(body, members(body)[b"tools"][0])


def _declared(fields: Mapping[str, Json]) -> tuple[list[Json], _Find]:
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
_TOOLS: Mapping[str, Callable[[Mapping[str, Json]], tuple[list[Json], _Find]]] = {"gemini": _declared}
"""Wire whose tools stand deeper → how to find them."""


def _name(tool: Json) -> str:
    """Its name, on any wire; its type where it has none, as hosted tools."""
    fields = tool if isinstance(tool, dict) else {}
    inner = fields.get("function")
    named = inner if isinstance(inner, dict) else fields
    return str(named.get("name") or fields.get("type") or "")


def _reordered(rope: Rope, body: bytes, spans: Sequence[Span], order: Sequence[int]) -> Rope:
    return rope.replaced(
        (*span, _with_marker(rope, body, spans[source], span)) for span, source in zip(spans, order, strict=True)
    )


def _with_marker(rope: Rope, body: bytes, source: Span, place: Span) -> Rope:
    """The tool at `source` with the marker of the one at `place`, or without one."""
    bare, mine, theirs = rope.cut(*source), _marker(body, source), _marker(body, place)
    if mine is not None:
        bare = rope.cut(source[0], mine[0]) + rope.cut(mine[1], source[1])
    if theirs is None:
        return bare
    size = len(bytes(bare))
    return bare.cut(0, size - 1) + Rope.new(b",") + rope.cut(*_trimmed_comma(body, theirs)) + bare.cut(size - 1, size)


def _marker(body: bytes, tool: Span) -> Span | None:
    """Where the marker of a tool stands, with the comma before it, or else the one behind it."""
    value = members(body[: tool[1]], tool[0]).get(b"cache_control")
    if value is None:
        return None
    start = body.rindex(b'"cache_control"', tool[0], value[0])
    before = len(body[:start].rstrip()) - 1
    if body[before : before + 1] == b",":
        return before, value[1]
    behind = body.find(b",", value[1], tool[1])
    return start, behind + 1 if behind >= 0 else value[1]


def _trimmed_comma(body: bytes, span: Span) -> Span:
    start, end = span
    while body[start : start + 1] in (b",", b" ", b"\n", b"\t", b"\r"):
        start += 1
    return start, end - (body[end - 1 : end] == b",")
