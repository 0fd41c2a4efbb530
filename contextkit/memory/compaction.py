"""When a conversation is compacted and how a summary is asked for, and what a compaction leaves outside the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from contextkit.canonical import Json
from contextkit.errors import UsageError

if TYPE_CHECKING:
    from contextkit.memory.reference import Reference

INSTRUCTION = (
    "Stop here and write a summary of this conversation for yourself: it will stand in place of everything above. Keep what was asked, "
    "what was decided and why, what is done and what is not, names, paths, numbers and exact wordings that are still needed, and the "
    "ids of references worth reading again. Call no tool. Answer with the summary alone."
)
"""The request for a summary; appended, so that everything before it is read from the cache."""
MOST_FAILURES = 10
"""Failed calls that an opening lists unless a policy says otherwise."""
OnLost = Literal["raise", "warn", "ignore"]
"""What a compaction does that leaves the model something it can no longer read."""
MOST_KEPT_TOKENS = 20_000
"""Tokens of the newest turns that stay word for word unless a policy says otherwise."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """When a conversation is compacted, what is kept, and who writes the summary: `Context(…, compact=Compaction())`."""

    at_tokens: int | None = None
    """Compact where the predicted prompt exceeds so many tokens. None: where it pays (`contextkit.economics`), and where
    the window leaves no room for a reply."""
    keep_tokens: int | None = None
    """How much of the newest turns is kept word for word; what the model has not replied to yet is kept in any case.
    None: a fifth of `at_tokens`, 20,000 at most."""
    model: Any = None
    """Provider whose model writes the summary; it reads the whole prompt at its own price. None: the conversation's own,
    which reads it from the cache."""
    client: Any = None
    """SDK client of `model`, for `context.compact_if_due`; None where the conversation's own client serves both."""
    instruction: Any = INSTRUCTION
    """How a summary is asked for."""
    on_lost: OnLost = "warn"
    """What happens where the model cannot read an item of `context.survival()` any more: raise `ItemsLost` before
    anything is compacted, warn, or nothing. A provider's own compaction cannot be prevented: the error comes after it."""
    keep_failures: int = MOST_FAILURES
    """How many of the newest failed calls that leave the prompt are listed behind the summary, in 200 characters each;
    0 for none."""

    def __post_init__(self) -> None:
        for name in "at_tokens", "keep_tokens":
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"Compaction({name}={value!r}): a whole number of tokens, 1 or more, or None")
        if type(self.keep_failures) is not int or self.keep_failures < 0:
            raise UsageError(f"Compaction(keep_failures={self.keep_failures!r}): how many failed calls, 0 or more")
        if self.at_tokens is not None and self.keep_tokens is not None and 2 * self.keep_tokens > self.at_tokens:
            raise UsageError(
                f"Compaction(at_tokens={self.at_tokens}, keep_tokens={self.keep_tokens}): keep at most half, so that a "
                "compaction is not due again at once"
            )
        if self.on_lost not in get_args(OnLost):
            raise UsageError(f"Compaction(on_lost={self.on_lost!r}): one of {', '.join(get_args(OnLost))}")

    @property
    def retained_tokens(self) -> int:
        """`keep_tokens`, or what stands for it."""
        if self.keep_tokens is not None:
            return self.keep_tokens
        return MOST_KEPT_TOKENS if self.at_tokens is None else min(MOST_KEPT_TOKENS, self.at_tokens // 5)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What a compaction leaves outside the window, and how the model gets there."""

    listing: str
    """The newest references, the index of all and the conversation before, one line each; "" where there are none."""
    references: tuple[Reference, ...] = ()
    """Those that were made for it."""

    @property
    def body(self) -> dict[str, Json]:
        """Field of the entry that holds the listing."""
        return {"references": [reference.body for reference in self.references]} if self.references else {}
