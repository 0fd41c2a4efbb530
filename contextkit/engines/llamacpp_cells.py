"""llama.cpp's memory of sliding-window layers: cells, each with the position of one slot's token.

A window needs few tokens, so that memory is small, and what a slot still has of its front depends on which cells were
written over. That decides how far the server can go back.

Read in llama.cpp's source (`llama-kv-cache.cpp`) and measured with its server (b11549): there is room for the window
of one slot and one pass, in whole 256 cells, or for the windows of all slots where they share their cells; a pass
takes free cells, or cells whose token has left its slot's window, looking from where the last pass ended, or from the
front where more than enough is free there; with a token that is written over, all earlier ones of its slot go; a saved
state holds the window only, in the order of its cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_STEP = 256
"""Cells are counted in multiples of this."""
_FREE = -1
"""The slot of a cell that holds nothing."""


@dataclass(slots=True)
class _Row:
    """Cells that are searched together: those of one slot, or of all."""

    slots: list[int]
    """The slot of each cell, or `_FREE`."""
    positions: list[int]
    """The position of each cell's token."""
    head: int = 0
    """Where the next search begins."""
    n_used: int = 0
    """Cells that hold something."""


@dataclass(slots=True)
class _Span:
    """What a slot has in its cells: every position from `first` to `last`, but for gaps while keys are turned."""

    first: int = 0
    last: int = -1
    cells: dict[int, int] = field(default_factory=dict)
    """Position → cell."""


class WindowCells:
    """The cells of a server.

    >>> cells = WindowCells(n_slots=1, is_shared=False, n_window=64, n_ubatch=64, n_slot_tokens=None)
    >>> cells.add(0, 240), cells.first(0)
    (True, 0)
    >>> cells.add(0, 30), cells.first(0)
    (True, 14)
    """

    def __init__(
        self, n_slots: int, *, is_shared: bool, n_window: int, n_ubatch: int, n_slot_tokens: int | None
    ) -> None:
        """Empty cells; `n_slot_tokens` is the end of a slot, of which more would be wasted."""
        n_cells = n_window * (n_slots if is_shared else 1) + n_ubatch
        n_cells = -(-min(n_cells, n_slot_tokens or n_cells) // _STEP) * _STEP
        self.is_whole = n_slot_tokens is not None and n_cells >= n_slot_tokens
        """Whether there are as many as other layers have, so that keys can be turned to other positions in both."""
        self._n_window, self._n_ubatch, self._n_cells = n_window, n_ubatch, n_cells
        rows = [_Row([_FREE] * n_cells, [0] * n_cells) for _ in range(1 if is_shared else n_slots)]
        self._rows = rows * n_slots if is_shared else rows
        self._spans = [_Span() for _ in range(n_slots)]

    def first(self, slot: int) -> int:
        """The first position a slot still has, -1 for none."""
        span = self._spans[slot]
        return span.first if span.cells else -1

    def saved(self, slot: int) -> tuple[int, ...]:
        """The positions a saved state of a slot holds, in the order of their cells."""
        span = self._spans[slot]
        least = span.last - self._n_window + 1
        inside = [(cell, position) for position, cell in span.cells.items() if position >= least]
        return tuple(position for _, position in sorted(inside))

    def cut(self, slot: int, n_tokens: int) -> None:
        """Forget all of a slot but its first tokens."""
        span = self._spans[slot]
        positions = range(max(n_tokens, span.first), span.last + 1)
        self._free(slot, [span.cells.pop(at) for at in positions if at in span.cells])
        span.last = min(span.last, n_tokens - 1)

    def remove(self, slot: int, start: int, end: int) -> None:
        """Forget some of a slot's positions, which leaves a gap."""
        span = self._spans[slot]
        self._free(slot, [span.cells.pop(at) for at in range(start, end) if at in span.cells])
        self._measure(span)

    def move(self, slot: int, start: int, end: int, by: int) -> None:
        """Turn the keys of some of a slot's positions to others."""
        row, span = self._rows[slot], self._spans[slot]
        moved = {at + by: span.cells.pop(at) for at in range(start, end) if at in span.cells}
        for at, cell in moved.items():
            row.positions[cell] = at
        span.cells.update(moved)
        row.head = 0
        self._measure(span)

    def _measure(self, span: _Span) -> None:
        span.first, span.last = min(span.cells, default=0), max(span.cells, default=-1)

    def has_room(self, slot: int, n_tokens: int) -> bool:
        """Return whether a slot could hold so many tokens instead of what it has."""
        row = self._rows[slot]
        free = sum(owner in (_FREE, slot) or self._is_outside(row, cell) for cell, owner in enumerate(row.slots))
        return n_tokens <= free

    def restore(self, slot: int, positions: Sequence[int]) -> None:
        """Put a saved state into a slot instead of what it has."""
        self.cut(slot, 0)
        if positions:
            self._write(slot, positions)

    def add(self, slot: int, n_tokens: int) -> bool:
        """Write the next tokens of a slot, pass by pass; False where the cells do not suffice."""
        start, end = self._spans[slot].last + 1, self._spans[slot].last + 1 + n_tokens
        return all(
            self._write(slot, range(at, min(at + self._n_ubatch, end))) for at in range(start, end, self._n_ubatch)
        )

    def _write(self, slot: int, positions: Sequence[int]) -> bool:
        row, span = self._rows[slot], self._spans[slot]
        found = self._find(row, len(positions))
        if found is None:
            return False
        is_empty, overwritten = not span.cells, dict[int, int]()
        for cell, position in zip(found, positions, strict=True):
            owner = row.slots[cell]
            if owner == _FREE:
                row.n_used += 1
            else:
                overwritten[owner] = max(overwritten.get(owner, -1), row.positions[cell])
                del self._spans[owner].cells[row.positions[cell]]
            row.slots[cell], row.positions[cell] = slot, position
            span.cells[position] = cell
        span.first = min(positions) if is_empty else span.first
        span.last = max(span.last, *positions)
        for owner, last in overwritten.items():  # what is left of a slot stays without gaps
            other = self._spans[owner]
            cells = [other.cells.pop(at) for at in range(other.first, last + 1) if at in other.cells]
            for cell in cells:
                row.slots[cell] = _FREE
            row.n_used -= len(cells)
            other.first = max(other.first, last + 1)
        row.head = found[-1] + 1
        return True

    def _find(self, row: _Row, n: int) -> list[int] | None:
        head = 0 if row.head > row.n_used + 2 * n else row.head
        found: list[int] = []
        for step in range(self._n_cells):
            cell = (head + step) % self._n_cells
            if row.slots[cell] == _FREE or self._is_outside(row, cell):
                found.append(cell)
                if len(found) == n:
                    return found
        return None

    def _is_outside(self, row: _Row, cell: int) -> bool:
        """Return whether the token of a cell has left its slot's window."""
        return self._spans[row.slots[cell]].last + 1 - row.positions[cell] >= self._n_window

    def _free(self, slot: int, cells: list[int]) -> None:
        row = self._rows[slot]
        for cell in cells:
            row.slots[cell] = _FREE
        row.n_used -= len(cells)
        if cells:
            row.head = min(row.head, *cells)
