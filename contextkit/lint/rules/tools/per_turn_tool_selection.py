"""Source rules of CKT03 per-turn-tool-selection."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import is_nothing, last_name
from contextkit.lint.rules.marking import is_single_shot
from contextkit.lint.rules.syntax import AnyFunction, keyword, model_calls
from contextkit.lint.source import sources
from contextkit.lint.source.rule import Flow, Hit, Kind, Pattern, View
from contextkit.lint.source.syntax import walk

_SELECTS = re.compile(
    r"^_*(?:a_?)?(?:select|filter|retrieve|choose|pick|route|rank|get_relevant|find_relevant)_(?:\w+_)?tools(?:_for_\w+|_by_query)?$"
)

_SEARCHES = re.compile(
    r"(?:^|_)(?:search|query|retrieve|find|match|lookup|relevant|similar|top_k|rank|recommend|suggest)(?:_|$)"
)

_OTHERS = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_CHANGES = frozenset({"append", "extend", "insert", "remove", "pop", "clear"})

_STEPS = 4
"""Assignments between what is chosen and what is sent, at most."""

_ASKED = re.compile(r"query|question|prompt|message|input|intent|task|text|turn", re.IGNORECASE)

_HEARD: frozenset[Kind] = frozenset({"user", "recall"})


def _selected(node: ast.Call, view: View) -> Iterator[Hit]:
    """`select_tools(question)` in the function that asks the model."""
    if not _SELECTS.match(last_name(node.func)) or not view.calls_model():
        return
    given = [*node.args, *(one.value for one in node.keywords)]
    if any(_ASKED.search(last_name(part)) for value in given for part in walk(value)):
        yield Hit(node, f"`{last_name(node.func)}` chooses the tools anew for each request")


def _found(node: ast.Assign, view: View) -> Iterator[Hit]:
    """`tools = index.search(messages[-1]["content"], k=5)`."""
    calls = [part for part in walk(node.value) if isinstance(part, ast.Call) and _searches(part, view)]
    if not calls or not _is_sent(node.targets[0], view):
        return
    for call in calls:
        given = [*call.args, *(one.value for one in call.keywords)]
        if any(_is_newest_item(part, view) for value in given for part in walk(value)) or any(
            view.kinds(one) & _HEARD for one in given
        ):
            yield Hit(call, f"`{last_name(call.func)}` finds the tools anew by what was said last")
            return


def _searches(call: ast.Call, view: View) -> bool:
    """`index.search(…)`, `retriever.invoke(…)`."""
    name = last_name(call.func)
    return bool(_SEARCHES.search(name)) or (name in sources.RETRIEVER_METHODS and "recall" in view.kinds(call))


def _is_sent(target: ast.expr, view: View) -> bool:
    """Whether the function gives it to a model as its tools, with a conversation."""
    function = view.function()
    for call in model_calls(function, view) if function is not None else []:
        tools, messages = keyword(call, "tools"), keyword(call, "messages", "input", "contents")
        if (
            tools is not None
            and ast.unparse(tools) == ast.unparse(target)
            and messages is not None
            and not is_single_shot(messages, view)
        ):
            return True
    return False


def _matching(node: ast.ListComp, view: View) -> Iterator[Hit]:
    """`[tool for tool in TOOLS if word in question]`; a call in the condition is followed by the flow."""
    looked_at = [part for clause in node.generators for test in clause.ifs for part in _looked_at(test)]
    if not looked_at or not view.is_tools(node.generators[0].iter):
        return
    parts = [part for part in looked_at if isinstance(part, ast.Name | ast.Attribute)]
    heard = [part for part in parts if view.kinds(part) & _HEARD or _is_newest(part, view)]
    if heard and view.calls_model() and not _is_for_another_use(node, view):
        yield Hit(node, f"the tools sent depend on `{last_name(heard[0])}`, so every turn may send others")


def _looked_at(test: ast.expr) -> list[ast.AST]:
    """What a comparison looks at, and in `any(word in question.lower() for …)` that whose method is called, which no
    flow sees.
    """
    if isinstance(test, ast.Call) and last_name(test.func) in ("any", "all"):
        calls = (part.func for part in walk(test) if isinstance(part, ast.Call))
        return [func.value for func in calls if isinstance(func, ast.Attribute)]
    return walk(test) if isinstance(test, ast.Compare) else []


def _is_for_another_use(node: ast.ListComp, view: View) -> bool:
    """Whether the function sends tools, and the variable it is kept in is no part of them: `hints = [t["name"] for t in
    TOOLS …]`.
    """
    above, function = view.parents()[-1], view.function()
    name = above.targets[0] if isinstance(above, ast.Assign) else None
    if not isinstance(name, ast.Name) or function is None:
        return False
    sent = [one.value for call in view.nodes(function, ast.Call) for one in call.keywords if one.arg == "tools"]
    return bool(sent) and name.id not in _made_of(sent, function, view)


def _made_of(sent: list[ast.expr], function: AnyFunction, view: View) -> set[str]:
    """The variables of which some expressions are made, through what the function stores and adds."""
    found = {part.id for value in sent for part in walk(value) if isinstance(part, ast.Name)}
    stored = [(last_name(one.targets[0]), one.value) for one in view.nodes(function, ast.Assign)]
    stored += [(last_name(one.target), one.value) for one in view.nodes(function, ast.AugAssign)]
    calls = [
        one
        for one in view.nodes(function, ast.Call)
        if isinstance(one.func, ast.Attribute) and one.func.attr in _CHANGES
    ]
    stored += [
        (last_name(one.func.value), part) for one in calls if isinstance(one.func, ast.Attribute) for part in one.args
    ]
    for _ in range(_STEPS):
        found |= {
            part.id for name, value in stored if name in found for part in walk(value) if isinstance(part, ast.Name)
        }
    return found


def _changed(loop: ast.For | ast.AsyncFor | ast.While, view: View) -> Iterator[Hit]:
    """`tools.append(new)` and `tools = tools + [new]` in the loop that sends them."""
    given = [one.value for call in model_calls(loop, view) for one in call.keywords if one.arg == "tools"]
    names = {ast.unparse(value) for value in given if isinstance(value, ast.Name | ast.Attribute)}
    for statement, is_chosen in _steps(loop.body) if names else ():
        changed = _list_that_changes(statement, is_chosen)
        if changed is not None and (name := ast.unparse(changed)) in names:
            yield Hit(
                statement,
                f"`{name}` changes in the loop that sends it, and each change rewrites all that was said so far",
            )


def _steps(body: list[ast.stmt], is_chosen: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements of a loop, those of loops and functions inside it left out, and whether a condition decides on
    each.
    """
    for statement in body:
        yield statement, is_chosen
        if not isinstance(statement, _OTHERS):
            inner = [*(getattr(statement, name, []) for name in ("body", "orelse", "finalbody"))]
            inner += [handler.body for handler in getattr(statement, "handlers", [])]
            for block in inner:
                yield from _steps(block, is_chosen or isinstance(statement, ast.If))


