"""A ledger judged: how much was read from the cache, what it cost, what it would have cost, what was lost and to what.

Takes a `Ledger`, gives a `Summary`: plain numbers, no layout. What nobody reported is counted as unknown, never as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add

from contextkit import prices
from contextkit.cache.usage import ZERO, Usage
from contextkit.canonical import Json, canonical
from contextkit.errors import UnknownModel
from contextkit.ledger.exchange import Exchange
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.misses import Miss, measured, misses


@dataclass(frozen=True, slots=True)
class Row:
    """The calls of one model, or of one lane, or all of them."""

    name: str
    """Model, lane (`session/lane` where there are several sessions), or `all`."""
    calls: int
    """How many."""
    calls_with_usage: int
    """How many of them say what their whole prompt was billed; only these are added up."""
    calls_with_price: int
    """How many of them have a price; only these are in the dollars."""
    usage: Usage
    """Their tokens; a counter that one of them lacks is None."""
    cost_usd: float | None
    """What they cost at list prices, None where no call has a price."""
    cost_uncached_usd: float | None
    """What the same calls would have cost without any cache."""
    n_misses: int
    """Calls that lost something they could have read; a first write loses nothing."""

    @property
    def hit_rate(self) -> float | None:
        """Tokens read over all input tokens, None where nothing is known."""
        return self.usage.hit_rate

    @property
    def saved_usd(self) -> float | None:
        """What the cache saved; negative where its writes cost more than its reads saved."""
        if self.cost_usd is None or self.cost_uncached_usd is None:
            return None
        return self.cost_uncached_usd - self.cost_usd


@dataclass(frozen=True, slots=True)
class Summary:
    """What a ledger says."""

    total: Row
    """Everything."""
    models: tuple[Row, ...]
    """One row a model, in order of appearance."""
    lanes: tuple[Row, ...]
    """One row a lane, in order of appearance."""
    misses: tuple[Miss, ...]
    """Every miss, first writes included, in ledger order."""
    hit_rates: tuple[float | None, ...]
    """Of each call, in ledger order; None where unknown."""
    models_without_price: tuple[str, ...]
    """Whose calls are in no dollar figure."""

    @property
    def calls(self) -> int:
        """How many calls were recorded."""
        return self.total.calls

    @property
    def calls_with_usage(self) -> int:
        """How many of them say what their whole prompt was billed."""
        return self.total.calls_with_usage

    @property
    def usage(self) -> Usage:
        """Tokens of the calls with usage."""
        return self.total.usage

    @property
    def hit_rate(self) -> float | None:
        """Tokens read over all input tokens."""
        return self.total.hit_rate

    @property
    def cost_usd(self) -> float | None:
        """What the calls with a price cost."""
        return self.total.cost_usd

    @property
    def cost_uncached_usd(self) -> float | None:
        """What the same calls would have cost without any cache."""
        return self.total.cost_uncached_usd

    @property
    def saved_usd(self) -> float | None:
        """What the cache saved."""
        return self.total.saved_usd

    @property
    def losses(self) -> tuple[Miss, ...]:
        """The misses that lost something."""
        return tuple(miss for miss in self.misses if miss.lost_tokens)

    def to_json(self) -> str:
        """All of it, as one JSON object; unknown is null."""
        return canonical({
            "format": 1, "total": _row_json(self.total), "models": [*map(_row_json, self.models)], "lanes": [*map(_row_json, self.lanes)],
            "misses": [asdict(miss) for miss in self.misses], "hit_rates": self.hit_rates,
            "models_without_price": self.models_without_price,
        }).decode()  # fmt: skip

    def __str__(self) -> str:
        """One line: `94.1 % of input read from cache · $0.12 spent · $0.83 saved · 0 misses`, and what is unknown."""
        return " · ".join(part for part in (_hit_text(self), *_money_texts(self), _miss_text(self), *_unknown_texts(self)) if part)


def summarise(ledger: Ledger) -> Summary:
    """Judge `ledger`: bills added up, calls priced one by one at the prices of their day, misses named."""
    calls = [_Priced(exchange, measured(exchange)) for exchange in ledger]
    found = misses(ledger)
    lost = {miss.index for miss in found if miss.lost_tokens}
    numbered = [*enumerate(calls)]
    has_sessions = len({call.exchange.session for call in calls}) > 1
    return Summary(
        total=_row("all", numbered, lost),
        models=_rows(numbered, lambda exchange: exchange.model, lost),
        lanes=_rows(numbered, lambda exchange: f"{exchange.session}/{exchange.lane}" if has_sessions else exchange.lane, lost),
        misses=tuple(found),
        hit_rates=tuple(call.usage.hit_rate if call.usage else None for call in calls),
        models_without_price=tuple(dict.fromkeys(call.exchange.model for call in calls if not call.has_model_price)),
    )


class _Priced:
    """One exchange and its two prices."""

    __slots__ = ("cost", "exchange", "has_model_price", "uncached", "usage")

    def __init__(self, exchange: Exchange, usage: Usage | None) -> None:
        self.exchange, self.usage = exchange, usage
        self.has_model_price = True
        self.cost: float | None = None
        self.uncached: float | None = None
        try:
            asked = exchange.provider, exchange.model, usage or ZERO, exchange.at
            cost, uncached = prices.cost_usd(*asked), prices.cost_uncached_usd(*asked)
        except UnknownModel:
            self.has_model_price = False  # the summary names the model
            return
        if usage and cost is not None and uncached is not None:
            self.cost, self.uncached = cost, uncached


def _rows(calls: Iterable[tuple[int, _Priced]], key: Callable[[Exchange], str], lost: set[int]) -> tuple[Row, ...]:
    groups: dict[str, list[tuple[int, _Priced]]] = {}
    for index, call in calls:
        groups.setdefault(key(call.exchange), []).append((index, call))
    return tuple(_row(name, group, lost) for name, group in groups.items())


def _row(name: str, calls: Sequence[tuple[int, _Priced]], lost: set[int]) -> Row:
    known = [call for _, call in calls if call.usage]
    costs = [(call.cost, call.uncached) for call in known if call.cost is not None and call.uncached is not None]
    return Row(
        name=name, calls=len(calls), calls_with_usage=len(known), calls_with_price=len(costs),
        usage=reduce(add, (call.usage for call in known if call.usage), ZERO),
        cost_usd=sum(cost for cost, _ in costs) if costs else None,
        cost_uncached_usd=sum(uncached for _, uncached in costs) if costs else None,
        n_misses=sum(index in lost for index, _ in calls),
    )  # fmt: skip


def _row_json(row: Row) -> dict[str, Json]:
    return {**asdict(row), "hit_rate": row.hit_rate, "saved_usd": row.saved_usd}


def dollars(amount: float) -> str:
    """An amount as people read it, small ones with the digits that matter.

    >>> dollars(0.83), dollars(0.0042), dollars(1234.5), dollars(0)
    ('$0.83', '$0.0042', '$1,234.50', '$0.00')
    """
    digits = 2 if amount == 0 or abs(amount) >= 0.1 else 4
    return f"{'-' if amount < 0 else ''}${abs(amount):,.{digits}f}"


def _hit_text(summary: Summary) -> str:
    if not summary.calls:
        return "no calls recorded"
    if summary.hit_rate is None:
        return "hit rate unknown"
    return f"{summary.hit_rate:.1%}".replace("%", " %") + " of input read from cache" + (" (estimated)" if summary.usage.estimated else "")


def _money_texts(summary: Summary) -> tuple[str, ...]:
    if summary.cost_usd is None or summary.saved_usd is None:
        return ()
    change = f"{dollars(summary.saved_usd)} saved" if summary.saved_usd >= 0 else f"{dollars(-summary.saved_usd)} more than without a cache"
    return f"{dollars(summary.cost_usd)} spent", change


def _miss_text(summary: Summary) -> str:
    n = summary.total.n_misses
    return f"{n} {'miss' if n == 1 else 'misses'}" if summary.calls_with_usage else ""


def _unknown_texts(summary: Summary) -> Iterable[str]:
    row = summary.total
    if row.calls_with_usage < row.calls:
        yield f"usage unknown for {row.calls - row.calls_with_usage} of {row.calls} calls"
    if summary.models_without_price:
        yield f"price unknown for {', '.join(summary.models_without_price)}"
