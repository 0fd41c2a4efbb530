"""Replay of a ledger of token ids, recorded by `contextkit serve --cache`, on a self-hosted engine's cache.

Options are the engine's own, sizes in tokens; those left out have the defaults of `serve`. With the options of the
server every call is billed what the server billed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextkit.cache.usage import ZERO
from contextkit.engines.compare import Counts, Outcome
from contextkit.engines.registry import engine, sizes_of
from contextkit.engines.simulate import Watch, simulate
from contextkit.engines.trace_engines import POLICIES, Setting
from contextkit.errors import UsageError
from contextkit.ledger.calls import Tokens
from contextkit.ledger.ledger import Ledger

_ROOMS = ("capacity_tokens", "host_tokens")
"""Options that say how much is held; what an engine has of them, the first is its capacity."""


def has_tokens(ledger: Ledger) -> bool:
    """Return whether any of its prompts is recorded as token ids."""
    return any(type(call.prompt) is Tokens for call in ledger)


def replay_engine(ledger: Ledger, name: str, *, watch: Watch = iter, **options: Any) -> Outcome:
    """Send every call of `ledger` that recorded token ids through an empty cache of engine `name` again.

    `options` are those of `contextkit.engines.registry.engine`; those that are left out or None are the engine's own.
    Blocks are the engine's (pages, chunks, for llama.cpp tokens), the last one of a prompt counted whole. Where `watch`
    stops, the figures are those of the calls before. Raises `UsageError` for an engine, an option or a size there is
    not, and where no call recorded token ids.
    """
    calls = Ledger()
    for call in ledger:
        if type(call.prompt) is Tokens:
            calls.append(call)
    if not len(calls):
        raise UsageError(
            f"{name} reads token ids, and no call of this ledger recorded any: record one with `contextkit serve --cache`"
        )
    cache = engine(name, **options).cache
    size = block_tokens(name, options.get("block_size"))
    usages = [call.usage or ZERO for call in simulate(calls, cache, watch=watch)]
    sizes = [(usage.prompt or 0, usage.read or 0) for usage in usages]
    blocks, hit_blocks = (sum(-(-row[place] // size) for row in sizes) for place in (0, 1))
    tokens, hit_tokens = (sum(row[place] for row in sizes) for place in (0, 1))
    counts = Counts(len(sizes), blocks, hit_blocks, tokens, hit_tokens)
    return Outcome(_setting(name, options), counts, _n_evicted(name, cache.stats(), size))


def _n_evicted(name: str, stats: Mapping[str, int], size: int) -> int | None:
    """Blocks the engine forgot to make room, by its counters; None for llama.cpp, which does not count them."""
    if name in ("vllm", "transformers"):
        return stats["blocks_evicted"]
    lowest = "evicted_tokens_disk" if "evicted_tokens_disk" in stats else "evicted_tokens_host"
    counter = {"sglang": "tokens_evicted", "tiered": lowest}.get(name)
    return stats[counter] // size if counter else None


def block_tokens(name: str, size: int | None = None) -> int:
    """Tokens in a block of engine `name`, its own where `size` says none.

    Raises `UsageError` for an engine there is not.

    >>> block_tokens("vllm"), block_tokens("tiered", 64), block_tokens("llamacpp")
    (16, 64, 1)
    """
    return int(size or sizes_of(name).get("block_size", 1))


def room_of(name: str) -> str:
    """The option that says how many tokens an engine holds; raises `UsageError` for an engine there is not.

    >>> room_of("vllm"), room_of("llamacpp")
    ('capacity_tokens', 'host_tokens')
    """
    sizes = sizes_of(name)
    return next(room for room in _ROOMS if room in sizes)


def _setting(name: str, options: Mapping[str, Any]) -> Setting:
    """Return the setting of a replay, sizes in blocks."""
    sizes = {**sizes_of(name), **{option: value for option, value in options.items() if value is not None}}
    size, room = block_tokens(name, sizes.get("block_size")), room_of(name)
    host = sizes["host_tokens"] // size if "host_tokens" in sizes and room != "host_tokens" else None
    disk = sizes.get("disk_tokens", 0) // size or None
    policy = sizes.get("policy", POLICIES[name][0])
    return Setting(name, policy, sizes[room] // size, 1, sizes.get("slots", 1), host, disk)
