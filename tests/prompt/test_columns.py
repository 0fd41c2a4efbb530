"""A columns against a naive rebuild: everything counted again from the pieces, by code that is nothing like it."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.canonical import canonical, parse
from contextkit.prompt.prompt import PromptColumns, PromptLayout, RenderedBlock
from contextkit.providers.anthropic.messages import GRAMMAR
from contextkit.providers.openai.shared import grammar

laws = settings.get_profile("laws")
CHAT = grammar("messages")
FRAMES = {role: (b'{"role":"%b","content":[' % role.encode(), b"]}") for role in ("user", "assistant")}
RUNS = ["", "", "tool_use", "tool_result"]


@st.composite
def pieces(draw: st.DrawFn) -> list[RenderedBlock]:
    """Tools, system blocks and messages of Anthropic's form, thinking and flags among them."""
    found = [
        RenderedBlock("tools", "", canonical({"name": f"t{i}"}), draw(SIZES), is_silent=draw(RARELY), flags=draw(FLAGS))
        for i in range(draw(FEW))
    ]
    found += [
        RenderedBlock("system", "", canonical({"type": "text", "text": draw(TEXT)}), draw(SIZES))
        for _ in range(draw(FEW))
    ]
    for index in range(draw(st.integers(0, 12))):
        role = draw(st.sampled_from(["user", "assistant"]))
        is_thinking = role == "assistant" and draw(st.booleans())
        run = "" if is_thinking else draw(st.sampled_from(RUNS))
        block = canonical({"type": "thinking" if is_thinking else "text", "text": draw(TEXT), "at": index})
        found.append(
            RenderedBlock(
                "messages",
                role,
                block,
                draw(SIZES),
                run,
                *FRAMES[role],
                can_hold_breakpoint=not is_thinking,
                is_thinking=is_thinking,
                is_turn=role == "user" and run != "tool_result" and draw(st.booleans()),
                flags=draw(FLAGS),
                entry=index,
            )
        )
    return found


SIZES = st.integers(0, 50)
FEW = st.integers(0, 2)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
RARELY = st.sampled_from([False, False, True])
FLAGS = st.sampled_from([(), (), ("image",), ("citations", "image")])


class Naive:
    """The same, counted from nothing for every question."""

    def __init__(self, given: list[RenderedBlock], strips: bool) -> None:
        turns = [index for index, piece in enumerate(given) if piece.is_turn]
        self.silent = {
            index
            for index, piece in enumerate(given)
            if piece.is_silent or (strips and piece.is_thinking and any(turn > index for turn in turns))
        }
        self.given = given
        self.opens = [
            bool(p.role) and not (i and given[i - 1].level == p.level and given[i - 1].role == p.role)
            for i, p in enumerate(given)
        ]

    def speaks(self, index: int) -> str:
        """The role, where no other piece that counts stands before this one in its message."""
        start = max(i for i in range(index + 1) if self.opens[i] or not i)
        return self.given[index].role if all(i in self.silent for i in range(start, index)) else ""

    def digests(self) -> list[bytes]:
        digest, found = b"", []
        for index, piece in enumerate(self.given):
            if index not in self.silent:
                role = self.speaks(index)
                digest = blake2b(
                    digest + piece.level.encode() + b"\0" + role.encode() + b"\0" + piece.body, digest_size=16
                ).digest()
            found.append(digest)
        return found

    def ends_tokens(self) -> list[int]:
        sizes = [
            0 if i in self.silent else piece.n_tokens + (3 if self.speaks(i) else 0)
            for i, piece in enumerate(self.given)
        ]
        return [sum(sizes[: i + 1]) for i in range(len(sizes))]

    def positions(self) -> list[int]:
        """A run of tool calls, and one of tool results, is one position; what is silent takes none."""
        steps = [0]
        for index in range(1, len(self.given)):
            before, run = self.given[index - 1].run, self.given[index].run
            is_same_run = run in ("tool_use", "tool_result") and run == before
            steps.append(0 if index in self.silent or is_same_run else 1)
        return [sum(steps[: i + 1]) for i in range(len(self.given))]

    def body(self) -> Any:
        tools = [json.loads(piece.body) for piece in self.given if piece.level == "tools"]
        system = [json.loads(piece.body) for piece in self.given if piece.level == "system"]
        messages: list[Any] = []
        for piece in (piece for piece in self.given if piece.level == "messages"):
            if not messages or messages[-1]["role"] != piece.role:
                messages.append({"role": piece.role, "content": []})
            messages[-1]["content"].append(json.loads(piece.body))
        return {name: value for name, value in (("tools", tools), ("system", system), ("messages", messages)) if value}

    def flags(self) -> tuple[str, ...]:
        return tuple(sorted({flag for piece in self.given for flag in piece.flags}))


def grown(given: list[RenderedBlock], strips: bool) -> PromptColumns:
    columns = PromptColumns(GRAMMAR, strips_thinking=strips)
    columns.extend(given)
    return columns


