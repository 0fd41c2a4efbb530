"""Which options of a reference cache, set otherwise, would have predicted what a running engine read.

The exchanges with an engine are replayed through reference caches that differ from the one compared in one option each,
or in two that belong together; where one helps and does not explain all, again from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from contextkit.engines.agreement import Agreement, Exchange, agreement
from contextkit.engines.registry import engine
from contextkit.engines.sglang_tree import POLICIES
from contextkit.errors import UsageError

Settings = Mapping[str, Any]
"""Options of a reference cache (`engines.registry`), each with a value."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A reference cache that is set otherwise, and how it agrees."""

    changes: Settings
    """The changed options."""
    equal: int
    """Calls that read as this cache predicts."""
    first: int
    """Index of the first call predicted otherwise; the number of calls where there is none."""


def _capacities(settings: Settings) -> tuple[int, ...]:
    """One block less or more: whether a block that holds nothing is counted is easily mistaken."""
    return settings["capacity_tokens"] - settings["block_size"], settings["capacity_tokens"] + settings["block_size"]


MOST_CHANGES = 3
"""Options that are changed together at most."""
WINDOWS = (128, 512, 1024, 2048, 4096)
"""Sliding windows that models have."""
VALUES: Mapping[str, Mapping[str, Sequence[Any] | Callable[[Settings], Sequence[Any]]]] = MappingProxyType(
    {
        "vllm": {
            "block_size": (16, 32, 64, 128),
            "capacity_tokens": _capacities,
            "engine_version": ("0.22.0", "0.23.0", "0.28.0", "0.31.0", "0.32.0"),  # where `vllm_keys.Rules` changed
            "retention": lambda settings: (0, settings["block_size"], 1024),
            "window": lambda settings: (0, *WINDOWS),
        },
        "sglang": {
            "block_size": (1, 16, 32, 64, 128),
            "capacity_tokens": _capacities,
            "engine_version": ("0.5.9", "0.5.23"),  # the two that `sglang_tree.Rules` knows
            "policy": tuple(POLICIES),
        },
        "llamacpp": {
            "slots": (1, 2, 4, 8),
            "host_tokens": (0, 4_096, 16_384, 65_536, 262_144, 1_048_576),
            "cache_reuse": (0, 1, 2, 4, 8, 16, 32, 64, 128, 256),
            "similarity": tuple(step / 20 for step in range(20)),
            "memory": ("full", "recurrent"),
            "window": lambda settings: WINDOWS if settings["memory"] == "window" else (),
        },
    }
)
"""Engine → option → values to try; what is on or off is tried the other way round besides."""


def other_settings(name: str, settings: Settings, told: Settings = MappingProxyType({})) -> Iterator[Settings]:
    """Yield the changes worth a try; `told` is what the engine says of itself.

    >>> settings = {"block_size": 16}
    >>> list(other_settings("vllm", settings))
    [{'block_size': 32}, {'block_size': 64}, {'block_size': 128}]
    """
    for option, was in settings.items():
        values = VALUES[name].get(option, ())
        if callable(values):
            values = values(settings)
        elif isinstance(was, bool):
            values = (not was,)
        values = (*values, *([told[option]] if option in told else []))
        with_it = {"window": 0} if option == "memory" and settings["window"] else {}
        yield from ({option: value, **with_it} for value in dict.fromkeys(values) if value != was)
    if settings.get("memory", "window") != "window":
        yield from ({"memory": "window", "window": size} for size in WINDOWS)


def trials(name: str, settings: Settings, exchanged: Sequence[Exchange], told: Settings) -> Iterator[Trial]:
    """Replay exchanges once for each change, and yield how far that reference cache agrees.

    Where the best change leaves calls unexplained, further ones are tried beside it, as long as they help.
    """
    made: dict[str, Any] = {}
    equal = _equal(name, settings, exchanged)[0]
    while equal < len(exchanged):
        of_round = []
        for changes in other_settings(name, {**settings, **made}, told):
            try:
                found = _equal(name, {**settings, **made, **changes}, exchanged)
            except UsageError:  # no engine is set so: a policy of another release, a size that fits no block
                continue
            of_round.append(Trial({**made, **changes}, *found))
            yield of_round[-1]
        best = max(of_round, key=lambda trial: (trial.equal, trial.first), default=None)
        if best is None or best.equal <= equal or len(made) >= MOST_CHANGES:
            return
        made, equal = dict(best.changes), best.equal


def _equal(name: str, settings: Settings, exchanged: Sequence[Exchange]) -> tuple[int, int]:
    """Calls that a reference cache predicts, and the index of the first it does not."""
    found = agreement(engine(name, **settings).cache, exchanged)
    return found.equal_reads, found.differences[0].index if found.differences else found.total


def best_of(tried: Iterable[Trial], found: Agreement) -> Trial | None:
    """Return the change that predicts most calls, of equals the smallest that holds longest; None if none is better."""
    best = max(tried, key=lambda trial: (trial.equal, -len(trial.changes), trial.first), default=None)
    return best if best is not None and best.equal > found.equal_reads else None