def _list_that_changes(node: ast.stmt, is_chosen: bool) -> ast.expr | None:
    """What a statement adds to, takes from, or sets anew below a condition."""
    if isinstance(node, ast.AugAssign):
        return node.target
    if isinstance(node, ast.Expr):
        func = node.value.func if isinstance(node.value, ast.Call) else None
        return func.value if isinstance(func, ast.Attribute) and func.attr in _CHANGES else None
    if not isinstance(node, ast.Assign):
        return None
    target = node.targets[0]
    is_of_itself = any(
        ast.unparse(part) == ast.unparse(target) for part in walk(node.value) if isinstance(part, type(target))
    )
    is_taken_away = is_nothing(node.value) or isinstance(node.value, ast.IfExp)  # CKT04
    return target if (is_of_itself or is_chosen) and not is_taken_away else None


def _is_newest(part: ast.Name | ast.Attribute, view: View) -> bool:
    """Whether it holds what was said last: `question = messages[-1]["content"]`."""
    function = view.function()
    stored = view.nodes(function, ast.Assign) if function is not None and isinstance(part, ast.Name) else ()
    values = [
        one.value for one in stored if isinstance(one, ast.Assign) and last_name(one.targets[0]) == last_name(part)
    ]
    return any(_is_newest_item(item, view) for value in values for item in walk(value))


def _is_newest_item(node: ast.AST, view: View) -> bool:
    """`messages[-1]`."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.UnaryOp) and view.is_history(node.value)


SOURCE = (
    Flow(("user", "recall"), ("tools",), "the tools sent depend on {source}, so every turn may send others"),
    Pattern((ast.Call,), _selected, ("_tools(", "_tools_for", "_tools_by"), is_near=True),
    Pattern((ast.While, ast.For, ast.AsyncFor), _changed, ("tools=", "tools ="), is_near=True),
    Pattern((ast.Assign,), _found, ("tools =", "tools="), is_near=True),
    Pattern((ast.ListComp,), _matching, ("tools", "TOOLS")),
)
