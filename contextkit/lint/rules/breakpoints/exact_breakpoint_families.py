"""exact-breakpoint-families: on gpt-5.6 and later only an exact breakpoint matches, and the stable instructions have none.

## What it does
Finds calls to OpenAI models from gpt-5.6 on with large, stable instructions and no explicit `prompt_cache_breakpoint`, where
conversations share the instructions and nothing else.

## Why it costs you
These models match at breakpoints only and fall back to no shorter prefix. The automatic one sits at the end of the newest eligible
message, so it serves the same conversation but not the next one: every new conversation writes the same instructions again, at 1.25
times input (2.5 times for 12 hours), and reads nothing. Through Bedrock's OpenAI-compatible endpoint a report measured no hits at all
without explicit breakpoints and 98.6 % with one. The top-level `instructions` string cannot carry a breakpoint; a developer message
can.

## Example
    client.responses.create(model="gpt-6.1-sol", instructions=LONG_INSTRUCTIONS, input=[{"role": "user", "content": question}])

## Use instead
A developer message with a breakpoint at the end of what is shared; `OpenAIResponses` and `OpenAIChat` send the system prompt like that:

    head = {"type": "input_text", "text": LONG_INSTRUCTIONS, "prompt_cache_breakpoint": {"mode": "explicit"}}
    client.responses.create(
        model="gpt-6.1-sol", input=[{"role": "developer", "content": [head]}, {"role": "user", "content": question}],
    )

## Detected by
- source: a Responses call with a model of these families and long `instructions`, in a file without a breakpoint.
- requests: conversations that share tools and system text without a breakpoint at their end, and do not read them.
- guard: not before sending: it compares a conversation with itself.
- provider: `prompt_cache_diagnostics` tells a miss when it is given the response to compare with; of breakpoints it says nothing.

## References
- https://github.com/openai/codex/issues/35300
- https://github.com/microsoft/agent-framework/issues/7157
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.bills import read
from contextkit.lint.rules.callsites import keyword
from contextkit.lint.rules.marking import all_keywords, assigned, constant, is_parameter, resolved, says
from contextkit.lint.rules.marks import estimated, n_head, n_tokens
from contextkit.lint.source.rule import Hit, Pattern, View

_SHORT_CHARS = 4000
"""A literal shorter than this is below the 1,024 tokens that are cached at all."""
_CLEARLY, _MISSED = 1.2, 0.5
_EXACT = re.compile(r"(?:openai/)?gpt-(?:5\.[6-9]|[6-9])")
"""Names of the models that match at a breakpoint only, those the table does not know as well."""


def _without_breakpoint(node: ast.Call, view: View) -> Iterator[Hit]:
    if not view.dotted(node).endswith("responses.create") or says(view, b"prompt_cache_breakpoint"):
        return
    given = all_keywords(node, view) or {}
    name, said = constant(resolved(given.get("model"), view)), given.get("instructions")
    is_exact = isinstance(name, str) and _EXACT.match(name) is not None
    is_long = _most_characters(said, view) >= _SHORT_CHARS
    if is_exact and said is not None and is_long:
        place = said if any(one.value is said for one in node.keywords) else node
        yield Hit(
            place,
            f"{name} reads up to a breakpoint only, and `instructions` cannot carry one: every conversation writes them again",
        )


def _spread(node: ast.Call, view: View) -> Iterator[Hit]:
    """`responses.create(**params)`, the instructions among them."""
    if keyword(node, "instructions") is None:
        yield from _without_breakpoint(node, view)


def _most_characters(node: ast.expr | None, view: View, depth: int = 3) -> float:
    """How long a text is at most that is written out, in pieces or in several assignments too.

    Infinite where a part of it is not.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _most_characters(node.left, view, depth) + _most_characters(node.right, view, depth)
    if isinstance(node, ast.Name) and depth and not is_parameter(view, node.id):
        function, one = view.function(), resolved(node, view)
        values = [one] if one is not node else assigned(function, node.id) if function else []
        return max((_most_characters(value, view, depth - 1) for value in values), default=inf)
    text = constant(node)
    return len(text) if isinstance(text, str) else inf


def _written_again(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    """First calls of conversations that begin with the same head, and whose only breakpoint is the one at their own
    end.
    """
    conversations: Mapping[str, Sequence[RecordedCall]] = getattr(calls, "conversations", {})
    seen: set[tuple[str, object, bytes]] = set()
    for first in sorted((mine[0] for mine in conversations.values()), key=lambda sent: sent.index):
        head = n_head(first)
        if first.row.provider != "openai" or first.row.cache != "breakpoints" or _is_marked(first, head):
            continue
        key = (
            first.row.name,
            first.params.get("prompt_cache_key"),
            b"".join(block.body for block in first.blocks[:head]),
        )
        size = n_tokens(first, 0, head)
        if (
            key in seen
            and estimated(first, 0, head) >= _CLEARLY * first.row.min_tokens
            and (read(first) or 0) < _MISSED * size
        ):
            yield Evidence(
                f"another conversation began with the same {size:,} tokens, and no breakpoint stands at their end: they are "
                "written again",
                path=first.blocks[head - 1].path,
                sent=first,
            )
        seen.add(key)


def _is_marked(sent: RecordedCall, head: int) -> bool:
    """Whether an explicit breakpoint stands in tools or system text."""
    return not head or any(block.marker is not None for block in sent.blocks[:head])


HAZARD = Hazard(
    "CKB13",
    "exact-breakpoint-families",
    "A",
    "error",
    source=(
        Pattern((ast.Call,), _without_breakpoint, ("responses.create",), names=("instructions",)),
        Pattern((ast.Call,), _spread, ("responses.create",), also=(("responses.create",), ("**",))),
    ),
    requests=(RequestRule("session", _written_again),),
)
