"""What changes the list of tools: an order nobody promised, a choice by state or question, a loop that takes tools away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.knowledge import ORDER
from contextkit.lint.source.requests import Sink
from contextkit.lint.source.rules.edits import sort_listing
from contextkit.lint.source.scopes import ANY, Binding, last_name, variable
from contextkit.lint.source.trace import Step

CODES = frozenset({"CKT01", "CKT03", "CKT04", "CKT07", "CKT11"})
_SCHEMA = frozenset({"required", "enum", "properties", "parameters", "input_schema", "inputSchema"})
_LAST = re.compile(r"last|final|left|remain|done", re.IGNORECASE)


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find what changes a list of tools between the requests of a conversation, or between processes."""
    for sink in analysis.sinks:
        if sink.kind not in ("tools", "schema"):
            continue
        path = (*sink.step.path, ANY) if sink.kind == "tools" else sink.step.path
        steps = analysis.tracer.walk(replace(sink.step, path=path), selects=True)
        found = [*_unordered(analysis, steps, sink)]
        if sink.kind == "tools" and sink.sent.kind in ("turn", "loop"):
            found += [*_changes(analysis, steps, sink), *_choices(analysis, steps, sink)]
        yield from found[:1]


def _is_list(step: Step) -> bool:
    """Return whether a step is about the list of tools, rather than about what is in one of them."""
    return all(ANY in one.path for one in step.chain())


def _is_whole_list(step: Step) -> bool:
    """Return whether a step is about the list itself, or the key it stands under: not about any value of a dict."""
    return _is_list(step) and step.path.count(ANY) == 1


def _unordered(analysis: Analysis, steps: list[Step], sink: Sink) -> Iterator[Hit]:
    for step in steps:
        kind = "" if step.is_condition else analysis.kind_of(step)
        is_list = sink.kind == "tools" and _is_list(step)
        if kind not in ORDER - step.removed or _is_in_function(step) or not (is_list or _is_in_schema(step, sink)):
            continue
        what = "the same tools in another order are another prefix" if is_list else "the schema's text changes with it"
        message = f"`{text_of(step.node, step.scope.module)}` has no fixed order and reaches {sink.label}: {what}"
        trail, fix = analysis.trail(step, sink), sort_listing(step, is_list)
        yield Hit("CKT01" if is_list else "CKT07", message, step.node, step.scope.module, trail, fix, sink.step.node)


def _is_in_function(step: Step) -> bool:
    """Return whether an expression stands in the body of a function that is a tool."""
    pairs = [(one, one.parent) for one in step.chain() if one.parent is not None]
    return any(
        isinstance(two.node, ast.Name) and one.binding is None and one.scope is not two.scope for one, two in pairs
    )


def _is_in_schema(step: Step, sink: Sink) -> bool:
    """Return whether a value stands in a list of a schema: `"required": list(names)`."""
    for one in step.chain():
        if one.parent is not None and isinstance(one.parent.node, ast.Dict):
            pairs = zip(one.parent.node.keys, one.parent.node.values, strict=True)
            if any(value is one.node and getattr(key, "value", None) in _SCHEMA for key, value in pairs):
                return True
    return sink.kind == "schema"


# Choices
# ----------------------------------------------------------------------------------------------------------------------


def _choices(analysis: Analysis, steps: list[Step], sink: Sink) -> Iterator[Hit]:
    """Find what decides which tools are sent, and changes while a conversation lasts."""
    for step in steps:
        if step.is_condition and step.parent is not None and not step.once and _is_whole_list(step.parent):
            cause = next((cause for part in _names(step) if (cause := _cause(analysis, part, step, sink))), "")
            if cause:
                yield _choice(analysis, step, cause, sink)


def _names(step: Step) -> Iterator[Step]:
    """Yield the variables and attributes of a condition, without the item that a comprehension is at."""
    waiting: list[ast.AST] = [step.node]
    for node in waiting:
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            bindings = step.scope.bindings.get(variable(node), ())
            if not any(one.kind == "comp" and one.at.place.order == step.at.place.order for one in bindings):
                yield replace(step, node=node, parent=step, role="", binding=None)
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        waiting += [one for one in ast.iter_child_nodes(node) if not is_call or one is not node.func]  # type: ignore[attr-defined]


def _cause(analysis: Analysis, first: Step, condition: Step, sink: Sink) -> str:
    """Tell by what a condition changes: `question`, `state`, `loop`, `turn`; empty where it is not seen to."""
    sent, matches = sink.sent, analysis.knowledge.matches
    if "support" in ast.unparse(condition.node):
        return ""  # a model that takes no tools goes on taking none
    loops = sent.at.place.loops()
    for step in analysis.tracer.walk(first, stops=_is_made):
        name, binding = last_name(step.node), step.binding
        if step.once:
            continue
        if binding is not None and binding.kind in ("set", "for", "add") and binding.scope is sent.scope:
            is_same = isinstance(step.node, ast.Constant) and not binding.at.place.tests()
            if any(loop in loops for loop in binding.loops()) and not is_same:
                return "loop"
        is_kept = step.scope is sent.scope and sent.kind == "loop"  # given to the function that goes on with the loop
        base = last_name(step.node.value) if isinstance(step.node, ast.Subscript) else ""
        if analysis.kind_of(step) == "user" or matches("history_name", base):
            return "" if is_kept else "question"
        if (
            isinstance(step.node, ast.Attribute)
            and matches("state_name", name)
            and not _is_fixed(analysis, step)
            and not is_kept
        ):
            return "state"
        if name and step.is_open and not is_kept:
            is_measured = any(isinstance(one, ast.Compare) for one in ast.walk(condition.node))
            if is_measured and sent.kind == "turn" and matches("history_name", name):
                return "turn"
            if matches("state_name", name) and not _is_fixed(analysis, step):
                return "state"
    return ""


