"""middleware-order: a middleware adds changing text in front of the place where the marker is set.

## What it does
The prompt passes through a list of middlewares. The one that sets the cache marker, or the one that adds memory, is
not where it should be: a later one puts a varying section before the marker, or the marker is set before the stable
part is complete.

## Why it costs you
What varies lies inside the cached prefix, so the entry written in one call is not found in the next; on Anthropic the
call pays the write rate of 1.25 for the system and all messages. The middlewares are right one by one, and only their
order is wrong, which is why it comes back with each new one that somebody registers.

## Example
    agent = create_agent(
        model=MODEL,
        tools=TOOLS,
        middleware=[MemoryMiddleware(store), AnthropicPromptCachingMiddleware(), SkillsMiddleware(folder)],
    )

## Use instead
Static sections first, then your own, then the marker, and whatever varies behind it:

    agent = create_agent(
        model=MODEL,
        tools=TOOLS,
        middleware=[SkillsMiddleware(), HouseRulesMiddleware(), AnthropicPromptCachingMiddleware(), MemoryMiddleware(store)],
    )

Look at one real request to see that the marker's block is followed, not preceded, by the section that changes.
contextkit has no such list: breakpoints are placed after the request is laid out.

## Detected by
- source: a list of middlewares, written out in the call or made in a function under that name, at once or step by step,
  in which prompt caching is followed by one that adds stable text or by whatever the user hands over, or in which memory
  stands in front of it.
- requests: a section that changes stands in front of the last marked block of the system.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/langchain-ai/deepagents/issues/2070
- https://github.com/langchain-ai/deepagentsjs/issues/331
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction, last_name
from contextkit.lint.source.rule import Hit, Pattern, View


def _section_in_front(step: Step, change: Change) -> Evidence | None:
    """A block of the system that differs stands in front of one that is marked and did not change."""
    if change.level != "system" or any(block.marker is not None for block in change.was):
        return None
    system = [(i, block) for i, block in enumerate(step.before.blocks) if block.level == "system"]
    last = max((i for i, block in system if block.marker is not None), default=-1)
    if last < change.at + len(change.was) or change.at == system[0][0]:
        return None
    return Evidence(f"a section of the system changed in front of the marked block {step.before.blocks[last].path}")


# In code
# --------------------------------------------------------------------------------------------------------------------------

_MARKING = re.compile(r"Cach\w*Middleware$|PromptCach")
_VARYING = re.compile(r"(?:Memory|Recall|Notes)Middleware$")
_LIST = re.compile(r"(?:^|_)middlewares?$")
_ADDING = re.compile(
    r"(?:Skills?|Todo\w*|Planning|SubAgent|Filesystem|Context|Dynamic\w*|Prompt\w*|Instruction\w*)Middleware$"
)


def _later(given: ast.keyword, view: View) -> Iterator[Hit]:
    """A middleware that adds stable text behind the one that sets the marker, or a varying one in front of it."""
    yield from _misplaced([(_name(item), item) for item in _items(given)])


def _misplaced(items: list[tuple[str, ast.expr]]) -> Iterator[Hit]:
    names = [name for name, _ in items]
    marks = next((i for i, name in enumerate(names) if _MARKING.search(name)), -1)
    for i, (name, item) in enumerate(items if marks >= 0 else []):
        if i < marks and _VARYING.search(name):
            yield Hit(item, f"{name} comes before {names[marks]}: text that changes stands inside of what is cached")
        elif i > marks and (name == _ANY or _ADDING.search(name)) and not _MARKING.search(name):
            what = "what the caller hands over" if name == _ANY else name
            yield Hit(item, f"{what} comes behind {names[marks]}: the marker is set before the prompt is complete")


_ANY = "*"
"""Stands for middlewares that a list of another name holds."""


def _name(item: ast.expr) -> str:
    return _ANY if isinstance(item, ast.Starred) else last_name(item.func if isinstance(item, ast.Call) else item)


def _built(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A list that is filled step by step."""
    lists: dict[str, list[tuple[str, ast.expr]]] = {}
    steps = view.nodes(function, ast.Assign, ast.AnnAssign, ast.Call)
    for node in sorted(steps, key=lambda step: (getattr(step, "lineno", 0), getattr(step, "col_offset", 0))):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.List):
            name = last_name(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            if _LIST.search(name):
                yield from _misplaced(lists.pop(name, []))
                lists[name] = [(_name(item), item) for item in node.value.elts]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and last_name(node.func.value) in lists
            and node.args
        ):
            lists[last_name(node.func.value)] += _added(node.func.attr, node.args[0])
    for items in lists.values():
        yield from _misplaced(items)


def _added(how: str, given: ast.expr) -> list[tuple[str, ast.expr]]:
    if how == "append":
        return [(_name(given), given)]
    if how != "extend":
        return []
    return [(_name(item), item) for item in given.elts] if isinstance(given, ast.List | ast.Tuple) else [(_ANY, given)]


def _items(given: ast.keyword) -> list[ast.expr]:
    is_list = given.arg in ("middleware", "middlewares") and isinstance(given.value, ast.List | ast.Tuple)
    return given.value.elts if is_list and isinstance(given.value, ast.List | ast.Tuple) else []


HAZARD = Hazard(
    "CKS09",
    "middleware-order",
    "A",
    "warning",
    source=(
        Pattern((ast.keyword,), _later, ("Middleware",), also=(("middleware",),), names=("middleware", "middlewares")),
        Pattern(FUNCTIONS, _built, ("CachingMiddleware", "PromptCach"), is_near=True),
    ),
    requests=(RequestRule("change", _section_in_front, 70),),
    confirmed_by=("system_changed", "input_changed"),
)
