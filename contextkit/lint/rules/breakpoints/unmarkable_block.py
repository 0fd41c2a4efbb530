"""unmarkable-block: a marker on an empty text block or on thinking is refused or ignored.

## What it does
Finds markers on blocks that cannot carry one: empty text, thinking and redacted thinking, parts inside another block such as citations.

## Why it costs you
Claude's thinking blocks have no field for a marker; an empty text block with one is a 400. Where a layer drops the marker instead, the
newest turn is not written and the next request finds only what an older marker left. It shows first when a model answers with tool
calls alone, or with thinking last.

## Example
    reply = {"role": "assistant", "content": [{"type": "text", "text": answer or ""}]}
    reply["content"][-1]["cache_control"] = {"type": "ephemeral"}

## Use instead
Step back to the nearest block that may be marked. Automatic marking does so on the server, and contextkit's planner does it on its
side:

    block = next(part for part in reversed(content) if part["type"] not in ("thinking", "redacted_thinking") and part.get("text") != "")
    block["cache_control"] = {"type": "ephemeral"}

## Detected by
- source: a literal marker on a text that may be empty, or on a thinking block.
- requests: a marker on an empty text or a thinking block.
- guard: the same, before the request leaves and is refused.
- provider: an HTTP 400 that names the block.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#what-cannot-be-cached
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.callsites import field
from contextkit.lint.rules.marking import constant
from contextkit.lint.rules.marks import can_hold_breakpoint, has_markers
from contextkit.lint.source.rule import Hit, Pattern, View

_THINKING = ("thinking", "redacted_thinking")


def _marked(node: ast.Dict, view: View) -> Iterator[Hit]:
    if field(node, "cache_control") is None:
        return
    text = field(node, "text")
    if constant(field(node, "type")) in _THINKING:
        yield Hit(node, "a thinking block carries a marker, which is refused")
    elif text is not None and _may_be_empty(text):
        yield Hit(text, "a block whose text may be empty carries a marker: an empty block cannot be cached")


def _may_be_empty(text: ast.expr) -> bool:
    """`""`, `answer or ""`, `answer if answer else ""`."""
    if isinstance(text, ast.BoolOp) and isinstance(text.op, ast.Or):
        return _may_be_empty(text.values[-1])
    if isinstance(text, ast.IfExp):
        return _may_be_empty(text.body) or _may_be_empty(text.orelse)
    return constant(text) == ""


def _unmarkable(sent: RecordedCall) -> Evidence | None:
    if not has_markers(sent):
        return None
    block = next((block for block in sent.blocks if block.marker is not None and not can_hold_breakpoint(block)), None)
    if block is None:
        return None
    what = "a thinking block" if block.type == "thinking" else "an empty text"
    return Evidence(
        f"{what} carries a marker: the request is refused, or nothing is written there",
        path=f"{block.path}.cache_control",
    )


HAZARD = Hazard(
    "CKB12",
    "unmarkable-block",
    "D",
    "error",
    source=(Pattern((ast.Dict,), _marked, ("cache_control",), is_near=True),),
    requests=(RequestRule("call", _unmarkable),),
)
