"""A setting of a request that differs from call to call because a condition on the turn decides it.

Takes syntax and the names of a setting, gives where it is decided; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from contextkit.lint.rules.callsites import (
    as_keys,
    as_keywords,
    field,
    is_model_call,
    is_nothing,
    is_per_turn,
    keyword,
    last_name,
    statements,
    text_of,
    words_of,
)
from contextkit.lint.rules.marking import is_single_shot, resolved
from contextkit.lint.source import nodes as ast
from contextkit.lint.source import sinks
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

TURN = re.compile(
    r"(?:^|_)(?:steps?|turns?|iterations?|iter|attempts?|retr(?:y|ies)|rounds?|last|final|remaining|left|used|difficulty|complexity|complex|simple"
    r"|easy|hard|trivial|phase|stage|planning|escalat\w*|interactive|waiting|question|query)(?:_|$)",
    re.IGNORECASE,
)
"""Names of what differs between the turns of one conversation."""

_DEPTH = 3

_REQUEST = re.compile(
    r"(?:kwargs|(?:^|_)kw|params|parameters|request|payload|body|args|options|settings|call)$", re.IGNORECASE
)
"""Names of a request that is made step by step."""

_SAYS_MESSAGES = ("messages", "input", "contents", "history")
"""Where a call, or the dict of a request, holds the conversation."""

_TAKEN_IN = (None, "config")
"""How a call is given a dict of settings: spread out, or as Gemini's `config=`."""

_MOSTLY = frozenset({"output_config.effort", "reasoning.effort", "text.format"})
"""Parts that a mapping most likely differs in where nothing shows what it holds."""

_CONFIGS = frozenset({"GenerateContentConfig"})
"""Classes that hold the settings of one call."""

_READS = frozenset({ast.In, ast.NotIn, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE})
"""Comparisons with what a text says; `is None` asks only whether there is one."""

_VAGUE = frozenset({"text", "reasoning"})
"""Keys that other mappings have as well."""

_Named = ast.Name | ast.Attribute | ast.Subscript

_UNSEEN = ast.Pass()
"""What stands under the key of a mapping that is not written out."""

Unless = Callable[[str, ast.AST, View], bool]
"""Whether a setting of a name means nothing to the cache where it is given to a call, or stored."""


def passed(names: tuple[str, ...], message: str, holding: str = "", unless: Unless | None = None) -> Pattern:
    """A setting of any of these names that a call is given; `message` may hold `{source}`, the condition.

    `output_config.effort` is what stands under `effort` in a mapping `output_config`. With `holding` a text in the
    value has to hold it.
    """
    settings = _settings(names)
    find = partial(_passed, settings=settings, message=message, holding=holding, unless=unless)
    return Pattern((ast.Call,), find, as_keywords(*settings), is_near=True, names=tuple(settings))


def chosen(names: tuple[str, ...], message: str, unless: Unless | None = None) -> tuple[Pattern, ...]:
    """The same, and the setting in the dict of a request, written out or stored there step by step."""
    settings = _settings(names)
    stored, written = (
        Pattern(
            (kind,),
            partial(find, settings=settings, message=message, unless=unless),
            as_keys(*settings),
            is_near=True,
            names=tuple(settings),
        )
        for kind, find in ((ast.Assign, _stored), (ast.Dict, _written))
    )
    return passed(names, message, unless=unless), stored, written


def _settings(names: tuple[str, ...]) -> dict[str, str]:
    """Name of an argument → the key inside of its mapping, empty where the whole of it is meant."""
    return {name: key for name, _, key in (one.partition(".") for one in names)}


def _passed(
    node: ast.Call, view: View, *, settings: dict[str, str], message: str, holding: str, unless: Unless | None
) -> Iterator[Hit]:
    """`create(effort="low" if is_simple(step) else "high", messages=history)`."""
    given = [(one.arg, one.value) for one in node.keywords if one.arg in settings]
    if not given or not _asks(node, view):
        return
    for name, value in given:
        is_free = unless is not None and unless(name or "", node, view)
        is_meant = not is_free and (not holding or _holds(value, view, holding))
        cause = _cause(value, view, _DEPTH, _path(name, settings)) if is_meant else None
        if cause is not None:
            yield Hit(value, message.replace("{source}", f"`{_text(cause)}`"))


def _path(name: object, settings: dict[str, str]) -> str:
    """`output_config.effort`, or empty where the whole of a setting is meant."""
    key = settings[str(name)]
    return f"{name}.{key}" if key else ""


def _holds(node: ast.expr, view: View, text: str) -> bool:
    """Whether a text in an expression, or in what its variable is set to, holds another."""
    nodes = [node, *(_values(node.id, view) if isinstance(node, ast.Name) else ())]
    return any(text in word for one in nodes for word in words_of(one))


