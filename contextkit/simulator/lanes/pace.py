"""How a live lane goes, read from its ledger as that grows: gaps, growth, what the last request left, whether lifetimes
mix.

Takes exchanges in the order they were recorded, gives what a plan is made from; each exchange is looked at once. The
same after the conversation is opened again, since all of it stands in the ledger.
"""

from __future__ import annotations

from contextkit.cache.usage import Usage
from contextkit.economics.bill import Price
from contextkit.economics.rhythm import Prior, Rhythm
from contextkit.errors import UnknownModel
from contextkit.layout.planning.known import NOTHING, Known, Left
from contextkit.ledger.exchange import Exchange, Outline
from contextkit.ledger.ledger import Ledger
from contextkit.models import Model
from contextkit.prices import cost_usd

_FAR_BELOW = 0.5
"""A bill that reads less than this share of what was predicted has read something else."""


class Pace:
    """One lane of a ledger."""

    __slots__ = ("_before", "_known", "_lane", "_ledger", "_left", "_mixed", "_n", "_rhythm", "_size")

    def __init__(self, lane: tuple[str, str], prior: Prior | None = None) -> None:
        """`lane`: session and lane."""
        self._lane, self._rhythm = lane, Rhythm(prior)
        self._ledger: Ledger | None = None
        self._n, self._size = 0, 0
        self._before: float | None = None
        self._left: dict[str, Left] = {}
        self._mixed: dict[str, bool] = {}
        self._known: dict[tuple[str, int], Known] = {}

    def known(self, ledger: Ledger, model: Model, now: float, epoch: int, calls_to_come: float | None = None) -> Known:
        """What is known of the lane before its next request to `model`; costs what was recorded since."""
        self._follow(ledger)
        key = (model.name, self._rhythm.turns)
        tables = self._known[key]._tables if key in self._known else {}
        known = Known(
            self._rhythm,
            _price(model, now),
            now,
            self._left.get(model.name, NOTHING),
            epoch,
            calls_to_come,
            is_mixed=self._mixed.get(model.name, True),
            _tables=tables if calls_to_come is None else {},
        )
        self._known = {key: known} if calls_to_come is None else self._known
        return known

    def _follow(self, ledger: Ledger) -> None:
        if ledger is not self._ledger:
            self._ledger, self._n = ledger, 0
        rows = ledger.exchanges
        while self._n < len(rows):
            self._see(rows[self._n])
            self._n += 1

    def _see(self, exchange: Exchange) -> None:
        if (exchange.session, exchange.lane) != self._lane or exchange.first_byte_at is None:
            return
        size = _size(exchange)
        if self._before is not None:
            self._rhythm.see(max(exchange.at - self._before, 0.0), max(size - self._size, 0))
        self._before, self._size = exchange.at, size
        if isinstance(exchange.prompt, Outline):
            self._note(exchange, exchange.prompt)

    def _note(self, exchange: Exchange, prompt: Outline) -> None:
        marks = tuple(mark for mark in prompt.breakpoints if mark.is_written)
        last = self._left.get(exchange.model, NOTHING)
        if last.marks and marks and last.epoch == prompt.epoch and last.marks[-1].ttl_seconds != marks[-1].ttl_seconds:
            self._mixed[exchange.model] = self._mixed.get(exchange.model, True) and not _is_read_elsewhere(exchange)
        self._left[exchange.model] = Left(marks, exchange.at, prompt.epoch)


def _price(model: Model, at: float) -> Price:
    """What a bill costs at that time; a model that is registered without a price costs nobody knows what."""

    def price(usage: Usage) -> float | None:
        try:
            return cost_usd(model.provider, model.name, usage, at)
        except UnknownModel:
            return None

    return price


def _size(exchange: Exchange) -> int:
    usage, predicted = exchange.usage, exchange.predicted
    return (usage.prompt if usage else None) or (predicted.prompt if predicted else None) or 0


def _is_read_elsewhere(exchange: Exchange) -> bool:
    """Whether far less was read than the reference cache expected, in the first request of another lifetime."""
    billed = exchange.usage.read if exchange.usage else None
    expected = exchange.predicted.read if exchange.predicted else None
    return billed is not None and bool(expected) and billed < _FAR_BELOW * (expected or 0)
