"""Decoding under a mask: tokens that may not come next get no probability, and nothing before them moves.

Calls are written as Hermes models write them (`<tool_call>` around JSON,
https://github.com/NousResearch/Hermes-Function-Calling).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal

import numpy as np

from contextkit.errors import UsageError
from contextkit.transformer.engine import Engine, Run, n_common
from contextkit.transformer.model import Tokenizer
from contextkit.transformer.ops import Array

Choose = Callable[[Array], int]
"""Logits (vocabulary,) → the next token."""
Allowed = Callable[[Sequence[int]], Collection[int]]
"""Tokens generated so far → those that may come next."""
Mode = Literal["auto", "required", "specified", "none"]
"""As in `tools/mask.py`: may call what is allowed; must call; must call one of a family; may not call."""
OPEN, HEAD = "<tool_call>", '<tool_call>{"name": "'


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


def prefill(names: Sequence[str], mode: Mode) -> str:
    """Return the text a reply may begin with before anything is sampled: the common start of all calls the mode leaves.

    >>> prefill(["browser_open", "browser_click"], "specified")
    '<tool_call>{"name": "browser_'
    """
    first, last = min(names), max(names)
    return {"auto": "", "none": "", "required": HEAD, "specified": HEAD + first[: n_common(first, last)]}[mode]


def by_mode(in_call: Allowed, mode: Mode, tokenizer: Tokenizer) -> Allowed:
    """The mask of a mode, made of one over a call: `in_call(ids)` is asked with the tokens from the call's opening on.

    `contextkit.tools.token_mask.TokenMask(…, before=HEAD).allowed_token_ids` is one, for any tokenizer; `auto` and
    `none` know an opening by its tokens, so `<tool_call>` must be cut in one way, as where it is a token.
    """
    opened, anything = tokenizer.encode(OPEN), range(tokenizer.size)

    def starts(made: Sequence[int]) -> list[int]:
        return [i for i in range(len(made)) if list(made[i : i + len(opened)]) == opened]

    def forced(made: Sequence[int]) -> Collection[int]:
        return in_call(made[max(starts(made), default=0) :])

    def auto(made: Sequence[int]) -> Collection[int]:
        return forced(made) if starts(made) else anything

    def none(made: Sequence[int]) -> Collection[int]:
        is_opening = list(made[len(made) - len(opened) + 1 :]) == opened[:-1]
        return [token for token in anything if token != opened[-1]] if is_opening else anything

    return {"auto": auto, "none": none, "required": forced, "specified": forced}[mode]


def generate_masked(
    engine: Engine, run: Run, n: int, allowed: Allowed, begun: Sequence[int] = (), choose: Choose = likeliest
) -> list[int]:
    """`begun` (a prefill) and up to `n` tokens more behind what `run` holds, every sampled one allowed.

    The cached rows stay.
    """
    made = list(begun)
    (logits,) = engine.feed([(run, [*run.tokens, *begun])])
    for i in range(n):
        made.append(choose(masked(logits[-1], allowed(made))))
        if i < n - 1:
            (logits,) = engine.decode([run], made[-1:])
    return made