def _asks(node: ast.Call, view: View) -> bool:
    """Whether a call asks a model, makes what it is asked with, or is one that takes a history."""
    said, last = keyword(node, *_SAYS_MESSAGES), last_name(node.func)
    if said is not None and is_single_shot(said, view):
        return False
    if is_model_call(node, view):
        return True
    if last == "update" and isinstance(node.func, ast.Attribute):
        return is_per_turn(view) and _is_sent(node.func.value, view)
    is_about_turn = (said is not None and not last[:1].isupper()) or last in _CONFIGS or _binds(node, view)
    return is_about_turn and is_per_turn(view)


def _binds(node: ast.Call, view: View) -> bool:
    """`ChatAnthropic(…).bind_tools(TOOLS, tool_choice=…)`; what a choice means to another model's cache is not known."""
    name = view.dotted(node)
    return name.endswith(".bind_tools") and ("Anthropic" in name or "Bedrock" in name)


def _is_sent(holder: ast.expr, view: View) -> bool:
    """Whether a dict is a request that is made step by step: by its name, or since a call of a model is given it."""
    return bool(_REQUEST.search(last_name(holder))) or (isinstance(holder, ast.Name) and _is_given(holder.id, view))


def _is_given(name: str, view: View) -> bool:
    """`create(messages=history, **extra)`, `generate_content(config=extra)`."""
    function = view.function()
    calls = view.nodes(function, ast.Call) if function else ()
    taking = (call for call in calls for one in call.keywords if one.arg in _TAKEN_IN and last_name(one.value) == name)
    return any(_asks(call, view) for call in taking)


def _stored(
    node: ast.Assign, view: View, *, settings: dict[str, str], message: str, unless: Unless | None
) -> Iterator[Hit]:
    """`request["effort"] = "low"` below a condition on the turn, or chosen by one."""
    target, name = node.targets[0], last_name(node.targets[0])
    if not isinstance(target, ast.Subscript) or name not in settings or not _is_sent(target.value, view):
        return
    if (
        not is_per_turn(view)
        or (name in _VAGUE and not view.calls_model())
        or (unless is not None and unless(name, node, view))
    ):
        return
    path = _path(name, settings)
    cause = _cause(node.value, view, _DEPTH, path)
    is_settled = cause is not None or not _is_fixed(node.value) or not _tells_of(_under(node.value, path, view), path)
    above = (
        []
        if is_settled
        else [one.test for one in view.parents() if isinstance(one, ast.If) and _is_about_turn(one.test, view)]
    )
    found = cause or (above[-1] if above else None)
    if found is not None:
        yield Hit(node, message.replace("{source}", f"`{_text(found)}`"))


def _is_fixed(node: ast.expr) -> bool:
    """A literal, a constant, a class: that it is stored in one branch only makes the difference."""
    return isinstance(node, ast.Constant | ast.Dict) or (isinstance(node, ast.Name) and node.id[:1].isupper())


def _written(
    node: ast.Dict, view: View, *, settings: dict[str, str], message: str, unless: Unless | None
) -> Iterator[Hit]:
    """`{"messages": history, "reasoning_effort": "low" if is_simple(step) else "high"}`."""
    pairs = (
        (text_of(key), value)
        for key, value in zip(node.keys, node.values, strict=True)
        if not isinstance(value, ast.Constant)
    )
    given = [(name, value) for name, value in pairs if name in settings]
    if not given or not is_per_turn(view) or not _is_request(node, view):
        return
    for name, value in given:
        cause = (
            None
            if unless is not None and unless(name, node, view)
            else _cause(value, view, _DEPTH, _path(name, settings))
        )
        if cause is not None:
            yield Hit(value, message.replace("{source}", f"`{_text(cause)}`"))


def _is_request(node: ast.Dict, view: View) -> bool:
    """Whether a dict holds a running conversation, or is given to a call that does."""
    said = next((found for name in _SAYS_MESSAGES if (found := field(node, name)) is not None), None)
    if said is not None:
        return field(node, "role") is None and not is_single_shot(said, view)
    above = view.parents()[-1:]
    targets = [
        one for part in above if isinstance(part, ast.Assign) for one in part.targets if isinstance(one, ast.Name)
    ]
    return any(_is_given(one.id, view) for one in targets)


def cause_of(node: ast.expr, view: View) -> str:
    """What makes an expression differ from turn to turn, as it is written; empty where nothing does."""
    cause = _cause(node, view, _DEPTH)
    return "" if cause is None else _text(cause)


def _cause(node: ast.expr, view: View, depth: int, path: str = "") -> ast.expr | None:
    """The condition, or the name, that makes an expression, or what stands at a path in it, differ from turn to turn."""
    if isinstance(node, ast.IfExp):
        either = node.body, node.orelse
        is_decided = _is_about_turn(node.test, view) and _differ([_under(one, path, view) for one in either], path)
        return node.test if is_decided else _first(either, view, depth, path)
    if isinstance(node, ast.Name):
        return (
            (_in_branches(node.id, view, path) or _first(_values(node.id, view), view, depth - 1, path))
            if depth
            else None
        )
    if isinstance(node, ast.Dict):
        return _first([field(node, path.partition(".")[2])] if path else node.values, view, depth)
    if path and path not in _MOSTLY:
        return None
    if isinstance(node, ast.Call | ast.BinOp | ast.Subscript):
        return next((part for part in _said(node) if _is_turn(part)), None)
    return node if isinstance(node, ast.Compare) and _is_about_turn(node, view) else None


