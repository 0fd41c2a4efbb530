"""Decoding under a mask: tokens that may not come next get no probability, and nothing before them moves.

The mask is that of a conversation's phase (`tools/mask.py`), in the call format of a model (`providers/call_formats.py`):
what `Context` asks of a provider, done by who has the logits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from contextkit.errors import UsageError
from contextkit.providers.call_formats import CallFormat
from contextkit.tools.mask import Mask
from contextkit.tools.token_mask import TokenMask, Vocabulary
from contextkit.transformer.engine import Engine, Run
from contextkit.transformer.model import Tokenizer
from contextkit.transformer.ops import Array

Choose = Callable[[Array], int]
"""Logits (vocabulary,) → the next token."""
Allowed = Callable[[Sequence[int]], Collection[int]]
"""Tokens generated so far → those that may come next."""


def masked(logits: Array, ids: Collection[int]) -> Array:  # (vocabulary,) -> (vocabulary,)
    """`logits` where allowed, -inf elsewhere; `UsageError` where nothing is."""
    if not ids:
        raise UsageError("the mask allows no token at all: allow at least one to end the text")
    out = np.full_like(logits, -np.inf)
    out[list(ids)] = logits[list(ids)]
    return out


def likeliest(logits: Array) -> int:  # (vocabulary,) -> token
    """Greedy decoding."""
    return int(logits.argmax())


def sampled(seed: int, temperature: float = 1.0) -> Choose:
    """Draws from the distribution, the same tokens for the same seed."""
    draw = np.random.default_rng(seed)
    return lambda logits: int((logits / temperature + draw.gumbel(size=logits.shape)).argmax())


def held(mask: Mask, form: CallFormat, vocabulary: Vocabulary, tokenizer: Tokenizer) -> Allowed:
    """The tokens that keep a reply to `mask`: a call of an allowed name, up to its arguments, or no call at all.

    `auto` and `none` know an opening by its tokens, so the format's trigger (`<tool_call>`) must be cut in one way, as
    where it is a token.
    """
    opened, anything = tokenizer.encode(form.trigger), range(tokenizer.size)

    def none(made: Sequence[int]) -> Collection[int]:
        is_opening = list(made[len(made) - len(opened) + 1 :]) == opened[:-1]
        return [token for token in anything if token != opened[-1]] if is_opening else anything

    if mask.mode == "none":
        return none
    in_call = TokenMask(vocabulary, mask.allowed, form.middle, before=form.begin).allowed_token_ids

    def call(made: Sequence[int]) -> Collection[int]:
        starts = [i for i in range(len(made)) if list(made[i : i + len(opened)]) == opened]
        return anything if mask.mode == "auto" and not starts else in_call(made[starts[-1] if starts else 0 :])

    return call


def generate_masked(
    engine: Engine, run: Run, n: int, allowed: Allowed, begun: Sequence[int] = (), choose: Choose = likeliest
) -> list[int]:
    """`begun` (a prefill) and `n` tokens more behind what `run` holds, every one allowed.

    The cached rows stay. Jump-forward decoding: a token that is the only one allowed is appended without logits, and its
    row is computed in the pass of the next token that has a choice; rows of those at the end are left to the next call.
    """
    before, made = list(run.tokens), list(begun)
    for _ in range(n):
        ids = allowed(made)
        if len(ids) == 1:
            made += ids
        else:
            (logits,) = engine.feed([(run, [*before, *made])])
            made.append(choose(masked(logits[-1], ids)))
    return made
