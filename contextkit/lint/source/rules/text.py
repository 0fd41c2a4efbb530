"""What varies in text in front of the history: system prompts, descriptions and schemas of tools."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.source.analysis import Analysis, Hit, read_at, text_of
from contextkit.lint.source.requests import Sink
from contextkit.lint.source.rules.edits import move_to_message
from contextkit.lint.source.scopes import Scope, last_name
from contextkit.lint.source.trace import Step

CODES = frozenset({"CKS01", "CKS03", "CKS04", "CKS06", "CKT08"})
_RULES = {
    "clock": ("CKS01", "is a time of day and reaches {}, so no two requests share a prefix"),
    "id": ("CKS03", "is new each time and reaches {}, so no two requests share a prefix"),
    "status": ("CKS04", "changes while the agent works and reaches {}: the prefix changes with it"),
    "plan": ("CKS06", "changes while the agent works and reaches {}: the prefix changes with it"),
    "counter": ("CKS06", "counts on and reaches {}: the prefix changes with each request"),
}
"""Kind of what varies → code and message; the first that is found counts."""
_LONG_TEXT = 4_000
"""Characters behind a value that make its change cost something where no other request of the conversation follows."""


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find values that vary in text that stands in front of the history."""
    for sink in analysis.sinks:
        if sink.kind not in ("system", "front", "tool", "tools", "schema"):
            continue
        found: dict[str, Step] = {}
        for step in analysis.tracer.walk(sink.step):
            kind = _counter(step, sink) or analysis.kind_of(step)
            if (
                kind in _RULES
                and kind not in step.removed
                and kind not in found
                and _counts(analysis, kind, step, sink)
            ):
                found[kind] = step
        for kind in (one for one in _RULES if one in found):
            yield _hit(analysis, kind, read_at(found[kind]), sink)


def _counter(step: Step, sink: Sink) -> str:
    """Tell whether a step counts the requests of a conversation, or what they cost."""
    binding, sent = step.binding, sink.sent
    if binding is None or sent.kind not in ("turn", "loop"):
        return ""
    is_around = binding.scope is sent.scope and any(loop in sent.at.place.loops() for loop in binding.loops())
    if binding.kind == "for" and is_around and isinstance(step.node, ast.Call):
        return "counter" if last_name(step.node.func) in ("range", "count") else ""
    is_count = isinstance(getattr(step.node, "value", None), int) or "token" in last_name(step.node)
    is_kept = is_around or (binding.scope.cls is not None and binding.scope.cls is sent.scope.cls)
    return "counter" if binding.operation in ("+=", "-=") and is_count and is_kept else ""


def _counts(analysis: Analysis, kind: str, step: Step, sink: Sink) -> bool:
    """Return whether the change costs something: a request follows that shares what is behind the value."""
    sent, matches = sink.sent, analysis.knowledge.matches
    if not analysis.is_made_anew(step, sent) or any(matches("side_call", one.scope.name) for one in step.chain()):
        return False
    if sink.kind == "tools":
        return _is_description(step)
    goes_on = sent.kind not in ("single", "prompt") or (sent.kind == "prompt" and kind in ("plan", "status"))
    if sent.caller is not None:
        goes_on = goes_on or _has_history(analysis, sent.caller.at.scope)
    return goes_on or bool(analysis.breakpoints_of(sent)) or _characters_behind(analysis, step) >= _LONG_TEXT


def _has_history(analysis: Analysis, scope: Scope) -> bool:
    """Return whether a function or its class keeps a conversation, by the names of its variables."""
    names = [*scope.bindings, *(scope.cls.attributes if scope.cls is not None else ())]
    return any(analysis.knowledge.matches("history_name", name.rpartition(".")[2]) for name in names)


def _is_description(step: Step) -> bool:
    """Return whether a value is in the text of a tool's description."""
    for one in step.chain():
        if one.parent is not None and isinstance(one.parent.node, ast.Dict):
            pairs = zip(one.parent.node.keys, one.parent.node.values, strict=True)
            if any(value is one.node and getattr(key, "value", "") == "description" for key, value in pairs):
                return True
    return False


def _characters_behind(analysis: Analysis, step: Step) -> int:
    """Count the characters of constant text behind a value in the text it is a part of."""
    total = 0
    for one in step.chain():
        around = one.parent.node if one.parent is not None else None
        parts: list[ast.expr] = []
        if isinstance(around, ast.JoinedStr):
            parts = [
                getattr(value, "value", value) if isinstance(value, ast.FormattedValue) else value
                for value in around.values
            ]
        elif isinstance(around, ast.BinOp):
            parts = [around.left, around.right]
        elif isinstance(around, ast.List | ast.Tuple):
            parts = around.elts
        for part in parts[parts.index(one.node) + 1 :] if one.node in parts else ():
            texts = (inner.node for inner in analysis.tracer.walk(Step(part, one.at)))
            total += sum(
                len(text.value) for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)
            )
    return total


def _hit(analysis: Analysis, kind: str, step: Step, sink: Sink) -> Hit:
    code, message = _RULES[kind]
    code = "CKT08" if sink.kind in ("tool", "tools", "schema") else code
    text = f"`{text_of(step.node, step.scope.module)}` {message.format(sink.label)}"
    fix = move_to_message(step, sink) if code in ("CKS01", "CKS03") else None
    return Hit(code, text, step.node, step.scope.module, analysis.trail(step, sink), fix, sink.step.node)
