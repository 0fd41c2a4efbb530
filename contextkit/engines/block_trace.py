"""One request of a trace whose prompts are block ids.

Takes block ids with their sizes and times, gives requests; knows nothing of files or caches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from contextkit.ledger.calls import BlockIds, ModelCall


@dataclass(frozen=True, slots=True)
class BlockRequest:
    """One model call; equal ids mean equal blocks, across all requests that are replayed together."""

    session: str
    """The conversation it belongs to."""
    lane: str
    """`main`, or the sub-agent inside the session."""
    at: float
    """When it started, in seconds; only differences count."""
    size: int
    """Tokens in a block."""
    ids: Sequence[int]
    """One id a block, from the front."""
    n_tokens: int
    """Tokens of the prompt; its last block may be cut short, or what fills no block have no id."""
    n_output: int = 0
    """Generated tokens."""
    model: str = ""
    """The model that was asked, empty where nobody said."""

    def tokens_of(self, n_blocks: int) -> int:
        """Tokens that the first `n_blocks` blocks hold.

        >>> BlockRequest("s", "main", 0.0, 16, [1, 2], 20).tokens_of(2)
        20
        """
        return min(n_blocks * self.size, self.n_tokens)


def requests_of(calls: Iterable[ModelCall]) -> Iterator[BlockRequest]:
    """Yield the calls whose prompts are block ids, in the order they started."""
    for call in sorted(calls, key=lambda call: call.at):
        if isinstance(call.prompt, BlockIds):
            size, ids = call.prompt.size, list(call.prompt.ids)
            billed = call.usage.prompt if call.usage else None
            output = call.usage.output if call.usage else None
            n_tokens = size * len(ids) if billed is None else billed
            yield BlockRequest(call.session, call.lane, call.at, size, ids, n_tokens, output or 0, call.model)
