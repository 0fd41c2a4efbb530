"""Where two layouts first differ: level, path, offset and what stands there.

Running digests make the segment a binary search; only that one segment is then compared byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.prompt.prompt import LEVELS, Level, PromptColumns, PromptLayout

_WINDOW = 40
"""Bytes shown on either side of the first difference."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference of two layouts."""

    level: Level
    """The level it stands on: that level and those behind it are lost."""
    path: str
    """The block it stands in: `tools[2]`, `system[0]`, `messages[4].content[1]`."""
    segment: int
    """Index of the segment; the segments before it are shared."""
    entry: int
    """Log sequence of the newer side's segment, -1 where there is none."""
    offset: int
    """Bytes of the block that still agree."""
    before: str
    """What the older layout says around there; empty where it has ended."""
    after: str
    """What the newer layout says around there; empty where it has ended."""

    def __str__(self) -> str:
        return f"{self.path} byte {self.offset}: was {self.before!r}, now {self.after!r}"


def divergence(older: PromptLayout, newer: PromptLayout) -> Divergence | None:
    """The first place where `newer` is not what `older` was, or None where it only goes on.

    O(log n) digests and one block compared. A shorter `newer` diverges at its end.
    """
    shared = _shared(older, newer)
    if shared == older.n:
        return None
    side = newer if shared < newer.n else older
    return Divergence(
        LEVELS[side.columns.levels[shared]],
        path_of(side.columns, shared),
        shared,
        side.columns.entries[shared] if side is newer else -1,
        *difference(_body(older, shared), _body(newer, shared)),
    )


def difference(before: bytes, after: bytes) -> tuple[int, str, str]:
    """How many bytes of two blocks agree, and what each says around there.

    >>> difference(b'{"a":1}', b'{"a":2}')
    (5, '{"a":1}', '{"a":2}')
    """
    offset = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    return offset, _snippet(before, offset), _snippet(after, offset)


def path_of(columns: PromptColumns, segment: int) -> str:
    """Where a segment stands in the body it is sent in.

    Counts messages from the front: O(n), meant for messages to people.
    """
    level = columns.levels[segment]
    array = columns.grammar.arrays[LEVELS[level]]
    same = [i for i in range(segment + 1) if columns.grammar.arrays[LEVELS[columns.levels[i]]] == array]
    openings = [i for i in same if columns.roles[i]]
    if not openings:
        return f"{array}[{len(same) - 1}]"
    whole = columns.closers[segment] == b""
    return f"{array}[{len(openings) - 1}]" + ("" if whole else f".content[{segment - openings[-1]}]")


def _shared(older: PromptLayout, newer: PromptLayout) -> int:
    low, high = 0, min(older.n, newer.n)
    while low < high:
        middle = (low + high + 1) // 2
        is_same = older.columns.digests[middle - 1] == newer.columns.digests[middle - 1]
        low, high = (middle, high) if is_same else (low, middle - 1)
    return low


def _body(layout: PromptLayout, segment: int) -> bytes:
    return layout.columns.body(segment) if segment < layout.n else b""


def _snippet(body: bytes, offset: int) -> str:
    return body[max(0, offset - _WINDOW) : offset + _WINDOW].decode("utf-8", "replace")
