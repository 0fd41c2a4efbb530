"""What rewrites a history on each turn: trimming to a cap, sorting by a score, clearing the messages before the newest few."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.requests import Sent
from contextkit.lint.source.scopes import ANY, Binding, Place, Scope, last_name
from contextkit.lint.source.trace import arguments_of

CODES = frozenset({"CKM05", "CKM06"})
_SIZE = re.compile(r"len|count|token|size|length|chars|budget|estimate", re.IGNORECASE)
_SCORE = re.compile(r"score|relevan|importan|priorit|random|similar|distance|weight", re.IGNORECASE)
_FIRST = ("popleft", "pop", "del", "remove")
_CONTENT = frozenset({"content", "text", "output", "parts"})


class _History(NamedTuple):
    """A variable or attribute that holds the messages of a request."""

    scope: Scope
    name: str


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find changes of a history that each turn makes before it is sent."""
    histories: dict[_History, Sent | None] = {}
    for sent in analysis.sent:
        if sent.kind in ("turn", "loop") and not analysis.knowledge.matches("side_call", sent.scope.name):
            histories |= dict.fromkeys(_histories(analysis, sent), sent)
            yield from _sorts(sent)
    for history in _named(analysis):
        histories.setdefault(history, None)
    for history, sent_by in histories.items():
        for binding in history.scope.bindings.get(history.name, ()):
            yield from _trims(binding, sent_by)
        yield from _clears(history)
    for scope in analysis.module.scopes:
        names = {value.id for value, _ in scope.returns if isinstance(value, ast.Name)}
        names |= {history.name for history in histories if history.scope is scope}
        for name in sorted(names):
            for binding in scope.bindings.get(name, ()):
                yield from _builds_from_the_newest(analysis, binding)


def _named(analysis: Analysis) -> Iterator[_History]:
    """The parameters, attributes and lists of a module that a name says are a history."""
    for scope in analysis.module.scopes:
        if scope.is_module or any(analysis.knowledge.matches(one, scope.name) for one in ("side_call", "once")):
            continue
        for name, bindings in scope.bindings.items():
            is_texts = bindings[0].kind == "param" and scope.annotation(name) not in (
                "",
                "list",
                "List",
                "Sequence",
                "deque",
            )
            is_part = any(one.kind == "set" and _is_part_of_history(analysis, one) for one in bindings)
            if (analysis.knowledge.matches("history_name", name.rpartition(".")[2]) and not is_texts) or is_part:
                yield _History(scope, name)


def _is_part_of_history(analysis: Analysis, binding: Binding) -> bool:
    """Return whether a variable is given the end of a history: `system, rest = messages[0], messages[1:]`."""
    value = binding.value
    if isinstance(value, ast.Tuple) and binding.path and isinstance(binding.path[0], int):
        value = value.elts[binding.path[0]] if binding.path[0] < len(value.elts) else None
    is_end = isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and value.slice.upper is None
    return is_end and analysis.knowledge.matches("history_name", _name(value.value).rpartition(".")[2])  # type: ignore[union-attr]


