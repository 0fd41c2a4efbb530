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
        middleware=[AnthropicPromptCachingMiddleware(), MemoryMiddleware(store), TodoMiddleware()],
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
- source: a list of middlewares in which prompt caching or memory is followed by one that adds text to the prompt.
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
from contextkit.lint.rules.syntax import last_name
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _section_in_front(step: Step, change: Change) -> Evidence | None:
    """A block of the system that differs stands in front of one that is marked and did not change."""
    if change.level != "system" or any(block.marker is not None for block in change.was):
        return None
    system = [(i, block) for i, block in enumerate(step.before.blocks) if block.level == "system"]
    last = max((i for i, block in system if block.marker is not None), default=-1)
    if last < change.at + len(change.was) or change.at == system[0][0]:
        return None
    return Evidence(f"a section of the system changed in front of the marked block {step.before.blocks[last].path}")


# In code --------------------------------------------------------------------------------------------------------------------------

_MARKING = re.compile(r"Cach\w*Middleware$|PromptCach")
_ADDING = re.compile(r"(?:Memory|Skills?|Todo\w*|Planning|SubAgent|Filesystem|Context|Dynamic\w*|Prompt\w*|Instruction\w*)Middleware$")


def _later(given: ast.keyword, view: View) -> Iterator[Hit]:
    """A middleware that adds text, behind the one that sets the marker."""
    names = [last_name(item.func if isinstance(item, ast.Call) else item) for item in _items(given)]
    marks = next((i for i, name in enumerate(names) if _MARKING.search(name)), len(names))
    for item, name in zip(_items(given)[marks + 1 :], names[marks + 1 :], strict=True):
        if _ADDING.search(name) and not _MARKING.search(name):
            yield Hit(item, f"{name} comes behind {names[marks]}: what it adds to the prompt stands in front of the marker")


def _items(given: ast.keyword) -> list[ast.expr]:
    is_list = given.arg in ("middleware", "middlewares") and isinstance(given.value, ast.List | ast.Tuple)
    return given.value.elts if is_list and isinstance(given.value, ast.List | ast.Tuple) else []


HAZARD = Hazard(
    "CKS09", "middleware-order", "A", "warning",
    source=(Pattern((ast.keyword,), _later, ("Middleware",)),),
    requests=(RequestRule("change", _section_in_front, 70),),
    confirmed_by=("system_changed", "input_changed"),
)  # fmt: skip
