"""A recording judged call by call: each with its bill, its two prices, its miss, and what was said of it.

Takes records as they come, gives one `Judged` an exchange; keeps one call a lane and what the remarks said, so a recording may be
larger than memory. Whoever adds up, draws or lists reads this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from contextkit import prices
from contextkit.cache.usage import ZERO, Usage
from contextkit.errors import UnknownModel
from contextkit.ledger.exchange import Exchange, Remark
from contextkit.ledger.misses import Judge, Miss, measured
from contextkit.ledger.row import Record


@dataclass(frozen=True, slots=True)
class Judged:
    """One call."""

    index: int
    """Its place in the recording, from 0."""
    exchange: Exchange
    """As recorded."""
    usage: Usage | None
    """Its bill, None where a part of its prompt is unknown."""
    cost_usd: float | None
    """What it cost at the list price of its day, None where the bill or the price is unknown."""
    cost_uncached_usd: float | None
    """What it would have cost without any cache."""
    has_model_price: bool
    """Whether its model has a price."""
    miss: Miss | None
    """Why it read less than it could have, None where it did not."""
    verdict: str
    """The provider's own diagnosis, empty where it gave none."""
    project: str
    """Where its conversation was held, empty where nobody says."""
    agent: str
    """Who its lane is: a remark's word, else the lane's name."""


def judged(records: Iterable[Record]) -> Iterator[Judged]:
    """Each exchange of `records`, in order; a remark speaks of what comes after it."""
    judge, said, index = Judge(), _Said(), 0
    for record in records:
        if isinstance(record, Remark):
            said.hear(record)
        else:
            yield _judged(index, record, judge.see(record), said)
            index += 1


class _Said:
    """What the remarks said so far; a word about one call is forgotten once that call came."""

    __slots__ = ("agents", "projects", "verdicts")

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}
        self.projects: dict[str, str] = {}
        self.agents: dict[str, str] = {}

    def hear(self, remark: Remark) -> None:
        kept = {"verdict": self.verdicts, "project": self.projects, "agent": self.agents}.get(remark.kind)
        if kept is not None:
            kept[remark.about] = remark.text


def _judged(index: int, exchange: Exchange, miss: Miss | None, said: _Said) -> Judged:
    usage = measured(exchange)
    cost, uncached, has_price = _priced(exchange, usage)
    return Judged(
        index, exchange, usage, cost, uncached, has_price, miss,
        said.verdicts.pop(exchange.id, ""), said.projects.get(exchange.session, ""),
        said.agents.get(f"{exchange.session}/{exchange.lane}", exchange.lane),
    )  # fmt: skip


def _priced(exchange: Exchange, usage: Usage | None) -> tuple[float | None, float | None, bool]:
    asked = exchange.provider, exchange.model, usage or ZERO, exchange.at
    try:
        cost, uncached = prices.cost_usd(*asked), prices.cost_uncached_usd(*asked)
    except UnknownModel:
        return None, None, False  # the summary names the model
    return (None, None, True) if usage is None or cost is None or uncached is None else (cost, uncached, True)