@given(pieces(), st.booleans())
@laws
def test_everything_a_track_counts_is_what_counting_anew_gives(given_pieces: list[RenderedBlock], strips: bool) -> None:
    columns, naive = grown(given_pieces, strips), Naive(given_pieces, strips)
    assert list(columns.digests) == naive.digests()
    assert list(columns.ends_tokens) == naive.ends_tokens()
    assert list(columns.positions) == naive.positions()
    assert columns.silent == naive.silent and columns.raised(len(columns)) == naive.flags()
    assert parse(PromptLayout(columns, len(columns)).body(b'{"model":"m"}')) == {"model": "m", **naive.body()}
    assert parse(PromptLayout(columns, len(columns)).body(b"{}")) == naive.body()


@given(pieces(), st.booleans())
@laws
def test_every_length_is_a_body_of_its_own(given_pieces: list[RenderedBlock], strips: bool) -> None:
    columns = grown(given_pieces, strips)
    for n in range(len(columns) + 1):
        assert parse(PromptLayout(columns, n).body(b"{}")) == Naive(given_pieces[:n], strips).body()


@given(pieces(), st.booleans())
@laws
def test_rewound_is_as_if_the_rest_had_never_been_said(given_pieces: list[RenderedBlock], strips: bool) -> None:
    whole = grown(given_pieces, strips)
    before = _columns(whole)
    for n in range(len(given_pieces) + 1):
        rewound, fresh = whole.rewound(n), grown(given_pieces[:n], strips)
        assert _columns(rewound) == _columns(fresh)
        rewound.extend(given_pieces[n:])
        assert _columns(rewound) == before
    assert _columns(whole) == before


def _columns(columns: PromptColumns) -> dict[str, Any]:
    """Everything a columns holds, as values."""
    names = [name for name in PromptColumns.__slots__ if name not in ("grammar", "strips", "lock")]
    plain = {name: getattr(columns, name) for name in names}
    values: dict[str, Any] = {
        name: list(value) if hasattr(value, "__iter__") and not isinstance(value, dict | set | str) else value
        for name, value in plain.items()
    }
    return {**values, "flags": dict(columns.flags), "raised": [columns.raised(n) for n in range(len(columns) + 1)]}


@given(pieces())
@laws
def test_a_prompt_that_borrowed_the_arrays_keeps_what_it_saw(given_pieces: list[RenderedBlock]) -> None:
    """A later user turn strips thinking from the columns, not from a request that was built before."""
    columns = PromptColumns(GRAMMAR, strips_thinking=True)
    seen: list[tuple[Any, Any, Any, int, tuple[Any, ...]]] = []
    for piece in given_pieces:
        columns.append(piece)
        n = len(columns)
        borrowed = (columns.digests, columns.ends_tokens, columns.positions)
        seen.append((*borrowed, n, tuple(tuple(column[:n]) for column in borrowed)))
    for digests, tokens, positions, n, copies in seen:
        assert (tuple(digests[:n]), tuple(tokens[:n]), tuple(positions[:n])) == copies


def test_thinking_leaves_the_prompt_at_a_new_turn_and_stays_on_the_wire() -> None:
    said = [
        RenderedBlock("messages", "user", b'"hi"', 5, "", *FRAMES["user"], is_turn=True),
        RenderedBlock(
            "messages", "assistant", b'"hm"', 100, "", *FRAMES["assistant"], can_hold_breakpoint=False, is_thinking=True
        ),
        RenderedBlock("messages", "assistant", b'"yes"', 7, "", *FRAMES["assistant"]),
    ]
    again = RenderedBlock("messages", "user", b'"more"', 9, "", *FRAMES["user"], is_turn=True)
    columns = grown(said, True)
    assert columns.ends_tokens[-1] == 5 + 100 + 7 + 6
    columns.append(again)
    assert columns.ends_tokens[-1] == 5 + 7 + 9 + 9 and b'"hm"' in columns.wire
    assert columns.block(1).n_tokens == 0
    assert grown([*said, again], False).ends_tokens[-1] == 5 + 100 + 7 + 9 + 9


def test_stripped_thinking_takes_no_role_along() -> None:
    """What the model said behind its thinking is not what the user might have said."""
    hi, more = (
        RenderedBlock("messages", "user", body, 5, "", *FRAMES["user"], is_turn=True) for body in (b'"hi"', b'"more"')
    )
    thought = RenderedBlock("messages", "assistant", b'"hm"', 100, "", *FRAMES["assistant"], is_thinking=True)
    replied, user_said = (
        RenderedBlock("messages", role, b'"yes"', 7, "", *FRAMES[role]) for role in ("assistant", "user")
    )
    assert grown([hi, thought, replied, more], True).digests[-1] != grown([hi, user_said, more], True).digests[-1]
    assert grown([hi, thought, replied, more], True).digests[-1] == grown([hi, replied, more], True).digests[-1]


@pytest.mark.parametrize(("merges", "n_messages"), [(True, 1), (False, 2)])
def test_neighbouring_messages_of_one_role(merges: bool, n_messages: int) -> None:
    columns = PromptColumns(GRAMMAR if merges else CHAT)
    for _ in range(2):
        columns.append(RenderedBlock("messages", "user", b'"hi"', 5, "user", *FRAMES["user"]))
    body = parse(PromptLayout(columns, 2).body(b"{}"))
    assert len(body["messages"]) == n_messages and columns.ends_tokens[-1] == 10 + 3 * n_messages
