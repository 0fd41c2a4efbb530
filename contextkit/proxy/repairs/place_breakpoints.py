"""`place-breakpoints`: markers for a client that sets none, where contextkit would set them.

Takes a body, gives it with markers. On `/v1/messages`: at the end of the head, at the end of the conversation, and on
the way there where the last request ended too far back. On OpenAI's endpoints: at the end of the head, as the end of
the conversation is marked by the provider itself; only for models whose row takes markers (gpt-5.6 and later). Other
endpoints cache without markers.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json
from contextkit.models import model_named
from contextkit.prompt.breakpoints import Plan, plan
from contextkit.prompt.prompt import PromptColumns
from contextkit.providers.body_spans import MARKERS, MarkerForm, Span
from contextkit.providers.endpoints import BODIES, PARSERS
from contextkit.proxy.repairs.memory import Memory
from contextkit.proxy.repairs.splices import Rope


def place_breakpoints(rope: Rope, endpoint: str, fields: Mapping[str, Json], memory: Memory) -> Rope | None:
    """The body with markers; None where the client sets some, the model takes none, or the prompt is too short for any.

    Raises `UnreadableRequest` or `UnknownModel` for a body without known rules.
    """
    form, row = MARKERS[endpoint], model_named(str(fields.get(BODIES[endpoint].model_field)))
    if row.cache != "breakpoints" or form.is_decided(fields):
        return None
    layout, body = PARSERS[endpoint](fields).layout, bytes(rope)
    if layout.breakpoints or b'"%b"' % form.name in body:
        return None
    places = _places(form, layout.columns, layout.n, row.min_tokens, memory, list(form.blocks(body, fields)))
    return rope.replaced(_marked(rope, body, place, form) for place in places) if places else None


def _places(
    form: MarkerForm, columns: PromptColumns, n: int, min_tokens: int, memory: Memory, spans: list[Span]
) -> list[Span]:
    """Spans of the blocks to mark; none where the body is divided into other blocks than the prompt."""
    rules = Plan(has_tail=form.has_tail, min_tokens=min_tokens)
    marks = plan(columns, n, min(memory.n_segments, n), rules)
    memory.n_segments = n
    if len(spans) != n:
        return []
    return sorted(
        spans[mark.segment] for mark in marks
    )  # the body may hold its levels in another order than the prompt


def _marked(rope: Rope, body: bytes, span: Span, form: MarkerForm) -> tuple[int, int, Rope]:
    """A block with a marker behind its last field; a text becomes the block it stands for."""
    (start, end), marker = span, b'"%b":%b' % (form.name, form.value)
    if body[start] == ord('"'):
        opening = b'[{"type":"%b","text":' % form.text
        return start, end, Rope.new(opening) + rope.cut(start, end) + Rope.new(b"," + marker + b"}]")
    return end - 1, end - 1, Rope.new(b"," + marker)
