"""Lets calls that share a prefix wait for each other: one writes it, the others start when its response begins.

An entry is readable from the moment the response that wrote it begins
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching), so calls that start together each pay for what
they share. A call waits only while another one is being sent whose prefix it could read for less than it would pay
otherwise, and only so long; where that one fails, the first of those that wait goes instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

from contextkit.economics.bill import Price
from contextkit.economics.fanout import readable_tokens
from contextkit.providers.request import Request

_N_BEGUN = 16
"""Calls remembered whose responses have begun and whose bills have not come."""


def _running() -> Future[bool]:
    future = Future[bool]()
    future.set_running_or_notify_cancel()  # a task that is cancelled while it waits must not cancel it for the others
    return future


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """A call that is being sent."""

    request: Request
    has_begun: Future[bool] = field(default_factory=_running)
    """True once its response has begun, False where it failed before."""


class SendGate:
    """The calls that are being sent in one session."""

    __slots__ = ("_begun", "_lock", "_pending", "_wait_seconds")

    def __init__(self, wait_seconds: float = 10.0) -> None:
        """`wait_seconds`: the longest that a call waits; 0: none does."""
        self._wait_seconds = wait_seconds
        self._lock = Lock()
        self._pending: list[_Flight] = []
        self._begun: deque[Request] = deque(maxlen=_N_BEGUN)

    @contextmanager
    def sending(self, request: Request, read_tokens: Callable[[], int], price: Price) -> Iterator[None]:
        """Wait for the turn of `request`; the block sends it, and ends when its response begins.

        `read_tokens` is what it would read from the cache now.
        """
        deadline = monotonic() + self._wait_seconds
        while isinstance(turn := self._enter(request, read_tokens, price, deadline), Future):
            wait_for([turn], max(deadline - monotonic(), 0.0))
        with self._flying(turn):
            yield

    @asynccontextmanager
    async def asending(self, request: Request, read_tokens: Callable[[], int], price: Price) -> AsyncIterator[None]:
        """`sending`, without holding up the event loop."""
        deadline = monotonic() + self._wait_seconds
        while isinstance(turn := self._enter(request, read_tokens, price, deadline), Future):
            await asyncio.wait([asyncio.wrap_future(turn)], timeout=max(deadline - monotonic(), 0.0))
        with self._flying(turn):
            yield

    def forget(self, request: Request) -> None:
        """The bill of `request` has come: what it has written is in the account."""
        with self._lock:
            self._begun = deque((one for one in self._begun if one is not request), maxlen=_N_BEGUN)

    def _enter(
        self, request: Request, read_tokens: Callable[[], int], price: Price, deadline: float
    ) -> Future[bool] | _Flight:
        """The call to wait for, or the flight of this one."""
        with self._lock:
            leader = None
            if self._pending and monotonic() < deadline:
                leader = self._leader(request, read_tokens(), price)
            if leader is not None:
                return leader.has_begun
            flight = _Flight(request)
            self._pending.append(flight)
            return flight

    def _leader(self, request: Request, n_read: int, price: Price) -> _Flight | None:
        """The call being sent that writes most of what `request` could read; None where waiting saves nothing."""
        n_most = max([n_read, *(_shared_tokens(one, request, price) for one in self._begun)])
        leader: _Flight | None = None
        for flight in self._pending:
            n_shared = _shared_tokens(flight.request, request, price)
            if n_shared > n_most:
                leader, n_most = flight, n_shared
        return leader

    @contextmanager
    def _flying(self, flight: _Flight) -> Iterator[None]:
        has_begun = False
        try:
            yield
            has_begun = True
        finally:
            with self._lock:
                self._pending.remove(flight)
                if has_begun:
                    self._begun.append(flight.request)
            flight.has_begun.set_result(has_begun)


def _shared_tokens(leader: Request, follower: Request, price: Price) -> int:
    """Tokens that `follower` could read of what `leader` writes; 0 where reading them costs no less."""
    if (leader.provider, leader.model.name) != (follower.provider, follower.model.name):
        return 0
    return readable_tokens(leader.prompt, follower.prompt, leader.model, price)
