"""Source rules of CKP05 output-schema-change."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import is_per_turn
from contextkit.lint.rules.chosen import cause_of, chosen
from contextkit.lint.source.rule import Flow, Hit, Pattern, View

_NAMES = (
    "response_format",
    "text_format",
    "output_format",
    "response_schema",
    "response_model",
    "text.format",
    "output_config.format",
)

_MESSAGE = "the schema of the answer is chosen per call by {source}"


def _structured(node: ast.Call, view: View) -> Iterator[Hit]:
    """`llm.with_structured_output(PLAN if step == 0 else RESULT)`."""
    is_one = isinstance(node.func, ast.Attribute) and node.func.attr == "with_structured_output" and bool(node.args)
    cause = cause_of(node.args[0], view) if is_one and is_per_turn(view) else ""
    if cause:
        yield Hit(node.args[0], _MESSAGE.replace("{source}", f"`{cause}`"))


SOURCE = (
    *chosen(_NAMES, _MESSAGE),
    Pattern((ast.Call,), _structured, ("with_structured_output",), is_near=True),
    Flow(("user", "choice"), ("output",), _MESSAGE, in_loop_only=True),
)
