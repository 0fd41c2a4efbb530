"""A setting of a request that differs from call to call because a condition on the turn decides it.

Takes syntax and the names of a setting, gives where it is decided; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from contextkit.lint.rules.callsites import as_keys, as_keywords, is_model_call, is_per_turn, last_name, statements, words_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import walk
from contextkit.lint.source.tables import sinks

TURN = re.compile(
    r"(?:^|_)(?:steps?|turns?|iterations?|iter|attempts?|retr(?:y|ies)|rounds?|last|final|remaining|left|used|difficulty|complexity|complex|simple"
    r"|easy|hard|trivial|phase|stage|planning|escalat\w*|interactive|waiting|question|query)(?:_|$)", re.IGNORECASE,
)  # fmt: skip
"""Names of what differs between the turns of one conversation."""
_DEPTH = 3
_REQUEST = re.compile(r"(?:kwargs|params|parameters|request|payload|body|args|options|settings|call)$", re.IGNORECASE)
"""Names of a request that is made step by step."""
_READS = frozenset({ast.In, ast.NotIn, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE})
"""Comparisons with what a text says; `is None` asks only whether there is one."""
_VAGUE = frozenset({"text", "reasoning"})
"""Keys that other mappings have as well."""


def passed(names: tuple[str, ...], message: str, holding: str = "") -> Pattern:
    """A setting of any of these names that a call is given; `message` may hold `{source}`, the condition.

    With `holding` a text in the value has to hold it.
    """
    find = partial(_passed, names=names, message=message, holding=holding)
    return Pattern((ast.Call,), find, as_keywords(*names), is_near=True, names=names)


def chosen(names: tuple[str, ...], message: str) -> tuple[Pattern, ...]:
    """The same, and the setting stored in a request that is made step by step."""
    stored = Pattern((ast.Assign,), partial(_stored, names=names, message=message), as_keys(*names), is_near=True, names=names)
    return passed(names, message), stored


def _passed(node: ast.Call, view: View, *, names: tuple[str, ...], message: str, holding: str) -> Iterator[Hit]:
    """`create(effort="low" if is_simple(step) else "high", messages=history)`."""
    given = [one for one in node.keywords if one.arg in names]
    if not given or not _asks(node, view):
        return
    for one in given:
        cause = _cause(one.value, view, _DEPTH) if not holding or _holds(one.value, view, holding) else None
        if cause is not None:
            yield Hit(one.value, message.replace("{source}", f"`{_text(cause)}`"))


def _holds(node: ast.expr, view: View, text: str) -> bool:
    """Whether a text in an expression, or in what its variable is set to, holds another."""
    nodes = [node, *(_values(node.id, view) if isinstance(node, ast.Name) else ())]
    return any(text in word for one in nodes for word in words_of(one))


def _asks(node: ast.Call, view: View) -> bool:
    """Whether a call asks a model, or is one that takes a history."""
    takes = any(one.arg in ("messages", "input", "contents", "history") for one in node.keywords)
    return is_model_call(node, view) or (takes and is_per_turn(view) and not last_name(node.func)[:1].isupper())


def _stored(node: ast.Assign, view: View, *, names: tuple[str, ...], message: str) -> Iterator[Hit]:
    """`request["effort"] = "low"` below a condition on the turn, or chosen by one."""
    target = node.targets[0]
    if not isinstance(target, ast.Subscript) or last_name(target) not in names or not _REQUEST.search(last_name(target.value)):
        return
    if not is_per_turn(view) or (last_name(target) in _VAGUE and not view.calls_model()):
        return
    cause = _cause(node.value, view, _DEPTH)
    is_settled = cause is not None or not isinstance(node.value, ast.Constant | ast.Dict)
    above = [] if is_settled else [one.test for one in view.parents() if isinstance(one, ast.If) and _is_about_turn(one.test, view)]
    found = cause or (above[-1] if above else None)
    if found is not None:
        yield Hit(node, message.replace("{source}", f"`{_text(found)}`"))


def _cause(node: ast.expr, view: View, depth: int) -> ast.expr | None:
    """The condition, or the name, that makes an expression differ from turn to turn."""
    if isinstance(node, ast.IfExp):
        return node.test if _is_about_turn(node.test, view) else _first((node.body, node.orelse), view, depth)
    if isinstance(node, ast.Name):
        return (_in_branches(node.id, view) or _first(_values(node.id, view), view, depth - 1)) if depth else None
    if isinstance(node, ast.Dict):
        return _first(node.values, view, depth)
    if isinstance(node, ast.Call | ast.BinOp | ast.Subscript):
        return next((part for part in _said(node) if _is_turn(part)), None)
    return None


def _is_about_turn(test: ast.expr, view: View) -> bool:
    """Whether a condition looks at something that differs between turns; a text it compares with is not looked at."""
    return any(map(_is_turn, _said(test))) or reads_history(test) or _reads_what_was_said(test, view) or _counts_turns(test, view)


def _counts_turns(test: ast.expr, view: View) -> bool:
    """`i == 4`, where `i` counts the turns of a conversation's loop."""
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    return any(isinstance(side, ast.Name) and "counter" in view.kinds(side) for side in sides)


def _reads_what_was_said(test: ast.expr, view: View) -> bool:
    """`"think" in text`, `len(text) > 200`, `is_hard(text)` of what the user said; whether anything was is another question."""
    asking = [part for part in walk(test) if isinstance(part, ast.Call) or (isinstance(part, ast.Compare) and type(part.ops[0]) in _READS)]
    return any(isinstance(name, ast.Name) and "user" in view.kinds(name) for part in asking for name in _said(part))


def reads_history(test: ast.expr) -> bool:
    """Whether a condition asks how long the history is, or what its newest message says: `len(messages) > 10`, `messages[-1]["role"]`."""
    return any(sinks.HISTORY.match(last_name(one)) is not None for part in walk(test) for one in _asked_of(part))


def _asked_of(part: ast.AST) -> list[ast.expr]:
    if isinstance(part, ast.Call) and last_name(part.func) == "len":
        return part.args[:1]
    return [part.value] if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.UnaryOp) else []


def _said(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """The names and attributes in an expression, without what an attribute is taken of: `step.agent` is an agent, no step."""
    parts = [*walk(node)]
    holders = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
    return (part for part in parts if isinstance(part, ast.Name | ast.Attribute) and id(part) not in holders)


def _is_turn(node: ast.Name | ast.Attribute) -> bool:
    return bool(TURN.search(last_name(node)))


def _first(nodes: object, view: View, depth: int) -> ast.expr | None:
    found = (_cause(one, view, depth) for one in nodes if isinstance(one, ast.expr)) if isinstance(nodes, list | tuple) else iter(())
    return next((one for one in found if one is not None), None)


def _assigned(view: View) -> Iterator[ast.Assign]:
    function = view.function()
    return (one for one in statements(function.body) if isinstance(one, ast.Assign)) if function else iter(())


def _values(name: str, view: View) -> list[ast.expr]:
    """What the function around assigns to a variable."""
    return [one.value for one in _assigned(view) if any(isinstance(target, ast.Name) and target.id == name for target in one.targets)]


def _in_branches(name: str, view: View) -> ast.expr | None:
    """The condition on the turn below which the function around sets a variable."""
    function = view.function()
    inside = statements(function.body) if function else iter(())
    for branch in (one for one in inside if isinstance(one, ast.If) and _is_about_turn(one.test, view)):
        for one in statements(branch.body):
            if isinstance(one, ast.Assign) and any(isinstance(target, ast.Name) and target.id == name for target in one.targets):
                return branch.test
    return None


def _text(node: ast.expr) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
