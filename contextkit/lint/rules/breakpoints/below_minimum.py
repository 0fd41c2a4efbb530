"""below-minimum: the marked prefix is shorter than the model caches at all.

## What it does
Finds markers on a prefix below the minimum of its model: 512 tokens for the newest Claude models, 1,024 to 4,096 for older ones, 1,024
for OpenAI and Qwen, 2,048 or 4,096 for Gemini.

## Why it costs you
Below the minimum nothing is written and nothing is said: no error, both counters 0. The minimum is a property of the model, so a prompt
that was cached on one silently is not on the next: 1,500 tokens are enough for Sonnet 4.6 and too few for Opus 4.7 (2,048) or Haiku 4.5
(4,096). In a fan-out of many short calls the whole saving disappears.

## Example
    client.messages.create(
        model="claude-haiku-4-5", max_tokens=300,
        system=[{"type": "text", "text": SHORT_INSTRUCTIONS, "cache_control": {"type": "ephemeral"}}], messages=messages,
    )

## Use instead
Bring what is stable together before the marker (instructions, examples, tool definitions) until it passes the minimum, or leave the
marker out. contextkit's planner omits marks that could not be cached; the minimum stands in its model table:

    context = Context(AnthropicMessages("claude-haiku-4-5", max_tokens=300), system=INSTRUCTIONS + EXAMPLES, tools=TOOLS)

## Detected by
- source: a marker behind literal text that is clearly too short for the model named beside it.
- requests: calls with the same marked beginning, each below the model's minimum and together above it, with no reads and no writes.
- guard: not before sending: a conversation may still grow.
- provider: silent.

## References
- https://github.com/BerriAI/litellm/issues/33637
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#cache-limitations
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.bills import is_silent
from contextkit.lint.rules.callsites import as_keywords, has_unknown_keywords, keyword
from contextkit.lint.rules.marking import constant, literal_markers, resolved
from contextkit.lint.rules.marks import estimated, has_markers, marks_of
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.models import find_model

_CLEARLY = 0.8
"""Share of the minimum below which an estimate by size leaves no doubt."""
_LEAST_CALLS = 3


def _short_text(node: ast.Call, view: View) -> Iterator[Hit]:
    """The only marker of a call stands behind literal text that is too short for the model named beside it."""
    name = constant(resolved(keyword(node, "model"), view))
    row = find_model(name) if isinstance(name, str) else None
    system, messages = resolved(keyword(node, "system"), view), keyword(node, "messages")
    if (
        row is None
        or row.cache != "breakpoints"
        or not isinstance(system, ast.List)
        or keyword(node, "tools", "cache_control") is not None
    ):
        return
    marks, texts = list(literal_markers(system, view)), [_text(part, view) for part in system.elts]
    if (
        not marks
        or has_unknown_keywords(node)
        or None in texts
        or messages is None
        or any(literal_markers(messages, view))
    ):
        return
    if not isinstance(messages, ast.List):
        return
    size = sum(len(text.encode()) for text in texts if text is not None) / row.bytes_per_token
    if size < _CLEARLY / 2 * row.min_tokens:
        yield Hit(marks[0], f"about {size:,.0f} tokens are marked, and {name} caches nothing below {row.min_tokens:,}")


def _text(part: ast.expr, view: View) -> str | None:
    """The words of a literal block, None where they are not written out."""
    value = (
        next((value for key, value in zip(part.keys, part.values, strict=True) if constant(key) == "text"), None)
        if isinstance(part, ast.Dict)
        else None
    )
    said = constant(resolved(value, view)) if value is not None else None
    return said if isinstance(said, str) else None


def _too_short(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    """Calls that share a marked beginning, all of them below the minimum, and together far above it."""
    groups: dict[tuple[str, bytes], list[RecordedCall]] = {}
    for sent in calls:
        if has_markers(sent) and (marks := marks_of(sent)):
            groups.setdefault(
                (sent.row.name, b"".join(block.body for block in sent.blocks[: marks[0].index + 1])), []
            ).append(sent)
    for mine in groups.values():
        sizes = [estimated(sent, 0, marks_of(sent)[-1].index + 1) for sent in mine]
        least = mine[0].row.min_tokens
        if len(mine) >= _LEAST_CALLS and max(sizes) < _CLEARLY * least <= sum(sizes) and all(map(is_silent, mine)):
            yield Evidence(
                f"{len(mine)} calls mark about {max(sizes):,} tokens, and {mine[0].row.name} caches nothing below {least:,}",
                path=marks_of(mine[-1])[-1].path,
                sent=mine[-1],
            )


HAZARD = Hazard(
    "CKB11",
    "below-minimum",
    "A",
    "warning",
    source=(
        Pattern(
            (ast.Call,),
            _short_text,
            ("cache_control",),
            also=(as_keywords("model"), as_keywords("system"), as_keywords("messages")),
            names=("model",),
        ),
    ),
    requests=(RequestRule("session", _too_short),),
)
