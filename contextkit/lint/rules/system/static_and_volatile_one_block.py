"""static-and-volatile-one-block: stable and changing text share one block, and the marker stands behind both.

## What it does
A long, constant prompt and a short text of the moment are joined into a single string. The cache marker can only
stand at the end of the block, so it covers both.

## Why it costs you
Anthropic writes one entry per marker and only there. The block's digest is new each time: every call pays 1.25 times
the input price for the whole block, reads nothing of it, and the constant part has no place of its own at which it
could be found. With the marker behind the constant part the same request would read it at a tenth. OpenAI's models
since 5.6 match at exact breakpoints as well.

## Example
    text = HANDBOOK + f" The user is looking at {page_title}."
    system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    client.messages.create(model=MODEL, max_tokens=1024, system=system, messages=messages)

## Use instead
Two blocks, the marker on the last stable one. Better still, let the changing text travel with the newest message, so
that the history behind the system can be read too:

    system = [{"type": "text", "text": HANDBOOK, "cache_control": {"type": "ephemeral"}}]
    messages.append({"role": "user", "content": f"[looking at {page_title}] {question}"})

contextkit marks the end of a constant head and the end of the history by itself; what changes is said with
`context.user` or `context.notice`.

## Detected by
- source: a constant joined with a value that is known to vary (a clock, an id, what was recalled, a plan, the user's words, a
  parameter named after what is on the screen) in one block that carries `cache_control`; any other parameter may be the
  session's own.
- requests: the last marked system block changes in its later part while its beginning stays; every call writes, none
  reads.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/NousResearch/hermes-agent/issues/2530
- https://github.com/langchain-ai/deepagentsjs/issues/285
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.edits import edited
from contextkit.lint.rules.syntax import constant_keys, last_name, words_in
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Hit, Kind, Pattern, View
from contextkit.lint.source.syntax import walk


def _volatile_end(step: Step, change: Change) -> Evidence | None:
    if change.level != "system" or len(change.was) != 1 or len(change.now) != 1 or change.was[0].marker is None:
        return None
    found = edited(change)
    if not found.is_late or not found.is_at_end:
        return None
    return Evidence(
        f"the end of a marked system block changed, its first {int(100 * found.share)} % stayed: one marker stands behind both"
    )


# In code
# --------------------------------------------------------------------------------------------------------------------------

_VOLATILE: frozenset[Kind] = frozenset({"clock", "date", "id", "recall", "plan", "user", "place", "choice", "person"})

_MOMENT = re.compile(
    r"(?:current|selected|active|visible|open)_(?:page|screen|tab|file|view|url|window)$|(?:page|screen|tab|window)_(?:title|url)$"
)
"""Names of what the user looks at."""


def _one_block(block: ast.Dict, view: View) -> Iterator[Hit]:
    """A marked block of the system whose text joins what stays and what varies."""
    keys = constant_keys(block)
    text = keys.get("text")
    if "cache_control" not in keys or text is None or not _stays(text, view):
        return
    if not view.kinds(text) & _VOLATILE and not _is_of_the_moment(text, view):
        return
    if any(_is_system(node) for node in view.parents()):
        yield Hit(
            text,
            "what stays and what varies stand in one block in front of its marker: each call writes it, none reads it",
        )


def _is_of_the_moment(text: ast.expr, view: View) -> bool:
    """Whether it holds what is on the user's screen, as a parameter's name says, in a function that a session runs more
    than once.
    """
    function = view.function()
    if function is None or function.name in sanitizers.ONCE:
        return False
    stored = [node.value for node in view.nodes(function, ast.Assign) if last_name(node.targets[0]) == last_name(text)]
    given = {
        argument.arg for argument in (*function.args.args, *function.args.kwonlyargs) if _MOMENT.match(argument.arg)
    }
    return bool(given) and any(
        isinstance(part, ast.Name) and part.id in given for value in (text, *stored) for part in walk(value)
    )


def _stays(text: ast.expr, view: View) -> bool:
    """Whether a part of it is a fixed text."""
    parts = (
        text.values
        if isinstance(text, ast.JoinedStr)
        else [text.left, text.right]
        if isinstance(text, ast.BinOp)
        else []
    )
    return any(view.is_constant(part) for part in parts) or bool(not parts and isinstance(text, ast.Name | ast.Call))


def _is_system(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return (node.arg or "").startswith("system")
    if isinstance(node, ast.Assign):
        return any("system" in words_in(target) for target in node.targets)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "system" in node.name


HAZARD = Hazard(
    "CKS08",
    "static-and-volatile-one-block",
    "A",
    "error",
    source=(
        Pattern((ast.Dict,), _one_block, ("cache_control",), is_near=True, also=(("text",),), names=("cache_control",)),
    ),
    requests=(RequestRule("change", _volatile_end, 72),),
    confirmed_by=("system_changed", "input_changed"),
)
