"""fan-out-breakpoint-upstream: siblings share a long start, but the last marker stands before the part they share.

## What it does
Finds sub-agents whose only marker closes the system prompt, while the documents or the transcript that follow are the same for all of
them and only the last message differs.

## Why it costs you
What several requests have in common is read as far as the last marker within it. If ten siblings share 60,000 tokens of material behind
a 5,000-token head, ten times 60,000 tokens are billed as fresh input or written, where nine could have been read at a tenth of the
price (a twentieth on Opus and Sonnet 5.5).

## Example
    def ask(question):
        return client.messages.create(model=MODEL, max_tokens=900, system=[marked(SYSTEM)], messages=[user(MATERIAL + question)])

## Use instead
Split the shared part from the question and mark its end. `context.fork()` gives siblings that share every byte said so far:

    def ask(question):
        content = [{"type": "text", "text": MATERIAL, "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": question}]
        return client.messages.create(model=MODEL, max_tokens=900, system=SYSTEM, messages=[{"role": "user", "content": content}])

## Detected by
- source: not visible; what siblings share is known when they are asked.
- requests: first calls of several conversations of a session that begin alike far behind the last marker they have in common.
- guard: not before the second sibling; it compares a conversation with itself.
- provider: silent: each sibling is a first request.

## References
- https://github.com/anthropics/claude-code/issues/82739
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule
from contextkit.lint.rules.bills import common, read
from contextkit.lint.rules.marks import has_markers, marks_of, n_bytes, n_tokens
from contextkit.prompt.diff import common_bytes

_LEAST_TOKENS = 2000


def _shared_unmarked(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    """First calls of a session's conversations that begin alike far beyond the last marker they have in common."""
    conversations: Mapping[str, Sequence[RecordedCall]] = getattr(calls, "conversations", {})
    firsts: dict[str, list[RecordedCall]] = {}
    for sent in sorted((mine[0] for mine in conversations.values()), key=lambda sent: sent.index):
        if has_markers(sent) and marks_of(sent):
            firsts.setdefault(sent.exchange.session, []).append(sent)
    for mine in firsts.values():
        for leader, sibling in pairwise(mine):
            if sibling.row.name == leader.row.name and (found := _beyond(leader, sibling)) is not None:
                yield found


def _beyond(leader: RecordedCall, sibling: RecordedCall) -> Evidence | None:
    shared = common(leader.blocks, sibling.blocks)
    marked = max((mark.index + 1 for mark in marks_of(leader) if mark.index < shared), default=0)
    missed = n_tokens(sibling, marked, shared) + _inside(leader, sibling, shared)
    if missed < max(_LEAST_TOKENS, sibling.row.min_tokens) or shared >= len(sibling.blocks):
        return None
    if (read(sibling) or 0) > n_tokens(sibling, 0, marked) + missed / 2:
        return None
    return Evidence(
        f"siblings share {missed:,} tokens behind the last marker they have in common: each of them pays for these anew",
        path=sibling.blocks[shared].path,
        sent=sibling,
    )


def _inside(leader: RecordedCall, sibling: RecordedCall, shared: int) -> int:
    """Tokens that the first block which differs begins with on both sides."""
    if shared >= min(len(leader.blocks), len(sibling.blocks)):
        return 0
    one, other = leader.blocks[shared], sibling.blocks[shared]
    alike = (
        common_bytes(one.body, other.body)
        if one.type == other.type == "text" and one.level == other.level == "messages"
        else 0
    )
    whole = n_bytes(sibling.blocks[shared : shared + 1])
    return int(n_tokens(sibling, shared, shared + 1) * alike / whole) if whole else 0


HAZARD = Hazard(
    "CKB14", "fan-out-breakpoint-upstream", "A", "warning", requests=(RequestRule("session", _shared_unmarked),)
)
