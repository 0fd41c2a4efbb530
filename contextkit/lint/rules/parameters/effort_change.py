"""Source rules of CKP02 effort-change."""

from __future__ import annotations

from contextkit.lint.rules.chosen import chosen
from contextkit.lint.source.rule import Flow

SOURCE = (
    *chosen(
        ("reasoning_effort", "effort", "output_config.effort", "reasoning.effort"),
        "the effort is chosen per call by {source}",
    ),
    Flow(("user", "clock", "choice"), ("effort",), "the effort is chosen per call by {source}", in_loop_only=True),
)
