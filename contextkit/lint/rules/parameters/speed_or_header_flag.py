"""Source rules of CKP06 speed-or-header-flag."""

from __future__ import annotations

from contextkit.lint.rules.chosen import chosen, passed
from contextkit.lint.source.rule import Flow

SOURCE = (
    *chosen(
        ("speed", "betas", "service_tier", "verbosity", "text.verbosity"),
        "betas or the speed are chosen per call by {source}",
    ),
    passed(("extra_headers",), "headers with a beta are chosen per call by {source}", "beta"),
    Flow(
        ("user", "choice"),
        ("headers",),
        "headers, betas or the speed are chosen per call by {source}",
        in_loop_only=True,
    ),
)
