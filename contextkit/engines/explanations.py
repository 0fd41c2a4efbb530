"""Which option of a reference cache, set otherwise, would have predicted what a running engine read.

The exchanges with an engine are replayed through reference caches that differ from the one compared in one option each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

from contextkit.engines.agreement import Agreement, Exchange, agreement
from contextkit.engines.registry import ENGINES, engine
from contextkit.engines.sglang_tree import POLICIES
from contextkit.errors import UsageError

Settings = Mapping[str, Any]
"""Options of a reference cache (`engines.registry`), each with a value."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A reference cache with one option changed, and how it agrees."""

    option: str
    """The option."""
    value: Any
    """Its changed value."""
    equal: int
    """Calls predicted as they were."""
    first: int
    """Index of the first call predicted otherwise; the number of calls where there is none."""


def _capacities(settings: Settings) -> tuple[int, ...]:
    """One block less or more: whether a block that holds nothing is counted is easily mistaken."""
    return settings["capacity_tokens"] - settings["block_size"], settings["capacity_tokens"] + settings["block_size"]


VALUES: Mapping[str, Mapping[str, Sequence[Any] | Callable[[Settings], Sequence[Any]]]] = MappingProxyType(
    {
        "vllm": {
            "block_size": (16, 32, 64, 128),
            "capacity_tokens": _capacities,
            "engine_version": ("0.22.0", "0.23.0", "0.28.0", "0.31.0", "0.32.0"),  # where `vllm_keys.Rules` changed
            "retention": lambda settings: (0, settings["block_size"], 1024),
            "window": (0, 128, 512, 1024, 2048, 4096),
        },
        "sglang": {
            "block_size": (1, 16, 32, 64, 128),
            "capacity_tokens": _capacities,
            "engine_version": ("0.5.9", "0.5.23"),  # the two that `sglang_tree.Rules` knows
            "policy": tuple(POLICIES),
        },
        "llamacpp": {
            "slots": (1, 2, 4, 8),
            "host_tokens": (0, 4_096, 16_384, 65_536, 262_144),
            "cache_reuse": (0, 8, 32, 256),
        },
    }
)
"""Engine → option → values to try. Options that are not here are tried where a type lists their values."""


def other_settings(name: str, settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield the changes of one option worth a try.

    >>> settings = {"block_size": 16}
    >>> [value for _, value in other_settings("vllm", settings)]
    [32, 64, 128]
    """
    parameters = signature(ENGINES[name], eval_str=True).parameters
    for option, was in settings.items():
        values = VALUES[name].get(option, ())
        if callable(values):
            values = values(settings)
        elif parameters[option].annotation is bool:
            values = (not was,)
        elif get_origin(parameters[option].annotation) is Literal:
            values = get_args(parameters[option].annotation)
        yield from ((option, value) for value in dict.fromkeys(values) if value != was)


def trials(name: str, settings: Settings, exchanged: Sequence[Exchange]) -> Iterator[Trial]:
    """Replay exchanges once for each change of one option, and yield how far that reference cache agrees."""
    for option, value in other_settings(name, settings):
        try:
            cache = engine(name, **(dict(settings) | {option: value})).cache
        except UsageError:  # no engine is set so: a policy of another release, a size that fits no block
            continue
        found = agreement(cache, exchanged)
        yield Trial(option, value, found.equal, _first(found))


def best_of(tried: Iterable[Trial], found: Agreement) -> Trial | None:
    """Return the change that makes most calls equal, of equals the one that holds longest; None if none is better."""
    best = max(tried, key=lambda trial: (trial.equal, trial.first), default=None)
    return best if best is not None and best.equal > found.equal else None


def _first(found: Agreement) -> int:
    return found.differences[0].index if found.differences else found.total
