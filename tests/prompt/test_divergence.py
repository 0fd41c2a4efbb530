"""The first difference of two layouts, against one found block by block."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, OpenAIChat
from contextkit.prompt.diff import divergence, path_of
from contextkit.prompt.prompt import PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.anthropic.messages import GRAMMAR
from tests.prompt.test_columns import pieces

laws = settings.get_profile("laws")


def layout(given_pieces: list[RenderedBlock]) -> PromptLayout:
    columns = PromptColumns(GRAMMAR)
    columns.extend(given_pieces)
    return PromptLayout(columns, len(columns))


@given(pieces(), pieces(), st.data())
@laws
def test_the_first_difference_is_the_first(
    one: list[RenderedBlock], other: list[RenderedBlock], data: st.DataObject
) -> None:
    one, other = ([piece for piece in given_pieces if not piece.is_silent] for given_pieces in (one, other))
    cut = data.draw(st.integers(0, len(one)))
    changed = one[:cut] + [piece for piece in other if not one[:cut] or _rank(piece) >= _rank(one[cut - 1])]
    older, newer = layout(one), layout(changed)
    pairs = list(zip(older.blocks, newer.blocks, strict=False))
    first = next(
        (index for index, (a, b) in enumerate(pairs) if (a.level, a.role, a.body) != (b.level, b.role, b.body)),
        len(pairs),
    )
    found = divergence(older, newer)
    if first == older.n:
        assert found is None
    else:
        assert found is not None and found.segment == first
        before, after = (side.blocks[first].body if first < side.n else b"" for side in (older, newer))
        assert (
            before[: found.offset] == after[: found.offset]
            and before[found.offset : found.offset + 1] != after[found.offset : found.offset + 1]
        ) or before == after
        assert found.level == (newer if first < newer.n else older).blocks[first].level


def _rank(piece: RenderedBlock) -> int:
    return ("tools", "system", "messages").index(piece.level)


def test_a_path_is_what_a_reader_of_the_body_would_say() -> None:
    context = Context(
        AnthropicMessages("claude-sonnet-5-5", max_tokens=1),
        system=["a", "b"],
        tools=[{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
    )
    context.user(["one", "two"])
    columns = context.request().layout.columns
    assert [path_of(columns, index) for index in range(5)] == [
        "tools[0]",
        "system[0]",
        "system[1]",
        "messages[0].content[0]",
        "messages[0].content[1]",
    ]
    chat = Context(OpenAIChat("gpt-4o"), system="a")
    chat.user(["one", "two"])
    assert [path_of(chat.request().layout.columns, index) for index in range(3)] == [
        "messages[0].content[0]",
        "messages[1].content[0]",
        "messages[1].content[1]",
    ]


def test_what_it_says() -> None:
    contexts = [
        Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1), system=f"It is {hour} o'clock.")
        for hour in ("ten", "two")
    ]
    for context in contexts:
        context.user("hi")
    found = divergence(*(context.request().layout for context in contexts))
    assert found is not None and (found.level, found.path, found.segment, found.entry) == ("system", "system[0]", 0, 0)
    assert "ten o'clock" in found.before and "two o'clock" in found.after and "system[0] byte " in str(found)


def test_shorter_diverges_at_its_end() -> None:
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1), system="x")
    context.user("hi")
    whole = context.request().layout
    found = divergence(whole, PromptLayout(whole.columns, 1))
    assert found is not None and found.path == "messages[0].content[0]" and found.after == "" and found.entry == -1
