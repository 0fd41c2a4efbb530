"""What a running engine read from its cache beside what the reference cache predicts, call by call.

An `Exchange` is one request as it went to an engine and what came back; `agreement` replays exchanges through a
reference cache and counts. Requests are one at a time. A recording of exchanges can be replayed as well as a running
engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from contextkit.engines.llamacpp import SlotCache
from contextkit.engines.prompt_stream import PromptStream, StreamedPrompt
from contextkit.engines.token_ids import TokenIds


@dataclass(frozen=True, slots=True)
class Reply:
    """What an engine answered."""

    read_tokens: int
    """Tokens of the prompt it read from its cache."""
    generated: tuple[int, ...] = ()
    """Ids of the tokens it generated."""
    slot: int | None = None
    """The slot that served it, of engines that say."""
    refusal: str | None = None
    """What it said where it did not take the prompt, None where it did."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its reply."""

    prompt: StreamedPrompt
    """What was asked."""
    reply: Reply
    """What came back."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One call that the reference cache predicted otherwise."""

    index: int
    """Which request it was, counted from 0."""
    kind: str
    """How its prompt came about."""
    n_tokens: int
    """Tokens of its prompt."""
    reply: Reply
    """What the engine answered."""
    predicted: Reply
    """What the reference cache predicted."""


@dataclass(slots=True)
class Agreement:
    """How far an engine and a reference cache agree."""

    total: int = 0
    """Calls."""
    equal_reads: int = 0
    """Calls with as many tokens read as predicted, or refused as predicted."""
    equal: int = 0
    """Those of them that were served by the slot that was predicted; of engines without slots, all."""
    n_tokens: int = 0
    """Tokens of all prompts."""
    n_read: int = 0
    """Tokens of them the engine read."""
    n_refused: int = 0
    """Calls the engine refused."""
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Kind of prompt → calls that read as predicted, calls."""
    differences: list[Difference] = field(default_factory=list)
    """Calls that are not equal, slots included, in their order."""

    @property
    def share(self) -> float:
        """The part of calls that read as predicted; 1 where there was none."""
        return self.equal_reads / self.total if self.total else 1.0

    @property
    def largest_difference(self) -> int:
        """Tokens by which the worst prediction is off."""
        return max((abs(one.reply.read_tokens - one.predicted.read_tokens) for one in self.differences), default=0)

    def add(self, exchange: Exchange, predicted: Reply) -> None:
        """Count one call and what the reference cache predicted of it."""
        prompt, reply = exchange.prompt, exchange.reply
        is_read_equal = (reply.refusal is None) == (
            predicted.refusal is None
        ) and reply.read_tokens == predicted.read_tokens
        is_equal = is_read_equal and (None in (reply.slot, predicted.slot) or reply.slot == predicted.slot)
        if not is_equal:
            self.differences.append(Difference(self.total, prompt.kind, len(prompt.tokens), reply, predicted))
        self.total += 1
        self.equal_reads += is_read_equal
        self.equal += is_equal
        self.n_tokens += len(prompt.tokens)
        self.n_read += reply.read_tokens
        self.n_refused += reply.refusal is not None
        equal, total = self.kinds.get(prompt.kind, (0, 0))
        self.kinds[prompt.kind] = equal + is_read_equal, total + 1


class Engine(Protocol):
    """An engine that takes prompts one at a time."""

    def complete(self, prompt: StreamedPrompt) -> Reply:
        """Send a prompt and wait for its reply."""
        ...


def exchanges(engine: Engine, stream: PromptStream, n_requests: int) -> Iterator[Exchange]:
    """Send prompts of the stream, and yield each with its reply."""
    for _ in range(n_requests):
        prompt = stream.next()
        reply = engine.complete(prompt)
        stream.replied(prompt, reply.generated)
        yield Exchange(prompt, reply)


def agreement(cache: Any, exchanged: Iterable[Exchange]) -> Agreement:
    """Replay exchanges through an empty reference cache, as they come, and compare.

    `cache` is a `PrefixCache[TokenIds]` that can be told what was generated (`generate`).
    """
    found = Agreement()
    for exchange in exchanged:
        found.add(exchange, predict(cache, exchange, float(found.total)))
    return found


def predict(cache: Any, exchange: Exchange, now: float) -> Reply:
    """Serve one exchange from the reference cache.

    llama.cpp counts chunks it turned to another position as read, so they count here.
    """
    prompt, generated = exchange.prompt, exchange.reply.generated
    lease = cache.begin(TokenIds(prompt.tokens, salt=prompt.salt), now)
    cache.publish(lease, now)
    slot = cache.slot_of(lease) if isinstance(cache, SlotCache) else None
    cache.generate(lease, list(generated))
    cache.end(lease, len(generated), now)
    refusal = lease.hit.reason if lease.hit.reason == "no_room" else None
    return Reply(lease.hit.read_tokens + lease.hit.approximate_tokens, generated, slot, refusal)
