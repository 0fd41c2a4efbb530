"""Source rules of CKS03 id-or-nonce-in-prefix."""

from __future__ import annotations

from contextkit.lint.source.rule import Flow

SOURCE = (
    Flow(("id",), ("system", "front"), "{source} is another one each time and reaches {sink}: the prefix ends there"),
)
