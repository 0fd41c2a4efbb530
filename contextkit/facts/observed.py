"""What recorded usage shows and no provider documents, as `facts/observed.toml` has it.

Takes the name of a model or of an event, gives the measured figures. Knows nothing of ledgers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from contextkit.facts import load


@dataclass(frozen=True, slots=True)
class ReadStep:
    """How a provider rounds reads down."""

    step: int
    """Reads are `offset` plus a multiple of this many tokens."""
    offset: int = 0
    """Tokens."""

    def down(self, tokens: int) -> int:
        """The longest read of a prompt of so many tokens.

        >>> ReadStep(512, 384).down(1_000), ReadStep(128).down(1_000), ReadStep(512, 384).down(100)
        (896, 896, 0)
        """
        return max(0, tokens - (tokens - self.offset) % self.step) if tokens >= self.offset else 0

    def fits(self, read: int) -> bool:
        """Return whether so many tokens may have been read."""
        return not read or (read >= self.offset and (read - self.offset) % self.step == 0)


@dataclass(frozen=True, slots=True)
class EventRates:
    """How often calls behind an event missed, beside calls behind a prompt with no event."""

    name: str
    """As readers of logs remark it: `slash command`."""
    cause: str
    """The cause of a miss behind it, where the figures or a published rule support that."""
    documented: str
    """The published rule that makes it a cause, with its source; empty where none does."""
    calls: int
    """Calls behind such an event."""
    missed: int
    """How many of them missed."""
    base_calls: int
    """Calls behind a prompt of the user's with no event."""
    base_missed: int
    """How many of them missed."""
    held_out: bool
    """Whether these are of recordings other than those in which the association was noticed."""
    evidence: str
    """What it was measured on."""
    date: str
    """ISO date of that."""

    @property
    def rate(self) -> float:
        """Share of the calls behind it that missed."""
        return self.missed / self.calls if self.calls else 0.0

    @property
    def base_rate(self) -> float:
        """The same of calls behind no event."""
        return self.base_missed / self.base_calls if self.base_calls else 0.0

    @property
    def attributable(self) -> float:
        """Of the misses behind it, the share above the base rate (the attributable fraction among the exposed)."""
        return max(0.0, 1 - self.base_rate / self.rate) if self.missed else 0.0

    @property
    def explains(self) -> bool:
        """Return whether it is named as the cause of a miss: by a published rule, or by its effect on other recordings than those
        in which it was noticed.
        """
        is_measured = self.missed >= LEAST_MISSED and self.attributable >= LEAST_ATTRIBUTABLE
        return bool(self.documented) or (self.held_out and is_measured)

    @property
    def figures(self) -> str:
        """Its rates, in words."""
        return f"{self.missed} of {self.calls} calls behind one missed, {self.base_rate:.0%} behind other prompts"


LEAST_MISSED, LEAST_ATTRIBUTABLE = 5, 0.8
"""An undocumented event is a cause where at least so many misses were measured, and so much of them is above chance."""


@dataclass(frozen=True, slots=True)
class MeasuredLifetime:
    """How long a model's prefixes are read, where that is less than documented."""

    seconds: int
    """Pause after which no more than the head is read."""
    calls: int
    """Calls after a longer pause."""
    missed: int
    """How many of them missed."""


def measured_lifetime(model: str) -> MeasuredLifetime | None:
    """The lifetime that was measured for a model; None where none is shorter than documented.

    >>> measured_lifetime("gpt-5.5").seconds, measured_lifetime("claude-opus-4-5")
    (3600, None)
    """
    return _lifetimes().get(model)


def event_rates(name: str) -> EventRates | None:
    """The measured rates of an event; None for one that was not measured.

    >>> rates = event_rates("thinking")
    >>> rates is not None and rates.explains, event_rates("full moon")
    (True, None)
    """
    return _events().get(name)


def miss_share(name: str) -> float:
    """Of the calls with evidence of that name, the share that missed.

    Raises `KeyError` for a name without a row.

    >>> miss_share("shorter prompt") < 0.5
    True
    """
    return _shares()[name]


def read_steps(model: str) -> tuple[ReadStep, ...]:
    """Roundings that were measured for a model, beside the documented one.

    >>> read_steps("gpt-5.5"), read_steps("claude-opus-4-5")
    ((ReadStep(step=512, offset=384),), ())
    """
    return tuple(step for name, step in _steps() if name == model)


@lru_cache(maxsize=1)
def _events() -> dict[str, EventRates]:
    rows = load.built_in_table("observed.toml")["events"]
    return {row["name"]: EventRates(**{**row, "date": row["date"].isoformat()}) for row in rows}


@lru_cache(maxsize=1)
def _shares() -> dict[str, float]:
    rows = load.built_in_table("observed.toml")["shares"]
    return {row["name"]: row["missed"] / row["calls"] for row in rows}


@lru_cache(maxsize=1)
def _lifetimes() -> dict[str, MeasuredLifetime]:
    rows = load.built_in_table("observed.toml")["lifetimes"]
    return {row["model"]: MeasuredLifetime(row["seconds"], row["calls"], row["missed"]) for row in rows}


@lru_cache(maxsize=1)
def _steps() -> tuple[tuple[str, ReadStep], ...]:
    rows = load.built_in_table("observed.toml")["read_steps"]
    return tuple((row["model"], ReadStep(row["step"], row["offset"])) for row in rows)
