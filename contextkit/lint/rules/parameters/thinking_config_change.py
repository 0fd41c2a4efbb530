"""Source rules of CKP03 thinking-config-change."""

from __future__ import annotations

from contextkit.lint.rules.chosen import chosen
from contextkit.lint.source.rule import Flow

SOURCE = (
    *chosen(
        ("thinking", "thinking_config", "reasoning_config", "output_config.task_budget"),
        "thinking is set per call by {source}",
    ),
    Flow(("user", "clock", "choice"), ("thinking",), "thinking is set per call by {source}", in_loop_only=True),
)
