"""What may be spelled: a byte trie over the texts that are allowed, and the tokens that lead through it to an end.

Takes texts and a vocabulary; gives, for each place in the texts, the ids of the tokens that may come next. Exact in
both directions: a token is there if, and only if, some further tokens lead from behind it to the end of a text. Knows
nothing of tools.

A state is a place reached byte by byte: two ways to cut the same bytes into tokens are in the same state. Of a token
that ends inside the texts only the place counts where it ends; one that goes past the end of a text is allowed where
its rest may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from contextkit.tools.masking.vocabulary import Vocabulary

START = 0
"""The state in which nothing is said yet."""
DONE = -1
"""The state behind the end of a text."""
OUTSIDE = -2
"""No state: what was said leads to none of the texts."""


class Spelling:
    """The texts, and for each place in them what may come next."""

    __slots__ = ("_alive", "_children", "_ends", "_inner", "_may_follow", "_merged", "_past", "_places", "_vocabulary")

    def __init__(self, texts: Sequence[bytes], vocabulary: Vocabulary, may_follow: Callable[[bytes], bool]) -> None:
        """None of `texts` is the beginning of another, and none is empty."""
        self._vocabulary, self._may_follow = vocabulary, may_follow
        self._children: list[dict[int, int]] = [{}]
        self._ends: dict[bytes, int] = {text: self._grow(text) for text in texts}
        self._inner: list[list[int]] = [[] for _ in self._children]
        self._past: list[list[Sequence[int]]] = [[] for _ in self._children]
        self._places: list[list[int]] = [[] for _ in self._children]
        self._alive = bytearray(len(self._children))
        self._merged: dict[int, Sequence[int]] = {}
        self._connect(_stems(vocabulary.openings(bytes({byte for text in texts for byte in text}))))

    def unspellable(self) -> list[bytes]:
        """The texts that no tokens say."""
        reached = bytearray(len(self._children))
        reached[START] = 1
        for state, places in enumerate(self._places):  # a place stands behind those that lead to it
            if reached[state]:
                for place in places:
                    reached[place] = 1
        return [text for text, end in self._ends.items() if not reached[end]]

    def next_ids(self, state: int) -> Sequence[int]:
        """The ids that may come in `state`, a place in the texts; made once and kept."""
        found = self._merged.get(state)
        if found is None:
            parts = [part for part in (tuple(self._inner[state]), *self._past[state]) if part]
            found = self._merged[state] = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
        return found

    def step(self, state: int, token: bytes) -> int:
        """The state behind `token`: `DONE` where it ends a text or goes past its end, `OUTSIDE` where it leads to none."""
        children = self._children
        for n_said, byte in enumerate(token, 1):
            state = children[state].get(byte, OUTSIDE)
            if state == OUTSIDE:
                return OUTSIDE
            if not children[state]:
                return DONE if n_said == len(token) or self._may_follow(token[n_said:]) else OUTSIDE
        return state if self._alive[state] else OUTSIDE

    def _grow(self, text: bytes) -> int:
        state = START
        for byte in text:
            following = self._children[state].get(byte)
            if following is None:
                following = self._children[state][byte] = len(self._children)
                self._children.append({})
            state = following
        return state

    def _connect(self, stems: set[bytes]) -> None:
        """What leads from each place to where.

        From the back, since a place is alive where a token leads to one that is.
        """
        past: dict[bytes, Sequence[int]] = {}
        for state in range(len(self._children) - 1, -1, -1):
            for spelled, place in self._below(state, stems):
                if self._children[place]:
                    ids = self._vocabulary.ids(spelled) if self._alive[place] else ()
                    self._inner[state] += ids
                else:
                    ids = past[spelled] if spelled in past else past.setdefault(spelled, self._ids_past(spelled))
                    self._past[state] += [ids] if ids else []
                if ids:
                    self._places[state].append(place)
            self._alive[state] = bool(self._places[state])

    def _below(self, state: int, stems: set[bytes]) -> Iterator[tuple[bytes, int]]:
        """Every place behind `state` that one token might lead to, and what it would say."""
        pending = [(b"", state)]
        while pending:
            said, place = pending.pop()
            for byte, following in self._children[place].items():
                spelled = said + _BYTE[byte]
                if not self._children[following]:
                    yield spelled, following
                elif spelled in stems:
                    yield spelled, following
                    pending.append((spelled, following))

    def _ids_past(self, rest: bytes) -> tuple[int, ...]:
        """The ids of the tokens that say `rest`, or `rest` and something that may follow."""
        found = list(self._vocabulary.ids(rest))
        for token in self._vocabulary.longer_than(rest):
            if self._may_follow(token[len(rest) :]):
                found += self._vocabulary.ids(token)
        return tuple(sorted(found))


_BYTE = [bytes([byte]) for byte in range(256)]


def _stems(tokens: Iterable[bytes]) -> set[bytes]:
    """Every beginning of every token, the whole of it included: where none goes on, nothing further need be tried."""
    return {token[:n] for token in tokens for n in range(1, len(token) + 1)}
