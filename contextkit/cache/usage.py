"""What one model call was billed for, in tokens, in one vocabulary for every provider.

Providers count differently (Anthropic's `input_tokens` leaves cached tokens out, OpenAI's `prompt_tokens` holds them
in); here `fresh + read + write_5m + write_1h` is always the whole prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

WRITE_CLASSES: dict[int, str] = {300: "write_5m", 1800: "write_5m", 3600: "write_1h", 43200: "write_1h"}
"""Lifetime in seconds → which of the two write counters it is billed under (OpenAI's 30m and 12h take the same two
places)."""


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
    service_tier: str = field(default="", repr=False)
    """What the call was served as, where prices depend on it: `priority`, `flex`, `batch`, `fast`, `geo-us`, several
    joined by ` + `, as `tier_named` writes it; empty for the standard tier."""

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
            _sum(self.fresh, other.fresh),
            _sum(self.read, other.read),
            _sum(self.write_5m, other.write_5m),
            _sum(self.write_1h, other.write_1h),
            _sum(self.output, other.output),
            self.estimated or other.estimated,
            self.service_tier or other.service_tier,
        )


_STANDARD = frozenset(
    {"", "standard", "default", "auto", "on_demand", "unspecified", "not_available", "global", "none"}
)
"""What providers call the tier of the list price, and a place that changes no price."""


def tier_named(tier: object, speed: object = None, geo: object = None) -> str:
    """Name the service tier of a response as `Usage.service_tier` has it: what a field says of the standard tier is
    empty.

    `tier` is the response's `service_tier`, `speed` and `geo` are Anthropic's `usage.speed` and `usage.inference_geo`.

    >>> tier_named("default"), tier_named("priority"), tier_named("standard", "fast", "us")
    ('', 'priority', 'fast + geo-us')
    """
    parts = [str(part).strip().lower().removeprefix("service_tier_") for part in (tier, speed) if isinstance(part, str)]
    place = geo.strip().lower() if isinstance(geo, str) else ""
    named = [part for part in parts if part not in _STANDARD]
    return " + ".join([*named, *([f"geo-{place}"] if place not in _STANDARD else [])])


def served(usage: Usage, fields: Mapping[str, object]) -> Usage:
    """Return `usage` with the service tier that `fields` of a response, or of its usage, name.

    As it is where they name none.
    """
    named = fields.get("service_tier") or fields.get("serviceTier")  # the latter Gemini's; Bedrock's is an object
    named = named.get("type") if isinstance(named, Mapping) else named
    tier = tier_named(named, fields.get("speed"), fields.get("inference_geo"))
    return replace(usage, service_tier=tier) if tier else usage


def tier_fields(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the usage of a response says of its service tier, for the parts it is made of."""
    return {name: counts[name] for name in ("service_tier", "serviceTier", "speed", "inference_geo") if name in counts}


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


ZERO = Usage(0, 0, 0, 0, 0)
"""The start of a sum."""
