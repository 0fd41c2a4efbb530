"""Source rules of CKS01 clock-in-system."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(
        ("clock",),
        ("system", "front"),
        "{source} is a time of day and reaches {sink}, so that no two requests begin alike",
    ),
)
