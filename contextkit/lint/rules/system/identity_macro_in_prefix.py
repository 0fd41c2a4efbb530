"""Source rules of CKS11 identity-macro-in-prefix."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(
        ("person",),
        ("system",),
        "{source} is another one for each user and reaches {sink}: nothing behind it is shared",
    ),
)
