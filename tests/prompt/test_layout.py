"""One request's bytes: joined from few slices, marks spliced in, and nothing left borrowed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.prompt import Breakpoint
from contextkit.canonical import parse
from contextkit.prompt.prompt import PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.anthropic.messages import GRAMMAR
from tests.laws.wires import unmarked
from tests.prompt.test_columns import pieces

laws = settings.get_profile("laws")
MARKER = {300: {"type": "ephemeral"}, 3600: {"type": "ephemeral", "ttl": "1h"}}


def objects(given_pieces: list[RenderedBlock]) -> PromptColumns:
    columns = PromptColumns(GRAMMAR)
    columns.extend(given_pieces)
    return columns


@given(pieces(), st.data())
@laws
def test_marks_stand_on_their_blocks_and_change_nothing_else(
    given_pieces: list[RenderedBlock], data: st.DataObject
) -> None:
    columns = objects(given_pieces)
    places = [index for index in range(len(columns)) if columns.breakpoint_offsets[index] >= 0]
    chosen = sorted(data.draw(st.sets(st.sampled_from(places), max_size=4))) if places else []
    marks = tuple(Breakpoint(place, data.draw(st.sampled_from([300, 3600]))) for place in chosen)
    layout, plain = PromptLayout(columns, len(columns), marks), PromptLayout(columns, len(columns))
    body = parse(layout.body(b"{}"))
    assert unmarked(body) == parse(plain.body(b"{}"))
    blocks = [
        *body.get("tools", []),
        *body.get("system", []),
        *(block for message in body.get("messages", []) for block in message["content"]),
    ]
    assert {index: block["cache_control"] for index, block in enumerate(blocks) if "cache_control" in block} == {
        mark.segment: MARKER[mark.ttl_seconds] for mark in marks
    }
    slices = [piece for piece in layout.slices() if isinstance(piece, memoryview)]
    assert len(slices) <= len(marks) + 1
    del slices


@given(pieces())
@laws
def test_segments_end_to_end_are_the_wire(given_pieces: list[RenderedBlock]) -> None:
    columns = objects(given_pieces)
    layout = PromptLayout(columns, len(columns))
    assert b"".join(segment.lead + segment.body for segment in layout.blocks) == bytes(columns.wire)
    assert layout.n_bytes == len(columns.wire)
    assert [segment.body for segment in layout.blocks] == [piece.body for piece in given_pieces]
    assert all(
        segment.breakpoint_offset is None or segment.body[: segment.breakpoint_offset] + b"}" == segment.body
        for segment in layout.blocks
    )


def test_a_track_grows_on_after_its_bytes_were_joined_even_while_a_joining_failed() -> None:
    columns = objects([RenderedBlock("system", "", b'{"a":1}', 1)])
    layout = PromptLayout(columns, 1, (Breakpoint(0, 300),))
    body = layout.body(b"{}")
    with pytest.raises(KeyError):  # no such lifetime
        PromptLayout(columns, 1, (Breakpoint(0, 77),)).body(b"{}")
    columns.append(RenderedBlock("system", "", b'{"b":1}', 1))
    assert layout.body(b"{}") == body and json.loads(body)["system"][0]["cache_control"] == {"type": "ephemeral"}
