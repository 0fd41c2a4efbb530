"""What usage costs, in dollars.

Takes a provider, a model and a `Usage`, gives dollars at the provider's list price (standard tier) through the price data `genai-prices`
ships with; nothing is fetched. Knows nothing of prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from contextkit.cache.usage import Usage
from contextkit.errors import UnknownModel

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

LONG_WRITES: dict[str, Decimal] = {"openai": Decimal("2.5")}
"""Provider → long write price over the plain input price, where genai-prices knows one write price only: OpenAI bills 12h writes at 2.5x
(https://developers.openai.com/api/docs/guides/prompt-caching)."""


def cost_usd(provider: str, model: str, usage: Usage, at: float | None = None) -> float | None:
    """Dollars for `usage` of one call at the prices of `at` (seconds since 1970; None for today), None where a counter it needs is unknown.

    A prompt beyond a price tier is billed at that tier as a whole, so price calls one by one, not their sum. Raises `UnknownModel` for a
    model without a price.

    >>> cost_usd("anthropic", "claude-opus-4-5", Usage(fresh=0, read=1_000_000, write_5m=0, write_1h=0, output=0))
    0.5
    """
    return _cost(_rates(provider, model, _moment(at)), usage)


def cost_uncached_usd(provider: str, model: str, usage: Usage, at: float | None = None) -> float | None:
    """What the same call would have cost had nothing been cached: every input token at the plain rate. Otherwise as `cost_usd`.

    >>> cost_uncached_usd("anthropic", "claude-opus-4-5", Usage(fresh=0, read=1_000_000, write_5m=0, write_1h=0, output=0))
    5.0
    """
    rates = _rates(provider, model, _moment(at))
    prompt = _known(rates, usage).prompt
    return None if prompt is None else _cost(rates, Usage(prompt, 0, 0, 0, usage.output))


def bills_writes(provider: str, model: str, at: float | None = None) -> bool:
    """Whether writing to the model's cache costs anything; who does not bill writes reports none. Raises `UnknownModel` as `cost_usd`.

    >>> bills_writes("anthropic", "claude-opus-4-5"), bills_writes("openai", "gpt-4o")
    (True, False)
    """
    return _rates(provider, model, _moment(at)).has_write_price


def price_rows(provider: str, model: str, at: float) -> tuple[bool, tuple[tuple[int, tuple[float, ...]], ...]]:
    """The prices behind `cost_usd`, for engines that join them: whether writes are billed, and the tiers, the highest first.

    Each tier is (prompt above so many tokens, dollars for one token fresh, read, written short, written long, generated). Prices of one
    quarter of an hour are one. Raises `UnknownModel` as `cost_usd`.

    >>> price_rows("anthropic", "claude-opus-4-5", 1_780_000_000.0)
    (True, ((-1, (5e-06, 5e-07, 6.25e-06, 1e-05, 2.5e-05)),))
    """
    rates = _rates(provider, model, _moment(at))
    return rates.has_write_price, rates.per_token


_QUARTER = 900
"""Seconds: prices may depend on the time of day (DeepSeek's did), never on less than a quarter of an hour."""


def _moment(at: float | None) -> float:
    return (datetime.now(UTC).timestamp() if at is None else at) // _QUARTER * _QUARTER


def _cost(rates: _Rates, usage: Usage) -> float | None:
    known = _known(rates, usage)
    if known.prompt is None or known.output is None:
        return None
    prompt = known.prompt
    fresh, read, short, long, output = next(rate for above, rate in rates.per_token if prompt > above)
    paid = (known.fresh or 0) * fresh + (known.read or 0) * read + (known.write_5m or 0) * short + (known.write_1h or 0) * long
    return paid + known.output * output


def _known(rates: _Rates, usage: Usage) -> Usage:
    """`usage` with 0 for the writes of a model whose cache costs nothing to write: nobody reports those."""
    if rates.has_write_price:
        return usage
    return replace(usage, write_5m=usage.write_5m or 0, write_1h=usage.write_1h or 0)


@dataclass(frozen=True, slots=True)
class _Rates:
    """The prices of one model at one time."""

    has_write_price: bool
    """Whether writing to its cache costs anything."""
    per_token: tuple[tuple[int, tuple[float, ...]], ...]
    """(prompt above so many tokens, dollars for one token fresh, read, written short, written long, generated); the highest tier first."""


@lru_cache(maxsize=1024)
def _rates(provider: str, model: str, at: float) -> _Rates:
    """Asked once for each model and quarter of an hour: adding up a bill call by call must not look prices up call by call."""
    listed = _listed(provider, model).get_prices(datetime.fromtimestamp(at, UTC))
    known = _WORKED_OUT.get((provider, id(listed)))
    if known is None or known[0] is not listed:
        price = _with_long_writes(provider, listed)
        known = _WORKED_OUT[provider, id(listed)] = listed, _Rates(price.cache_write_mtok is not None, _tiers(price))
    return known[1]


_WORKED_OUT: dict[tuple[str, int], tuple[ModelPrice, _Rates]] = {}
"""(provider, identity of a listed price) → that price, kept so that its identity stays its own, and what it comes to a token: a price holds
for months, and working it out takes a hundred times as long as looking it up."""


def _tiers(price: ModelPrice) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """What a token costs in each tier; a prompt beyond the start of one is billed at it as a whole."""
    from genai_prices.types import TieredPrices

    tiered = [part for part in vars(price).values() if isinstance(part, TieredPrices)]
    starts = sorted({-1, *(tier.start for part in tiered for tier in part.tiers)}, reverse=True)
    return tuple((start, _per_token(_at_tier(price, start))) for start in starts)


def _at_tier(price: ModelPrice, start: int) -> ModelPrice:
    """The price of a prompt just above `start` tokens, without tiers."""
    from genai_prices.types import ModelPrice, TieredPrices

    def held(part: TieredPrices) -> Decimal:
        return next((tier.price for tier in reversed(part.tiers) if start >= tier.start), part.base)

    return ModelPrice(**{name: held(part) if isinstance(part, TieredPrices) else part for name, part in vars(price).items()})


def _per_token(price: ModelPrice) -> tuple[float, ...]:
    million = 1_000_000
    return tuple(_billed(price, *(million * (i == part) for i in range(5))) / million for part in range(5))


def _billed(price: ModelPrice, fresh: int, read: int, write_5m: int, write_1h: int, output: int) -> float:
    from genai_prices import Usage as Billed

    billed = Billed(
        input_tokens=fresh + read + write_5m + write_1h,
        cache_read_tokens=read,
        cache_write_tokens=write_5m + write_1h,
        cache_write_1h_tokens=write_1h,
        output_tokens=output,
    )
    return float(price.calc_price(billed)["total_price"])


def _listed(provider: str, model: str) -> ModelInfo:
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(model, None, provider, None)[1]
    except LookupError:
        raise UnknownModel(
            f"genai-prices has no price for model {model!r} of provider {provider!r}: "
            "correct the name, upgrade genai-prices, or leave the cost out"
        ) from None


def _with_long_writes(provider: str, price: ModelPrice) -> ModelPrice:
    """`price` with a long write price where the provider has one that the price data lacks."""
    from genai_prices.types import ModelPrice

    times = LONG_WRITES.get(provider)
    if times is None or price.input_mtok is None or price.cache_write_mtok is None or price.cache_write_1h_mtok is not None:
        return price
    return ModelPrice(**{**vars(price), "cache_write_1h_mtok": _scaled(price.input_mtok, times)})


def _scaled(price: Decimal | TieredPrices, times: Decimal) -> Decimal | TieredPrices:
    from genai_prices.types import Tier, TieredPrices

    if isinstance(price, TieredPrices):
        return TieredPrices(price.base * times, [Tier(tier.start, tier.price * times) for tier in price.tiers])
    return price * times
