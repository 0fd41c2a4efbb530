"""llama.cpp's host prompt cache (`--cache-ram`): whole states of slots, saved before they are lost, oldest dropped first.

Takes contents and prompts, gives contents; knows nothing of slots.

Read in the source of llama.cpp's server: a state that begins a saved one is not saved again; saving one drops those that begin it; a
state is taken only if it is better than the slot in both ways, in the part of itself that is kept (at least a quarter) and in the part of
the prompt that is served; taking it moves it out; at least one is kept, however large. An empty slot keeps nothing of itself, so any
state serves it better. Assumed: sizes are counted in tokens, checkpoints left out; an empty slot is not saved.
"""

from __future__ import annotations

from contextkit.cache.packed import N_BYTES
from contextkit.cache.slot.content import Content

_MIN_KEPT = 0.25
"""A state of which less would be kept is left where it is."""


class HostCache:
    """Saved states, in the order they were saved.

    >>> from contextkit.cache.packed import pack
    >>> host = HostCache(100)
    >>> host.save(Content(pack(range(60))))
    >>> host.best(Content(), pack(range(50)))
    0
    """

    def __init__(self, max_tokens: int | None) -> None:
        """`max_tokens`: as many are kept, None for all, 0 for none."""
        self._max_tokens = max_tokens
        self.states: list[Content] = []

    @property
    def is_on(self) -> bool:
        """Whether states are saved at all."""
        return self._max_tokens != 0

    def save(self, content: Content) -> None:
        """Keep what a slot is about to lose."""
        if not content or any(state.common(content.tokens) == len(content) for state in self.states):
            return
        self.states = [state for state in self.states if state.common(content.tokens) < len(state)]
        self.states.append(content)

    def best(self, content: Content, tokens: bytes) -> int | None:
        """Index of the state that serves this prompt better than `content` does."""
        n_prompt, common = max(1, len(tokens) // N_BYTES), content.common(tokens)
        best, kept, similar = None, common / len(content) if content else -1.0, common / n_prompt
        for index, state in enumerate(self.states):
            common = state.common(tokens)
            of_state, of_prompt = common / len(state), common / n_prompt
            if of_state >= _MIN_KEPT and of_state > kept and of_prompt > similar:
                best, kept, similar = index, of_state, of_prompt
        return best

    def trim(self) -> None:
        """Drop the oldest until the rest fits, or one is left."""
        n_tokens = sum(map(len, self.states))
        while self._max_tokens is not None and len(self.states) > 1 and n_tokens > self._max_tokens:
            n_tokens -= len(self.states.pop(0))
