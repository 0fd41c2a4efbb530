"""A recording judged call by call: each with its bill, its two prices, its miss, and what was said of it.

Takes records as they come, gives one `Judged` an exchange; keeps one call a lane and what the remarks said, so a
recording may be larger than memory. Whoever adds up, draws or lists reads this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

from contextkit import prices
from contextkit.cache.usage import ZERO, Usage
from contextkit.errors import UnknownModel
from contextkit.ledger.causes import NOTHING_SAID, Cause
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


class Judging:
    """Is shown a recording record by record, and judges each call as it comes; a remark speaks of what comes after it."""

    __slots__ = ("_index", "_judge", "_said")

    def __init__(self) -> None:
        self._judge, self._said, self._index = Judge(), _Said(), 0

    def hear(self, record: Record) -> Judged | None:
        """The next record; gives its call, None for a remark."""
        if isinstance(record, Remark):
            self._said.hear(record)
            return None
        call = _judged(self._index, record, self._said.judged(self._judge, record), self._said)
        self._index += 1
        return call

    def copied(self) -> Judging:
        """Another one that knows what this one knows, and goes on by itself."""
        return deepcopy(self, {id(NOTHING_SAID): NOTHING_SAID})


def judged(records: Iterable[Record]) -> Iterator[Judged]:
    """Each exchange of `records`, in order, as `Judging` sees it."""
    hear = Judging().hear
    return (call for record in records if (call := hear(record)) is not None)


class _Said:
    """What the remarks said so far; a word about one call is forgotten once that call came."""

    __slots__ = ("_kept", "agents", "breaks", "projects", "sums", "verdicts")

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}
        self.projects: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.sums: dict[str, str] = {}
        self.breaks: dict[str, Mapping[Cause, str]] = {}
        self._kept = {"verdict": self.verdicts, "project": self.projects, "agent": self.agents, "sum": self.sums}

    def hear(self, remark: Remark) -> None:
        kept, cause = self._kept.get(remark.kind), BREAKS.get(remark.kind)
        if kept is not None:
            kept[remark.about] = remark.text
        if cause is not None:
            self.breaks[remark.about] = {**self.breaks.get(remark.about, NOTHING_SAID), cause: remark.text}

    def judged(self, judge: Judge, exchange: Exchange) -> Miss | None:
        """The miss of a call; a row that adds up several calls has none."""
        if self.sums and f"{exchange.session}/{exchange.lane}" in self.sums:
            judge.pass_over()
            return None
        return judge.see(exchange, self.breaks.pop(exchange.id, NOTHING_SAID) if self.breaks else NOTHING_SAID)


BREAKS: dict[str, Cause] = {"compaction": "compaction", "setting": "params_changed"}
"""Kind of a remark → the cause it is of, should its call have missed."""


def _judged(index: int, exchange: Exchange, miss: Miss | None, said: _Said) -> Judged:
    usage = measured(exchange)
    cost, uncached, has_price = _priced(exchange, usage)
    return Judged(
        index,
        exchange,
        usage,
        cost,
        uncached,
        has_price,
        miss,
        said.verdicts.pop(exchange.id, ""),
        said.projects.get(exchange.session, ""),
        said.agents.get(f"{exchange.session}/{exchange.lane}", exchange.lane),
    )


def _priced(exchange: Exchange, usage: Usage | None) -> tuple[float | None, float | None, bool]:
    asked = exchange.provider, exchange.model, usage or ZERO, exchange.at
    try:
        cost, uncached = prices.cost_usd(*asked), prices.cost_uncached_usd(*asked)
    except UnknownModel:
        return None, None, False  # the summary names the model
    return (None, None, True) if usage is None or cost is None or uncached is None else (cost, uncached, True)
