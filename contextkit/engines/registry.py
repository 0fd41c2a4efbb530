"""The caches of self-hosted engines, by name: what `contextkit serve --cache` bills by and `simulate` replays through.

Takes a name and sizes, gives an empty cache over token ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

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
    if (memory == "window") != (window > 0):
        raise UsageError(
            f"memory {memory} with a window of {window} tokens: a window takes memory window, and that a window"
        )
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
    safety_margin: float = 0.15,
) -> PrefixCache[TokenIds]:
    """transformers' continuous batching: full pages; all that nobody holds go at once."""
    return PageCache(PageShape(capacity_tokens // block_size, block_size, safety_margin, batch_tokens))


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
    allowed = options_of(name)
    for option, value in options_used.items():
        if option not in allowed:
            flags = ", ".join(f"--{one.replace('_', '-')}" for one in allowed)
            raise UsageError(
                f"{name} has no {option}", in_code=f"it takes {', '.join(allowed)}", in_shell=f"it takes {flags}"
            )
        _check(name, allowed[option], value)
    return Engine(name, make(**options_used))


@dataclass(frozen=True, slots=True)
class Option:
    """One option of an engine."""

    name: str
    """Its keyword."""
    kind: type
    """`int`, `float`, `bool` or `str`."""
    default: Any
    """What it is where nobody says; None where that depends on others."""
    choices: tuple[str, ...] = ()
    """The words it may be, of options that are one of a few."""


def options_of(name: str) -> dict[str, Option]:
    """The options an engine takes, by name.

    Raises `UsageError` for an engine there is not.

    >>> options_of("llamacpp")["memory"].choices
    ('full', 'window', 'recurrent')
    """
    found = {}
    for option, parameter in signature(_maker(name), eval_str=True).parameters.items():
        if get_origin(parameter.annotation) is Literal:
            found[option] = Option(option, str, parameter.default, get_args(parameter.annotation))
        else:
            kinds = get_args(parameter.annotation) or (parameter.annotation,)
            found[option] = Option(option, next(kind for kind in kinds if kind is not type(None)), parameter.default)
    return found


def _check(name: str, option: Option, value: Any) -> None:
    """Raise `UsageError` for a value that the option cannot have."""
    said = f"{option.name} is {value!r}"
    least = 0 if option.default == 0 or option.name in _MAY_BE_NONE else 1
    if option.name == "engine_version" and not (isinstance(value, str) and _RELEASE.match(value)):
        raise UsageError(f"{said}: name a release, as in {name} {_RELEASES[name]}")
    if option.choices and value not in option.choices:
        raise UsageError(f"{said}: choose one of {', '.join(option.choices)}")
    if option.kind is bool and not isinstance(value, bool):
        raise UsageError(f"{said}: {name} takes True or False")
    if option.kind is int and (not isinstance(value, int) or value < least):
        raise UsageError(f"{said}: {name} takes a whole number of {least} or more")
    if option.kind is int and value > _MOST.get(option.name, value):
        raise UsageError(f"{said}: {name} takes {_MOST[option.name]:,} at most")
    if option.kind is float and not (isinstance(value, (int, float)) and 0 <= value <= 1):
        raise UsageError(f"{said}: {name} takes a share from 0 to 1")


def sizes_of(name: str) -> dict[str, Any]:
    """The options an engine takes, each with what it is where nobody says.

    Raises `UsageError` for an engine there is not.

    >>> sizes_of("vllm")["block_size"]
    16
    """
    return {name: option.default for name, option in options_of(name).items()}


def _maker(name: str) -> Callable[..., PrefixCache[TokenIds]]:
    make = ENGINES.get(name)
    if make is None:
        raise UsageError(f"there is no engine {name!r}: choose one of {', '.join(ENGINES)}")
    return make


_MAY_BE_NONE = frozenset({"host_tokens", "disk_tokens", "checkpoints"})
"""Options that 0 switches off, although they are on where nobody says; those that are 0 then may be 0 too."""
_MOST = {"slots": 4096, "window": 1 << 20, "batch": 1 << 20, "ubatch": 1 << 20, "checkpoints": 4096}
"""Options of which much more is a slip."""
_RELEASE = re.compile(r"\d+\.\d+\.\d+(\.|\Z)")
_RELEASES = {"vllm": "0.33.0", "sglang": "0.5.23"}
