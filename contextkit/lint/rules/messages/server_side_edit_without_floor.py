"""server-side-edit-without-floor: the provider is told to clear old tool results or thinking, with no least amount.

## What it does
`context_management` lists an edit such as `clear_tool_uses_20250919` with a trigger, and leaves `clear_at_least` out.
Once the trigger is passed, the server clears what it can in each request, be it one small result.

## Why it costs you
Clearing invalidates the cached prefix from the first cleared block on; the rest is written again at 1.25 times the
input price. With a trigger of 100,000 tokens (the default) and results of a few hundred tokens each, every turn above
it pays for tens of thousands of tokens to save some hundreds. The parameter exists so that each clearing is worth its
rewrite.

## Example
    client.beta.messages.create(
        model=MODEL, max_tokens=4096, messages=messages, betas=["context-management-2025-06-27"],
        context_management={"edits": [{"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 100_000}}]},
    )

## Use instead
Say how much has to go at least, so that it happens seldom and in bulk:

    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 100_000},
        "keep": {"type": "tool_uses", "value": 3},
        "clear_at_least": {"type": "input_tokens", "value": 40_000},
    }

The reply's `context_management.applied_edits` tells what each clearing removed. With contextkit the same is done on
your side and on record, by `context.compact(summary, keep_from=entry)`.

## Detected by
- source: an edit of `context_management` without `clear_at_least`.
- requests: such an edit in the body.
- guard: the edit in the body, before the call leaves.
- provider: silent; for calls whose settings of `context_management` differ it says `unavailable`.

## References
- https://platform.claude.com/docs/en/build-with-claude/context-editing
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.syntax import constant_keys, last_name
from contextkit.lint.rules.usages import root
from contextkit.lint.source.rule import Hit, Pattern, View


def _without_floor(sent: RecordedCall) -> Evidence | None:
    given = sent.params.get("context_management")
    edits = given.get("edits") if isinstance(given, dict) else None
    for index, edit in enumerate(edits if isinstance(edits, list) else ()):
        if (
            isinstance(edit, dict)
            and str(edit.get("type")).startswith("clear_tool_uses")
            and edit.get("clear_at_least") is None
        ):
            path = f"context_management.edits[{index}]"
            return Evidence(
                "tool results are cleared by the server with no least amount, so that a few tokens may cost the cache",
                path,
            )
    return None


# In code
# --------------------------------------------------------------------------------------------------------------------------


def _no_floor(edit: ast.Dict, view: View) -> Iterator[Hit]:
    keys = constant_keys(edit)
    kind = keys.get("type")
    is_edit = isinstance(kind, ast.Constant) and str(kind.value).startswith("clear_tool_uses")
    if is_edit and "clear_at_least" not in keys and None not in edit.keys and not _gets_one_later(view):
        yield Hit(
            edit, "tool results are cleared with no `clear_at_least`: a few tokens may cost the cache of all the rest"
        )


def _gets_one_later(view: View) -> bool:
    """Whether the floor is set on the variable the edit is stored in: `edit["clear_at_least"] = …`,
    `edit.update(clear_at_least=…)`.
    """
    stored = next((above.targets[0] for above in reversed(view.parents()) if isinstance(above, ast.Assign)), None)
    around = view.function() or next(iter(view.parents()), None)
    if not isinstance(stored, ast.Name) or around is None or b"clear_at_least" not in view.source:
        return False
    set_later = (
        target
        for node in view.nodes(around, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    )
    updated = (node for node in view.nodes(around, ast.Call) if last_name(node.func) in ("update", "setdefault"))
    return any(root(node) == stored.id and "clear_at_least" in ast.unparse(node) for node in (*set_later, *updated))


HAZARD = Hazard(
    "CKM28",
    "server-side-edit-without-floor",
    "D",
    "warning",
    source=(Pattern((ast.Dict,), _no_floor, ("clear_tool_uses",), is_near=True),),
    requests=(RequestRule("call", _without_floor),),
)
