"""Keys and values in two tiers: all of them in slow memory, those asked for last in fast memory.

Takes names of rows in the order they are asked for, counts; moves nothing, since where a row lies changes no number.
InfiniteHiP (arXiv 2502.08910) has two of these: one for keys a mask is chosen with, one for rows that are attended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable


class FastTier:
    """An LRU cache of names. A larger one hits wherever a smaller one does.

    >>> tier = FastTier(2)
    >>> tier.ask("abcab"), tier.ask("b")
    (0, 1)
    >>> tier.cost(slow=10.0)
    51.0
    """

    __slots__ = ("_held", "capacity", "hits", "misses")

    def __init__(self, capacity: int) -> None:
        self.capacity, self.hits, self.misses = capacity, 0, 0
        self._held: OrderedDict[Hashable, None] = OrderedDict()

    def ask(self, names: Iterable[Hashable]) -> int:
        """Use rows one after another; how many of them were in the fast tier."""
        before = self.hits
        for name in names:
            self.hits, self.misses = self.hits + (name in self._held), self.misses + (name not in self._held)
            self._held[name] = None
            self._held.move_to_end(name)
            if len(self._held) > self.capacity:
                self._held.popitem(last=False)
        return self.hits - before

    def cost(self, slow: float, fast: float = 1.0) -> float:
        """What all accesses cost, each at the price of its tier."""
        return self.hits * fast + self.misses * slow
