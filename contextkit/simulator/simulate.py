"""What a cache would have done with a recorded trace.

Takes a ledger whose prompts are outlined and a cache, gives the same exchanges with the usage that cache bills. Times come from the
trace; nothing is sent.
"""

from __future__ import annotations

from dataclasses import replace

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.ledger.ledger import Ledger
from contextkit.models import model_named
from contextkit.simulator.reference import reference_cache


def simulate(ledger: Ledger, cache: PrefixCache[Prompt] | None = None) -> Ledger:
    """Replay every exchange with an outline, in order of start, through `cache` (by default the one each model's provider runs).

    Calls that overlap are seen as they were: a response that had not begun has published nothing. Exchanges without an outline are
    left out.
    """
    caches: dict[str, PrefixCache[Prompt]] = {}
    replayed, pending = Ledger(), list[tuple[float, PrefixCache[Prompt], Lease]]()
    for exchange, prompt in ledger.prompts():
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


def _published(pending: list[tuple[float, PrefixCache[Prompt], Lease]], now: float) -> list[tuple[float, PrefixCache[Prompt], Lease]]:
    """Make readable what began by `now`; give back the rest."""
    for at, cache, lease in sorted((item for item in pending if item[0] <= now), key=lambda item: item[0]):
        cache.publish(lease, at)
    return [item for item in pending if item[0] > now]
