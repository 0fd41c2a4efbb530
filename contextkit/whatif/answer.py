"""What a recording would have cost otherwise, as plain numbers: answers, what they rest on, and what stays unanswered.

Knows nothing of how they are found, or of pages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from contextkit.canonical import Json, canonical
from contextkit.whatif.fix import ASSUMPTIONS, Reading


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the cache rules predict for the calls as they were, without being told their bills, beside these bills."""

    answered_from: str
    """`usage and times`, or `outlines and request bodies`."""
    calls: int
    """How many were predicted."""
    recorded_usd: float
    """What they cost at list prices, as billed."""
    predicted_usd: float
    """What they cost by the prediction."""
    agreed: int | None = None
    """How many were predicted to hit, or to miss, as they did; None where only dollars were compared."""

    @property
    def difference_usd(self) -> float:
        """Predicted less recorded."""
        return self.predicted_usd - self.recorded_usd


@dataclass(frozen=True, slots=True)
class Unexplained:
    """What a replay from usage and times takes over from the bills, as the rules do not explain it."""

    calls: int
    """How many were replayed."""
    n_misses: int
    """Misses that happen again in the replay."""
    n_reads: int
    """Reads of a prefix that somebody unseen wrote, or kept alive."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One fix."""

    fix: str
    """Its name."""
    needs: str
    """What it needs of a record."""
    answered_from: str
    """What of the record answered it, empty where nothing did."""
    calls: int
    """How many calls it was answered for."""
    changed_calls: int | None
    """How many of their prompts it changes; None where it changes no prompt."""
    before_usd: float
    """The recorded bill of all calls with a price."""
    after_usd: float | None
    """The same with this one thing changed, under the first reading of every assumption; None where it could not be
    answered."""
    low_usd: float | None
    """The least of all readings."""
    high_usd: float | None
    """The most."""
    why_not: str
    """Why calls were left out, the most frequent reason first; empty where none were."""
    note: str
    """What else is to be said."""
    to_do: str
    """What to do, in a line."""
    readings: tuple[tuple[Reading, float], ...]
    """Every combination of what was assumed, and the bill under it."""

    @property
    def saves_usd(self) -> float | None:
        """What the change saves; negative where it costs more."""
        return None if self.after_usd is None else self.before_usd - self.after_usd


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Everything."""

    calls: int
    """How many were recorded."""
    calls_with_price: int
    """How many have a bill and a price; only these are in the dollars."""
    recorded_usd: float
    """What they cost."""
    calibrations: tuple[Calibration, ...]
    """One for each way in which calls were predicted."""
    unexplained: Unexplained
    """What the replay from usage and times does not explain."""
    answers: tuple[Answer, ...]
    """One a fix, in the order of the table."""

    def to_json(self) -> str:
        """All of it, as one JSON object; unknown is null."""
        return canonical(
            {
                "format": 1,
                "calls": self.calls,
                "calls_with_price": self.calls_with_price,
                "recorded_usd": self.recorded_usd,
                "calibrations": [{**asdict(one), "difference_usd": one.difference_usd} for one in self.calibrations],
                "unexplained": asdict(self.unexplained),
                "assumptions": [asdict(row) for row in ASSUMPTIONS],
                "answers": [*map(_json, self.answers)],
            }
        ).decode()


def _json(answer: Answer) -> dict[str, Json]:
    readings = [{"assumed": dict(reading), "after_usd": usd} for reading, usd in answer.readings]
    return {
        **{name: getattr(answer, name) for name in answer.__slots__},
        "saves_usd": answer.saves_usd,
        "readings": readings,
    }
