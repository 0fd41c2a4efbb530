"""Source rules of CKP04 tool-choice-change."""

from __future__ import annotations

import ast
import re

from contextkit.lint.rules.callsites import last_name
from contextkit.lint.rules.chosen import chosen
from contextkit.lint.source.rule import Flow, View

_OPENAI = re.compile(r"(?:completions|responses)\.(?:create|parse|stream)$")

_METHODS = frozenset({"create", "parse", "stream"})


def _is_neutral(name: str, node: ast.AST, view: View) -> bool:
    """OpenAI's own choice of tools, given to one of its calls, or stored in a function that makes one."""
    if name != "tool_choice":
        return False
    if isinstance(node, ast.Call) and last_name(node.func) in _METHODS:
        return bool(_OPENAI.search(view.dotted(node)))
    function = view.function()
    return function is not None and any(_OPENAI.search(view.dotted(call)) for call in view.nodes(function, ast.Call))


SOURCE = (
    *chosen(
        ("tool_choice", "toolChoice", "parallel_tool_calls"),
        "the choice of tools is set per call by {source}",
        _is_neutral,
    ),
    Flow(("user", "choice"), ("tool_choice",), "the choice of tools is set per call by {source}", in_loop_only=True),
)
