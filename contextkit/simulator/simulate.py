"""What a cache would have done with a recorded trace.

Takes a ledger whose prompts are outlined and a cache, gives the same exchanges with the usage that cache bills. Times come from the
trace; nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.errors import UsageError
from contextkit.ledger.exchange import Exchange
from contextkit.ledger.ledger import Ledger
from contextkit.models import model_named
from contextkit.simulator.reference import reference_cache


def simulate(ledger: Ledger, cache: PrefixCache[Prompt] | None = None) -> Ledger:
    """Replay every exchange with an outline, in order of start, through `cache` (by default the one each model's provider runs).

    Calls that overlap are seen as they were: a response that had not begun has published nothing. Exchanges without an outline are
    left out.
    """
    if not isinstance(ledger, Ledger):
        raise UsageError(f"a ledger is replayed, not {type(ledger).__name__}: Ledger.read(path), or context.ledger")
    caches: dict[str, PrefixCache[Prompt]] = {}
    replayed, pending = Ledger(), list[tuple[float, PrefixCache[Prompt], Lease]]()
    for exchange, prompt in _in_order(ledger):
        if prompt is None:
            continue
        used = cache if cache is not None else caches.setdefault(exchange.model, reference_cache(model_named(exchange.model)))
        pending = _published(pending, exchange.at)
        lease = used.begin(prompt, exchange.at)
        if exchange.first_byte_at is not None:
            pending.append((exchange.first_byte_at, used, lease))
        output = exchange.usage.output if exchange.usage else None
        replayed.append(replace(exchange, usage=replace(lease.usage, output=output, estimated=True)))
    return replayed


def _in_order(ledger: Ledger) -> Iterable[tuple[Exchange, Prompt | None]]:
    """Exchanges with their prompts by time of start. Recorded is when they ended: where calls overlapped the prompts are copied."""
    if all(one.at <= other.at for one, other in pairwise(ledger)):
        return ledger.prompts()
    return sorted(((exchange, prompt and _copied(prompt)) for exchange, prompt in ledger.prompts()), key=lambda row: row[0].at)


def _copied(prompt: Prompt) -> Prompt:
    return replace(prompt, digests=prompt.digests[:], ends_tokens=prompt.ends_tokens[:], positions=prompt.positions[:])


def _published(pending: list[tuple[float, PrefixCache[Prompt], Lease]], now: float) -> list[tuple[float, PrefixCache[Prompt], Lease]]:
    """Make readable what began by `now`; give back the rest."""
    for at, cache, lease in sorted((item for item in pending if item[0] <= now), key=lambda item: item[0]):
        cache.publish(lease, at)
    return [item for item in pending if item[0] > now]
