"""A stream of events on its way through: every event is passed on, and at the end they amount to a reply.

Takes the SDK's events, sync or async, gives the same events. A stream that stops early is a failed exchange, billed as far as it said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import UnreadableReply
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request
from contextkit.simulator.account import Account


class Passing:
    """One stream: what has come of it so far, and what to do when it ends."""

    __slots__ = ("_account", "_first_byte_at", "_keep", "_provider", "_request", "_seen")

    def __init__(
        self, provider: Provider, request: Request, account: Account, keep: Callable[[Mapping[str, Json], Request, float | None], object]
    ) -> None:
        self._provider, self._request, self._account, self._keep = provider, request, account, keep
        self._seen: list[Any] = []
        self._first_byte_at: float | None = None

    def through(self, events: Any) -> Any:
        """The same events: an async iterator for an async stream, else an iterator."""
        return self._apassed(events) if hasattr(events, "__aiter__") else self._passed(events)

    def _passed(self, events: Any) -> Iterator[Any]:
        try:
            for event in events:
                self._note(event)
                yield event
        except BaseException as error:
            self._broke(error)
            raise
        self._ended()

    async def _apassed(self, events: Any) -> AsyncIterator[Any]:
        try:
            async for event in events:
                self._note(event)
                yield event
        except BaseException as error:
            self._broke(error)
            raise
        self._ended()

    def _note(self, event: Any) -> None:
        if self._first_byte_at is None:
            self._first_byte_at = self._account.now()
        self._seen.append(event)

    def _ended(self) -> None:
        joined = self._joined()
        if joined is None or not self._provider.is_complete(joined):
            self._account.failed(self._request, "cut", self._usage(joined), self._first_byte_at)
            raise UnreadableReply("the stream ended before the reply was complete: nothing was kept, ask again")
        self._keep(joined, self._request, self._first_byte_at)

    def _broke(self, error: BaseException) -> None:
        """The reader left (and may have seen everything), or the connection did."""
        joined = self._joined()
        if isinstance(error, GeneratorExit) and joined is not None and self._provider.is_complete(joined):
            self._keep(joined, self._request, self._first_byte_at)
            return
        what = "aborted" if isinstance(error, GeneratorExit | KeyboardInterrupt) else error
        self._account.failed(self._request, what, self._usage(joined), self._first_byte_at)

    def _joined(self) -> Mapping[str, Json] | None:
        """What has come so far; None where that is not even the start of a reply (a ping, or nothing)."""
        try:
            return self._provider.joined(self._seen) if self._seen else None
        except UnreadableReply:
            return None

    def _usage(self, joined: Mapping[str, Json] | None) -> Any:
        return None if joined is None else self._provider.usage(joined)
