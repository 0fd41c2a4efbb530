"""Figures as people read them: counts, dollars and shares, each of which may be unknown or a lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNKNOWN = "unknown"
"""Stands for a value nobody knows; never 0."""


def dollars(amount: float) -> str:
    """Format an amount, a small one with the digits that matter.

    >>> dollars(0.83), dollars(0.0042), dollars(1234.5), dollars(0), dollars(-0.5), dollars(-0.00001)
    ('$0.83', '$0.0042', '$1,234.50', '$0.00', '-$0.50', '$0.0000')
    """
    digits = 2 if amount == 0 or abs(amount) >= 0.1 else 4
    rounded = round(amount, digits)
    return f"{'-' if rounded < 0 else ''}${abs(rounded):,.{digits}f}"


def counted(n: int, what: str) -> str:
    """Format a number of things.

    >>> counted(1, "call"), counted(1_200, "call")
    ('1 call', '1,200 calls')
    """
    return f"{n:,} {what}{'s' * (n != 1)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its text: `unknown` if it is None, behind `≥` if it is a lower bound."""

    value: Any
    """The number; None if it is unknown."""
    is_lower_bound: bool = False
    """Whether the true number may be larger."""

    def __str__(self) -> str:
        """Format it.

        >>> str(Count(1200, is_lower_bound=True)), str(Dollars(None, is_lower_bound=True)), str(Share(0.941))
        ('≥ 1,200', 'unknown', '94.1%')
        """
        return UNKNOWN if self.value is None else f"{'≥ ' if self.is_lower_bound else ''}{self._text()}"

    def _text(self) -> str:
        return f"{self.value:,}"


class Count(Figure):
    """A number of calls, tokens or misses."""

    __slots__ = ()


class Dollars(Figure):
    """An amount of dollars."""

    __slots__ = ()

    def _text(self) -> str:
        return dollars(self.value)


class Share(Figure):
    """A share of 1; a page draws it as a bar too."""

    __slots__ = ()

    def _text(self) -> str:
        return f"{self.value:.1%}"

    @property
    def spaced(self) -> str:
        """Format it with a space before the sign, as in a sentence.

        >>> Share(0.941).spaced, Share(None).spaced
        ('94.1 %', 'unknown')
        """
        return str(self).replace("%", " %")
