"""What changes the list of tools: an order nobody promised, a choice by state or question, a loop that takes tools away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.requests import Sink
from contextkit.lint.source.rules.edits import sort_listing
from contextkit.lint.source.scopes import ANY, Binding, last_name
from contextkit.lint.source.trace import Step

CODES = frozenset({"CKT01", "CKT03", "CKT04", "CKT07", "CKT11"})
_LAST = re.compile(r"last|final|left|remain|done", re.IGNORECASE)
_NO_TOOLS = ("NOT_GIVEN", "NotGiven", "omit", "Omit")


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find what changes a list of tools between the requests of a conversation, or between processes."""
    for sink in analysis.sinks:
        if sink.kind not in ("tools", "schema"):
            continue
        first = sink.step
        if sink.kind == "tools":
            first = Step(first.node, first.scope, first.place, (*first.path, ANY), None, first.once)
        steps = analysis.tracer.walk(first, selects=True)
        order = _unordered(analysis, steps, sink)
        if order is not None:
            yield order
            continue
        if sink.kind == "tools" and sink.sent.kind in ("turn", "loop"):
            changes = [*_loop_changes(analysis, steps, sink), *_choices(analysis, steps, sink)]
            yield from changes[:1]


def _unordered(analysis: Analysis, steps: list[Step], sink: Sink) -> Hit | None:
    for step in steps:
        kind = "" if step.is_condition or _is_of_a_tool(step) else analysis.kind_of(step)
        if kind not in analysis.tracer.order or kind in step.removed:
            continue
        is_list = sink.kind == "tools" and _is_list(step)
        if not is_list and not _is_in_schema(step, sink):
            continue
        code = "CKT01" if is_list else "CKT07"
        what = "the same tools in another order are another prefix" if is_list else "the schema's text changes with it"
        module = step.scope.module
        message = f"`{text_of(step.node, module)}` has no fixed order and reaches {sink.label}: {what}"
        fix = sort_listing(step, is_list)
        return Hit(code, message, step.node, module, analysis.trail(step, sink), fix, sink.step.node)
    return None


def _is_list(step: Step) -> bool:
    """Return whether a step is about the list of tools, rather than about what is in one of them."""
    return all(ANY in one.path for one in step.chain())


def _is_of_a_tool(step: Step) -> bool:
    """Return whether an expression stands in the body of a function that is a tool."""
    return any(
        one.parent is not None
        and one.scope is not one.parent.scope
        and one.frame is None
        and not one.path
        and isinstance(one.parent.node, ast.Name)
        and one.binding is None
        for one in step.chain()
    )


def _is_in_schema(step: Step, sink: Sink) -> bool:
    """Return whether a value stands in a list of a schema: `"required": list(names)`."""
    if sink.kind == "schema":
        return True
    keys = {
        key.value
        for one in step.chain()
        if one.parent is not None and isinstance(one.parent.node, ast.Dict)
        for key, value in zip(one.parent.node.keys, one.parent.node.values, strict=True)
        if value is one.node and isinstance(key, ast.Constant)
    }
    return bool(keys & {"required", "enum", "properties", "parameters", "input_schema", "inputSchema"})


# Choices
# ----------------------------------------------------------------------------------------------------------------------


def _choices(analysis: Analysis, steps: list[Step], sink: Sink) -> Iterator[Hit]:
    """Find what decides which tools are sent, and changes while a conversation lasts."""
    for step in steps:
        parent = step.parent
        if not step.is_condition or parent is None or step.once or not _is_list(parent):
            continue
        for part in _names(step):
            cause = _cause(analysis, part, sink)
            if cause:
                yield _choice(analysis, step, cause, sink)
                return


def _names(step: Step) -> Iterator[Step]:
    """The variables and attributes of a condition, without the item that a comprehension is at."""
    waiting: list[ast.AST] = [step.node]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            own = step.scope.bindings.get(node.id, ()) if isinstance(node, ast.Name) else ()
            if not any(one.kind == "comp" and one.place.order == step.place.order for one in own):
                yield replace(step, node=node, parent=step, is_condition=False, binding=None)
        if isinstance(node, ast.Attribute):
            waiting.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            waiting += [*node.args, *(one.value for one in node.keywords)]
        elif not isinstance(node, ast.Name):
            waiting += ast.iter_child_nodes(node)


def _cause(analysis: Analysis, first: Step, sink: Sink) -> str:
    """Tell by what a condition changes: `question`, `state`, `loop`; empty where it is not seen to."""
    knowledge, sent = analysis.knowledge, sink.sent
    loops = sent.place.loops()
    for step in analysis.tracer.walk(first):
        if step.once:
            continue
        name = last_name(step.node)
        binding = step.binding
        if binding is not None and binding.kind in ("set", "for", "add") and binding.scope is sent.scope:
            if any(loop in loops for loop in binding.place.loops()) and not _is_alike(analysis, step):
                return "loop"
        is_own = step.scope is sent.scope and sent.kind == "loop"
        if step.is_open and sent.kind == "turn" and knowledge.matches("history_name", name) and _is_measured(first):
            return "turn"
        if analysis.kind_of(step) == "user" or (
            isinstance(step.node, ast.Subscript) and _is_history(analysis, step.node)
        ):
            return "" if is_own else "question"
        if (
            name
            and step.is_open
            and knowledge.matches("state_name", name)
            and not is_own
            and not _is_fixed(analysis, step)
        ):
            return "state"
    return ""


