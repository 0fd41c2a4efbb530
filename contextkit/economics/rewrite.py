"""A rewrite of the history that could be made: how much leaves the prompt, how much must be written anew, and what that
is billed.

Takes tokens, a model's row and its price, gives dollars. Knows nothing of when to make it, nor of what it removes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from contextkit.cache.usage import Usage
from contextkit.economics.bill import FREE_WRITES, Price, call_usage
from contextkit.errors import UsageError
from contextkit.models import Model


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One compaction, or one pruning."""

    context_tokens: int
    """What the next call repeats if nothing is done: all that was sent and said so far."""
    unchanged_tokens: int
    """Of that, the front that stays byte for byte (tools, system, what is pinned): it is read, not written."""
    rewritten_tokens: int
    """What stands behind it afterwards and must be written anew: the summary, references, the tail that is kept."""
    summary_output_tokens: int = 0
    """What the call generates that makes the summary; 0 where none is made (old results become references)."""
    instruction_tokens: int = 0
    """What that call appends to the unchanged prompt."""
    penalty_usd: float = 0.0
    """What a rewrite is worth avoiding beyond its bill: a guess at lost detail and files read again. Nothing here knows
    it."""

    def __post_init__(self) -> None:
        """Raises `UsageError` for sizes that fit no prompt."""
        small = min(
            self.context_tokens,
            self.unchanged_tokens,
            self.rewritten_tokens,
            self.summary_output_tokens,
            self.instruction_tokens,
        )
        if small < 0 or self.unchanged_tokens > self.context_tokens:
            raise UsageError(f"{self}: give sizes of 0 and more, and at most context_tokens unchanged ones")

    @property
    def after_tokens(self) -> int:
        """What the next call repeats once it is made."""
        return self.unchanged_tokens + self.rewritten_tokens

    @property
    def has_call(self) -> bool:
        """Return whether the model is asked for a summary."""
        return self.summary_output_tokens > 0

    def at(self, context_tokens: float) -> Rewrite:
        """The same rewrite of a context of another size: it ends at the same size."""
        return replace(self, context_tokens=max(round(context_tokens), self.unchanged_tokens))


@dataclass(frozen=True, slots=True)
class Bills:
    """A model's prices for the calls of one rewrite, in dollars."""

    row: Model
    """Whose rules hold."""
    price: Price
    """What a bill costs."""
    ttl_seconds: int
    """Lifetime its entries are written with."""

    def usd(self, usage: Usage) -> float:
        """What one call costs; raises `UsageError` where the model has no price."""
        cost = self.price(usage)
        if cost is None:
            raise UsageError(
                f"no price for {self.row.name}: what a rewrite saves is money, so pass a price, a function of Usage"
            )
        return cost

    def stay(self, context_tokens: int, new_tokens: int, *, is_cold: bool) -> float:
        """The next call on the history as it is."""
        read = 0 if is_cold else context_tokens
        return self.usd(call_usage(read, context_tokens + new_tokens - read, self.row, self.ttl_seconds))

    def after(self, rewrite: Rewrite, new_tokens: int, *, is_cold: bool) -> float:
        """The next call on the rewritten history."""
        read = 0 if is_cold else rewrite.unchanged_tokens
        return self.usd(call_usage(read, rewrite.after_tokens + new_tokens - read, self.row, self.ttl_seconds))

    def summary(self, rewrite: Rewrite, *, is_cold: bool) -> float:
        """The call that makes the summary, and what a rewrite is worth avoiding.

        It marks nothing: what it finds cold it sends in full.
        """
        if not rewrite.has_call:
            return rewrite.penalty_usd
        read = 0 if is_cold else rewrite.context_tokens
        rest = rewrite.context_tokens - read
        sent = (
            call_usage(0, rest, self.row, self.ttl_seconds) if self.row.cache == "billed" else Usage(rest, 0, 0, 0, 0)
        )
        asked = Usage(rewrite.instruction_tokens, read, 0, 0, rewrite.summary_output_tokens)
        return self.usd(sent + asked) + rewrite.penalty_usd

    def leaves_warm(self, rewrite: Rewrite, *, is_cold: bool) -> bool:
        """Whether the unchanged front can be read right after the summary: always, unless it was cold and only marks
        are kept.
        """
        return not is_cold or (rewrite.has_call and self.row.cache in (*FREE_WRITES, "billed"))
