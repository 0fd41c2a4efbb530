"""What usage costs, in dollars.

Takes a provider, a model and a `Usage`, gives dollars at the provider's list price (standard tier) through the price data `genai-prices`
ships with; nothing is fetched. Knows nothing of prompts.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
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
    return _cost(_price(provider, model, at), usage)


def cost_uncached_usd(provider: str, model: str, usage: Usage, at: float | None = None) -> float | None:
    """What the same call would have cost had nothing been cached: every input token at the plain rate. Otherwise as `cost_usd`.

    >>> cost_uncached_usd("anthropic", "claude-opus-4-5", Usage(fresh=0, read=1_000_000, write_5m=0, write_1h=0, output=0))
    5.0
    """
    price = _price(provider, model, at)
    known = _known(price, usage)
    return _cost(price, replace(known, fresh=known.prompt, read=0, write_5m=0, write_1h=0))


def _cost(price: ModelPrice, usage: Usage) -> float | None:
    from genai_prices import Usage as Billed

    known = _known(price, usage)
    if known.prompt is None or known.write_5m is None or known.write_1h is None or known.output is None:
        return None
    billed = Billed(
        input_tokens=known.prompt,
        cache_read_tokens=known.read,
        cache_write_tokens=known.write_5m + known.write_1h,
        cache_write_1h_tokens=known.write_1h,
        output_tokens=known.output,
    )
    return float(price.calc_price(billed)["total_price"])


def _known(price: ModelPrice, usage: Usage) -> Usage:
    """`usage` with 0 for the writes of a model whose cache costs nothing to write: nobody reports those."""
    if price.cache_write_mtok is not None:
        return usage
    return replace(usage, write_5m=usage.write_5m or 0, write_1h=usage.write_1h or 0)


def _price(provider: str, model: str, at: float | None) -> ModelPrice:
    when = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    return _with_long_writes(provider, _listed(provider, model).get_prices(when))


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
