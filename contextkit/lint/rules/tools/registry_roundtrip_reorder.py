"""Source rules of CKT12 registry-roundtrip-reorder."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(
        ("rows",),
        ("tools", "tool", "schema"),
        "{source} comes from a database, which may give it back in another order",
    ),
)
