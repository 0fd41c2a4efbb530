"""side-call-divergent-prefix: a summary, title or judge call on the conversation is built with another prompt, not behind the same prefix.

## What it does
To compact or name a session, the whole transcript goes to the model once more: under a system prompt of its own,
without tools, flattened into one user message. It is as long as the session and shares no byte with it.

## Why it costs you
The session's prefix is warm at that moment and could be read at a tenth of the input price or less; the divergent
call pays full price, or 1.25 times where a marker is set, for all of it. Compactions come at the longest point: at
150,000 tokens on a model of 2 USD per million that is 0.30 instead of 0.03 or 0.015 USD, for every compaction.

## Example
    def summarise(messages):
        transcript = " ".join(f"{m['role']}: {text_of(m)}" for m in messages)
        return client.messages.create(
            model=MODEL, max_tokens=2000, system="You summarise conversations.",
            messages=[{"role": "user", "content": transcript}],
        )

## Use instead
Continue the last request by one instruction: same tools, same system, same history, same parameters that key the
cache.

    def summarise(messages):
        ask = {"role": "user", "content": "Summarise our work so far for someone who takes over. Call no tools."}
        return client.messages.create(model=MODEL, max_tokens=2000, system=SYSTEM, tools=TOOLS, messages=[*messages, ask])

With contextkit a fork shares every byte: `branch = context.fork()`, `branch.user("Summarise …")`, and then
`context.compact(summary, keep_from=entry)`.

## Detected by
- source: a function that summarises, names or judges and sends a transcript as text under a system prompt of its own.
- requests: a large call that shares no prefix with the session it stands in, typically once per compaction.
- guard: a large call that continues nothing, before it leaves.
- provider: `system_changed`, `tools_changed` or `messages_changed` (Anthropic), `input_changed` (OpenAI), when it is
  compared with the session's last call.

## References
- https://github.com/anomalyco/opencode/issues/25120
- https://github.com/aaif-goose/goose/issues/11257
- https://github.com/charmbracelet/crush/issues/2752
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule
from contextkit.lint.rules.asides import Aside, asides
from contextkit.lint.rules.openings import Calls
from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_HISTORY,
    AnyFunction,
    inside,
    keyword,
    last_name,
    model_calls,
    text_in,
    unwrapped,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_LARGE = 8_000
"""Bytes of messages from which on a side call would rather have read the session's prefix."""


def _apart(calls: Calls) -> Iterator[Evidence]:
    for aside in asides(calls):
        if aside.n_bytes >= _LARGE and aside.quoted:
            yield Evidence(_said(aside), path="messages", sent=aside.sent)


def _said(aside: Aside) -> str:
    return (
        f"a call of {aside.n_bytes:,} bytes retells {aside.main} and shares no prefix with it: nothing of that was read"
    )


# In code
# --------------------------------------------------------------------------------------------------------------------------

_SIDE = re.compile(r"summar|compact|condens|judge|evaluat|extract|reflect|classif|(?:^|_)title", re.IGNORECASE)


def _retold(function: AnyFunction, view: View) -> Iterator[Hit]:
    """The history is joined into one text and sent under another system prompt."""
    if not _SIDE.search(function.name):
        return
    is_joined = any(_is_transcript(node, view) for node in inside(function))
    texts = frozenset() if is_joined else _other_transcripts(function, view)
    for call in model_calls(function, view):
        is_retelling = is_joined or any(_is_one_of(part, texts, view) for part in walk(call))
        if is_retelling and (keyword(call, "system", "instructions") is not None or "system" in text_in(call).split()):
            yield Hit(
                call,
                f"{function.name}() retells the conversation as one text under another system prompt: nothing of it is read",
            )


def _is_transcript(node: ast.AST, view: View) -> bool:
    """`"\\n".join(f"{m['role']}: …" for m in messages)`."""
    is_join = isinstance(node, ast.Call) and last_name(node.func) == "join" and bool(node.args)
    given = node.args[0] if is_join and isinstance(node, ast.Call) else None
    return isinstance(given, ast.ListComp | ast.GeneratorExp) and view.is_history(unwrapped(given.generators[0].iter))


def _other_transcripts(function: AnyFunction, view: View) -> frozenset[str]:
    """Variables that hold a history as text: dumped as it is, or added up in a loop through it."""
    dumped = [node for node in view.nodes(function, ast.Assign) if _is_dump(node.value, view)]
    loops = [node for node in view.nodes(function, ast.For) if view.is_history(unwrapped(node.iter))]
    added = [
        part
        for loop in loops
        for part in view.nodes(loop, ast.AugAssign)
        if isinstance(part.value, ast.JoinedStr | ast.BinOp)
    ]
    return frozenset(
        last_name(target) for target in (*(node.targets[0] for node in dumped), *(part.target for part in added))
    )


def _is_one_of(node: ast.AST, texts: frozenset[str], view: View) -> bool:
    return (isinstance(node, ast.Name) and node.id in texts) or _is_dump(node, view)


def _is_dump(node: ast.AST, view: View) -> bool:
    """`json.dumps(messages)`, `get_buffer_string(messages)`."""
    is_call = isinstance(node, ast.Call) and last_name(node.func) in ("dumps", "get_buffer_string") and bool(node.args)
    return is_call and isinstance(node, ast.Call) and view.is_history(unwrapped(node.args[0]))


HAZARD = Hazard(
    "CKM25",
    "side-call-divergent-prefix",
    "A",
    "warning",
    source=(
        Pattern(
            FUNCTIONS,
            _retold,
            ("summar", "compact", "condens", "judge", "evaluat", "extract", "reflect", "classif", "title"),
            is_near=True,
            also=(IN_HISTORY, ("join", "dumps", "get_buffer_string", "+="), ("system", "instructions")),
        ),
    ),
    requests=(RequestRule("session", _apart),),
    confirmed_by=("tools_changed", "system_changed", "messages_changed", "input_changed"),
)
