"""usage-semantics-mixed: cached tokens are added to an input count that already holds them, or left out of one that does not.

## What it does
Finds sums of input and cached tokens that mix two conventions: Anthropic counts input without what was read or written, OpenAI,
OpenTelemetry and LiteLLM count it with.

## Why it costs you
This breaks no prefix; it makes the figures lie. Adding cached tokens to OpenAI's count bills them twice, so a good hit rate looks like
a rise in cost; dividing reads by Anthropic's input gives hit rates above 100 %. Langfuse, LiteLLM and LangSmith have each shipped that
mistake. Decisions about what to cache were made on such numbers.

## Example
    usage = client.responses.create(model="gpt-6.1-sol", input=history).usage
    total = usage.input_tokens + usage.input_tokens_details.cached_tokens

## Use instead
One normal form for all providers, with an invariant to check it by. In contextkit's `Usage` the parts always add up to the prompt:

    usage = context.ledger[-1].usage
    assert usage.prompt == usage.fresh + usage.read + usage.write_5m + usage.write_1h

## Detected by
- source: an addition of input and cached counters of an OpenAI-shaped usage; reads divided by Anthropic's input.
- requests: counters below zero, or a bill that adds up to far more than the same conversation's bytes.
- guard: not before sending; the usage that comes back is checked.
- provider: silent: its numbers are right.

## References
- https://github.com/langfuse/langfuse/issues/12306
- https://github.com/BerriAI/litellm/issues/26919
- https://github.com/langchain-ai/langsmith-sdk/issues/2519
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.facts.load import built_in_table
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.bills import bytes_a_token, counted, uses_server_tools
from contextkit.lint.rules.marks import n_bytes
from contextkit.lint.rules.usages import field, holder
from contextkit.lint.source.rule import Hit, Pattern, View

_WHOLE = ("prompt_tokens", "input_tokens")
_PART = "cached_tokens"
"""OpenAI's: a part of the whole, never beside it."""
_DETAILS = tuple(built_in_table("fields.toml")["usage"]["input_details"])
_ANTHROPIC_PART = "cache_read_input_tokens"
_TWICE, _ABOUT = 1.5, 0.3
_LEAST_TOKENS = 500


def _added(node: ast.BinOp, view: View) -> Iterator[Hit]:
    """`usage.prompt_tokens + details.cached_tokens`.

    `usage.cache_read_input_tokens / usage.input_tokens`.
    """
    names = {field(node.left): node.left, field(node.right): node.right}
    whole = next((names[name] for name in _WHOLE if name in names), None)
    if isinstance(node.op, ast.Add) and whole is not None and _PART in names:
        inside = holder(names[_PART])
        if any(inside.endswith(detail) or f"'{detail}'" in inside or f".{detail}" in inside for detail in _DETAILS):
            yield Hit(node, f"`{ast.unparse(whole)}` holds the cached tokens already: adding them counts them twice")
    is_share = (
        isinstance(node.op, ast.Div) and field(node.left) == _ANTHROPIC_PART and field(node.right) == "input_tokens"
    )
    if is_share and holder(node.left) == holder(node.right):
        yield Hit(
            node, f"`{ast.unparse(node.right)}` leaves out what was read and written: this share can exceed 100 %"
        )


def _counted_twice(step: Step) -> Evidence | None:
    usage, sent = step.after.usage, step.after
    if usage is None:
        return None
    if _is_negative(sent):
        return _said(
            sent, "a counter of the bill is below zero: cached tokens were taken off a count that never held them"
        )
    a_token = bytes_a_token(step.earlier)
    if a_token is None or not usage.read or not usage.fresh or uses_server_tools(sent) or usage.read < _LEAST_TOKENS:
        return None
    expected = n_bytes(sent.blocks) / a_token
    is_whole = abs(usage.fresh - expected) <= _ABOUT * expected and usage.read <= usage.fresh
    if not is_whole or counted(usage) < _TWICE * expected:
        return None
    return _said(
        sent,
        f"the bill adds up to {counted(usage):,} tokens for a prompt of about {expected:,.0f}: reads are counted twice",
    )


def _is_negative(sent: RecordedCall) -> bool:
    usage = sent.usage
    return usage is not None and any(
        (count or 0) < 0 for count in (usage.fresh, usage.read, usage.write_5m, usage.write_1h)
    )


def _said(sent: RecordedCall, message: str) -> Evidence:
    return Evidence(
        message, path="usage", now=f"fresh {sent.usage.fresh}, read {sent.usage.read}" if sent.usage else ""
    )


HAZARD = Hazard(
    "CKA01",
    "usage-semantics-mixed",
    "A",
    "note",
    source=(Pattern((ast.BinOp,), _added, ("cached_tokens", "cache_read_input_tokens"), is_near=True),),
    requests=(RequestRule("step", _counted_twice),),
)
