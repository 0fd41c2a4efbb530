"""Source rules of CKS06 plan-or-todo-in-system."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(
        ("plan",),
        ("system", "front"),
        "{source} changes while the agent works and reaches {sink}, in front of the history",
    ),
    Flow(
        ("counter",),
        ("system", "front"),
        "{source} is counted on in each turn and reaches {sink}, in front of the history",
    ),
)
