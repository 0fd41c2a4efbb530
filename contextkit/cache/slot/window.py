"""A slot's end: how many tokens it holds, and what becomes of generated ones beyond that (`--context-shift`).

Takes contents and generated tokens, gives contents; knows nothing of slots' choice.

Read in the source of llama.cpp's server: a prompt as long as the slot, or longer, is refused; before each generated
token is computed the slot must have room for two more, else generation stops there or, with `--context-shift`, half of
what stands behind the first `n_keep` tokens is dropped and the rest turned to its new positions; the last sampled token
is never computed. Models whose memory cannot be cut do not shift. What has been turned, and all that is computed behind
it, is approximate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from contextkit.cache.packed import N_BYTES
from contextkit.cache.slot.content import Content, Model

_ROOM = 4
"""Tokens at the end of a slot that `n_keep` never covers."""


@dataclass(frozen=True, slots=True)
class Window:
    """The end of a slot."""

    n_tokens: int | None = None
    """Tokens one slot holds (`--ctx-size` over `--parallel`), None for no end."""
    is_shifting: bool = False
    """`--context-shift`: whether generation goes on beyond it."""
    n_keep: int = 0
    """Tokens at the front that no shift drops (`--keep`); -1 for all of the prompt."""
    n_discard: int = 0
    """Tokens one shift drops; 0 for half of those that may be dropped."""
    has_bos: bool = False
    """Whether the vocabulary puts a token before every prompt, which is kept beside `n_keep`."""

    def takes(self, tokens: bytes) -> bool:
        """Whether a prompt is let in."""
        return self.n_tokens is None or len(tokens) < self.n_tokens * N_BYTES


def grown(content: Content, generated: bytes, window: Window, model: Model) -> Content:
    """What a slot that held a prompt holds once these tokens have been sampled.

    >>> from contextkit.cache.packed import pack, unpack
    >>> held = grown(Content(pack(range(6))), pack([10, 11, 12, 13]), Window(8, is_shifting=True, n_keep=2), Model())
    >>> unpack(held.tokens), held.n_exact
    ([0, 1, 4, 5, 10, 11, 12], 2)
    """
    rest = generated[:-N_BYTES]
    if window.n_tokens is None:
        return replace(content, tokens=content.tokens + rest)
    n_prompt, last = len(content), (window.n_tokens - 1) * N_BYTES
    while len(content.tokens) + len(rest) > last:
        n_fitting = max(0, last - len(content.tokens))
        content = replace(content, tokens=content.tokens + rest[:n_fitting])
        if not window.is_shifting or model.memory != "full":
            return content
        before = len(content)
        content, rest = _shifted(content, n_prompt, window), rest[n_fitting:]
        if len(content) == before:
            return content
    return replace(content, tokens=content.tokens + rest)


def _shifted(content: Content, n_prompt: int, window: Window) -> Content:
    n_keep = (n_prompt if window.n_keep < 0 else window.n_keep) + window.has_bos
    n_keep = max(0, min((window.n_tokens or 0) - _ROOM, n_keep))
    n_left = len(content) - n_keep
    n_gone = max(0, min(window.n_discard or n_left // 2, n_left - 1))
    tokens = content.tokens[: n_keep * N_BYTES] + content.tokens[(n_keep + n_gone) * N_BYTES :]
    n_exact = n_keep if content.n_exact is None else min(n_keep, content.n_exact)
    return replace(content, tokens=tokens, n_exact=n_exact)
