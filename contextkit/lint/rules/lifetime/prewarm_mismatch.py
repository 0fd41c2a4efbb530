"""prewarm-mismatch: the warm-up is another request than the one it should warm.

## What it does
Finds a pre-warming call built by its own code: other thinking, other effort, no tools, its only marker at the very end.

## Why it costs you
A warm-up pays a full write so that the first real call reads. If its head differs in one parameter that is rendered into the prompt, or
if its only marker closes its own throw-away message, the real call finds nothing and writes again: twice the price and no gain. Claude
refuses some combinations for a call that generates nothing (streaming, thinking switched on by budget, an answer schema, a forced
tool), which tempts one to leave them out.

## Example
    client.messages.create(model=MODEL, max_tokens=1, system=SYSTEM, messages=[{"role": "user", "content": "hi"}])
    client.messages.create(model=MODEL, max_tokens=4096, system=SYSTEM, tools=TOOLS, thinking=ADAPTIVE, messages=messages)

## Use instead
The same builder, with one field changed and a marker at the end of what is shared:

    context.receive(context.request(max_tokens=0).send(client))
    context.receive(context.request().send(client))

## Detected by
- source: a call with no more than one token of output that leaves out what the other calls of the module have.
- requests: a call without output, and a first real call that finds none of what it wrote.
- guard: not before sending: it compares a conversation with itself.
- provider: `tools_changed` or `system_changed` when the real call asks to be compared with the warm-up.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pre-warming-the-cache
- https://github.com/NousResearch/hermes-agent/issues/73017
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.bills import asks_nothing, by_session, read
from contextkit.lint.rules.callsites import calls_in, has_unknown_keywords, is_model_call, is_nothing, keyword
from contextkit.lint.rules.lifetimes import finds_entry_of, has_kin_head
from contextkit.lint.rules.marking import constant, module_of
from contextkit.lint.rules.marks import has_markers, n_head, n_tokens
from contextkit.lint.source.rule import Hit, Pattern, View

_KEYING = ("tools", "thinking", "output_config", "system")
"""Arguments that are rendered into the prompt: what the real call has and the warm-up has not makes two prompts of
them."""
_WARMS = re.compile(r"(?i)pre_?warm|warm_?up|warm_|prime|preheat|prefill_cache")
_LEAST_TOKENS = 500


def _other_request(node: ast.Call, view: View) -> Iterator[Hit]:
    limit, function = constant(keyword(node, "max_tokens")), view.function()
    is_warming = limit == 0 or (limit == 1 and function is not None and bool(_WARMS.search(function.name)))
    if isinstance(limit, bool) or not is_warming or has_unknown_keywords(node) or not is_model_call(node, view):
        return
    module = module_of(view)
    real = [call for call in calls_in(getattr(module, "body", [])) if call is not node and _is_real(call, view)]
    missing = [name for name in _KEYING if not _has(node, name) and real and all(_has(call, name) for call in real)]
    if missing:
        yield Hit(node, f"the warm-up has no `{missing[0]}`, the calls it is for have: they do not find what it writes")


def _is_real(call: ast.Call, view: View) -> bool:
    limit = constant(keyword(call, "max_tokens"))
    return is_model_call(call, view) and not has_unknown_keywords(call) and limit not in (0, 1)


def _has(call: ast.Call, name: str) -> bool:
    value = keyword(call, name)
    return value is not None and not is_nothing(value)


def _not_found(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    """The first real call of a session after a call that generated nothing, and whose entry it does not find."""
    for mine in by_session(calls).values():
        first = next((sent for sent in mine if not asks_nothing(sent)), None)
        warm = [
            sent for sent in mine if first is not None and asks_nothing(sent) and sent.exchange.at <= first.exchange.at
        ]
        if first is None or not warm or not has_markers(first) or not has_kin_head(warm[-1], first):
            continue
        head = n_tokens(first, 0, n_head(first))
        is_read = (read(first) or 0) >= 0.5 * head or any(finds_entry_of(one, first) for one in warm)
        if head >= max(_LEAST_TOKENS, first.row.min_tokens) and not is_read:
            yield Evidence(
                f"the call before it was to warm {head:,} tokens and is another request: they are written again",
                path=first.blocks[0].path,
                sent=first,
            )


HAZARD = Hazard(
    "CKL09",
    "prewarm-mismatch",
    "D",
    "warning",
    source=(
        Pattern(
            (ast.Call,),
            _other_request,
            ("max_tokens=0", "max_tokens=1", "max_tokens = 0", "max_tokens = 1"),
            also=(("max_tokens",),),
            names=("max_tokens",),
        ),
    ),
    requests=(RequestRule("session", _not_found),),
    confirmed_by=("tools_changed", "system_changed"),
)
