"""The caches of self-hosted engines, by name: what `contextkit serve --cache` bills by and `simulate` replays through.

Takes a name and sizes, gives an empty cache over token ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import Any

from contextkit.cache.prefix_cache import PrefixCache
from contextkit.engines.llamacpp import SlotCache
from contextkit.engines.llamacpp_server import HostShape, Memory, Model, SlotEnd, slot_shape
from contextkit.engines.sglang import RadixCache, RadixShape
from contextkit.engines.tier import TokenChunks, tiers_of
from contextkit.engines.tiered import TieredCache
from contextkit.engines.token_ids import TokenIds
from contextkit.engines.transformers import PageCache, PageShape
from contextkit.engines.vllm import BlockCache
from contextkit.engines.vllm_engine import Shape
from contextkit.engines.vllm_groups import Group
from contextkit.engines.vllm_keys import rules_of
from contextkit.errors import UsageError

CAPACITY_TOKENS = 1 << 20
"""Tokens an engine's memory holds where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One instance of a self-hosted engine."""

    name: str
    """A key of `ENGINES`."""
    cache: PrefixCache[TokenIds]
    """Its cache."""


def _vllm(
    *,
    block_size: int = 16,
    capacity_tokens: int = CAPACITY_TOKENS,
    window: int = 0,
    retention: int = 0,
    engine_version: str = "0.33.0",
) -> PrefixCache[TokenIds]:
    """vLLM: full blocks under chained keys.

    `capacity_tokens` is what the engine calls its KV cache size: `num_gpu_blocks` blocks, one of which is the null block
    and holds nothing (measured, 0.32.0). `window` is the sliding window of a model all of whose layers have one, 0 for
    full attention; `retention` is the engine's `--prefix-cache-retention-interval`, a multiple of the block size, which
    itself keeps every block.
    """
    group = Group("sliding_window", block_size, window) if window else Group(size=block_size)
    return BlockCache(Shape(capacity_tokens // block_size, (group,), rules_of(engine_version), retention=retention))


def _sglang(
    *, block_size: int = 1, capacity_tokens: int = CAPACITY_TOKENS, engine_version: str = "0.5.23", policy: str = "lru"
) -> PrefixCache[TokenIds]:
    """SGLang: a radix tree; a block is a page."""
    return RadixCache(RadixShape(capacity_tokens, block_size, policy, engine_version))


def _llamacpp(
    *,
    slots: int | None = None,
    slot_tokens: int | None = None,
    unified: bool | None = None,
    idle_slots: bool = True,
    similarity: float = 0.1,
    cache_reuse: int = 0,
    context_shift: bool = False,
    host_tokens: int | None = 65_536,
    memory: Memory = "full",
    window: int = 0,
    batch: int = 2048,
    ubatch: int = 512,
    checkpoints: int = 32,
) -> PrefixCache[TokenIds]:
    """llama.cpp's server: slots, and a host cache of whole states."""
    shape = slot_shape(
        slots,
        unified,
        is_saving_idle=idle_slots,
        similarity=similarity,
        n_cache_reuse=cache_reuse,
        host=HostShape(host_tokens, token_bytes=1),
        model=Model(memory, window, batch, ubatch, checkpoints),
        end=SlotEnd(slot_tokens, is_shifting=context_shift),
    )
    return SlotCache(shape)


def _transformers(
    *,
    block_size: int = 256,
    capacity_tokens: int = CAPACITY_TOKENS,
    batch_tokens: int = 8192,
    safety_margin: int = 15,
) -> PrefixCache[TokenIds]:
    """transformers' continuous batching: full pages; all that nobody holds go at once. The margin is in percent."""
    return PageCache(PageShape(capacity_tokens // block_size, block_size, safety_margin / 100, batch_tokens))


def _tiered(
    *,
    block_size: int = 256,
    capacity_tokens: int = CAPACITY_TOKENS,
    host_tokens: int = 4 * CAPACITY_TOKENS,
    disk_tokens: int = 0,
    policy: str = "lru",
) -> PrefixCache[TokenIds]:
    """Chunks in a fast tier, a larger one below it and perhaps a disk, as LMCache keeps them."""
    return TieredCache(TokenChunks(block_size), tiers_of(capacity_tokens, host_tokens, disk_tokens, policy))


ENGINES: Mapping[str, Callable[..., PrefixCache[TokenIds]]] = MappingProxyType(
    {
        "vllm": _vllm,
        "sglang": _sglang,
        "llamacpp": _llamacpp,
        "transformers": _transformers,
        "tiered": _tiered,
    }
)
"""Name → what makes its cache; the keywords of each are the options `engine` takes."""


def engine(name: str, **options: Any) -> Engine:
    """An engine with an empty cache.

    `options` are sizes in tokens and the like, those left out (or None) are the engine's own.

    Raises `UsageError` for a name, an option or a size there is not.

    >>> engine("vllm", capacity_tokens=4096).cache.lookup(TokenIds(range(50)), now=0.0).reason
    'first_write'
    """
    make = _maker(name)
    options_used = {option: value for option, value in options.items() if value is not None}
    allowed = list(signature(make).parameters)
    for option, value in options_used.items():
        if option not in allowed:
            flags = ", ".join(f"--{one.replace('_', '-')}" for one in allowed)
            raise UsageError(
                f"{name} has no {option}", in_code=f"it takes {', '.join(allowed)}", in_shell=f"it takes {flags}"
            )
        least = 0 if option in _MAY_BE_NONE else 1
        if option not in _WORDS and (not isinstance(value, int) or value < least):
            raise UsageError(f"{option} is {value!r}: {name} takes a whole number of {least} or more")
        if option == "engine_version" and not (isinstance(value, str) and _RELEASE.match(value)):
            raise UsageError(f"engine_version is {value!r}: name a release, as in {name} {_RELEASES[name]}")
    return Engine(name, make(**options_used))


def sizes_of(name: str) -> dict[str, Any]:
    """The options an engine takes, each with what it is where nobody says.

    Raises `UsageError` for an engine there is not.

    >>> sizes_of("vllm")["block_size"]
    16
    """
    return {option: parameter.default for option, parameter in signature(_maker(name)).parameters.items()}


def _maker(name: str) -> Callable[..., PrefixCache[TokenIds]]:
    make = ENGINES.get(name)
    if make is None:
        raise UsageError(f"there is no engine {name!r}: choose one of {', '.join(ENGINES)}")
    return make


_WORDS = frozenset({"engine_version", "policy"})
_MAY_BE_NONE = frozenset({"host_tokens", "disk_tokens", "cache_reuse", "window", "retention", "safety_margin"})
"""Options that 0 switches off."""
_RELEASE = re.compile(r"\d+\.\d+\.\d+(\.|\Z)")
_RELEASES = {"vllm": "0.33.0", "sglang": "0.5.23"}
