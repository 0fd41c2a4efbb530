"""auto-defer-threshold-flip: crossing a limit of tools or tokens turns inline definitions into deferred ones in mid-session.

## What it does
A harness sends tools in full while there are few of them and defers them behind a search tool above some number or
size. The test is made for every request, so a server that adds three tools, or a longer description, flips the whole
list.

## Why it costs you
Many definitions leave or enter the rendered prefix in one step. On Anthropic a deferred tool stands outside the
prefix and an inline one at its very front, so the flip invalidates tools, system and messages together, and flipping
back does it again.

## Example
    def build_tools(registry):
        if len(registry) > 40:
            return [SEARCH_TOOL, *({**tool, "defer_loading": True} for tool in registry)]
        return registry

    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=build_tools(registry), messages=messages)

## Use instead
Decide once per session, keep the decision with the session, and log when the test would have gone the other way:

    if session.defers_tools is None:
        session.defers_tools = len(registry) > 40
    tools = build_tools(registry, session.defers_tools)

In contextkit tools are sealed with the `Context`, so the mode they were given in stays.

## Detected by
- source: a comparison of the number or size of the tools with a limit, whose branch defers them, outside of what runs
  once.
- requests: a tool sent in full is deferred, several deferred ones are sent in full, or many leave and enter with a
  search tool, in one step.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/rynfar/meridian/issues/861
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import filterfalse

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import last_name, mentions, words_of
from contextkit.lint.rules.toolsets import is_search_tool, named, set_moves
from contextkit.lint.source import sanitizers, sinks
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_SIZE = re.compile(r"(?:^|_)(?:n|num|count|size|tokens?|total)(?:_|$)")
_TOOLS = re.compile(r"tools?(?:_|$)|schemas?(?:_|$)")
_LIMIT = re.compile(r"(?:^|_)(?:max|limit|threshold|budget|cutoff)(?:_|$)", re.IGNORECASE)
_DEFERS = re.compile(r"defer|lazy|tool_search|search_tool|inline_tools|bridge_tool|on_demand", re.IGNORECASE)
_TELLS = sanitizers.CLEAN_METHODS | {"print", "log", "echo"}
_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


def _flipped(step: Step, change: Change) -> Evidence | None:
    found = set_moves(step, change)
    if found is None:
        return None
    flips = [*found.held_back, *found.promoted]
    has_search = any(map(is_search_tool, (*found.gone, *found.come)))
    moved = len(found.gone) + len(found.come)
    if len(flips) > 1 or found.held_back or (has_search and moved > 2):
        way = (
            "deferred"
            if found.held_back or (has_search and found.gone and len(found.now) < len(found.was))
            else "sent in full"
        )
        text = f"{max(len(flips), moved)} tools are {way} at call {step.turn}"
        return Evidence(f"{text}: {named(flips or [*found.gone, *found.come])}")
    return None


def _threshold(node: ast.If | ast.IfExp, view: View) -> Iterator[Hit]:
    """A number or size of tools beside a limit decides whether they are deferred."""
    function = view.function()
    tests = [part for part in walk(node.test) if isinstance(part, ast.Compare) and isinstance(part.ops[0], _ORDERS)]
    found = next((test for test in tests if _counts_tools(test, view)), None)
    if found is None or function is None or function.name in sanitizers.ONCE:
        return
    body = (
        [*filterfalse(_is_told, (*node.body, *node.orelse))] if isinstance(node, ast.If) else [node.body, node.orelse]
    )
    if any(map(_defers, body)) or (body and mentions(found, _DEFERS)):
        yield Hit(
            found,
            "a limit tested for each request turns tools sent in full into deferred ones in mid-session, and back",
        )


def _is_told(statement: ast.stmt) -> bool:
    """`warnings.warn("consider defer_loading")`, `raise`: advice to whoever reads the log."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(statement, ast.Raise) or (isinstance(call, ast.Call) and last_name(call.func) in _TELLS)


def _defers(part: ast.AST) -> bool:
    """Whether a branch names what is deferred, as a word or as a keyword argument."""
    return mentions(part, _DEFERS) or any(
        isinstance(one, ast.keyword) and _DEFERS.search(one.arg or "") for one in walk(part)
    )


def _counts_tools(test: ast.Compare, view: View) -> bool:
    sides = [test.left, *test.comparators]
    return any(map(_is_limit, sides)) and any(_is_count(side, view) for side in sides)


def _is_limit(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and node.value > 2
    return any(_LIMIT.search(word) or word.isupper() for word in words_of(node))


def _is_count(node: ast.expr, view: View) -> bool:
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name)
            and node.func.id == "len"
            and bool(node.args)
            and _is_tools(node.args[0], view)
        )
    return any(_SIZE.search(word) and _TOOLS.search(word) for word in words_of(node)) and isinstance(
        node, ast.Name | ast.Attribute
    )


def _is_tools(node: ast.expr, view: View) -> bool:
    return view.is_tools(node) or bool(sinks.REGISTRY.search(last_name(node)))


HAZARD = Hazard(
    "CKT05",
    "auto-defer-threshold-flip",
    "A",
    "warning",
    source=(Pattern((ast.If, ast.IfExp), _threshold, ("defer", "lazy", "search", "inline"), is_near=True),),
    requests=(RequestRule("change", _flipped, 20),),
    confirmed_by=("tools_changed",),
)