def _is_measured(step: Step) -> bool:
    """Return whether a condition is about how much there is, rather than whether there is anything."""
    return step.parent is not None and any(isinstance(one, ast.Compare) for one in ast.walk(step.parent.node))


def _is_alike(analysis: Analysis, step: Step) -> bool:
    """Return whether a value is the same in each pass of a loop: a call with nothing of the loop, a constant."""
    return isinstance(step.node, ast.Constant) and step.binding is not None and not _is_conditional(step.binding)


def _is_conditional(binding: Binding) -> bool:
    return any(isinstance(node, ast.If | ast.Match) for node, _ in binding.place.blocks)


def _is_history(analysis: Analysis, node: ast.Subscript) -> bool:
    return isinstance(node.value, ast.Name | ast.Attribute) and analysis.knowledge.matches(
        "history_name", last_name(node.value)
    )


def _is_fixed(analysis: Analysis, step: Step) -> bool:
    """Return whether an attribute of the object is set where a session begins only."""
    node = step.node
    if not isinstance(node, ast.Attribute):
        return step.scope.is_module
    owner = analysis.program.class_of(node.value, step.scope, step.place)
    if owner is None:
        return False
    bindings = [one for cls in analysis.program.family(owner) for one in cls.attributes.get(node.attr, ())]
    return all(one.scope.is_module or analysis.knowledge.matches("once", one.scope.name) for one in bindings)


def _choice(analysis: Analysis, step: Step, cause: str, sink: Sink) -> Hit:
    module = step.scope.module
    node: ast.AST = step.node
    text = f"`{text_of(step.node, module)}` decides which tools {sink.label} gets"
    if cause == "question":
        code, what = "CKT03", "each question changes the prefix from the first tool on"
    elif _is_dropped(step) and (cause != "state" or _LAST.search(ast.unparse(step.node))):
        code, what = "CKT04", "the request without tools reads nothing of what those with tools have cached"
        if step.binding is not None:
            node = step.binding.node
    else:
        code, what = "CKT11", "a change of state changes the prefix from the first tool on"
    return Hit(code, f"{text}: {what}", node, module, analysis.trail(step, sink), None, sink.step.node)


def _is_dropped(step: Step) -> bool:
    """Return whether one of the choices is to send no tools."""
    node = step.parent.node if step.parent is not None else None
    options: list[ast.expr] = [node.body, node.orelse] if isinstance(node, ast.IfExp) else []
    if step.binding is not None and step.binding.value is not None:
        if step.binding.kind == "item":
            return True  # only with the condition there are tools
        options.append(step.binding.value)
    return any(
        (isinstance(one, ast.Constant) and one.value is None)
        or (isinstance(one, ast.List) and not one.elts)
        or last_name(one) in _NO_TOOLS
        for one in options
    )


# Changes in a loop
# ----------------------------------------------------------------------------------------------------------------------


def _loop_changes(analysis: Analysis, steps: list[Step], sink: Sink) -> Iterator[Hit]:
    """Find changes of the list itself in the loop that sends it."""
    sent = sink.sent
    loops = sent.place.loops()
    seen: set[int] = set()
    for step in steps:
        if step.is_condition or step.frame is not None or not _is_list(step):
            continue
        if not isinstance(step.node, ast.Name | ast.Attribute) or step.scope is not sent.scope:
            continue
        for binding in analysis.program.bindings_of(step.node, step.scope, step.place):
            around = [loop for loop in binding.place.loops() if loop in loops]
            if binding.scope is not sent.scope or id(binding) in seen:
                continue
            seen.add(id(binding))
            if binding.kind == "take" and step.path[0] != ANY:
                if _drops_on_last_turn(binding, step):
                    yield _changed(binding, sink, "CKT04", "drops the tools from some requests of a conversation")
                continue
            if not around or _is_remade(step, around[0]):
                continue
            if binding.kind == "take" and binding.operation != "sort":
                yield _changed(binding, sink, "CKT11", "takes a tool away in the loop that sends them")
            elif (binding.kind == "add" and binding.operation in ("append", "extend", "+=", "insert")) or (
                binding.kind == "set" and _holds(binding.value, step.node)
            ):
                yield _changed(binding, sink, "CKT03", "changes the tools in the loop that sends them")


def _drops_on_last_turn(binding: Binding, step: Step) -> bool:
    """Return whether `request.pop("tools")` is done where a conversation comes to its end."""
    key = binding.value.value if isinstance(binding.value, ast.Constant) else None
    tests = [node.test for node, _ in binding.place.blocks if isinstance(node, ast.If)]
    return key == step.path[0] and any(_LAST.search(ast.unparse(test)) for test in tests)


def _is_remade(step: Step, loop: ast.AST) -> bool:
    """Return whether a loop begins the list anew in each pass."""
    name = step.node.id if isinstance(step.node, ast.Name) else ""
    return any(
        one.kind == "set"
        and loop in one.place.loops()
        and not _holds(one.value, step.node)
        and not _is_conditional(one)
        for one in step.scope.bindings.get(name, ())
    )


def _holds(value: ast.expr | None, name: ast.expr) -> bool:
    return value is not None and any(
        ast.unparse(one) == ast.unparse(name) for one in ast.walk(value) if type(one) is type(name)
    )


def _changed(binding: Binding, sink: Sink, code: str, what: str) -> Hit:
    module = binding.scope.module
    text = text_of(binding.node if binding.kind != "set" else binding.value or binding.node, module)
    message = (
        f"`{text}` {what} in the loop that sends {sink.label}: the next request shares no prefix with the one before"
    )
    return Hit(code, message, binding.node, module, (), None, sink.step.node)
