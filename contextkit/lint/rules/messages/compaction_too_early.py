"""compaction-too-early: the history is folded so often that the folding costs more than carrying it.

## What it does
Compaction starts at a fixed share of the window, say half, whatever the tokens cost while they are cached. It
shortens the history, which grows back in a few turns, and starts again.

## Why it costs you
A compaction pays three times: the call that writes the summary, the rewrite of what is kept, and the loss of a warm
prefix. Carried tokens cost a tenth of the input price per turn, on newer models a twentieth or a fortieth. Where
reads are at 0.05 and writes at 1.25 times, one token written costs as much as 25 turns of reading it; folding that
comes back sooner loses money, and details as well.

## Example
    def before_request(messages):
        if n_tokens(messages) > 0.5 * WINDOW:
            messages[:-4] = [summarise(messages[:-4])]

    before_request(messages)
    client.messages.create(model=MODEL, max_tokens=4096, messages=messages)

## Use instead
Compare the two, and fold when it pays or when the cache is cold anyway:

    saved = dropped_tokens * READ_PRICE * turns_left
    spent = kept_tokens * WRITE_PRICE + summary_cost
    if saved > spent or gap_seconds > TTL_SECONDS or n_tokens(messages) > 0.9 * WINDOW:
        messages[:-4] = [summarise(messages[:-4])]

In contextkit a compaction is an entry with its price in tokens; `contextkit report` shows what each has cost, and
`request.overflow` when one is needed.

## Detected by
- source: a compaction at a fixed ratio of the window, 0.6 or less.
- requests: many messages give way to a text about them; the finding says how full the window was and how often it
  came.
- guard: a shrunken history, before the call leaves; that it comes too early shows over several.
- provider: `messages_changed` (Anthropic), `context_compacted` (OpenAI).

## References
- https://github.com/esengine/DeepSeek-Reasonix/issues/3968
- https://github.com/NousResearch/hermes-agent/issues/62389
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.history import come, messages, size
from contextkit.lint.rules.syntax import inside, last_name, words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk


def _folded(step: Step, change: Change) -> Evidence | None:
    """Many messages gave way to a text about them."""
    if change.level != "messages" or change.was[:1] == () or change.was[0].message > 2 or not _is_fold(change):
        return None
    times = 1 + sum(_shrank(a, b) for a, b in zip(step.earlier, step.earlier[1:], strict=False))
    filled = _filled(step.before)
    what = f"{len(change.was)} blocks were folded into {len(change.now)} at {filled:.0%} of the model's window"
    return Evidence(f"{what}, time {times} in this conversation: what stands behind them is written again")


def _is_fold(change: Change) -> bool:
    new = come(change)
    is_told = bool(new) and all(block.type == "text" for block in new)
    return is_told and len({block.message for block in change.was}) >= 3 and 2 * size(change.now) < size(change.was)


def _shrank(before: RecordedCall, after: RecordedCall) -> bool:
    one, other = messages(before), messages(after)
    return bool(one and other) and one[0].body != other[0].body and 2 * size(other) < size(one)


def _filled(sent: RecordedCall) -> float:
    """How much of the window a call took, by its bill, else by its bytes."""
    usage = sent.usage
    billed = sum(n or 0 for n in (usage.fresh, usage.read, usage.write_5m, usage.write_1h)) if usage else 0
    return (billed or size(sent.blocks) / sent.row.bytes_per_token) / max(1, sent.row.window_tokens)


# In code
# --------------------------------------------------------------------------------------------------------------------------

_FOLDS = re.compile(r"summar|compact|condens|fold", re.IGNORECASE)
_SIZES = re.compile(r"token|window|context|budget|limit", re.IGNORECASE)
_EARLY = 0.6
"""Share of the window up to which a fold is early: at reads of a tenth, carrying the history costs less."""


def _at_a_share(branch: ast.If, view: View) -> Iterator[Hit]:
    """A fold at a fixed share of the window, far from its end."""
    test = branch.test
    if (
        not isinstance(test, ast.Compare)
        or not isinstance(test.ops[0], ast.Gt | ast.GtE)
        or not _SIZES.search(words_in(test))
    ):
        return
    shares = [part.value for side in test.comparators for part in walk(side) if isinstance(part, ast.Constant)]
    is_early = any(isinstance(share, float) and 0 < share <= _EARLY for share in shares)
    calls = [node for one in branch.body for node in (one, *inside(one)) if isinstance(node, ast.Call)]
    if is_early and any(_FOLDS.search(last_name(call.func)) for call in calls):
        yield Hit(test, "the history is folded at a fixed share of the window, whatever reading and writing it cost")


HAZARD = Hazard(
    "CKM27",
    "compaction-too-early",
    "A",
    "warning",
    source=(Pattern((ast.If,), _at_a_share, ("summar", "compact", "condens"), is_near=True),),
    requests=(RequestRule("change", _folded, 44),),
    confirmed_by=("messages_changed", "context_compacted"),
)
