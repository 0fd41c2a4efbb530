"""memory-recall-in-front: memories or documents found for the latest question are put in front of the history.

## What it does
Each user turn searches a vector store or a memory with the new question, and the hits go into the system prompt or in
front of the first message. Another question finds other hits.

## Why it costs you
The volatile text stands before everything that could be read. On Anthropic a changed system keeps the tools and loses
the rest; in front of the history it loses all messages. One memory plugin with recall before the breakpoint was
reported at about 1 % of input read. Within a tool loop the question stays and so do the hits, which hides the loss in
short tests.

## Example
    hits = memory.search(question, limit=5)
    system = INSTRUCTIONS + " What you know: " + "; ".join(hit.text for hit in hits)
    messages.append({"role": "user", "content": question})
    client.messages.create(model=MODEL, max_tokens=1024, system=system, messages=messages)

## Use instead
Say what was recalled where it was asked, and leave it there:

    recalled = "; ".join(hit.text for hit in hits)
    messages.append({"role": "user", "content": [
        {"type": "text", "text": question},
        {"type": "text", "text": f"From memory: {recalled}"},
    ]})

What was sent becomes history and is never taken out again. A recall once per session may stand in front. With
contextkit the same parts go into `context.user([...])` and are frozen in the log.

## Detected by
- source: the result of a retriever or memory search that reaches the system text or an `insert` at the front of the
  messages.
- requests: the system text, or the first messages, change below a heading of memories or documents, or at each user
  turn but not within a run of tool calls.
- guard: the same comparison, before the call leaves.
- provider: `system_changed` or `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/NousResearch/hermes-agent/issues/25971
- https://github.com/janhq/jan/issues/8958
- https://github.com/eleboucher/memini/issues/84
"""

from __future__ import annotations

from itertools import pairwise

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.edits import front_name, is_about, new_turn
from contextkit.lint.source.rule import Flow


def _labelled(step: Step, change: Change) -> Evidence | None:
    if not is_about(change, "memory"):
        return None
    return Evidence(f"what was recalled changed in {front_name(change)}, in front of the history")


def _per_turn(step: Step, change: Change) -> Evidence | None:
    """The system text changes whenever the user spoke, and never inside a run of tool calls."""
    if change.level != "system" or not change.is_first or not new_turn(step):
        return None
    pairs = list(pairwise(step.earlier[-20:]))
    spoken = [_differs(a, b) for a, b in pairs if _spoke(a, b)]
    silent = [_differs(a, b) for a, b in pairs if not _spoke(a, b)]
    if len(spoken) < 2 or not all(spoken) or not silent or any(silent):
        return None
    return Evidence(f"system text changed at each of the last {len(spoken) + 1} user turns and never between them")


def _differs(before: RecordedCall, after: RecordedCall) -> bool:
    one, other = ([block.body for block in sent.blocks if block.level == "system"] for sent in (before, after))
    return one != other


def _spoke(before: RecordedCall, after: RecordedCall) -> bool:
    return new_turn(Step(before, after, 0, (), ()))


HAZARD = Hazard(
    "CKS05",
    "memory-recall-in-front",
    "A",
    "error",
    source=(
        Flow(("recall",), ("system", "front"), "{source} finds something else for each question and reaches {sink}"),
    ),
    requests=(RequestRule("change", _labelled, 22), RequestRule("change", _per_turn, 50)),
    confirmed_by=("system_changed", "messages_changed", "input_changed"),
)
