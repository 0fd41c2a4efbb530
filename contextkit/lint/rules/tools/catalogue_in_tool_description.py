"""Source rules of CKT09 catalogue-in-tool-description."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(
        ("listing",),
        ("tool",),
        "{source} stands in a tool's description and changes it with every entry",
        in_loop_only=True,
    ),
)
