"""early-eviction: an entry is gone before its time, although nothing changed.

## What it does
Finds calls whose bytes extend the call before, within its lifetime, and that read the head only.

## Why it costs you
A provider may evict: under load, in a failover, by its own policy. Typically the system prompt, which many calls refresh, survives, and
the conversation is written again. No code change helps. It is named so that nobody hunts a bug that is not there, and so that the cost
can be told apart from what can be mended.

## Example
    client.messages.create(**body)
    client.messages.create(**{**body, "messages": body["messages"] + new_turn})

## Use instead
A second anchor closer to the tail limits what an eviction costs; beyond that only a note that it happened. `contextkit report` lists
such misses apart from those with a cause in the text:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096, head_ttl="1h"), system=SYSTEM, tools=TOOLS)

## Detected by
- source: not visible.
- requests: an extended prefix, a gap within the lifetime, a marker within reach, and a read no longer than the head.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent: the text is the same.

## References
- https://github.com/anthropics/claude-code/issues/94177
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.bills import began, is_kept, left_by, read
from contextkit.lint.rules.history import has_thinking, is_image_toggled
from contextkit.lint.rules.marks import has_markers, marks_of, n_head, n_tokens, reach

_SOON_SECONDS = 5.0
_LEAST_TOKENS = 2000
_ABOUT = 1.2


def _gone_early(step: Step) -> Evidence | None:
    got, there, start = read(step.after), _left(step), began(step.before)
    if got is None or start is None or not has_markers(step.after) or there - got < _LEAST_TOKENS or not is_kept(step):
        return None
    seen, lasts = reach(step), {mark.index: mark.ttl_seconds for mark in marks_of(step.before)}
    is_found = seen.last >= 0 and seen.best >= seen.last
    if not is_found or step.after.exchange.at - start <= _SOON_SECONDS or step.gap_seconds >= lasts[seen.last]:
        return None
    if got > _ABOUT * n_tokens(step.after, 0, n_head(step.after)) or _is_edited(step):
        return None
    return Evidence(
        f"{step.gap_seconds:,.0f} s after the call before, within the lifetime and with the same bytes, {there - got:,} tokens "
        "were not there any more",
        path=step.before.blocks[seen.last].path,
    )


def _left(step: Step) -> int:
    """What the call before left: no more than its prompt, of which a server tool's bill adds up several readings."""
    return min(left_by(step.before), n_tokens(step.after, 0, len(step.before.blocks)))


def _is_edited(step: Step) -> bool:
    """Whether the provider takes something out of the prompt by itself, or drops messages for an image that came or
    went.
    """
    is_stripped = step.after.row.strips_thinking and any(has_thinking(sent) for sent in (step.before, step.after))
    return is_stripped or "context_management" in step.after.params or is_image_toggled(step)


HAZARD = Hazard("CKL05", "early-eviction", "B", "note", requests=(RequestRule("step", _gone_early),))
