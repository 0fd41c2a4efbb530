"""Holds back a request whose cache has expired: answered once with what it would pay again, passed when sent again.

A conversation is told by the names in the headers of its requests; requests of clients that name none are one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import astuple

from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.ledger.figures import dollars
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.proxy.observer import Departed, ForecastRequest

GRACE_SECONDS = 300.0
"""How long requests of a conversation pass after one was held back."""


class ExpiredCache(UsageError):
    """A request would pay again for what its cache held before a pause; it was not sent."""


class ColdGate:
    """The pauses of the conversations of one proxy."""

    def __init__(self, forecast: Callable[[ForecastRequest], Awaitable[Json | None]], least_usd: float) -> None:
        """`forecast` gives what a request would pay again, in tokens and dollars; less than `least_usd` passes."""
        self._forecast, self._least_usd = forecast, least_usd
        self._seen: set[str] = set()
        self._held: dict[str, float] = {}

    async def check(self, call: Departed) -> None:
        """Let a request pass that is about to depart. Raises `ExpiredCache`."""
        names = ClientNames(*call.names) if call.names else NO_NAMES
        key = f"{names.session} {names.agent}" if names.session else ""
        if key not in self._seen or call.at - self._held.get(key, 0.0) < GRACE_SECONDS:
            self._seen.add(key)  # it begins, and shares no more than its head with others
            return
        said = await self._forecast(ForecastRequest(*astuple(call)))
        if said is None or not said["tokens"] or (said["usd"] is not None and said["usd"] < self._least_usd):
            return
        self._held[key] = call.at
        cost = "at an unknown price" if said["usd"] is None else f"for {dollars(said['usd'])}"
        raise ExpiredCache(
            f"the cache of this conversation has expired: this request pays {said['tokens']:,} tokens again, {cost}; "
            f"send it again within {GRACE_SECONDS / 60:.0f} minutes to go on, or start anew or compact first (--warn-cold)"
        )
