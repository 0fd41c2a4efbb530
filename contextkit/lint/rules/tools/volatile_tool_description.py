"""volatile-tool-description: a tool's description holds a value that changes.

## What it does
A description names the working folder, a session's address, a temporary path, the user, today's date or a number of
documents. The author meant to help the model; the definition is now different for every session, day or call.

## Why it costs you
Descriptions are rendered before system and messages. A few changed characters in one of them end the reusable prefix
there: on Anthropic all three levels are computed again, on OpenAI everything from that tool on. If the value differs
per session, no two sessions share their tools and system, which are often the largest part that could be shared.

## Example
    tools = [{
        "name": "run_shell",
        "description": f"Run a command in {os.getcwd()}. Today is {date.today()}.",
        "input_schema": COMMAND_SCHEMA,
    }]
    client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Make descriptions constants and let the value arrive later: in the first user message, in a notice, or as what the
tool answers.

    tools = [{"name": "run_shell", "description": "Run a command in the session's folder.", "input_schema": COMMAND_SCHEMA}]
    messages = [{"role": "user", "content": f"Folder: {folder}"}, *messages]

With contextkit: a constant docstring under `@tool`, and `context.notice(f"The folder is {folder}.")`.

## Detected by
- source: a clock, date, id, place, environment or person value that reaches a description; a clock, date or place in the
  schema, as in the description of a parameter; a `__doc__` edited at run time.
- requests: texts in definitions differ in a time, address, id or path only, or one of them in a few words.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/87137
- https://github.com/gpambrozio/ClaudeDocs (Claude Code changelog: dynamic content removed from tool descriptions)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import orjson

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import last_name
from contextkit.lint.rules.edits import ID, MOMENT, PATH
from contextkit.lint.rules.shapes import differing_span, differing_strings, differs_only_in, paired
from contextkit.lint.source import sanitizers
from contextkit.lint.source.rule import Flow, Hit, Kind, Pattern, View
from contextkit.prompt.block import Block

_URL = re.compile(r"\b(?:https?|wss?|file)://[^\s\"'<>)]+|\blocalhost:\d+")
_VALUES = (("a time or date", MOMENT), ("an address", _URL), ("an id", ID), ("a path", PATH))
_LONGEST = 120
_KINDS: tuple[Kind, ...] = ("clock", "date", "id", "place", "environ", "person", "choice")
_IN_SCHEMAS: tuple[Kind, ...] = ("clock", "date", "place")
"""Kinds that are written into the description of a parameter."""


def _value(step: Step, change: Change) -> Evidence | None:
    """Texts in the definitions differ in nothing but values of a kind."""
    pairs = _texts(change)
    kind = next(
        (kind for kind, pattern in _VALUES if pairs and all(differs_only_in(pattern, *pair) for pair in pairs)), ""
    )
    return (
        Evidence(f"{kind} changed in the description of {change.now[0].role}: {_difference_text(pairs[0])}")
        if kind
        else None
    )


def _short(step: Step, change: Change) -> Evidence | None:
    """One definition differs in a few words that stand for others."""
    pairs = _texts(change) if len(change.now) == 1 else []
    if len(pairs) != 1:
        return None
    _, was, now = differing_span(*pairs[0])
    is_value = was.strip() and now.strip() and max(len(was), len(now)) <= _LONGEST and "\n" not in was + now
    return (
        Evidence(f"a value changed in the description of {change.now[0].role}: {_difference_text(pairs[0])}")
        if is_value
        else None
    )


def _texts(change: Change) -> list[tuple[str, str]]:
    """Pairs of texts that differ in definitions that are otherwise equal."""
    pairs = paired(change) if change.level == "tools" else []
    found = [_differing(was, now) for was, now in pairs]
    return [pair for texts in found for pair in texts] if all(found) else []


def _differing(was: Block, now: Block) -> list[tuple[str, str]]:
    return (differing_strings(orjson.loads(was.body), orjson.loads(now.body)) or []) if was.role == now.role else []


def _difference_text(pair: tuple[str, str]) -> str:
    _, was, now = differing_span(*pair)
    return f"{was[:40]!r} became {now[:40]!r}"


def _edited(node: ast.Assign | ast.AugAssign, view: View) -> Iterator[Hit]:
    """`function.__doc__ = f"… {os.getcwd()}"`: a tool's description made at run time."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    function = view.function()
    is_once = function is None or function.name in sanitizers.ONCE
    if any(isinstance(target, ast.Attribute) and last_name(target) == "__doc__" for target in targets):
        varying = view.kinds(node.value) & set(_KINDS)
        if varying and not (is_once and varying <= {"clock", "date", "id", "environ", "choice", "person"}):
            yield Hit(
                node, f"a docstring that becomes a tool's description is made at run time and holds a {min(varying)}"
            )


HAZARD = Hazard(
    "CKT08",
    "volatile-tool-description",
    "A",
    "error",
    source=(
        Flow(_KINDS, ("tool",), "{source} varies and stands in a tool's description"),
        Flow(_IN_SCHEMAS, ("schema",), "{source} varies and stands in a tool's schema"),
        Pattern((ast.Assign, ast.AugAssign), _edited, ("__doc__",), is_near=True),
    ),
    requests=(RequestRule("change", _value, 18), RequestRule("change", _short, 35)),
    confirmed_by=("tools_changed",),
)
