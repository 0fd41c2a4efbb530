"""Source rules of CKS02 date-rollover."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(
        ("date",),
        ("system", "front"),
        "{source} is taken anew for each request and reaches {sink}: midnight rewrites it",
        in_loop_only=True,
    ),
)
