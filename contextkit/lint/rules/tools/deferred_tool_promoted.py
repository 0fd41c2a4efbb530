"""deferred-tool-promoted: a tool that was found by search, or seen in the history, is moved into the inline list.

## What it does
Tools are held back and found on demand. Once one has been used, the code promotes it: its definition joins `tools`,
so that the next request can call it directly. Replaying an old session promotes everything that was ever called in
it.

## Why it costs you
Deferring a tool is meant to keep the prefix still. Promotion puts a definition into its front, and from there tools,
system and messages are written again, at the moment when a search result has just made the conversation longer. Every
newly found tool costs one full rewrite.

## Example
    def after_search(found):
        for name in found:
            registry.promote(name)                 # the next request sends it inline

    tools = [tool.definition for tool in registry if tool.promoted]
    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Let the definition arrive in the messages. On Claude declare the tool with `defer_loading: true` from the start and
answer the search with `tool_reference` blocks, which are expanded where they stand; adding a deferred tool leaves all
levels valid. In OpenAI's Responses append an `additional_tools` item. Elsewhere route calls through one stable bridge
tool:

    tools = [SEARCH, {"name": "call_tool", "description": "Call a tool found by search.", "input_schema": NAME_AND_ARGUMENTS}]

A contextkit toolbox never grows by itself; give it the bridge tool.

## Detected by
- source: a registry's promotion, or `defer_loading` switched off or taken out, after the start.
- requests: one deferred definition is sent in full, or one more stands in the list right behind a search that named
  it.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/QwenLM/qwen-code/issues/10410
- https://github.com/dust-tt/dust/issues/28568
- https://github.com/nearai/ironclaw/issues/7274
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import last_name, mentions, text_of
from contextkit.lint.rules.toolsets import Moves, named, set_moves, was_searched
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_PROMOTES = re.compile(r"^_*(?:promote|undefer|inline|activate_deferred|load_deferred)(?:_\w*tools?\w*)?$")
_TOOLS = re.compile(r"tool|catalog|registry", re.IGNORECASE)


def _promoted(step: Step, change: Change) -> Evidence | None:
    found = set_moves(step, change)
    if found is None or found.gone or found.held_back or not _is_found(step, found):
        return None
    new = [*found.promoted, *found.come]
    return Evidence(
        f"{named(new)} joined the {len(found.was)} tools in front"
        + " right behind a search for tools" * bool(found.come)
    )


def _is_found(step: Step, found: Moves) -> bool:
    if found.promoted:
        return len(found.promoted) == 1 and not found.come
    return 0 < len(found.come) <= 5 and all(was_searched(step, block.role) for block in found.come)


def _call(node: ast.Call, view: View) -> Iterator[Hit]:
    """`registry.promote(name)`, `tool.pop("defer_loading")`."""
    if not isinstance(node.func, ast.Attribute) or _is_once(view):
        return
    is_promotion = _PROMOTES.match(node.func.attr) and any(
        mentions(part, _TOOLS) for part in (node.func.value, *node.args)
    )
    is_pop = node.func.attr == "pop" and bool(node.args) and text_of(node.args[0]) == "defer_loading"
    if is_promotion or (is_pop and view.loop() is None):
        yield Hit(node, "a tool found in mid-session joins the tools in front of the prompt")


def _flag(node: ast.Assign, view: View) -> Iterator[Hit]:
    """`tool["defer_loading"] = False`."""
    is_off = isinstance(node.value, ast.Constant) and node.value.value is False
    if is_off and any(last_name(target) == "defer_loading" for target in node.targets) and not _is_once(view):
        yield Hit(node, "a tool found in mid-session joins the tools in front of the prompt")


def _deleted(node: ast.Delete, view: View) -> Iterator[Hit]:
    """`del tool["defer_loading"]`."""
    is_flag = any(isinstance(target, ast.Subscript) and last_name(target) == "defer_loading" for target in node.targets)
    if is_flag and (view.loop() is None or _is_for_some(view)) and not _is_once(view):
        yield Hit(node, "a tool found in mid-session joins the tools in front of the prompt")


def _is_for_some(view: View) -> bool:
    """`if tool["name"] in found:` around it.

    A loop that takes the flag from all tools makes copies for another provider.
    """
    tests = (
        part
        for one in view.parents()
        if isinstance(one, ast.If)
        for part in walk(one.test)
        if isinstance(part, ast.Compare)
    )
    return any(isinstance(test.ops[0], ast.In) and not isinstance(test.left, ast.Constant) for test in tests)


def _is_once(view: View) -> bool:
    function = view.function()
    return function is None or function.name in sanitizers.ONCE


HAZARD = Hazard(
    "CKT06",
    "deferred-tool-promoted",
    "A",
    "error",
    source=(
        Pattern((ast.Call,), _call, ("promote", "defer", "inline_"), is_near=True),
        Pattern((ast.Assign,), _flag, ("defer",), is_near=True, names=("defer_loading",)),
        Pattern((ast.Delete,), _deleted, ("defer_loading",), is_near=True),
    ),
    requests=(RequestRule("change", _promoted, 30),),
    confirmed_by=("tools_changed",),
)
