"""Blocks that stand in a prompt very often are paired in a number of steps that grows with their number, not its square."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from contextkit.prompt import alignment
from contextkit.prompt.alignment import Unit, align


def test_many_equal_blocks_are_paired_without_weighing_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    n_weighed: list[int] = []
    rising = alignment._rising

    def counted(matches: list[tuple[int, int]], weights: Sequence[int]) -> list[tuple[int, int]]:
        n_weighed.append(len(matches))
        return rising(matches, weights)

    monkeypatch.setattr(alignment, "_rising", counted)
    same = [Unit(2, b"ok", b"ok")] * 800
    one, other = ([Unit(1, name, name), *same, Unit(2, name, name)] for name in (b"was", b"now"))
    other.insert(400, Unit(2, b"new", b"new"))
    pairs = align(one, other, [1] * len(other), 0, 1)
    assert sum(share for _, share in pairs.kept) >= 800
    assert n_weighed[0] <= 40 * 800