def _is_made(step: Step) -> bool:
    """Return whether a value is put together here, so that what is in it does not decide whether there is one."""
    return isinstance(step.node, ast.Dict | ast.List | ast.ListComp | ast.JoinedStr)


def _is_fixed(analysis: Analysis, step: Step) -> bool:
    """Return whether a variable of the module, or an attribute that is set where a session begins only."""
    if isinstance(step.node, ast.Attribute) and step.node.attr in analysis.program.changed:
        return False
    bindings = analysis.program.bindings_of(step.node, step.at) if isinstance(step.node, ast.Attribute) else []
    is_start = [one.scope.is_module or analysis.knowledge.matches("once", one.scope.name) for one in bindings]
    return all(is_start) if is_start else step.scope.is_module


def _choice(analysis: Analysis, step: Step, cause: str, sink: Sink) -> Hit:
    module = step.scope.module
    node: ast.AST = step.node
    text = f"`{text_of(node, module)}` decides which tools {sink.label} gets"
    code, what = "CKT11", "a change of state changes the prefix from the first tool on"
    if cause == "question":
        code, what = "CKT03", "each question changes the prefix from the first tool on"
    elif _is_dropped(step) and (cause != "state" or _LAST.search(ast.unparse(node))):
        code, what = "CKT04", "the request without tools reads nothing of what those with tools have cached"
        node = step.binding.node if step.binding is not None else node
    return Hit(code, f"{text}: {what}", node, module, analysis.trail(step, sink), None, sink.step.node)


def _is_dropped(step: Step) -> bool:
    """Return whether one of the choices is to send no tools."""
    around = step.parent.node if step.parent is not None else None
    options: list[ast.expr | None] = [around.body, around.orelse] if isinstance(around, ast.IfExp) else []
    options += [step.binding.value] if step.binding is not None else []
    is_added = step.binding is not None and step.binding.kind == "item"  # only with the condition there are tools
    none = [isinstance(one, ast.Constant) or (isinstance(one, ast.List) and not one.elts) for one in options]
    return is_added or any(none) or any(last_name(one) in ("NOT_GIVEN", "omit") for one in options if one is not None)


# Changes in a loop
# ----------------------------------------------------------------------------------------------------------------------


def _changes(analysis: Analysis, steps: list[Step], sink: Sink) -> Iterator[Hit]:
    """Find changes of the list itself in the loop that sends it."""
    sent = sink.sent
    for step in steps:
        if step.is_condition or step.at.frame is not None or not _is_list(step) or step.scope is not sent.scope:
            continue
        if not isinstance(step.node, ast.Name | ast.Attribute):
            continue
        for binding in analysis.program.bindings_of(step.node, step.at):
            loops = [loop for loop in binding.loops() if loop in sent.at.place.loops()]
            if binding.scope is not sent.scope:
                continue
            if binding.kind == "take" and step.path[0] != ANY:
                tests = " ".join(ast.unparse(test) for test in binding.at.place.tests())
                if getattr(binding.value, "value", None) == step.path[0] and _LAST.search(tests):
                    yield _changed(binding, sink, "CKT04", "drops the tools from some requests of a conversation")
            elif binding.kind == "take" and not loops:
                names = [last_name(one) for test in binding.at.place.tests() for one in ast.walk(test)]
                if any(name and analysis.knowledge.matches("state_name", name) for name in names):
                    yield _changed(binding, sink, "CKT11", "takes a tool away by the state of the conversation")
            elif loops and not _is_remade(step, loops[0]):
                is_grown = binding.operation in ("append", "extend", "+=", "insert")
                if binding.kind == "take" and binding.operation != "sort":
                    yield _changed(binding, sink, "CKT11", "takes a tool away in the loop that sends them")
                elif is_grown or (binding.kind == "set" and _holds(binding.value, step.node)):
                    yield _changed(binding, sink, "CKT03", "changes the tools in the loop that sends them")


def _is_remade(step: Step, loop: ast.AST) -> bool:
    """Return whether a loop begins the list anew in each pass."""
    made = [
        one for one in step.scope.bindings.get(variable(step.node), ()) if one.kind == "set" and loop in one.loops()
    ]
    return any(not _holds(one.value, step.node) and not one.at.place.tests() for one in made)


def _holds(value: ast.expr | None, name: ast.expr) -> bool:
    return value is not None and any(variable(one) == variable(name) for one in ast.walk(value))


def _changed(binding: Binding, sink: Sink, code: str, what: str) -> Hit:
    module = binding.scope.module
    node = binding.value if binding.kind == "set" and binding.value is not None else binding.node
    message = f"`{text_of(node, module)}` {what}: the next request shares no prefix with the one before"
    return Hit(code, message, binding.node, module, (), None, sink.step.node)
