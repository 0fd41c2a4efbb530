"""Masked-diffusion decoding that computes few rows a step: every row sees every row, so that each new token makes all
others drift.

Elastic-Cache (arXiv 2510.14973): rows are computed for the tokens just written and for a window of the next MASKs; rows
of far MASKs and of older tokens are kept. In each layer attention is watched: once the window looks elsewhere than when
the layer was last computed whole, all rows of every deeper layer are computed again. Drift grows with depth, so shallow
layers stay.

What is watched differs from the paper, which takes the cosine of attention to the most-attended token, from a step to the
next: on seeded weights nine of ten are above 0.99 while the logits are off. Here it is the share of all attention that lies
where it lay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contextkit.transformer.methods.rows import Places, Rows, empty, through
from contextkit.transformer.model import Model, Work
from contextkit.transformer.ops import Array


def everything(
    model: Model, tokens: Sequence[int], work: Work
) -> tuple[Array, Rows, list[Array]]:  # -> (t, vocabulary), …, (t, t) a layer
    """Logits, rows and attention with nothing cached: what every step of plain decoding computes."""
    rows, where, looks = empty(model, len(tokens)), np.arange(len(tokens)), []
    x = model.embedded(tokens, where)
    for i in range(model.shape.n_layers):
        x, looked = through(model, i, x, where, rows, work, is_causal=False)
        looks.append(looked)
    return model.logits(x, work), rows, looks


class Elastic:
    """A prompt and `n` MASKs behind it; each step writes one."""

    def __init__(
        self, model: Model, prompt: Sequence[int], n: int, mask: int, window: int = 16, threshold: float = 0.95
    ) -> None:
        """Below `threshold`, the share of attention that lies where it lay, a layer has drifted.

        Above 1 all have, in every step; at 0 none has.
        """
        self.model, self.mask, self.window, self.threshold, self.work = model, mask, window, threshold, Work()
        self.tokens = [*prompt, *[mask] * n]
        self.rows = empty(model, len(self.tokens))
        self._inputs = np.zeros((model.shape.n_layers, len(self.tokens), model.shape.d_model))
        self._watched: dict[int, tuple[Places, Array]] = {}
        self._written: list[int] = []

    def step(self) -> tuple[Places, Array, int]:  # -> (w,), (w, vocabulary), layer
        """Write the likeliest token of the window.

        The window, its logits, and the first layer that was computed for all rows.
        """
        layers, everywhere = self.model.shape.n_layers, np.arange(len(self.tokens))
        active = np.array([place for place in everywhere if self.tokens[place] == self.mask][: self.window])
        whole_from = layers if self._watched else 0
        where = np.sort(np.concatenate([active, np.array(self._written, np.intp)])) if whole_from else everywhere
        x = self.model.embedded([self.tokens[place] for place in where], where)
        for i in range(layers):
            self._inputs[i][where] = x
            x, looked = through(self.model, i, x, where, self.rows, self.work, is_causal=False)
            looked = looked[np.isin(where, active)]
            if whole_from <= i:
                self._watched[i] = active, looked
            elif self._has_drifted(i, active, looked) and i + 1 < whole_from:
                whole_from, where = (
                    i + 1,
                    everywhere,
                )  # all rows go through this layer as it is now: what leaves it is fresh
                x, _ = through(self.model, i, self._inputs[i], where, self.rows, self.work, is_causal=False)
        logits = self.model.logits(x[np.isin(where, active)], self.work)
        logits[:, self.mask] = -np.inf
        best = int((logits.max(axis=1) - np.log(np.exp(logits).sum(axis=1))).argmax())
        self._written = [int(active[best])]
        self.tokens[active[best]] = int(logits[best].argmax())
        return active, logits, whole_from

    def _has_drifted(self, i: int, active: Places, looked: Array) -> bool:  # (w,), (w, t)
        """Return whether the window looks otherwise than when this layer was watched first since it was computed whole.

        A window of which less than half was there then is watched from now on.
        """
        before, then = self._watched[i]
        _, new, old = np.intersect1d(active, before, return_indices=True)
        is_known = 2 * len(new) >= len(active)
        shared = np.minimum(looked[new], then[old]).sum(axis=1).mean() if is_known else 1.0
        has_drifted = bool(shared < self.threshold)
        if has_drifted or not is_known:
            self._watched[i] = active, looked
        return has_drifted