def _under(node: ast.expr, path: str, view: View) -> ast.AST | None:
    """What stands at a path in a mapping, None where nothing does; all of it without a path."""
    found = resolved(node, view)
    if not path:
        return found
    if isinstance(found, ast.Dict):
        return field(found, path.partition(".")[2])
    return None if found is not None and is_nothing(found) else _UNSEEN


def _tells_of(part: ast.AST | None, path: str) -> bool:
    """Whether something stands at a path, or most likely does."""
    return part is not None and (part is not _UNSEEN or path in _MOSTLY)


def _differ(parts: list[ast.AST | None], path: str) -> bool:
    """Whether what two mappings hold at a path may be different: of one that is not seen only where it most likely is
    that.
    """
    if _UNSEEN not in parts:
        return not path or len({part and ast.dump(part) for part in parts}) > 1
    return any(_tells_of(part, path) for part in parts)


def _is_about_turn(test: ast.expr, view: View) -> bool:
    """Whether a condition looks at something that differs between turns; a text it compares with is not looked at."""
    if (
        any(map(_is_turn, _said(test)))
        or reads_history(test)
        or _reads_what_was_said(test, view)
        or _counts_turns(test, view)
    ):
        return True
    asked = test.operand if isinstance(test, ast.UnaryOp) else test
    found = _values(asked.id, view) if isinstance(asked, ast.Name) else []
    return any(_is_about_turn(one, view) for one in found if isinstance(one, ast.Compare))


def _counts_turns(test: ast.expr, view: View) -> bool:
    """`i == 4`, where `i` counts the turns of a conversation's loop."""
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    return any(isinstance(side, ast.Name) and "counter" in view.kinds(side) for side in sides)


def _reads_what_was_said(test: ast.expr, view: View) -> bool:
    """`"think" in text`, `len(text) > 200`, `is_hard(text)` of what the user said.

    Whether anything was is another question.
    """
    asking = [
        part
        for part in walk(test)
        if isinstance(part, ast.Call) or (isinstance(part, ast.Compare) and type(part.ops[0]) in _READS)
    ]
    return any(isinstance(name, ast.Name) and "user" in view.kinds(name) for part in asking for name in _said(part))


def reads_history(test: ast.expr) -> bool:
    """Whether a condition asks how long the history is, or what its newest message says: `len(messages) > 10`,
    `messages[-1]["role"]`.
    """
    return any(sinks.HISTORY.match(last_name(one)) is not None for part in walk(test) for one in _asked_of(part))


def _asked_of(part: ast.AST) -> list[ast.expr]:
    if isinstance(part, ast.Call) and last_name(part.func) == "len":
        return part.args[:1]
    return [part.value] if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.UnaryOp) else []


def _said(node: ast.AST) -> Iterator[_Named]:
    """The names, attributes and keys in an expression, without what they are taken of: `step.agent` is an agent, no
    step.
    """
    parts = [part for part in walk(node) if isinstance(part, _Named) and last_name(part)]
    holders = {id(part.value) for part in parts if not isinstance(part, ast.Name)}
    return (part for part in parts if id(part) not in holders)


def _is_turn(node: _Named) -> bool:
    return bool(TURN.search(last_name(node)))


def _first(nodes: Sequence[ast.expr | None], view: View, depth: int, path: str = "") -> ast.expr | None:
    found = (_cause(one, view, depth, path) for one in nodes if one is not None)
    return next((one for one in found if one is not None), None)


def _assigned(view: View) -> Iterator[ast.Assign]:
    function = view.function()
    return (one for one in statements(function.body) if isinstance(one, ast.Assign)) if function else iter(())


def _values(name: str, view: View) -> list[ast.expr]:
    """What the function around assigns to a variable."""
    return [
        one.value
        for one in _assigned(view)
        if any(isinstance(target, ast.Name) and target.id == name for target in one.targets)
    ]


def _in_branches(name: str, view: View, path: str) -> ast.expr | None:
    """The condition on the turn below which the function around sets a variable."""
    function = view.function()
    inside = statements(function.body) if function else iter(())
    for branch in (one for one in inside if isinstance(one, ast.If) and _is_about_turn(one.test, view)):
        for one in statements(branch.body):
            is_set = isinstance(one, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == name for target in one.targets
            )
            if is_set and isinstance(one, ast.Assign) and _tells_of(_under(one.value, path, view), path):
                return branch.test
    return None


def _text(node: ast.expr) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
