"""Source rules of CKM11 parallel-result-order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import AnyFunction, text_in, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name

_TOOLS = re.compile(
    r"tool_?calls?|tool_uses?|tools?_(?:in_)?parallel|(?:run|execute|call|invoke)_\w*tools?",
    re.IGNORECASE,
)

_SORTS = frozenset({"sorted", "sort"})


def _as_completed(loop: ast.For | ast.AsyncFor, view: View) -> Iterator[Hit]:
    """Results of tools are appended in the order in which they come."""
    function = view.function()
    if not _is_call_of(loop.iter, "as_completed") or function is None:
        return
    yield from _kept(loop, function, view)


def _first_done(loop: ast.For, view: View) -> Iterator[Hit]:
    """The same of those that a wait for the first gives: each round a few of them."""
    function = view.function()
    if isinstance(loop.iter, ast.Name) and function is not None and _is_done(loop.iter, view):
        yield from _kept(loop, function, view)


def _kept(loop: ast.For | ast.AsyncFor, function: AnyFunction, view: View) -> Iterator[Hit]:
    appends = [node for node in view.nodes(loop, ast.Call) if last_name(node.func) in ("append", "extend")]
    is_sorted = any(last_name(node.func) in _SORTS for node in view.nodes(function, ast.Call))
    if not is_sorted and any(_is_of_tools(function.name, one, view) and _is_plain(one) for one in appends[:1]):
        yield Hit(
            loop.iter, "results of tools are kept in the order in which they came, which is another one each time"
        )


def _is_call_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == name


def _is_done(node: ast.expr, view: View) -> bool:
    """`done` of `done, pending = await asyncio.wait(tasks, …)`: a set of those that came first."""
    function = view.function()
    stored = (
        [one for one in view.nodes(function, ast.Assign) if isinstance(one.targets[0], ast.Tuple)] if function else []
    )
    waits = [one for one in stored if isinstance(one.value, ast.Await) and _is_for_the_first(one.value.value)]
    firsts = [part for one in waits for part in one.targets[0].elts[:1]]  # type: ignore[attr-defined]
    return isinstance(node, ast.Name) and any(last_name(part) == node.id for part in firsts)


def _is_for_the_first(node: ast.expr) -> bool:
    """`asyncio.wait(tasks, return_when=FIRST_COMPLETED)`."""
    given = [one.value for one in node.keywords if one.arg == "return_when"] if isinstance(node, ast.Call) else []
    return _is_call_of(node, "wait") and any("FIRST_COMPLETED" in (last_name(value), text_in(value)) for value in given)


_STARTS = frozenset({"create_task", "ensure_future", "submit", "start_soon"})

_RESULTS = re.compile(r"^(?:tool_)?(?:results|outputs|responses)$")


def _shared(call: ast.Call, view: View) -> Iterator[Hit]:
    """`create_task(run(tool, results))` for each tool: whichever is done first is first in the list."""
    if last_name(call.func) not in _STARTS or not call.args:
        return
    started = call.args[0]
    given = started.args if isinstance(started, ast.Call) else call.args[1:]
    shared = next((one for one in given if isinstance(one, ast.Name) and _RESULTS.match(one.id)), None)
    function = view.function()
    if (
        shared is None
        or function is None
        or not _TOOLS.search(f"{function.name} {words_in(call)} {words_in(function.args)}")
    ):
        return
    if view.loop() is not None or any(isinstance(above, ast.ListComp | ast.GeneratorExp) for above in view.parents()):
        yield Hit(
            shared, "tools that run side by side add to one list: their results stand in the order in which they came"
        )


def _is_of_tools(function: str, append: ast.Call, view: View) -> bool:
    """Whether what comes is a tool's result: by the function's name, the id it carries, or the history it goes into."""
    target = append.func.value if isinstance(append.func, ast.Attribute) else append
    return bool(_TOOLS.search(f"{function} {words_in(append)}")) or view.is_history(target)


def _is_plain(call: ast.Call) -> bool:
    """Whether what is appended does not carry its place: no `(index, result)`."""
    return bool(call.args) and not isinstance(call.args[0], ast.Tuple)


SOURCE = (
    Pattern((ast.For, ast.AsyncFor), _as_completed, ("as_completed",), is_near=True),
    Pattern((ast.For,), _first_done, ("FIRST_COMPLETED",), also=((".append(", ".extend("),)),
    Pattern((ast.Call,), _shared, tuple(sorted(_STARTS)), is_near=True),
)
