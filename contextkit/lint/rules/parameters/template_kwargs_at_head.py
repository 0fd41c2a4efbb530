"""Source rules of CKP07 template-kwargs-at-head."""

from __future__ import annotations

from contextkit.lint.rules.chosen import chosen
from contextkit.lint.source.rule import Flow

SOURCE = (
    *chosen(
        ("chat_template_kwargs", "extra_body.chat_template_kwargs"),
        "the template prints what {source} decides at the head of the prompt",
    ),
    Flow(
        ("user", "clock", "date", "id", "choice"),
        ("template",),
        "the template prints {source} at the head of the prompt",
        in_loop_only=True,
    ),
)
