"""What rewrites a history on each turn: trimming to a cap, sorting by a score, clearing the messages before the newest few."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.requests import SentPrompt
from contextkit.lint.source.scopes import ANY, Binding, Place, Scope, last_name, variable
from contextkit.lint.source.trace import arguments_of

CODES = frozenset({"CKM05", "CKM06"})
_SIZE = re.compile(r"len|count|token|size|length|chars|budget|estimate|total", re.IGNORECASE)
_SLACK = re.compile(r"low|target|floor|\*\s*0?\.\d|//?\s*2", re.IGNORECASE)
_SCORE = re.compile(r"score|relevan|importan|priorit|random|similar|distance|weight", re.IGNORECASE)
_LAST_RESORT = re.compile(r"hard|emergency|fallback|overflow|force|resort", re.IGNORECASE)
_CONTENT = frozenset({"content", "text", "output", "parts"})
_TRIMS = "trims the history to a cap and no lower: from then on each turn drops messages and shares no prefix with the one before"
_KEEPS = (
    "keeps the newest messages that fit: once the cap is reached each turn begins with another one and shares no prefix"
)
_SORTS = "orders the history by a score: each turn may have another order, and shares no prefix with the one before"
_CLEARS = "rewrites older messages, and which ones moves with each turn: the prefix ends at the first that changes"


class _History(NamedTuple):
    """A variable or attribute that holds the messages of a request."""

    scope: Scope
    name: str


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find changes of a history that each turn makes before it is sent."""
    is_aside = {
        id(one)
        for one in analysis.module.scopes
        if _LAST_RESORT.search(one.name)
        or any(analysis.knowledge.matches(name, one.name) for name in ("side_call", "once"))
    }
    histories = [*_named(analysis)]
    for sent in analysis.sent:
        if sent.kind in ("turn", "loop") and id(sent.scope) not in is_aside:
            histories += _sent_histories(analysis, sent)
            for step in sent.messages:
                keys = [one.value for one in getattr(step.node, "keywords", ()) if one.arg == "key"]
                is_sorted = step.path and isinstance(step.node, ast.Call) and last_name(step.node.func) == "sorted"
                if is_sorted and keys and _SCORE.search(ast.unparse(keys[0])):
                    yield _hit("CKM05", step.node, step.scope, _SORTS)
    lowered: dict[ast.While, set[str]] = {}
    for history in dict.fromkeys(histories):
        if id(history.scope) not in is_aside and not history.scope.is_module:
            for binding in history.scope.bindings.get(history.name, ()):
                if (node := _trimmed(binding, history, lowered)) is not None:
                    yield _hit("CKM05", node, history.scope, _TRIMS)
            yield from (_hit("CKM06", node, history.scope, _CLEARS) for node in _cleared(history))
    for scope in analysis.module.scopes:
        names = {last_name(value) for value, _ in scope.returns} | {one.name for one in histories if one.scope is scope}
        for binding in (one for name in sorted(names) for one in scope.bindings.get(name, ())):
            if id(scope) not in is_aside and _is_from_the_newest(analysis, binding):
                yield _hit("CKM05", binding.node, scope, _KEEPS)


def _hit(code: str, node: ast.AST, scope: Scope, what: str) -> Hit:
    return Hit(code, f"`{text_of(node, scope.module)}` {what}", node, scope.module, sink=scope.node)


def _named(analysis: Analysis) -> Iterator[_History]:
    """Yield the parameters, attributes and lists of a module that a name says are a history, and their ends."""

    def is_named(name: str) -> bool:
        return analysis.knowledge.matches("history_name", name.rpartition(".")[2])

    for scope in analysis.module.scopes:
        for name, bindings in scope.bindings.items():
            is_list = bindings[0].kind != "param" or scope.annotation(name) in ("", "list", "List", "Sequence", "deque")
            values = [one.value for one in bindings if one.kind == "set"]
            values += [one for value in values if isinstance(value, ast.Tuple) for one in value.elts]
            ends = [one.value for one in values if isinstance(one, ast.Subscript) and _is_end(one.slice)]
            if is_list and (is_named(name) or any(is_named(variable(one)) for one in ends)):
                yield _History(scope, name)


def _sent_histories(analysis: Analysis, sent: SentPrompt) -> Iterator[_History]:
    """Yield the names of the list of messages: on its way to the request, and in helpers and methods that change it in
    place.
    """
    found = [_History(step.scope, variable(step.node)) for step in sent.messages if step.path[-1:] == (ANY,)]
    yield from found
    names = {one.name for one in found if one.scope is sent.scope and one.name}
    for site in sent.scope.calls:
        for target in analysis.program.targets(*site):
            for param in target.scope.params:
                if any(variable(value) in names for value, _ in arguments_of(site.node, target, param)):
                    yield _History(target.scope, param)
            own = [name.partition(".")[2] for name in names if name.startswith(f"{sent.scope.receiver}.")]
            if target.scope.cls is not None and target.scope.cls is sent.scope.cls:
                yield from (_History(target.scope, f"{target.scope.receiver}.{name}") for name in own)


