"""One model for each class of rules: laws run over kinds of rows, not over every row."""

from __future__ import annotations

from dataclasses import fields

from contextkit.models import MODELS, Model

NAMES = frozenset({"name", "confidence", "source", "date", "assumed", "note", "retired_on", "window_tokens"})
"""Fields that say where a row is from, or how large the model is: no rule differs by them."""
SIZES = frozenset({"tokenizer", "bytes_per_token", "tool_prompt_tokens", "min_tokens"})
"""Fields that change figures and not what is accepted."""


def one_of_each(provider: str, ignored: frozenset[str] = NAMES | SIZES) -> list[str]:
    """Name a model of each class of rows of `provider` that agree in every field that is not `ignored`."""
    chosen: dict[tuple[object, ...], str] = {}
    for name, row in MODELS.items():
        if row.provider == provider:
            chosen.setdefault(_rules(row, ignored), name)
    return list(chosen.values())


def _rules(row: Model, ignored: frozenset[str]) -> tuple[object, ...]:
    return tuple(getattr(row, field.name) for field in fields(row) if field.name not in ignored)
