"""Source rules of CKS13 mid-system-inlined."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import FUNCTIONS, IN_HISTORY, AnyFunction, messages_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk, way_to

_ASIDE = re.compile(r"(?:^|_)(?:state|evidence|judge\w*|classif\w*|summar\w*|titles?)$")
"""Functions that make what is asked about a conversation, outside of it."""

_IN_TESTS: tuple[str, ...] = tuple(f'{equals}"system"' for equals in ("==", "== ")) + tuple(
    f'"system"{equals}' for equals in ("==", " ==")
)

_IN_TESTS += (*(text.replace('"', "'") for text in _IN_TESTS), ", SystemMessage)")

_FRONT = re.compile(r"system|instruction|preamble", re.IGNORECASE)
"""Names of what stands in front."""

_SHOWS = frozenset(
    [
        "print",
        "pprint",
        "echo",
        "log",
        "write",
        "debug",
        "info",
        "warning",
        "error",
        "len",
        "hash",
        "sha256",
        "md5",
        "encode",
        "count_tokens",
        "num_tokens",
    ]
)
"""Functions that show a text to people, or measure it."""

_JOINED = "messages of the role system are joined from wherever they stand: each new one rewrites the front"

_ADDED = "a system message is added to the text in front, wherever it stands: each new one rewrites the front"


def _hoisted(function: AnyFunction, view: View) -> Iterator[Hit]:
    """All messages of the role system, joined into one text or list of blocks."""
    names = {} if _ASIDE.search(function.name) else messages_of(function, view)
    if not names:
        return
    joins = [call for call in view.nodes(function, ast.Call) if last_name(call.func) == "join"]
    for call in joins:
        if any(_is_system(test, names) for test in _tests(call)) and not _is_displayed(call, function):
            yield Hit(call, _JOINED)
    for blocks in _lists_in_front(function, view):
        if any(_is_system(test, names) for loop in blocks.generators for test in loop.ifs) and isinstance(
            blocks.elt, ast.Dict
        ):
            yield Hit(blocks, _JOINED)
    lists = {last_name(call.args[0]) for call in joins if call.args and _is_sent(call, function, view)}
    for node in view.nodes(function, ast.If):
        if _is_system(node.test, names) and not any(isinstance(part, ast.Break | ast.Raise) for part in walk(node)):
            yield from (Hit(part, _ADDED) for part in node.body if _adds(part, lists))


def _lists_in_front(function: AnyFunction, view: View) -> Iterator[ast.ListComp]:
    """Lists that are stored under the name of what stands in front, or handed over as that."""
    stored = [(last_name(node.targets[0]), node.value) for node in view.nodes(function, ast.Assign)]
    given = [(node.arg or "", node.value) for node in view.nodes(function, ast.keyword)]
    for name, value in (*stored, *given):
        if isinstance(value, ast.ListComp) and _FRONT.search(name):
            yield value


def _is_displayed(call: ast.Call, function: AnyFunction) -> bool:
    """Whether the text goes to people, or is measured, and to no model."""
    around = way_to(call, call.lineno, function, True)
    return any(isinstance(node, ast.Call) and last_name(node.func).lower() in _SHOWS for node in around)


def _is_sent(call: ast.Call, function: AnyFunction, view: View) -> bool:
    """Whether a text is given back, or handed over as what stands in front, at once or by its name."""
    around = way_to(call, call.lineno, function, True)
    stored = {last_name(target) for node in around if isinstance(node, ast.Assign) for target in node.targets}
    given = [node for node in view.nodes(function, ast.keyword) if _FRONT.search(node.arg or "")]
    sent: list[ast.AST] = [*view.nodes(function, ast.Return), *given]
    return any(node in sent for node in around) or any(
        last_name(part) in stored for node in sent for part in walk(node) if stored
    )


def _tests(join: ast.Call) -> list[ast.expr]:
    """The conditions of what is joined."""
    given = join.args[0] if join.args else None
    return (
        [test for loop in given.generators for test in loop.ifs]
        if isinstance(given, ast.ListComp | ast.GeneratorExp)
        else []
    )


def _is_system(test: ast.expr, names: dict[str, bool]) -> bool:
    """`message["role"] == "system"`, `isinstance(message, SystemMessage)`."""
    if isinstance(test, ast.Call) and last_name(test.func) == "isinstance" and len(test.args) == 2:
        return last_name(test.args[1]) == "SystemMessage" and last_name(test.args[0]) in names
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) else []
    is_role = any(isinstance(side, ast.Constant) and side.value == "system" for side in sides)
    return is_role and any(isinstance(part, ast.Name) and part.id in names for part in walk(test))


def _adds(node: ast.stmt, lists: set[str]) -> bool:
    """`system += …`, or `parts.append(…)` of what is joined in the end; by their names they are what stands in front."""
    if isinstance(node, ast.AugAssign):
        return (
            isinstance(node.value, ast.Subscript | ast.Attribute | ast.BinOp)
            and "system" in last_name(node.target).lower()
        )
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        return False
    held = last_name(call.func.value)
    return (
        held in lists
        and bool(_FRONT.search(held))
        and isinstance(call.args[0], ast.Subscript | ast.Attribute | ast.Call)
    )


SOURCE = (Pattern(FUNCTIONS, _hoisted, _IN_TESTS, is_near=True, also=(IN_HISTORY,)),)
