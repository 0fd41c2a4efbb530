"""Source rules of CKB02 marker-on-varying-block."""

from __future__ import annotations

from contextkit.lint.source.rule import MOVE_MARKER, Flow

SOURCE = (
    Flow(
        ("clock", "id", "choice", "recall", "plan"),
        ("marked",),
        "{source} varies and stands in a block that carries a cache marker: what is written there is never read",
        mends=(MOVE_MARKER,),
    ),
)
