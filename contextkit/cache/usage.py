"""What one model call was billed for, in tokens, in one vocabulary for every provider.

Providers count differently (Anthropic's `input_tokens` leaves cached tokens out, OpenAI's `prompt_tokens` holds them in); here
`fresh + read + write_5m + write_1h` is always the whole prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

WRITE_CLASSES: dict[int, str] = {300: "write_5m", 1800: "write_5m", 3600: "write_1h", 43200: "write_1h"}
"""Lifetime in seconds → which of the two write counters it is billed under (OpenAI's 30m and 12h take the same two places)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, or of several added up. `None` means the provider did not say: never zero."""

    fresh: int | None = None
    """Input tokens neither read from nor written to the cache."""
    read: int | None = None
    """Input tokens read from the cache."""
    write_5m: int | None = None
    """Input tokens written with the short lifetime (Anthropic 5m, OpenAI 30m)."""
    write_1h: int | None = None
    """Input tokens written with the long lifetime (Anthropic 1h, OpenAI 12h)."""
    output: int | None = None
    """Generated tokens, reasoning included."""
    estimated: bool = False
    """Whether our own counting made the numbers, not the provider's bill."""

    @property
    def prompt(self) -> int | None:
        """All input tokens, or None where a part is unknown.

        >>> Usage(fresh=1, read=90, write_5m=9, write_1h=0).prompt
        100
        """
        fresh, read, short, long = self.fresh, self.read, self.write_5m, self.write_1h
        return None if fresh is None or read is None or short is None or long is None else fresh + read + short + long

    @property
    def hit_rate(self) -> float | None:
        """Read tokens over all input tokens, or None where that is unknown or nothing was sent.

        >>> Usage(fresh=1, read=90, write_5m=9, write_1h=0).hit_rate
        0.9
        """
        total = self.prompt
        return None if not total or self.read is None else self.read / total

    def __add__(self, other: Usage) -> Usage:
        """Counter by counter; what one side does not know, the sum does not know."""
        return Usage(
            _sum(self.fresh, other.fresh), _sum(self.read, other.read), _sum(self.write_5m, other.write_5m),
            _sum(self.write_1h, other.write_1h), _sum(self.output, other.output), self.estimated or other.estimated,
        )  # fmt: skip


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


ZERO = Usage(0, 0, 0, 0, 0)
"""The start of a sum."""