def _is_end(index: ast.expr) -> bool:
    """Return whether a slice leaves out the beginning: `[2:]`."""
    return isinstance(index, ast.Slice) and isinstance(index.lower, ast.Constant) and index.upper is None


# Trimming
# ----------------------------------------------------------------------------------------------------------------------


def _trimmed(binding: Binding, history: _History, lowered: dict[ast.While, set[str]]) -> ast.AST | None:
    """Return what drops the oldest messages until the rest fits, so that each turn drops some; None for any other
    change.

    `lowered` keeps what a loop adds to or takes from.
    """
    loop = next((one for one in binding.loops() if isinstance(one, ast.While)), None)
    value = binding.value
    if loop is None or not _SIZE.search(ast.unparse(loop.test)) or _has_slack(loop, binding.at.place):
        return None
    if loop not in lowered:
        lowered[loop] = {variable(one.target) for one in ast.walk(loop) if isinstance(one, ast.AugAssign)}
    names = lowered[loop] | {history.name}
    compares = [one for one in ast.walk(loop.test) if isinstance(one, ast.Compare) and not _is_zero(one.comparators[0])]
    if not any(variable(part) in names for one in compares for part in ast.walk(one)):
        return None
    is_oldest = getattr(value, "value", None) in (0, 1) or (isinstance(value, ast.Slice) and value.lower is None)
    if binding.kind == "take" and (binding.operation in ("popleft", "remove") or is_oldest):
        return binding.node
    return value if binding.kind == "set" and isinstance(value, ast.Subscript) and _is_end(value.slice) else None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, 1)


def _has_slack(loop: ast.While, place: Place) -> bool:
    """Return whether the loop runs only from a higher mark on, down to a lower one."""

    def bounds(test: ast.expr) -> set[str]:
        found = [one.comparators for one in ast.walk(test) if isinstance(one, ast.Compare)]
        return {ast.unparse(bound) for group in found for bound in group}

    outer = [bounds(test) for test in place.tests() if _SIZE.search(ast.unparse(test))]
    is_lower = any(one and one.isdisjoint(bounds(loop.test)) for one in outer)
    return is_lower or _SLACK.search(ast.unparse(loop.test)) is not None


def _is_from_the_newest(analysis: Analysis, binding: Binding) -> bool:
    """Return whether the newest messages are kept that fit: `for message in reversed(messages): … if used > CAP: break`."""
    loop = next((one for one in binding.loops() if isinstance(one, ast.For)), None)
    call = loop.iter if loop is not None else None
    if loop is None or binding.operation not in ("insert", "append", "appendleft") or not isinstance(call, ast.Call):
        return False
    is_reversed = last_name(call.func) == "reversed" and call.args
    if not is_reversed or not analysis.knowledge.matches("history_name", variable(call.args[0]).rpartition(".")[2]):
        return False
    is_summed = any(isinstance(one, ast.AugAssign) and not isinstance(one.value, ast.Constant) for one in loop.body)
    tests = [
        one.test for one in loop.body if isinstance(one, ast.If) and any(isinstance(two, ast.Break) for two in one.body)
    ]
    greater = [one for test in tests for one in ast.walk(test) if isinstance(one, ast.Gt | ast.GtE)]
    return is_summed and bool(greater) and not any("role" in ast.unparse(test) for test in tests)


# Older messages
# ----------------------------------------------------------------------------------------------------------------------


def _cleared(history: _History) -> Iterator[ast.AST]:
    """Yield what replaces the content of all messages but the newest few, a boundary that moves with each turn."""
    for name, bindings in history.scope.bindings.items():
        for binding in bindings:
            if binding.kind == "item" and _CONTENT & set(binding.path) and _is_replacement(binding.value):
                loop = _loop_over_older(name, history, binding.at.place)
                around = [one for one, _ in binding.at.place.blocks]
                outside = around[: around.index(loop)] if loop is not None else []
                if loop is not None and not any(
                    isinstance(one, ast.If) and _SIZE.search(ast.unparse(one.test)) for one in outside
                ):
                    yield binding.node


def _is_replacement(value: ast.expr | None) -> bool:
    """Return whether a text is put in place of a content, rather than made of it."""
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id.isupper())


def _loop_over_older(name: str, history: _History, place: Place) -> ast.AST | None:
    """Return the loop over all but the newest messages that a name is the item of, None where there is none."""
    for binding in history.scope.bindings.get(name, ()):
        value = binding.value
        if binding.kind != "for" or value is None or not binding.at.place.is_around(place):
            continue
        if isinstance(value, ast.Name):  # `older = messages[:-6]`
            made = [one.value for one in history.scope.reaching(value.id, binding.at.place) if one.kind == "set"]
            value = made[0] if made and made[0] is not None else value
        bounds = value.slice if isinstance(value, ast.Subscript) and variable(value.value) == history.name else None
        if isinstance(bounds, ast.Slice) and bounds.upper is not None and bounds.lower is None:
            return binding.loops()[0]
        part = value.func if isinstance(value, ast.Call) else value
        inner = variable(part.value) if isinstance(part, ast.Subscript | ast.Attribute) else ""
        if inner and inner != name and (outer := _loop_over_older(inner, history, binding.at.place)) is not None:
            return outer
    return None
