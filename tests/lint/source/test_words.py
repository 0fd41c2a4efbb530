"""Where words stand in a file, against looking for each of them in each part of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import contextkit.lint.source.detect as linted
from contextkit.lint.source.patterns import EVERYWHERE, Words, expression, matcher

GROUPS = ((b"find", b"finding"), (b"ind", b"mod"), (b"finding", b"="), (b" if ",), (b"nowhere", b"never"))


def standing(text: bytes) -> set[tuple[bytes, ...]]:
    """The groups with a word in a text, one by one."""
    return {group for group in GROUPS if any(word in text for word in group)}


def offsets_of_lines(source: bytes) -> list[int]:
    return [0, *(at + 1 for at, byte in enumerate(source) if byte == ord("\n"))]


def test_a_part_holds_the_groups_that_have_a_word_in_it() -> None:
    source = Path(linted.__file__).read_bytes()
    words, starts = Words(GROUPS), offsets_of_lines(source)
    here = words.locate(source)
    assert here.anywhere() == words.bits(*standing(source))
    assert len({frozenset(standing(source[start:end])) for start, end in pairwise(starts)}) > 6
    for start, end in [*pairwise(starts), *zip(starts, starts[40:], strict=False)]:
        assert here.within(start, end) == words.bits(*standing(source[start:end]))


@given(
    st.lists(
        st.sampled_from([b"find", b"finding", b"ind", b"mod", b"=", b" if ", b"\n", b"x", b"(", b" "]), max_size=40
    )
)
def test_any_text_is_counted_line_by_line(pieces: list[bytes]) -> None:
    source = b"".join(pieces)
    words, starts = Words(GROUPS), offsets_of_lines(source)
    for group in GROUPS:
        counts = words.locate(source).up_to_line(words.bits(group), starts)
        lines = source.split(b"\n")
        assert [after > before for before, after in pairwise(counts)][: len(lines)] == [
            group in standing(line) for line in lines
        ]


def test_without_the_library_the_same_places_are_found() -> None:
    words = sorted({word for group in GROUPS for word in group} | {b"[-", b"(", b"fin", b"dings", b"\\", b"a.b", b"e"})
    for module in (linted, argparse):
        source = Path(module.__file__).read_bytes()
        brute = [(at, start, start + len(word)) for at, word in enumerate(words) for start in places(source, word)]
        assert sorted(expression(words)(source)) == sorted(matcher(words)(source)) == sorted(brute)


def places(source: bytes, word: bytes) -> Iterator[int]:
    at = source.find(word)
    while at >= 0:
        yield at
        at = source.find(word, at + 1)


def test_a_pattern_without_words_is_asked_in_every_line() -> None:
    counts = Words(GROUPS).locate(b"a\nb\n").up_to_line(EVERYWHERE, [0, 2, 4])
    assert all(after > before for before, after in pairwise(counts))
