"""What usage costs, in dollars.

Takes a provider, a model and a `Usage`, gives dollars at the provider's list price, times what its service tier costs:
a price of the user's (`register_price`, or a file of facts), one of the price data `genai-prices` ships with, or one of
`facts/prices.toml`; nothing is fetched. Knows nothing of prompts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from contextkit.cache.usage import Usage, is_long_ttl
from contextkit.errors import UnknownModel
from contextkit.facts import load
from contextkit.facts.load import FactRow, Facts
from contextkit.models import find_model, model_named, nearest_name, register_rows

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

LONG_WRITES: dict[str, Decimal] = {"openai": Decimal("2.5")}
"""Provider → long write price over the plain input price, where genai-prices knows one write price only: OpenAI bills
12h writes at 2.5x (https://developers.openai.com/api/docs/guides/prompt-caching)."""


def cost_usd(provider: str, model: str, usage: Usage, at: float | None = None, *, is_sum: bool = False) -> float | None:
    """Dollars for `usage` of one call at the prices of `at` (seconds since 1970.

    None for today), None where a counter it needs is unknown.

    A prompt beyond a price tier is billed at that tier as a whole, so price calls one by one, not their sum. Where only
    a sum is known, `is_sum` prices it at the lowest tier: its calls may have been of any size. Raises `UnknownModel` for
    a model without a price, and for a service tier (`usage.service_tier`) without one.

    >>> cost_usd("anthropic", "claude-opus-4-5", Usage(fresh=0, read=1_000_000, writes={}, output=0))
    0.5
    """
    return _cost(_rates(provider, model, _moment(at), usage.service_tier, _state()), usage, is_sum=is_sum)


def cost_uncached_usd(
    provider: str, model: str, usage: Usage, at: float | None = None, *, is_sum: bool = False
) -> float | None:
    """What the same call would have cost had nothing been cached: every input token at the plain rate.

    Otherwise as `cost_usd`.

    >>> cost_uncached_usd("anthropic", "claude-opus-4-5", Usage(fresh=0, read=1_000_000, writes={}, output=0))
    5.0
    """
    return _uncached(_rates(provider, model, _moment(at), usage.service_tier, _state()), usage, is_sum=is_sum)


class ListCosts(NamedTuple):
    """What one call costs at list prices."""

    usd: float
    """As `cost_usd`."""
    uncached_usd: float
    """As `cost_uncached_usd`."""
    usd_at_estimate: float | None
    """`usd` with the estimated output in place of the recorded one; None without an estimate."""


def costs_usd(
    provider: str,
    model: str,
    usage: Usage,
    at: float | None = None,
    *,
    is_sum: bool = False,
    output_estimate: int | None = None,
) -> ListCosts | None:
    """Return all list costs of one call, whose prices are looked up once; None and errors as of `cost_usd`."""
    rates = _rates(provider, model, _moment(at), usage.service_tier, _state())
    parts, output = _parts(rates, usage), usage.output
    if parts is None or output is None:
        return None
    fresh, read, short, long = parts
    prompt = fresh + read + short + long
    for_fresh, for_read, for_short, for_long, for_output = rates.above(0 if is_sum else prompt)
    paid = fresh * for_fresh + read * for_read + short * for_short + long * for_long
    at_estimate = None if output_estimate is None else paid + output_estimate * for_output
    return ListCosts(paid + output * for_output, prompt * for_fresh + output * for_output, at_estimate)


def price_of(
    provider: str, model: str, at: float | None = None, service_tier: str = ""
) -> Callable[[Usage], float | None]:
    """`cost_usd` of any usage at one service tier, for several bills of one call: its prices are looked up once.

    Raises `UnknownModel` as `cost_usd`.

    >>> price_of("anthropic", "claude-opus-4-5")(Usage(fresh=0, read=1_000_000, writes={}, output=0))
    0.5
    """
    return partial(_cost, _rates(provider, model, _moment(at), service_tier, _state()))


TokenPrice = Callable[[int, int, int, int, int], float]
"""Dollars of a call with so many tokens fresh, read, written short, written long and generated."""


def token_price_of(provider: str, model: str, at: float | None = None, service_tier: str = "") -> TokenPrice:
    """Return what `price_of` does, for tokens that are all known.

    >>> token_price_of("anthropic", "claude-opus-4-5")(0, 1_000_000, 0, 0, 0)
    0.5
    """
    return _rates(provider, model, _moment(at), service_tier, _state()).usd


def first_tier(provider: str, model: str, at: float, service_tier: str = "") -> int | None:
    """Prompt tokens above which a call is billed at a higher tier; None where the model has one price for every size.

    Raises `UnknownModel` as `cost_usd`.

    >>> first_tier("openai", "gpt-5.4", 1_780_000_000.0), first_tier("openai", "gpt-4o", 1_780_000_000.0)
    (272000, None)
    """
    tiers = _rates(provider, model, _moment(at), service_tier, _state()).per_token
    return tiers[-2][0] if len(tiers) > 1 else None


def bills_writes(provider: str, model: str, at: float | None = None) -> bool:
    """Return whether writing to the model's cache costs anything.

    Who does not bill writes reports none. Raises `UnknownModel` as `cost_usd`.

    >>> bills_writes("anthropic", "claude-opus-4-5"), bills_writes("openai", "gpt-4o")
    (True, False)
    """
    return _rates(provider, model, _moment(at), "", _state()).has_write_price


def price_rows(
    provider: str, model: str, at: float, service_tier: str = ""
) -> tuple[bool, tuple[tuple[int, tuple[float, ...]], ...]]:
    """The prices behind `cost_usd`, for engines that join them: whether writes are billed, and the tiers, the highest
    first.

    Each tier is (prompt above so many tokens, dollars for one token fresh, read, written short, written long,
    generated). Prices of one quarter of an hour are one. Raises `UnknownModel` as `cost_usd`.

    >>> price_rows("anthropic", "claude-opus-4-5", 1_780_000_000.0)
    (True, ((-1, (5e-06, 5e-07, 6.25e-06, 1e-05, 2.5e-05)),))
    """
    rates = _rates(provider, model, _moment(at), service_tier, _state())
    return rates.has_write_price, rates.per_token


@dataclass(frozen=True, slots=True)
class PriceOrigin:
    """Where the price of a model comes from."""

    source: str
    """A page, a package, or the user's own words."""
    date: str
    """ISO date on which it was read; empty where nobody says."""
    grade: str
    """`documented`, `measured` or `assumed`."""
    note: str
    """Remarks, in plain words."""


def price_origin(provider: str, model: str, at: float | None = None) -> PriceOrigin:
    """Return where the price behind `cost_usd` comes from. Raises `UnknownModel` for a model without a price.

    >>> price_origin("google", "gemini-4-neon").date
    '2026-11-24'
    """
    moment = _moment(at)
    row = _first_row(provider, model, moment)
    if row is None:
        _listed_rates(provider, model, moment)  # raises where there is no price
        row = _built_in_row(provider, model, moment)
    instead = load.vendor_priced(provider) if row is None and not _is_listed(provider, model) else None
    if instead is not None:
        note = f"as {_vendor_instead(provider, model)} asks: {instead['note']}"
        return PriceOrigin(instead["source"], instead["date"].isoformat(), instead["grade"], note)
    if row is None:
        from importlib.metadata import version

        return PriceOrigin(f"PyPI genai-prices {version('genai-prices')}", "", "documented", "")
    fields = row.fields
    source = str(fields.get("source") or f"registered by the user in {row.where}")
    confidence = fields.get("confidence") or ("DOC" if fields.get("source") else "UNSURE")
    return PriceOrigin(source, fields.get("date", ""), load.GRADE_OF[confidence], fields.get("note", ""))


def prices_at_hosts(model: str, at: float | None = None) -> dict[str, tuple[str, tuple[float, ...]]]:
    """Return each host with a list price of a model, and the name it has there: dollars for a million tokens fresh, read,
    written short, written long and generated, in the lowest tier.

    >>> prices_at_hosts("deepseek-v4-flash", 1_795_000_000.0)["fireworks"]
    ('deepseek-v4-flash', (0.14, 0.028, 0.14, 0.14, 0.28))
    """
    from genai_prices.data_snapshot import get_snapshot

    wanted, hosts = _host_key(model), dict[str, tuple[str, tuple[float, ...]]]()
    for host in get_snapshot().providers:
        found = sorted((one for one in host.models if _host_key(one.id) == wanted), key=lambda one: len(one.id))
        if found and (rates := _rates_listed(host.id, found[0], _moment(at)).per_token[-1][1]) and any(rates):
            hosts[host.id] = found[0].id, tuple(round(rate * 1e6, 6) for rate in rates)
    return hosts


def _host_key(name: str) -> str:
    """A model's name without vendor, region and release, as hosts write it in many ways."""
    bare = re.sub(r"^(?:[a-z-]+\.)+(?=[a-z])", "", name.lower().rpartition("/")[2].lstrip("~"))
    return re.sub(r"(?:-v\d+)?(?::\d+)?$", "", bare).replace(".", "-")


def _built_in_row(provider: str, model: str, at: float) -> FactRow | None:
    """The row of this package, None where genai-prices has the model and no row corrects it."""
    row = _row_in(_built_in().prices, provider, model, at)
    return row if row is not None and (row.fields.get("corrects") or not _is_listed(provider, model)) else None


def _is_listed(provider: str, model: str) -> bool:
    try:
        _listed(provider, model)
    except LookupError:
        return False
    return True


_QUARTER = 900
"""Seconds: prices may depend on the time of day (DeepSeek's did), never on less than a quarter of an hour."""


def _moment(at: float | None) -> float:
    return (datetime.now(UTC).timestamp() if at is None else at) // _QUARTER * _QUARTER


def _cost(rates: _Rates, usage: Usage, *, is_sum: bool = False) -> float | None:
    parts = _parts(rates, usage)
    if parts is None or usage.output is None:
        return None
    fresh, read, short, long = parts
    for_fresh, for_read, for_short, for_long, for_output = rates.above(0 if is_sum else sum(parts))
    paid = fresh * for_fresh + read * for_read + short * for_short + long * for_long
    return paid + usage.output * for_output


def _uncached(rates: _Rates, usage: Usage, *, is_sum: bool = False) -> float | None:
    parts = _parts(rates, usage)
    if parts is None or usage.output is None:
        return None
    prompt = sum(parts)
    for_fresh, _, _, _, for_output = rates.above(0 if is_sum else prompt)
    return prompt * for_fresh + usage.output * for_output


def _parts(rates: _Rates, usage: Usage) -> tuple[int, int, int, int] | None:
    """Tokens fresh, read, written short and written long; None where one is unknown.

    Unknown writes of a model whose cache costs nothing to write are 0: nobody reports those.
    """
    fresh, read, writes = usage.fresh, usage.read, usage.writes
    if fresh is None or read is None or (writes is None and rates.has_write_price):
        return None
    short = long = 0
    for ttl_seconds, tokens in writes or ():
        if tokens is None:
            if rates.has_write_price:
                return None
        elif is_long_ttl(ttl_seconds):
            long += tokens
        else:
            short += tokens
    return fresh, read, short, long


@dataclass(frozen=True, slots=True)
class _Rates:
    """The prices of one model at one time."""

    has_write_price: bool
    """Whether writing to its cache costs anything."""
    per_token: tuple[tuple[int, tuple[float, ...]], ...]
    """(prompt above so many tokens, dollars for one token fresh, read, written short, written long, generated); the
    highest tier first."""

    def above(self, prompt: int) -> tuple[float, ...]:
        """Dollars for one token of a call with so large a prompt."""
        for above, rate in self.per_token:
            if prompt > above:
                return rate
        return self.per_token[-1][1]

    def usd(self, fresh: int, read: int, short: int, long: int, output: int) -> float:
        """Dollars for the tokens of one call."""
        for_fresh, for_read, for_short, for_long, for_output = self.above(fresh + read + short + long)
        paid = fresh * for_fresh + read * for_read + short * for_short + long * for_long
        return paid + output * for_output


@lru_cache(maxsize=1024)
def _rates(provider: str, model: str, at: float, service_tier: str, state: object) -> _Rates:
    """Asked once for each model and quarter of an hour: adding up a bill call by call must not look prices up call by
    call.
    """
    own = _row_price(provider, model, at)
    rates = _listed_rates(provider, model, at) if own is None else own
    return _scaled_rates(rates, _factor(provider, model, service_tier)) if service_tier else rates


def _listed_rates(provider: str, model: str, at: float) -> _Rates:
    """Of genai-prices, or of the rows that ship with this package; of both, where a row corrects genai-prices."""
    built_in = _row_in(_built_in().prices, provider, model, at)
    if built_in is not None and built_in.fields.get("corrects"):
        return _rates_of(built_in)
    try:
        matched = _listed(provider, model)
    except LookupError:
        if built_in is None and (vendor := _vendor_instead(provider, model)):
            own = _row_price(vendor, model, at)
            return _listed_rates(vendor, model, at) if own is None else own
        if built_in is None:
            close = nearest_name(model)
            raise UnknownModel(
                f"no price for model {model!r}{f' of provider {provider!r}' if provider else ''}: correct the name"
                f"{f' (did you mean {close!r}?)' if close else ''}, or add a [[prices]] row to a TOML file and name the file "
                "(--models, CONTEXTKIT_MODELS, docs/reference/models.md)"
            ) from None
        return _rates_of(built_in)
    return _rates_listed(provider, matched, at)


def _rates_listed(provider: str, matched: ModelInfo, at: float) -> _Rates:
    """The prices of a row of genai-prices."""
    listed = matched.get_prices(datetime.fromtimestamp(at, UTC))
    cached = _WORKED_OUT.get((provider, id(listed)))
    if cached is None or cached[0] is not listed:
        price = _with_long_writes(provider, listed)
        cached = _WORKED_OUT[provider, id(listed)] = listed, _Rates(price.cache_write_mtok is not None, _tiers(price))
    return cached[1]


_WORKED_OUT: dict[tuple[str, int], tuple[ModelPrice, _Rates]] = {}
"""(provider, identity of a listed price) → that price, kept so that its identity stays its own, and what it comes to a
token: a price holds for months, and working it out takes a hundred times as long as looking it up."""


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

    return ModelPrice(
        **{name: held(part) if isinstance(part, TieredPrices) else part for name, part in vars(price).items()}
    )


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
    """The row of genai-prices under the model's name, or under that of its row: hosts write `4.8` or `4-8`."""
    from genai_prices.data_snapshot import get_snapshot

    hyphens = [name.replace(".", "-") for name in _names(model)]
    dots = [re.sub(r"(?<=\d)-(?=\d)", ".", name) for name in _names(model)]
    found: LookupError | None = None
    for name in dict.fromkeys((*_names(model), *hyphens, *dots)):
        try:
            return get_snapshot().find_provider_model(name, None, provider, None)[1]
        except LookupError as error:
            found = found or error
    raise found or LookupError(model)


def _vendor_instead(provider: str, model: str) -> str:
    """The vendor whose price a host asks for a model it has no price of its own for; empty where nobody says so."""
    if load.vendor_priced(provider) is None or re.search(r"[:-]free$", model):
        return ""
    vendor = model_named(model).provider
    return "" if vendor == provider else vendor


# Prices of the user's and of this package
# ------------------------------------------------------------------------------------


def register_price(
    provider: str,
    model: str,
    *,
    input: float,
    output: float,
    cache_read: float | None = None,
    cache_write: float | None = None,
    cache_write_1h: float | None = None,
    valid_from: str = "",
    tiers: Sequence[Mapping[str, Any]] = (),
    source: str = "",
) -> None:
    """Register a price: dollars for a million tokens, the same keys as a `[[prices]]` row (docs/reference/models.md).

    `provider` is the id calls are recorded under, `*` for any. It comes before every other price of the model; of
    several with a `valid_from` the one of the call's day counts. Raises `UsageError` for what is no price.

    >>> register_price("openai", "our-deployment", input=2.0, cache_read=0.5, output=8.0)
    >>> cost_usd("openai", "our-deployment", Usage(fresh=1_000_000, read=1_000_000, output=0))
    2.5
    """
    values = {
        "provider": provider,
        "model": model,
        "input": input,
        "output": output,
        "cache_read": cache_read,
        "cache_write": cache_write,
        "cache_write_1h": cache_write_1h,
        "valid_from": valid_from,
        "tiers": [dict(tier) for tier in tiers],
        "source": source,
    }
    fields = {key: value for key, value in values.items() if value is not None}
    where = f"register_price({provider!r}, {model!r})"
    _add(Facts(prices=(FactRow(where, load.checked_row(where, "prices", fields)),)))


def register_models(path: str | os.PathLike[str]) -> None:
    """Register the `[[models]]`, `[[prices]]` and `[[service_tiers]]` rows of a TOML file (docs/reference/models.md).

    They come before those of other files, and after nothing. Raises `UsageError` that names file, row, line and key.
    """
    facts = load.read_facts(path)
    register_rows(facts.models)
    _add(facts)


_ADDED: list[Facts] = []
"""What a program registered, the latest last."""


def _add(facts: Facts) -> None:
    _ADDED.append(facts)


def _state() -> tuple[Any, ...]:
    return len(_ADDED), *load.state()


def read_user_prices() -> None:
    """Read the user's files of facts now. Raises `UsageError` for what is wrong in one of them."""
    _layers(_state())


@lru_cache(maxsize=2)
def _layers(state: object) -> tuple[Facts, ...]:
    """Facts of the user's, the most important first."""
    return (*reversed(_ADDED), *reversed(load.user_facts()))


@lru_cache(maxsize=1)
def _built_in() -> Facts:
    return load.built_in()


def _row_price(provider: str, model: str, at: float) -> _Rates | None:
    """The price of the user's that counts.

    One price registered later is the same layer, and the last one that is valid counts.
    """
    row = _first_row(provider, model, at)
    return None if row is None else _rates_of(row)


def _first_row(provider: str, model: str, at: float) -> FactRow | None:
    rows = (_row_in(facts.prices, provider, model, at) for facts in _layers(_state()))
    return next((row for row in rows if row is not None), None)


def _row_in(rows: Iterable[FactRow], provider: str, model: str, at: float) -> FactRow | None:
    """The row of a model that is valid on a day, the one that became so last."""
    day, names = datetime.fromtimestamp(at, UTC).date().isoformat(), _names(model)
    fitting = [row for row in rows if row.fields["provider"] in (provider, "*") and row.fields["model"] in names]
    valid = [row for row in fitting if row.fields.get("valid_from", "") <= day]
    return max(valid, key=lambda row: row.fields.get("valid_from", ""), default=None)


def _names(model: str) -> tuple[str, ...]:
    """A model's name, and that of its row: a snapshot costs what its model costs."""
    row = find_model(model)
    return (model,) if row is None else (model, row.name)


def _rates_of(row: FactRow) -> _Rates:
    fields, provider = row.fields, str(row.fields["provider"])
    steps = sorted(fields.get("tiers", ()), key=lambda tier: -tier["above"])
    tiers = [(tier["above"], _five({**fields, **tier}, provider)) for tier in steps]
    return _Rates(bool(_WRITES & fields.keys()), (*tiers, (-1, _five(fields, provider))))


_WRITES = frozenset({"cache_write", "cache_write_1h", "cache_write_by_ttl"})
_TIMES_LONG = {"anthropic": 2.0, "openai": 2.5}
"""Provider → the long write price over the plain input price, where a row gives the short one only
(https://platform.claude.com/docs/en/ about-claude/pricing,
https://developers.openai.com/api/docs/guides/prompt-caching)."""


def _five(fields: Mapping[str, Any], provider: str) -> tuple[float, ...]:
    """Dollars for one token fresh, read, written short, written long, generated."""
    plain = fields["input"]
    by_ttl = fields.get("cache_write_by_ttl") or {}
    short = fields.get("cache_write", by_ttl[min(by_ttl)] if by_ttl else None)
    long = fields.get("cache_write_1h", by_ttl[max(by_ttl)] if len(by_ttl) > 1 else None)
    if long is None:
        long = plain if short is None else plain * _TIMES_LONG[provider] if provider in _TIMES_LONG else short
    rates = (plain, fields.get("cache_read", plain), plain if short is None else short, long, fields["output"])
    return tuple(float(Decimal(str(rate)) / 1_000_000) for rate in rates)


def _factor(provider: str, model: str, service_tier: str) -> float:
    """What a service tier multiplies the list price with. Raises `UnknownModel` where nobody knows."""
    factor = 1.0
    for part in service_tier.split(" + "):
        rows = (row for facts in (*_layers(_state()), _built_in()) for row in facts.service_tiers)
        row = next((row for row in rows if _is_tier(row, provider, model, part)), None)
        if row is None:
            raise UnknownModel(
                f"no price for model {model!r} of provider {provider!r} in service tier {part!r}: add a [[service_tiers]] row to a TOML "
                "file and name the file (--models, CONTEXTKIT_MODELS, docs/reference/models.md)"
            )
        factor *= row.fields["factor"]
    return factor


def _is_tier(row: FactRow, provider: str, model: str, tier: str) -> bool:
    fields = row.fields
    if fields["provider"] not in (provider, "*") or fields["tier"] != tier:
        return False
    return any(fnmatchcase(name, pattern) for name in _names(model) for pattern in fields.get("models", ("*",)))


def _scaled_rates(rates: _Rates, factor: float) -> _Rates:
    return replace(
        rates, per_token=tuple((above, tuple(rate * factor for rate in five)) for above, five in rates.per_token)
    )


def _with_long_writes(provider: str, price: ModelPrice) -> ModelPrice:
    """`price` with a long write price where the provider has one that the price data lacks."""
    from genai_prices.types import ModelPrice

    times = LONG_WRITES.get(provider)
    if (
        times is None
        or price.input_mtok is None
        or price.cache_write_mtok is None
        or price.cache_write_1h_mtok is not None
    ):
        return price
    return ModelPrice(**{**vars(price), "cache_write_1h_mtok": _scaled(price.input_mtok, times)})


def _scaled(price: Decimal | TieredPrices, times: Decimal) -> Decimal | TieredPrices:
    from genai_prices.types import Tier, TieredPrices

    if isinstance(price, TieredPrices):
        return TieredPrices(price.base * times, [Tier(tier.start, tier.price * times) for tier in price.tiers])
    return price * times
