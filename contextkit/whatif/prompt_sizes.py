"""A prompt that is known by its sizes alone: places in a row of tokens, and what of it later prompts repeat.

Takes numbers of tokens, gives prompts a cache can hold. Two prompts share exactly what was not cut away between them;
what stands there is never known. Knows nothing of bills or times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from contextkit.cache.prompt import Breakpoint, Prompt

ANYWHERE = 1 << 40
"""A look-back without end: a place that was read is known to have been within reach."""
_EVERYWHERE = range(ANYWHERE)


class Grown:
    """What one lane's prompt is made of, in places nobody saw but the bill."""

    __slots__ = ("_digests", "_ends", "_n_made")

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._ends: list[int] = []
        self._n_made = 0

    def copy(self) -> Grown:
        """Return another one of the same places, that grows by itself."""
        other = Grown()
        other._digests, other._ends, other._n_made = self._digests.copy(), self._ends.copy(), self._n_made
        return other

    @property
    def n_tokens(self) -> int:
        """How long it is."""
        return self._ends[-1] if self._ends else 0

    def cut(self, n_tokens: int) -> None:
        """Forget what stands behind the first `n_tokens`: what comes there next is something else."""
        if n_tokens < self.n_tokens:
            index = self.place(n_tokens) + 1 if n_tokens else 0
            del self._ends[index:], self._digests[index:]

    def place(self, n_tokens: int) -> int:
        """Index of the segment that ends after `n_tokens`, made if it is not there: at the end something new, else a
        cut through one.
        """
        index = bisect_left(self._ends, n_tokens)
        if index == len(self._ends) or self._ends[index] != n_tokens:
            self._n_made += 1
            self._ends.insert(index, n_tokens)
            self._digests.insert(index, self._n_made.to_bytes(8, "big"))
        return index

    def prompt(self, n_tokens: int, marks: Iterable[tuple[int, int, bool]], namespace: bytes) -> Prompt:
        """The first `n_tokens`, marked at `(tokens, lifetime, whether it is written)`; good until the next change.

        >>> Grown().prompt(900, [(600, 300, True)], b"").breakpoints[0].segment
        0
        """
        wanted = sorted({mark[0]: mark for mark in marks}.values())
        segments = [self.place(mark[0]) for mark in wanted]  # rising, so that none is moved by one behind it
        last = self.place(n_tokens)
        if wanted and n_tokens < wanted[-1][0]:
            segments = [self.place(mark[0]) for mark in wanted]
        marked = zip(segments, wanted, strict=True)
        points = tuple([Breakpoint(segment, mark[1], ANYWHERE, mark[2]) for segment, mark in marked])
        keys = (namespace, namespace, namespace)
        return Prompt(keys, (0, 0), self._digests, self._ends, _EVERYWHERE, points, last + 1)
