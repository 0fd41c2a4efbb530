"""Source rules of CKS04 env-snapshot-in-system."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(
        ("place",),
        ("system",),
        "{source} tells where the program runs and reaches {sink}: nothing behind it is shared",
    ),
    Flow(
        ("entries",),
        ("system",),
        "{source} lists what stands in a folder and reaches {sink}: each new file rewrites it",
    ),
)
