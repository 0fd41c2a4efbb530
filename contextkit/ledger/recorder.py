"""Writes exchanges into a ledger, each prompt as its difference to the one before it in the same lane.

Takes an exchange and the prompt that was sent, gives the row that was recorded. Keeps digests of each lane, so that the
caller's arrays may go on growing, or be rewound. Knows nothing of providers or bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

from contextkit.cache.prompt import Prompt
from contextkit.ledger.exchange import Exchange, Outline
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.outlines import Lane, outline


class Recorder:
    """The one hand that writes prompts into a ledger; a ledger that was written before is continued."""

    __slots__ = ("_lanes", "_lock", "ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        """Where rows go."""
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._lock = Lock()
        for exchange in ledger:
            self._follow(exchange)

    def record(
        self, exchange: Exchange, prompt: Prompt | None = None, entries: Sequence[int] = (), epoch: int = 0
    ) -> Exchange:
        """Append `exchange`, its prompt replaced by the outline of `prompt` where one is given.

        `entries` holds the log sequence of each segment of `prompt`; `epoch` counts the declared breaks before it.
        """
        with self._lock:
            if prompt is not None:
                lane = self._lanes.get((exchange.session, exchange.lane))
                exchange = replace(exchange, prompt=outline(lane.prompt if lane else None, prompt, entries, epoch))
            self.ledger.append(exchange)
            self._follow(exchange)
            return exchange

    def _follow(self, exchange: Exchange) -> None:
        if isinstance(exchange.prompt, Outline):
            self._lanes.setdefault((exchange.session, exchange.lane), Lane()).grow(exchange.prompt, exchange.id)