def _histories(analysis: Analysis, sent: Sent) -> Iterator[_History]:
    """The names of the list of messages: on its way to the request, and in helpers that change it in place."""
    found: list[_History] = []
    for step in sent.messages:
        if not step.path or step.path[-1] != ANY:
            continue
        name = _name(step.node)
        if name and not (step.scope.is_module or analysis.knowledge.matches("once", step.scope.name)):
            found.append(_History(step.scope, name))
    yield from found
    names = {name for scope, name in found if scope is sent.scope}
    for site in sent.scope.calls:
        given = [*site.node.args, *(one.value for one in site.node.keywords)]
        if not any(_name(one) in names for one in given):
            continue
        for target in analysis.program.targets(site.node, site.scope, site.place):
            for param in target.scope.params:
                if any(_name(value) in names for value, _ in arguments_of(site.node, target, param)):
                    yield _History(target.scope, param)
    if sent.scope.cls is not None:
        attributes = {name.partition(".")[2] for name in names if name.startswith(f"{sent.scope.receiver}.")}
        called = {last_name(site.node.func) for site in sent.scope.calls}
        for name, method in sent.scope.cls.methods.items():
            if name in called and not analysis.knowledge.matches("once", name):
                yield from (_History(method, f"{method.receiver}.{attribute}") for attribute in attributes)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _trims(binding: Binding, sent: Sent | None) -> Iterator[Hit]:
    """Find what drops the oldest messages until the rest fits, so that each turn drops some."""
    loop = next((one for one in binding.place.loops() if isinstance(one, ast.While)), None)
    if loop is None or (sent is not None and loop in sent.place.loops()) or not _SIZE.search(ast.unparse(loop.test)):
        return
    if not _measures(loop, binding):
        return
    is_first = binding.kind == "take" and binding.operation in _FIRST and not _is_last(binding)
    is_sliced = (
        binding.kind == "set" and isinstance(binding.value, ast.Subscript) and _drops_the_first(binding.value.slice)
    )
    if (is_first or is_sliced) and not _has_slack(loop, binding.place):
        node = binding.value if is_sliced and binding.value is not None else binding.node
        message = f"`{text_of(node, binding.scope.module)}` trims the history to a cap and no lower: from then on each turn drops messages and shares no prefix with the one before"
        yield Hit("CKM05", message, node, binding.scope.module, sink=binding.scope.node)


def _measures(loop: ast.While, binding: Binding) -> bool:
    """Return whether a loop compares the size of the history, or a count that it lowers with each message."""
    lowered = {_name(one.target) for one in ast.walk(loop) if isinstance(one, ast.AugAssign)}
    names = lowered | {name for name, found in binding.scope.bindings.items() if binding in found}
    compares = [one for one in ast.walk(loop.test) if isinstance(one, ast.Compare)]
    return any(_name(part) in names for one in compares for part in ast.walk(one))


def _is_last(binding: Binding) -> bool:
    """Return whether it is not the oldest message that is taken: `pop()`, `pop(-1)`."""
    if binding.operation in ("pop", "del"):
        is_first = isinstance(binding.value, ast.Constant) and binding.value.value in (0, 1)
        is_slice = isinstance(binding.value, ast.Slice) and binding.value.lower is None
        return not (is_first or is_slice)
    return False


def _drops_the_first(index: ast.expr) -> bool:
    return isinstance(index, ast.Slice) and isinstance(index.lower, ast.Constant) and index.upper is None


def _has_slack(loop: ast.While, place: Place) -> bool:
    """Return whether the loop runs only from a higher mark on, down to a lower one."""
    bounds = {ast.unparse(one) for one in _bounds(loop.test)}
    for node, branch in place.blocks:
        if isinstance(node, ast.If) and branch == "body" and _SIZE.search(ast.unparse(node.test)):
            outer = {ast.unparse(one) for one in _bounds(node.test)}
            if outer and bounds and outer.isdisjoint(bounds):
                return True
    text = ast.unparse(loop.test)
    return bool(re.search(r"low|target|floor|\*\s*0?\.\d|//\s*2|/\s*2", text, re.IGNORECASE))


def _bounds(test: ast.expr) -> Iterator[ast.expr]:
    for one in ast.walk(test):
        if isinstance(one, ast.Compare):
            yield from one.comparators


def _builds_from_the_newest(analysis: Analysis, binding: Binding) -> Iterator[Hit]:
    """Find what keeps the newest messages that fit: `for message in reversed(messages): … if used > CAP: break`."""
    loop = next((one for one in binding.place.loops() if isinstance(one, ast.For)), None)
    if loop is None or binding.kind != "add" or binding.operation not in ("insert", "append", "appendleft"):
        return
    is_reversed = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "reversed" and loop.iter.args
    if not is_reversed or not analysis.knowledge.matches("history_name", _name(loop.iter.args[0]).rpartition(".")[2]):  # type: ignore[attr-defined]
        return
    if not any(isinstance(one, ast.AugAssign) and not isinstance(one.value, ast.Constant) for one in loop.body):
        return
    for one in loop.body:
        if isinstance(one, ast.If) and any(isinstance(inner, ast.Break) for inner in one.body):
            test = ast.unparse(one.test)
            if any(isinstance(part, ast.Gt | ast.GtE) for part in ast.walk(one.test)) and "role" not in test:
                message = f"`{text_of(binding.node, binding.scope.module)}` keeps the newest messages that fit: once the cap is reached each turn begins with another one and shares no prefix with the one before"
                yield Hit("CKM05", message, binding.node, binding.scope.module, sink=binding.scope.node)
                return


