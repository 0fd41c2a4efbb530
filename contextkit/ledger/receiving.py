"""A reply on its way into the log: billed first, whatever becomes of it.

Takes what an SDK returned and the request it answers, gives the body of the entry to be. Knows nothing of logs.

A stream of events on its way through: every event is passed on, and at the end they amount to a reply.

Takes the SDK's events, sync or async, gives the same events. A stream that stops early is a failed exchange, billed as
far as it said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.errors import InvalidCall, NotSerialisable, UnreadableReply, UsageError
from contextkit.ledger.account import Account
from contextkit.providers.adoption import billed, received, understood
from contextkit.providers.provider import Provider
from contextkit.providers.rendering import seen
from contextkit.providers.request import Request
from contextkit.providers.settings import is_prewarm


def take(
    response: Any,
    request: Request,
    provider: Provider,
    account: Account,
    check: Callable[[str, Json], None],
    is_kept: Callable[[Json], bool],
    first_byte_at: float | None,
) -> dict[str, Json] | bool:
    """The body of the entry that keeps `response`, once its bill is in the ledger.

    `check` says whether it may come next.

    True where the log ends with that body already, as `is_kept` says: whoever received it died before learning of that.
    False for the reply to a prewarm: it filled the cache and says nothing.

    Raises `UnreadableReply` and what `check` raises; the bill is in the ledger then too, as far as the response says
    it.
    """
    try:
        reply = understood(provider, response)
    except UnreadableReply as fault:
        _unkept(request)
        name, usage = billed(provider, response)
        if usage != Usage():
            account.unkept(request, response, name, usage, "unreadable", first_byte_at)
            account.settled(request, fault)
        raise
    asked, read = request, seen(request, provider, reply.withheld)
    request = read.request
    if is_prewarm(request.params):
        account.told(reply.id, read.reasons)
        account.received(request, reply, response, first_byte_at)
        return False
    body = {**received(reply, request.after), **({"withheld": list(read.withheld)} if read.withheld else {})}
    body |= request.continued.stored(request.model.name, reply.id) if request.continued else {}
    if account.was_billed_before(reply.id, reply.usage) and is_kept(body):
        return True
    account.told(reply.id, read.reasons)
    try:
        check("assistant", body)
    except InvalidCall as fault:
        _unkept(request)
        account.unkept(request, response, reply.id, reply.usage, "not kept", first_byte_at)
        account.settled(asked, fault)
        raise
    account.received(request, reply, response, first_byte_at)
    return body


def _unkept(request: Request) -> None:
    """The server may keep a reply that the log does not."""
    if request.continued is not None:
        request.continued.failed("not kept")


class Passing:
    """One stream: what has come of it so far, and what to do when it ends."""

    __slots__ = ("_account", "_first_byte_at", "_keep", "_provider", "_request", "_seen")

    def __init__(
        self,
        provider: Provider,
        request: Request,
        account: Account,
        keep: Callable[[Mapping[str, Json], Request, float | None], object],
    ) -> None:
        self._provider, self._request, self._account, self._keep = provider, request, account, keep
        self._seen: list[Any] = []
        self._first_byte_at: float | None = None

    def through(self, events: Any) -> Any:
        """The same events: an async iterator for an async stream, else an iterator.

        Raises `UsageError` for what is no stream.
        """
        if not hasattr(events, "__aiter__") and not hasattr(events, "__iter__"):
            raise UsageError(
                f"{type(events).__name__} is no stream: pass what request.stream(client) gave, awaited for an async client"
            )
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
            error = UnreadableReply("the stream ended before the reply was complete: nothing was kept, ask again")
            self._account.settled(self._request, error)
            raise error
        self._keep(joined, self._request, self._first_byte_at)

    def _broke(self, error: BaseException) -> None:
        """The reader left (and may have seen everything), or the connection did."""
        joined = self._joined()
        if isinstance(error, GeneratorExit) and joined is not None and self._provider.is_complete(joined):
            self._keep(joined, self._request, self._first_byte_at)
            return
        self._account.failed(self._request, error, self._usage(joined), self._first_byte_at)

    def _joined(self) -> Mapping[str, Json] | None:
        """What has come so far.

        None where that is not even the start of a reply (a ping, or nothing, or events of another kind).
        """
        try:
            return self._provider.joined(self._seen) if self._seen else None
        except (UnreadableReply, NotSerialisable, KeyError, TypeError, AttributeError, IndexError):
            return None

    def _usage(self, joined: Mapping[str, Json] | None) -> Usage | None:
        """What a cut stream said it is billed; how much it would have said in the end is not known."""
        usage = Usage() if joined is None else replace(self._provider.usage(joined), output=None)
        return None if usage == Usage() else usage
