"""One fact: what, about whom, true from when to when, learned when and from where; and a group of what facts are about.

Takes and gives values; knows nothing of storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from contextkit.canonical import Json, canonical

ALIAS = "also known as"
"""The relation whose value is another name of the subject."""
MOST_NAMED = 8
"""Of members, relations, and values of a relation that a digest names; the rest is a number."""


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


@dataclass(frozen=True, slots=True)
class Group:
    """Entities that have one value in a relation, with a digest made without a model: equal facts give equal text."""

    relation: str
    name: str
    """The value that its members have."""
    members: tuple[str, ...]
    """By name."""
    digest: str
    """Who they are, what is true of how many of them, and when that was learned."""

    @classmethod
    def of(cls, relation: str, name: str, members: Sequence[str], facts: Sequence[Fact]) -> Self:
        """Make a group and its digest from all facts of its members."""
        values: dict[str, Counter[str]] = {}
        texts = {
            (
                fact.subject,
                fact.relation,
                fact.value if isinstance(fact.value, str) else canonical(fact.value, sort=True).decode(),
            )
            for fact in facts
        }
        for _, other, text in texts:
            if other not in (relation, ALIAS):
                values.setdefault(other, Counter())[text] += 1
        lines = [f"{relation} {name}: {_named(members)}"]
        ranked = sorted(values.items(), key=lambda pair: (-pair[1].total(), pair[0]))
        for other, counts in ranked[:MOST_NAMED]:
            common = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
            lines.append(f"- {other}: {_named([text if n == 1 else f'{text} ({n})' for text, n in common])}")
        if len(ranked) > MOST_NAMED:
            lines.append(f"- and {len(ranked) - MOST_NAMED} more relations")
        times = [fact.learned_at for fact in facts]
        lines.append(f"learned {day(min(times))} to {day(max(times))}")
        return cls(relation, name, tuple(members), "\n".join(lines))


def _named(texts: Sequence[str]) -> str:
    more = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def day(seconds: float) -> str:
    """A moment as its date in UTC; as the number it is where no calendar reaches.

    >>> day(1_767_225_600.0), day(1e300)
    ('2026-01-01', '1e+300')
    """
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return repr(seconds)