def _sorts(sent: Sent) -> Iterator[Hit]:
    """Find a history that is sorted by what changes from turn to turn."""
    for step in sent.messages:
        node = step.node
        if step.path and isinstance(node, ast.Call) and last_name(node.func) == "sorted":
            keys = [one.value for one in node.keywords if one.arg == "key"]
            if keys and _SCORE.search(ast.unparse(keys[0])):
                message = f"`{text_of(node, step.scope.module)}` orders the history by a score: each turn may have another order, and shares no prefix with the one before"
                yield Hit("CKM05", message, node, step.scope.module, sink=sent.node)


# Older messages
# ----------------------------------------------------------------------------------------------------------------------


def _clears(history: _History) -> Iterator[Hit]:
    """Find what replaces the content of all messages but the newest few, a boundary that moves with each turn."""
    scope = history.scope
    for name, bindings in scope.bindings.items():
        for binding in bindings:
            if binding.kind == "item" and _CONTENT & set(binding.path) and _is_replacement(binding.value):
                loop = _loop_over_older(scope, name, history, binding.place)
                if loop is not None and not _is_guarded(binding.place, loop):
                    yield _cleared(binding.node, scope)
    for node, _ in scope.expressions:
        for one in ast.walk(node):
            if isinstance(one, ast.ListComp) and (changed := _cleared_by_index(one, history)):
                yield _cleared(changed, scope)


def _cleared(node: ast.AST, scope: Scope) -> Hit:
    message = f"`{text_of(node, scope.module)}` rewrites older messages, and which ones moves with each turn: the prefix ends at the first that changes"
    return Hit("CKM06", message, node, scope.module, sink=scope.node)


def _is_replacement(value: ast.expr | None) -> bool:
    """Return whether a text is put in place of a content, rather than made of it."""
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id.isupper())


def _loop_over_older(scope: Scope, name: str, history: _History, place: Place) -> ast.AST | None:
    """The loop over all but the newest messages that a name is the item of, None where there is none."""
    for binding in scope.bindings.get(name, ()):
        if binding.kind != "for" or binding.value is None or not binding.place.is_around(place):
            continue
        value = binding.value
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
            is_older = value.slice.upper is not None and value.slice.lower is None
            if is_older and _name(value.value) == history.name:
                return binding.place.loops()[0]
        inner = _name(value.value) if isinstance(value, ast.Subscript) else ""
        if not inner and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            inner = _name(value.func.value)
        if inner and inner != name and (outer := _loop_over_older(scope, inner, history, binding.place)):
            return outer
    return None


def _is_guarded(place: Place, loop: ast.AST) -> bool:
    """Return whether the rewriting happens only above a size, once in a while."""
    for node, _ in place.blocks:
        if node is loop:
            return False
        if isinstance(node, ast.If) and _SIZE.search(ast.unparse(node.test)):
            return True
    return False


def _cleared_by_index(node: ast.ListComp, history: _History) -> ast.Dict | None:
    """The message put in place of older ones: `[{**m, "content": CLEARED} if i < n else m for i, m in enumerate(history)]`."""
    generator = node.generators[0]
    if not isinstance(generator.iter, ast.Call) or last_name(generator.iter.func) != "enumerate":
        return None
    if not generator.iter.args or _name(generator.iter.args[0]) != history.name:
        return None
    if not isinstance(node.elt, ast.IfExp) or not isinstance(generator.target, ast.Tuple):
        return None
    index = _name(generator.target.elts[0])
    is_by_index = any(
        isinstance(part, ast.Lt | ast.Gt | ast.LtE | ast.GtE) and index in {_name(name) for name in ast.walk(one)}
        for one in ast.walk(node.elt.test)
        if isinstance(one, ast.Compare)
        for part in one.ops
    )
    for one in (node.elt.body, node.elt.orelse):
        if is_by_index and isinstance(one, ast.Dict) and None in one.keys:
            for key, value in zip(one.keys, one.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in _CONTENT and _is_replacement(value):
                    return one
    return None
