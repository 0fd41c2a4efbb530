"""llama.cpp's host prompt cache (`--cache-ram`): whole states of slots, saved before they are lost, oldest dropped
first.

Takes contents and prompts, gives contents; knows nothing of slots.

Read in the source of llama.cpp's server: a state that begins a saved one is not saved again; saving one drops those
that begin it; a state is taken only if it is better than the slot in both ways, in the part of itself that is kept (at
least a quarter) and in the part of the prompt that is served; taking it moves it out; at least one is kept, however
large. An empty slot keeps nothing of itself, so any state serves it better. Assumed: sizes are counted in tokens,
checkpoints left out; an empty slot is not saved.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable

from contextkit.cache.packed import N_BYTES, shared
from contextkit.cache.slot.content import Content

_MIN_KEPT = 0.25
"""A state of which less would be kept is left where it is."""


class HostCache:
    """Saved states.

    None of them begins another, so their tokens in sorted order have those that share most with a prompt around it.

    >>> from contextkit.cache.packed import pack
    >>> host = HostCache(100)
    >>> host.save(Content(pack(range(60))))
    >>> state = host.best(Content(), pack(range(50)))
    >>> len(state), host.states == (state,)
    (60, True)
    """

    def __init__(self, max_tokens: int | None) -> None:
        """`max_tokens`: as many are kept, None for all, 0 for none."""
        self._max_tokens = max_tokens
        self.restore(())

    def restore(self, states: Iterable[Content]) -> None:
        """Hold these and no others, in the order they were saved."""
        self._states = OrderedDict((state.tokens, (number, state)) for number, state in enumerate(states))
        self._sorted = sorted(self._states)
        self._n_saved = len(self._states)
        self._n_tokens = sum(map(len, self._sorted)) // N_BYTES

    @property
    def is_on(self) -> bool:
        """Whether states are saved at all."""
        return self._max_tokens != 0

    @property
    def states(self) -> tuple[Content, ...]:
        """All of them, in the order they were saved."""
        return tuple(state for _, state in self._states.values())

    def save(self, content: Content) -> None:
        """Keep what a slot is about to lose."""
        tokens = content.tokens
        at = bisect_left(self._sorted, tokens)
        if not tokens or (at < len(self._sorted) and self._sorted[at].startswith(tokens)):
            return
        if at and tokens.startswith(self._sorted[at - 1]):
            self._drop(self._sorted[at - 1])
        insort(self._sorted, tokens)
        self._states[tokens] = self._n_saved, content
        self._n_saved += 1
        self._n_tokens += len(content)

    def best(self, content: Content, tokens: bytes) -> Content | None:
        """The state that serves this prompt better than `content` does."""
        similar = content.common(tokens)
        best, kept = None, similar / len(content) if content else -1.0
        for _, state, common in sorted(self._above(similar, tokens), key=lambda row: row[0]):
            of_state = common / len(state)
            if of_state >= _MIN_KEPT and of_state > kept and common > similar:
                best, kept, similar = state, of_state, common
        return best

    def take(self, state: Content) -> None:
        """Move a state out."""
        self._drop(state.tokens)

    def trim(self) -> None:
        """Drop the oldest until the rest fits, or one is left."""
        while self._max_tokens is not None and len(self._states) > 1 and self._n_tokens > self._max_tokens:
            self._drop(next(iter(self._states)))

    def _drop(self, tokens: bytes) -> None:
        del self._states[tokens]
        del self._sorted[bisect_left(self._sorted, tokens)]
        self._n_tokens -= len(tokens) // N_BYTES

    def _above(self, common: int, tokens: bytes) -> list[tuple[int, Content, int]]:
        """The states that share more than `common` tokens with a prompt: when each was saved, what it is, how much it
        shares.
        """
        at, view = bisect_left(self._sorted, tokens), memoryview(tokens)
        found: list[tuple[int, Content, int]] = []
        for others in (range(at, len(self._sorted)), range(at - 1, -1, -1)):
            limit = len(tokens)  # what is farther off in the row shares no more than what is nearer
            for index in others:
                key = self._sorted[index]
                if not key.startswith(view[:limit]):
                    limit = shared(key, 0, tokens, 0, min(len(key), limit), N_BYTES)
                if limit <= common * N_BYTES:
                    break
                found.append((*self._states[key], limit // N_BYTES))
        return found
