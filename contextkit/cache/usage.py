"""Tokens that one model call was billed for, in one vocabulary for every provider.

Providers count differently (Anthropic's `input_tokens` leaves cached tokens out, OpenAI's `prompt_tokens` holds them
in); here `fresh + read + writes` is always the whole prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

PRICED_TTLS = (300, 1800, 3600, 43200)
"""Lifetimes in seconds that have a write price."""
LONG_TTL_SECONDS = 3600
"""From this lifetime on a write has the long price: 1h at Anthropic, 12h at OpenAI."""
OLD_TTLS: Mapping[str, tuple[int, int]] = {"openai": (1800, 43200)}
"""Provider → lifetimes behind `write_5m` and `write_1h` of ledgers written before writes were keyed by lifetime; 300
and
3,600 of every other."""

CounterName = Literal["fresh", "read", "writes", "output"]
COUNTERS: tuple[CounterName, ...] = ("fresh", "read", "writes", "output")
Quality = Literal["billed", "partial", "estimated", "unknown"]
"""billed: the provider's number; partial: a lower bound, as the placeholder of a stream that was cut; estimated:
counted
here; unknown: nobody said, so the counter is None."""
QUALITIES: tuple[Quality, ...] = ("billed", "partial", "estimated", "unknown")
"""Best first: a sum has the worst quality of its parts."""

Writes = tuple[tuple[int, int | None], ...]
"""(lifetime in seconds, tokens written for so long), the shortest first; no zeros."""
_UNSET: Final[Any] = object()


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Usage:
    """Tokens of one call, or of several added up. `None` means the provider did not say: never zero.

    >>> Usage(fresh=4, read=90, writes={300: 4, 3600: 2}, output=5)
    Usage(fresh=4, read=90, writes={300: 4, 3600: 2}, output=5)
    >>> Usage(fresh=4, read=90, writes={1800: 6}, output=1, qualities={"output": "partial"}).quality("output")
    'partial'
    """

    fresh: int | None
    """Input tokens neither read from nor written to the cache."""
    read: int | None
    """Input tokens read from the cache."""
    writes: Writes | None
    """Input tokens written to the cache by lifetime: `dict(usage.writes)` maps seconds to tokens. None where nobody
    said
    what was written; tokens are None where they are not known of one lifetime."""
    output: int | None
    """Generated tokens, reasoning included."""
    estimated: bool
    """Whether our own counting made the numbers, not the provider's bill."""
    service_tier: str
    """Tier the call was served at, where prices depend on it: `priority`, `flex`, `batch`, `fast`, `geo-us`, several
    joined by ` + `, as `tier_named` writes it; empty for the standard tier."""
    qualities: tuple[tuple[str, Quality], ...]
    """(counter, quality) of counters that are `partial` or, in a usage that is not, `estimated`."""

    def __init__(
        self,
        fresh: int | None = None,
        read: int | None = None,
        write_5m: int | None = _UNSET,
        write_1h: int | None = _UNSET,
        output: int | None = None,
        estimated: bool = False,
        service_tier: str = "",
        *,
        writes: Mapping[int, int | None] | Iterable[tuple[int, int | None]] | None = _UNSET,
        qualities: Mapping[CounterName, Quality] | Mapping[str, Quality] | Iterable[tuple[str, Quality]] = (),
    ) -> None:
        """`writes` maps lifetimes in seconds to tokens.

        `write_5m` and `write_1h` are its former halves: given alone they are the writes for 300 and 3,600 seconds,
        given
        beside `writes` they replace those with a short or a long lifetime.
        """
        set_field = object.__setattr__
        set_field(self, "fresh", fresh)
        set_field(self, "read", read)
        if writes is _UNSET:
            writes = _from_halves(
                None if write_5m is _UNSET else write_5m, None if write_1h is _UNSET else write_1h, (300, 3600)
            )
        else:
            if writes is not None:
                pairs = writes.items() if type(writes) is dict or isinstance(writes, Mapping) else writes
                written = [(int(ttl), tokens) for ttl, tokens in pairs if tokens != 0]
                writes = tuple(sorted(written)) if len(written) > 1 else tuple(written)
            if write_5m is not _UNSET or write_1h is not _UNSET:
                writes = _with_halves(writes, write_5m, write_1h)
        set_field(self, "writes", writes)
        set_field(self, "output", output)
        set_field(self, "estimated", estimated)
        set_field(self, "service_tier", service_tier)
        set_field(self, "qualities", tuple(sorted(dict(qualities).items())) if qualities else ())

    def __repr__(self) -> str:
        parts = [f"fresh={self.fresh!r}", f"read={self.read!r}"]
        parts.append(f"writes={None if self.writes is None else dict(self.writes)!r}")
        parts.append(f"output={self.output!r}")
        if self.estimated:
            parts.append("estimated=True")
        if self.qualities:
            parts.append(f"qualities={dict(self.qualities)!r}")
        return f"Usage({', '.join(parts)})"

    @property
    def write_5m(self) -> int | None:
        """Input tokens written with a short lifetime, below an hour, whichever it is; None where that is unknown."""
        return _written(self.writes, is_long=False)

    @property
    def write_1h(self) -> int | None:
        """Input tokens written with a long lifetime, an hour or more, whichever it is; None where that is unknown."""
        return _written(self.writes, is_long=True)

    @property
    def written(self) -> int | None:
        """Input tokens written with any lifetime; None where one is unknown.

        >>> Usage(writes={1800: 7, 43200: 2}).written, Usage().written
        (9, None)
        """
        if self.writes is None:
            return None
        total = 0
        for _, tokens in self.writes:
            if tokens is None:
                return None
            total += tokens
        return total

    @property
    def prompt(self) -> int | None:
        """All input tokens, or None where a part is unknown.

        >>> Usage(fresh=1, read=90, writes={300: 9}).prompt
        100
        """
        written = self.written
        if self.fresh is None or self.read is None or written is None:
            return None
        return self.fresh + self.read + written

    @property
    def hit_rate(self) -> float | None:
        """Read tokens over all input tokens, or None where that is unknown or nothing was sent.

        >>> Usage(fresh=1, read=90, writes={300: 9}).hit_rate
        0.9
        """
        total = self.prompt
        return None if not total or self.read is None else self.read / total

    def with_ttls_of(self, provider: str) -> Usage:
        """Return the usage with the lifetimes of a provider, where 5m and 1h stood for its short and its long one.

        >>> Usage(writes={300: 7}).with_ttls_of("openai").writes
        ((1800, 7),)
        """
        ttls = OLD_TTLS.get(provider)
        if ttls is None or not self.writes:
            return self
        names = {300: ttls[0], 3600: ttls[1]}
        return replace(self, writes=add_writes((), tuple((names.get(ttl, ttl), tokens) for ttl, tokens in self.writes)))

    def with_unknown_writes_as_zero(self) -> Usage:
        """Return the usage of a call whose provider bills no writes, and so reports none.

        >>> Usage(fresh=1, read=2, output=3).with_unknown_writes_as_zero().prompt
        3
        """
        if self.written is not None:
            return self
        writes = tuple((ttl, tokens) for ttl, tokens in self.writes or () if tokens is not None)
        return replace(self, writes=writes)

    def with_unreported_writes(self) -> Usage:
        """Return the usage of a call whose provider counts what it wrote in `fresh` too and did not say how much: writes
        are a lower bound, and so is what they cost.

        >>> usage = Usage(fresh=9, read=90, output=1).with_unreported_writes()
        >>> usage.prompt, usage.quality("writes")
        (99, 'partial')
        """
        whole = self.with_unknown_writes_as_zero()
        return replace(whole, qualities=(*self.qualities, ("writes", "partial")))

    def with_partial_output(self) -> Usage:
        """Return the usage of a stream that was cut: its output counter is a placeholder, a lower bound.

        >>> Usage(fresh=1, read=0, writes={}, output=1).with_partial_output().quality("output")
        'partial'
        """
        if self.output is None:
            return self
        return self._with(self.read, self.output, (*self.qualities, ("output", "partial")))

    def with_output(self, output: int | None) -> Usage:
        """Return the usage with so many generated tokens."""
        return self if output == self.output else self._with(self.read, output, self.qualities)

    def with_read(self, read: int | None) -> Usage:
        """Return the usage with so many tokens read."""
        return self._with(read, self.output, self.qualities)

    def _with(self, read: int | None, output: int | None, qualities: tuple[tuple[str, Quality], ...]) -> Usage:
        # `replace` takes three times as long
        return Usage(
            self.fresh,
            read,
            output=output,
            estimated=self.estimated,
            service_tier=self.service_tier,
            writes=self.writes,
            qualities=qualities,
        )

    def with_written(self, short: int | None, long: int | None) -> Usage:
        """Return the usage with other tokens of short and of long lifetimes, under the lifetimes it has.

        >>> Usage(writes={1800: 3}).with_written(1, 2).writes
        ((1800, 1), (43200, 2))
        """
        return replace(self, writes=_with_halves(self.writes, short, long))

    def quality(self, counter: CounterName) -> Quality:
        """Say how far a counter can be relied on.

        >>> usage = Usage(fresh=10, read=0, writes={}, output=None)
        >>> usage.quality("read"), usage.quality("output")
        ('billed', 'unknown')
        """
        value = self.written if counter == "writes" else getattr(self, counter)
        if value is None:
            return "unknown"
        if self.estimated:
            return "estimated"
        for name, quality in self.qualities:
            if name == counter:
                return quality
        return "billed"

    def __add__(self, other: Usage) -> Usage:
        """Counter by counter; what one side does not know, the sum does not know."""
        return Usage(
            _sum(self.fresh, other.fresh),
            _sum(self.read, other.read),
            output=_sum(self.output, other.output),
            estimated=self.estimated or other.estimated,
            service_tier=self.service_tier or other.service_tier,
            writes=add_writes(self.writes, other.writes),
            qualities=worst_qualities(self.qualities, other.qualities),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form that a ledger holds: `write_5m` and `write_1h` stand beside `writes` for older readers.

        >>> Usage(fresh=1, read=2, writes={1800: 3}, output=4).to_json()
        {'fresh': 1, 'read': 2, 'writes': {'1800': 3}, 'write_5m': 3, 'write_1h': 0, 'output': 4, 'estimated': False}
        """
        row: dict[str, Any] = {
            "fresh": self.fresh,
            "read": self.read,
            "writes": None if self.writes is None else {str(ttl): tokens for ttl, tokens in self.writes},
            "write_5m": self.write_5m,
            "write_1h": self.write_1h,
            "output": self.output,
            "estimated": self.estimated,
        }
        if self.qualities:
            row["qualities"] = dict(self.qualities)
        if self.service_tier:
            row["service_tier"] = self.service_tier
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any], provider: str = "") -> Usage:
        """Read what `to_json` returned, or a row of an older ledger, which has `write_5m` and `write_1h` only.

        `provider` says which lifetimes those were. A key of a later version is passed over.

        >>> Usage.from_json({"fresh": 1, "read": 2, "write_5m": 3, "write_1h": 0, "output": 4}, "openai")
        Usage(fresh=1, read=2, writes={1800: 3}, output=4)
        """
        if "writes" in row:
            writes = row["writes"]
            if writes is not None:
                writes = {int(ttl): tokens for ttl, tokens in writes.items()}
        else:
            writes = _from_halves(row.get("write_5m"), row.get("write_1h"), OLD_TTLS.get(provider, (300, 3600)))
        return cls(
            row.get("fresh"),
            row.get("read"),
            output=row.get("output"),
            estimated=row.get("estimated", False),
            service_tier=row.get("service_tier", ""),
            writes=writes,
            qualities=row.get("qualities", ()),
        )


MOST_TOKENS = 10**15
"""What is above it is no count of tokens, and an integer may be too large for a float."""
NO_COUNT = "a token count that is no natural number; it is unknown"


def natural(value: object) -> int | None:
    """A count of tokens, None for what is none: unknown is never zero.

    >>> natural(5), natural(None), natural(-1), natural(True), natural("5"), natural(10**400)
    (5, None, None, None, None, None)
    """
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None  # a boolean is an `int` too


def is_long_ttl(ttl_seconds: float) -> bool:
    """Return whether a write for so long has the long price.

    >>> is_long_ttl(1800), is_long_ttl(43200)
    (False, True)
    """
    return ttl_seconds >= LONG_TTL_SECONDS


def ttl_name(ttl_seconds: int) -> str:
    """Name a lifetime as providers do.

    >>> ttl_name(300), ttl_name(43200), ttl_name(90)
    ('5m', '12h', '90s')
    """
    if ttl_seconds % 3600 == 0:
        return f"{ttl_seconds // 3600}h"
    return f"{ttl_seconds // 60}m" if ttl_seconds % 60 == 0 else f"{ttl_seconds}s"


def _from_halves(short: int | None, long: int | None, ttls: tuple[int, int]) -> Writes | None:
    if short is None and long is None:
        return None
    if not short and short is not None:
        return () if long == 0 else ((ttls[1], long),)
    if long == 0:
        return ((ttls[0], short),)
    return ((ttls[0], short), (ttls[1], long))


def _with_halves(writes: Writes | None, short: int | None, long: int | None) -> Writes | None:
    """`writes` with other tokens of short, of long, or of all lifetimes, under the lifetimes they have."""
    if short is _UNSET:
        short = _written(writes, is_long=False)
    if long is _UNSET:
        long = _written(writes, is_long=True)
    ttls = [ttl for ttl, _ in writes or ()]
    short_ttl = next((ttl for ttl in ttls if not is_long_ttl(ttl)), None)
    long_ttl = next((ttl for ttl in reversed(ttls) if is_long_ttl(ttl)), None)
    if short_ttl is None:
        short_ttl = 1800 if long_ttl == 43200 else 300
    if long_ttl is None:
        long_ttl = 43200 if short_ttl == 1800 else 3600
    return _from_halves(short, long, (short_ttl, long_ttl))


def _written(writes: Writes | None, *, is_long: bool) -> int | None:
    if writes is None:
        return None
    total = 0
    for ttl, tokens in writes:
        if (ttl >= LONG_TTL_SECONDS) is is_long:
            if tokens is None:
                return None
            total += tokens
    return total


def add_writes(one: Writes | None, other: Writes | None) -> Writes | None:
    """Add writes lifetime by lifetime; unknown where one of both is."""
    if one is None or other is None:
        return None
    if not one or not other:
        return one or other
    sums: dict[int, int | None] = dict(one)
    for ttl, tokens in other:
        sums[ttl] = _sum(sums.get(ttl, 0), tokens)
    return tuple(sorted(sums.items()))


def worst_qualities(
    one: tuple[tuple[str, Quality], ...], other: tuple[tuple[str, Quality], ...]
) -> tuple[tuple[str, Quality], ...]:
    """Return the worse quality of each counter: that of a sum."""
    if not one or not other or one == other:
        return one or other
    worst = dict(one)
    for counter, quality in other:
        worst[counter] = max(worst.get(counter, "billed"), quality, key=QUALITIES.index)
    return tuple(sorted(worst.items()))


_STANDARD = frozenset(
    {"", "standard", "default", "auto", "on_demand", "unspecified", "not_available", "global", "none"}
)
"""What providers call the tier of the list price, and a place that changes no price."""


_USUAL = (None, "standard", "not_available", "default")
"""What a response says of its tier most of the time."""


def tier_named(tier: object, speed: object = None, geo: object = None) -> str:
    """Name the service tier of a response as `Usage.service_tier` has it: what a field says of the standard tier is
    empty.

    `tier` is the response's `service_tier`, `speed` and `geo` are Anthropic's `usage.speed` and `usage.inference_geo`.

    >>> tier_named("default"), tier_named("ON_DEMAND_PRIORITY"), tier_named("standard", "fast", "us")
    ('', 'priority', 'fast + geo-us')
    """
    parts = [_tier_word(part) for part in (tier, speed) if isinstance(part, str)]
    place = geo.strip().lower() if isinstance(geo, str) else ""
    named = [part for part in parts if part not in _STANDARD]
    return " + ".join([*named, *([f"geo-{place}"] if place not in _STANDARD else [])])


_TIERS = ("service_tier", "serviceTier", "trafficType", "traffic_type")
"""Fields that name a tier: of all vendors, where Bedrock's is an object; Gemini's; those of Gemini on Vertex AI
(google-genai 3.6.1, `TrafficType`)."""


def _tier_word(text: str) -> str:
    """A provider's word for a tier in our spelling: `SERVICE_TIER_FLEX` and `ON_DEMAND_FLEX` are `flex`."""
    word = text.strip().lower().removeprefix("service_tier_").removeprefix("traffic_type_")
    return word.removeprefix("on_demand_")


FALLBACK_CREDIT = "fallback-credit"
"""Tier of a retry that redeemed a credit (`usage.fallback_credit`, anthropic 2.13): what was written is billed as if it
had been written before, so its price is none of the list's, and unknown without a `[[service_tiers]]` row."""


def served(usage: Usage, fields: Mapping[str, object]) -> Usage:
    """Return `usage` with the service tier that `fields` of a response, or of its usage, name.

    As it is where they name none.
    """
    named = next((fields[name] for name in _TIERS if fields.get(name)), None)
    speed, geo = fields.get("speed"), fields.get("inference_geo")
    credit = fields.get("fallback_credit")
    if named in _USUAL and speed in _USUAL and geo in _USUAL and credit is None:
        return usage
    named = named.get("type") if isinstance(named, Mapping) else named
    status = credit.get("status") if isinstance(credit, Mapping) else None
    is_redeemed = isinstance(status, Mapping) and status.get("type") == "redeemed"
    tier = " + ".join(filter(None, (tier_named(named, speed, geo), FALLBACK_CREDIT if is_redeemed else "")))
    return replace(usage, service_tier=tier) if tier else usage


def tier_fields(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the usage of a response says of its service tier, for the parts it is made of."""
    return {name: counts[name] for name in (*_TIERS, "speed", "inference_geo", "fallback_credit") if name in counts}


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


ZERO = Usage(0, 0, 0, 0, 0)
"""The start of a sum."""
