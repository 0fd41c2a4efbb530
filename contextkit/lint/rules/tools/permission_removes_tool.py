"""Source rules of CKT11 permission-removes-tool."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import (
    as_keywords,
    is_nothing,
    is_per_turn,
    keyword,
    last_name,
    mentions,
    statements,
    text_of,
)
from contextkit.lint.source import sinks
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import AnyFunction, functions_in, walk

_RULES = re.compile(
    r"^_*(?:\w+_)?(?:modes?|permissions?|roles?|read_?only|is_allowed|allows|allowed(?:_\w+)?|denied(?:_\w+)?|blocked(?:_\w+)?|disallowed(?:_\w+)?"
    r"|polic(?:y|ies)|is_permitted|can_use\w*|authorized|deny(?:_\w+)?)$"
)

_OF_TOOLS = re.compile(r"(?:^|_)(?:tools?|toolsets?)(?:_|$)", re.IGNORECASE)
"""Names of a table of tools, or of a function that gives them."""

_LEFT_OUT = re.compile(r"^_*(?:dropped|removed|missing|denied|blocked|hidden|unknown|skipped)_")

_MODES = re.compile(
    r"^_*(?:\w+_)?(?:(?:plan|ask|read_?only|agent|permission|chat|edit)_mode|mode|read_only|is_planning)$"
)

_MESSAGE = "a mode or permission takes tools out of the request, and with them the whole prefix"

_PLANS = frozenset(
    {
        "plan",
        "planning",
        "ask",
        "read",
        "read_only",
        "readonly",
        "read-only",
        "act",
        "edit",
        "chat",
        "safe",
        "review",
        "architect",
    }
)
"""Modes of an agent that has fewer tools in one of them."""

_IN_MODES = ("mode", "read_only", "is_planning")
"""One of these stands in each name that `_MODES` matches."""


def _filtered(node: ast.ListComp | ast.GeneratorExp, view: View) -> Iterator[Hit]:
    """`[tool for tool in tools if mode.allows(tool)]` where the request is made."""
    conditions = [test for clause in node.generators for test in clause.ifs if mentions(test, _RULES)]
    if (
        conditions
        and view.is_tools(node.generators[0].iter)
        and is_per_turn(view)
        and not all(map(view.is_constant, conditions))
    ):
        yield Hit(node, _MESSAGE)


def _branch(node: ast.If, view: View) -> Iterator[Hit]:
    """`if plan_mode: tools = READ_ONLY_TOOLS`."""
    if (
        not any(_MODES.match(last_name(part)) for part in walk(node.test))
        or view.is_constant(node.test)
        or not is_per_turn(view)
    ):
        return
    for statement in statements(node.body):
        is_text = isinstance(statement, ast.Assign) and last_name(
            getattr(statement.value, "func", statement.value)
        ) in ("join", "getattr")
        targets = statement.targets if isinstance(statement, ast.Assign) and not is_text else []
        if any(_is_toolset(target) and _is_replaced(target, node, view) for target in targets):
            yield Hit(statement, _MESSAGE)


def _choice(node: ast.IfExp, view: View) -> Iterator[Hit]:
    """`tools = READ_ONLY_TOOLS if plan_mode else TOOLS`."""
    above = view.parents()[-1]
    is_given = isinstance(above, ast.keyword) and above.arg == "tools"
    if not is_given and not (isinstance(above, ast.Assign) and any(map(_is_toolset, above.targets))):
        return
    is_of_mode = any(map(_is_mode, walk(node.test))) and not view.is_constant(node.test)
    if is_of_mode and not is_nothing(node.body) and not is_nothing(node.orelse) and is_per_turn(view):
        yield Hit(node, _MESSAGE)


def _is_mode(part: ast.AST) -> bool:
    """`plan_mode`, `state.mode == "plan"`: a mode of another kind, of a wire or an output, takes nothing away."""
    if isinstance(part, ast.Compare):
        sides = [part.left, *part.comparators]
        said = {side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)}
        return bool(said & _PLANS) and any(last_name(side) == "mode" for side in sides)
    return last_name(part) != "mode" and bool(_MODES.match(last_name(part)))


def _given(node: ast.Call | ast.Assign, view: View) -> Iterator[Hit]:
    """`create(tools=tools_for(session.mode), …)`, `tools = TOOLS_BY_MODE[mode]`."""
    is_kept = isinstance(node, ast.Assign) and any(map(_is_toolset, node.targets))
    tools = keyword(node, "tools") if isinstance(node, ast.Call) else node.value if is_kept else None
    mode = _mode_given(tools, view) if tools is not None else None
    if tools is not None and mode is not None and not view.is_constant(mode) and is_per_turn(view):
        yield Hit(tools, _MESSAGE)


def _mode_given(tools: ast.expr, view: View) -> ast.expr | None:
    """The mode that a table of tools is asked for, or a function of this file that chooses tools by it."""
    if isinstance(tools, ast.Subscript):
        is_table = _OF_TOOLS.search(last_name(tools.value)) and _MODES.match(last_name(tools.slice))
        return tools.slice if is_table and not isinstance(tools.slice, ast.Constant) else None
    if not isinstance(tools, ast.Call) or not _OF_TOOLS.search(last_name(tools.func)):
        return None
    given = [*enumerate(tools.args), *((one.arg, one.value) for one in tools.keywords)]
    modes = [(place, value) for place, value in given if _MODES.match(last_name(value))]
    known = [one for one in functions_in(view.parents()[0]) if one.name == last_name(tools.func)] if modes else []
    return next((value for one in known for place, value in modes if _chooses(one, _name_at(one, place))), None)


def _name_at(function: AnyFunction, place: int | str | None) -> str:
    """The parameter that a position or a keyword of a call is."""
    named = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args) if argument.arg != "self"]
    return "".join(named[place : place + 1]) if isinstance(place, int) else place or ""


def _chooses(function: AnyFunction, mode: str) -> bool:
    """Whether a function leaves out tools by a parameter, or asks whether it is the mode of an agent that has fewer."""
    for part in walk(function):
        if isinstance(part, ast.comprehension) and sinks.TOOLS.match(last_name(part.iter)):
            if any(_is_named(inner, mode) for test in part.ifs for inner in walk(test)):
                return True
        elif (
            isinstance(part, ast.Compare | ast.Match)
            and any(_is_named(side, mode) for side in _sides(part))
            and _said(part) & _PLANS
        ):
            return True
    return False


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _sides(node: ast.Compare | ast.Match) -> list[ast.expr]:
    return [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.subject]


def _said(node: ast.Compare | ast.Match) -> set[str]:
    """The texts that something is compared with."""
    parts = [node] if isinstance(node, ast.Compare) else [case.pattern for case in node.cases]
    return {text for part in parts for inner in walk(part) if (text := text_of(inner))}


def _is_replaced(target: ast.expr, branch: ast.If, view: View) -> bool:
    """Whether the variable has another value outside of the branch: one that only the branch knows is no part of every
    request.
    """
    function = view.function()
    if function is None or not isinstance(target, ast.Name):
        return False
    inside = {id(part) for statement in branch.body for part in walk(statement)}
    stored = (
        part
        for part in walk(function)
        if isinstance(part, ast.Name) and part.id == target.id and isinstance(part.ctx, ast.Store)
    )
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return any(id(part) not in inside for part in stored) or any(argument.arg == target.id for argument in arguments)


def _is_toolset(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and bool(sinks.TOOLS.match(node.id)) and not _LEFT_OUT.match(node.id)


SOURCE = (
    Pattern((ast.ListComp, ast.GeneratorExp), _filtered, ("tools",)),
    Pattern((ast.If,), _branch, ("tools",), is_near=True, tested=(_IN_MODES,)),
    Pattern((ast.IfExp,), _choice, ("tools",), tested=(_IN_MODES,)),
    Pattern((ast.Call,), _given, _IN_MODES, is_near=True, also=(as_keywords("tools"),), names=("tools",)),
    Pattern((ast.Assign,), _given, _IN_MODES, is_near=True, also=(("tools", "TOOLS"),)),
)
