"""Replaces pieces of a JSON body and records which bytes are still the client's own.

Takes bytes and replacements, gives bytes, the runs both share, and a text from which the client's body can be restored.
What is not replaced is never re-encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contextkit.canonical import canonical, parse
from contextkit.proxy.observer import Repaired, Run

_NEW = -1


@dataclass(frozen=True, slots=True)
class Rope:
    """Text in pieces, each with its place in the client's body, -1 for what is new."""

    pieces: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(cls, body: bytes) -> Rope:
        """The client's body itself."""
        return cls(((0, body),))

    @classmethod
    def new(cls, text: bytes) -> Rope:
        """Something that was not there."""
        return cls(((_NEW, text),))

    def __bytes__(self) -> bytes:
        return b"".join(text for _, text in self.pieces)

    def __add__(self, other: Rope) -> Rope:
        return Rope((*self.pieces, *other.pieces))

    def cut(self, start: int, end: int) -> Rope:
        """Its bytes from `start` to `end`."""
        found, at = [], 0
        for place, text in self.pieces:
            first, last = max(start - at, 0), min(end - at, len(text))
            if first < last:
                found.append((place if place == _NEW else place + first, text[first:last]))
            at += len(text)
        return Rope(tuple(found))

    def replaced(self, changes: Iterable[tuple[int, int, Rope]]) -> Rope:
        """With other text at some places, given in order and without overlap."""
        pieces, at = list[tuple[int, bytes]](), 0
        for start, end, text in changes:
            pieces += [*self.cut(at, start).pieces, *text.pieces]
            at = end
        return Rope((*pieces, *self.cut(at, sum(len(text) for _, text in self.pieces)).pieces))

    def shared(self) -> tuple[Run, ...]:
        """The runs it shares with the client's body, in the order of that."""
        runs, at = list[Run](), 0
        for place, text in self.pieces:
            runs += [(place, at, len(text))] if place != _NEW else []
            at += len(text)
        return tuple(sorted(runs))


CAPPED = "output-limit"
"""Stands among the repairs of a request whose output limit a budget has lowered."""


def capped(before: bytes, repaired: Repaired | None, splices: Iterable[tuple[int, int, bytes]]) -> Repaired:
    """The client's body, as it was repaired, with other text at some places."""
    rope, names = Rope.of(before), tuple[str, ...]()
    if repaired is not None:
        pieces, at, names = list[tuple[int, bytes]](), 0, repaired.names
        for place, offset, length in sorted(repaired.shared, key=lambda run: run[1]):
            new, same = repaired.body[at:offset], repaired.body[offset : offset + length]
            pieces, at = [*pieces, (_NEW, new), (place, same)], offset + length
        rope = Rope((*pieces, (_NEW, repaired.body[at:])))
    rope = rope.replaced((start, end, Rope.new(text)) for start, end, text in splices)
    return Repaired(bytes(rope), (*names, CAPPED), rope.shared())


def undo_of(before: bytes, shared: Sequence[Run], names: Sequence[str]) -> str:
    """Return the text of a `repair` remark: the repairs, and the client's body as slices `[offset, length]` of the one
    sent and texts that are gone.

    >>> undo_of(b"abc", [(0, 5, 1), (2, 6, 1)], ["sort-tools"])
    '{"repairs":["sort-tools"],"before":[[5,1],"b",[6,1]]}'
    """
    parts, at = list[object](), 0
    for place, offset, length in shared:
        if place > at:
            parts.append(before[at:place].decode("utf-8"))
        parts.append([offset, length])
        at = place + length
    if at < len(before):
        parts.append(before[at:].decode("utf-8"))
    return canonical({"repairs": list(names), "before": parts}).decode()


def undone(body: bytes, text: str) -> bytes:
    """The client's body, of the one that was sent and the text of its `repair` remark.

    >>> undone(b"01234ac", '{"repairs":["sort-tools"],"before":[[5,1],"b",[6,1]]}')
    b'abc'
    """
    parts = parse(text.encode())["before"]
    return b"".join(part.encode() if isinstance(part, str) else body[part[0] : part[0] + part[1]] for part in parts)
