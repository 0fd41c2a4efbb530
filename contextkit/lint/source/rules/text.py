"""What varies in text in front of the history: system prompts, descriptions of tools."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.source.analysis import Analysis, Hit, read_at, text_of
from contextkit.lint.source.requests import Sink
from contextkit.lint.source.rules.edits import move_to_message
from contextkit.lint.source.scopes import Binding, last_name
from contextkit.lint.source.trace import Step

CODES = frozenset({"CKS01", "CKS03", "CKS04", "CKS06", "CKT08"})
_RULES = {
    "clock": ("CKS01", "is a time of day and reaches {}, so no two requests share a prefix"),
    "id": ("CKS03", "is new each time and reaches {}, so no two requests share a prefix"),
    "status": ("CKS04", "changes while the agent works and reaches {}: the prefix changes with it"),
    "plan": ("CKS06", "changes while the agent works and reaches {}: the prefix changes with it"),
    "counter": ("CKS06", "counts on and reaches {}: the prefix changes with each request"),
}
"""Kind of what varies → code and message; the first found counts."""
_LONG_TEXT = 4_000
"""Characters behind a value that make its change cost something where no other request of the conversation follows."""


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find values that vary in text that stands in front of the history."""
    for sink in analysis.sinks:
        if sink.kind not in ("system", "front", "tool", "tools", "schema"):
            continue
        found: dict[str, Step] = {}
        for step in analysis.tracer.walk(sink.step):
            kind = _kind(analysis, step, sink)
            if kind in _RULES and kind not in step.removed and kind not in found and _counts(analysis, step, sink):
                found[kind] = step
        kind = next((one for one in _RULES if one in found), None)
        if kind is not None:
            yield _hit(analysis, kind, found[kind], sink)


def _kind(analysis: Analysis, step: Step, sink: Sink) -> str:
    binding = step.binding
    if binding is not None and sink.sent.kind in ("turn", "loop"):
        is_count = isinstance(step.node, ast.Constant) and isinstance(step.node.value, int)
        if binding.kind == "add" and binding.operation in ("+=", "-="):
            is_kept = binding.scope.cls is not None or _is_around(binding, sink)
            if is_kept and (is_count or "token" in last_name(step.node)):
                return "counter"
        if binding.kind == "for" and _is_around(binding, sink):
            is_range = isinstance(step.node, ast.Call) and last_name(step.node.func) in ("range", "count")
            return "counter" if is_range else ""
    return analysis.kind_of(step)


def _is_around(binding: Binding, sink: Sink) -> bool:
    """Return whether a variable changes in a loop around the request."""
    loops = sink.sent.place.loops()
    return binding.scope is sink.sent.scope and any(loop in loops for loop in binding.place.loops())


def _counts(analysis: Analysis, step: Step, sink: Sink) -> bool:
    """Return whether the change costs something: a request follows that shares what is behind the value."""
    sent = sink.sent
    if not analysis.is_made_anew(step, sent) or any(
        analysis.knowledge.matches("side_call", one.scope.name) for one in step.chain()
    ):
        return False
    if sink.kind == "tools":
        return _is_description(step)
    return sent.goes_on or bool(analysis.marks(sent)) or _characters_behind(analysis, step) >= _LONG_TEXT


def _is_description(step: Step) -> bool:
    """Return whether a value is in the text of a tool's description."""
    for one in step.chain():
        parent = one.parent
        if parent is not None and isinstance(parent.node, ast.Dict):
            keys = [key for key, value in zip(parent.node.keys, parent.node.values, strict=True) if value is one.node]
            if any(isinstance(key, ast.Constant) and key.value == "description" for key in keys):
                return True
    return False


def _characters_behind(analysis: Analysis, step: Step) -> int:
    """Count the characters of constant text behind a value in the text it is a part of."""
    total = 0
    for one in step.chain():
        parent = one.parent
        if parent is None:
            break
        parts: list[ast.expr] = []
        if isinstance(parent.node, ast.JoinedStr):
            values = [value.value if isinstance(value, ast.FormattedValue) else value for value in parent.node.values]
            parts = values[values.index(one.node) + 1 :] if one.node in values else []
        elif isinstance(parent.node, ast.BinOp) and one.node is parent.node.left:
            parts = [parent.node.right]
        elif isinstance(parent.node, ast.List | ast.Tuple) and one.node in parent.node.elts:
            parts = parent.node.elts[parent.node.elts.index(one.node) + 1 :]
        elif isinstance(parent.node, ast.Call) and isinstance(parent.node.func, ast.Attribute):
            parts = [parent.node.func.value] if parent.node.func.attr == "format" else []
        for part in parts:
            total += sum(
                len(inner.node.value)
                for inner in analysis.tracer.walk(Step(part, parent.scope, parent.place, (), parent.frame))
                if isinstance(inner.node, ast.Constant) and isinstance(inner.node.value, str)
            )
    return total


def _hit(analysis: Analysis, kind: str, step: Step, sink: Sink) -> Hit:
    code, message = _RULES[kind]
    if sink.kind in ("tool", "tools", "schema"):
        code = "CKT08"
    step = read_at(step)
    module = step.scope.module
    text = f"`{text_of(step.node, module)}` {message.format(sink.label)}"
    fix = move_to_message(step, sink) if code in ("CKS01", "CKS03") else None
    return Hit(code, text, step.node, module, analysis.trail(step, sink), fix, sink.step.node)
