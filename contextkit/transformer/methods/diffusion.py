"""Masked-diffusion decoding that computes few rows a step: every row sees every row, so that each new token makes all
others drift.

Elastic-Cache (arXiv 2510.14973): rows are computed for the tokens just written and for a window of the next MASKs; rows
of far MASKs and of older tokens are kept. In each layer the token that is looked at most is watched: once attention to
it changes, all rows of every deeper layer are computed again. It drifts least, so when it moved, the others did; and
drift grows with depth, so shallow layers stay.
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
        self, model: Model, prompt: Sequence[int], n: int, mask: int, window: int = 16, threshold: float = 0.9
    ) -> None:
        """Below `threshold`, the cosine of attention now and before, a layer has drifted.

        Above 1 all have, in every step.
        """
        self.model, self.mask, self.window, self.threshold, self.work = model, mask, window, threshold, Work()
        self.tokens = [*prompt, *[mask] * n]
        self.rows = empty(model, len(self.tokens))
        self._inputs = np.zeros((model.shape.n_layers, len(self.tokens), model.shape.d_model))
        self._watched: dict[int, tuple[Places, int, Array]] = {}
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
            if self._has_drifted(i, active, looked[np.isin(where, active)]) and i + 1 < whole_from:
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
        """Return whether the window looks otherwise at the token it looked at most a step ago.

        That of this step is remembered.
        """
        before = self._watched.get(i)
        known = np.array(self.tokens) != self.mask
        most = int(np.where(known, looked.sum(axis=0), -1).argmax())
        self._watched[i] = active, most, looked[:, most]
        if before is None:
            return False
        _, now, then = np.intersect1d(active, before[0], return_indices=True)
        a, b = looked[now, before[1]], before[2][then]
        return bool(a @ b < self.threshold * np.linalg.norm(a) * np.linalg.norm(b))
