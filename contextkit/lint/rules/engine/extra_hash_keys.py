"""Source rules of CKE03 extra-hash-keys."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(
        ("id", "clock", "choice"),
        ("salt",),
        "{source} varies with each call and reaches {sink}: nothing is found again",
    ),
)
