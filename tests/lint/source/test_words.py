"""Which parts of names stand in a text, against looking for each of them in each name."""

from __future__ import annotations

import re
from pathlib import Path

import contextkit.lint.source.detect as linted
from contextkit.lint.source.watch.words import ANYWHERE, Names, Words, longest_name

LOOKED_FOR = (b"ind", b"fin", b"find", b"findings", b"indin", b"modul", b"ule", b"small", b"nowhere", b"file", b"import")


def standing(text: bytes) -> set[bytes]:
    """Those that stand in a name of a text, one by one."""
    names = re.findall(rb"\w+", text.lower())
    return {word for word in LOOKED_FOR if any(word in name for name in names)}


def bits(words: Words, found: set[bytes]) -> int:
    return ANYWHERE | sum(words.bits[word] for word in found)


def test_a_word_stands_where_a_name_holds_it_whatever_was_looked_at_before() -> None:
    lines = Path(linted.__file__).read_bytes().splitlines()
    words = Words(LOOKED_FOR)
    assert len({frozenset(standing(line)) for line in lines}) > 10
    met = Names(words)
    for line in lines:
        assert met.words_in(line) == bits(words, standing(line))


def test_a_part_of_a_text_holds_what_the_names_in_it_hold() -> None:
    source = Path(linted.__file__).read_bytes()
    words = Words(LOOKED_FOR)
    met = Names(words)
    met.words_in(source)
    for part in source.split(b"\n\n"):
        assert met.words_in_part(part) == bits(words, standing(part))


def test_a_name_of_two_letters_may_stand_anywhere() -> None:
    assert longest_name(b"if ") == longest_name(b'id"') == b""
    assert longest_name(b'id": uid') == b"uid"
