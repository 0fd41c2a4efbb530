"""One fact: what, about whom, true from when to when, learned when and from where.

Takes and gives values; knows nothing of storage or of other facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from contextkit.canonical import Json, canonical


@dataclass(frozen=True, slots=True)
class Fact:
    """What was learned, with the interval in which it holds, as far as was known at the time asked about."""

    sequence: int
    """Its place among all that was learned, from 0."""
    subject: str
    """Whom or what it is about."""
    relation: str
    """What is said of it: `lives in`, `price of`."""
    value: Json
    """What the relation leads to; text, number, or any JSON value but null."""
    valid_from: float
    """Since when it is true, seconds since 1970; -inf where it always was."""
    valid_to: float | None
    """From when on it is true no more (that moment excluded), None while nothing has ended it. Equal to `valid_from`:
    it never was."""
    learned_at: float
    """When it was learned, seconds since 1970."""
    episode: str
    """What it was learned from: an entry's or a reference's id, to be opened and checked."""
    ended_by: int | None = None
    """Sequence of the fact that contradicts it and so ended it, None where it was told with its end, or holds."""

    def holds_at(self, moment: float) -> bool:
        """Whether it is true at `moment`; +inf asks for what is true with no end known."""
        return self.valid_from <= moment and (self.valid_to is None or moment < self.valid_to)

    def __str__(self) -> str:
        """In words, with dates in UTC.

        >>> print(Fact(0, "Anna", "lives in", "Rome", 0.0, None, 86_400.0, "entry/3"))
        Anna lives in "Rome", since 1970-01-01 (learned 1970-01-02 from entry/3)
        """
        since = "always" if self.valid_from == float("-inf") else f"since {day(self.valid_from)}"
        until = "" if self.valid_to is None else f" until {day(self.valid_to)}"
        value = canonical(self.value).decode()
        return f"{self.subject} {self.relation} {value}, {since}{until} (learned {day(self.learned_at)} from {self.episode})"


def day(seconds: float) -> str:
    """A moment as its date in UTC; as the number it is where no calendar reaches.

    >>> day(1_767_225_600.0), day(1e300)
    ('2026-01-01', '1e+300')
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return repr(seconds)
