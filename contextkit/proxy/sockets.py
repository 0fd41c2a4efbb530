"""Relays a WebSocket of the Responses API: every message passes in order, every request in it is a call like one by POST.

Frames are read and written anew on both sides (wsproto), messages are not changed: a request waits until a budget has
admitted it and repairs have seen it, an event goes to the client in the turn of the event loop that read it. What a
budget refuses is answered on the socket with an error event. Pings, pongs and the reasons of a close go through to the
other end; a connection that breaks off breaks off for the other end, too. Compression is what client and provider agreed
on; other extensions are not offered to the provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping, Pong, TextMessage
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError

from contextkit.canonical import Json, parse_object
from contextkit.content_encoding import MOST_BYTES
from contextkit.errors import BudgetExceeded
from contextkit.providers.openai.response_socket import (
    CREATE,
    Answer,
    ResponseSocket,
    error_message,
    stream_of,
)
from contextkit.proxy.accounts import Account
from contextkit.proxy.cold import ExpiredCache
from contextkit.proxy.links import Headers, Link, value_of

REFUSED = 402
"""Status in the error event of a request that a budget has no room for, as over HTTP."""
_PIECE_BYTES = 1 << 14
"""Of what came, so much is read before its size is looked at: compressed data may be a thousand times as long."""
_MOST_WAITING = 8
"""Messages of a client that may wait before its connection is read no further."""
EVENTS: Headers = [(b"content-type", b"text/event-stream")]
"""Headers of a response whose events came over a socket."""
_REFUSALS: Headers = [(b"content-type", b"application/json")]


def offered(headers: Headers) -> Headers:
    """Return the headers of a client's handshake with no extension but compression.

    >>> offered([(b"Sec-WebSocket-Extensions", b"x-other, permessage-deflate; client_max_window_bits")])
    [(b'Sec-WebSocket-Extensions', b'permessage-deflate; client_max_window_bits')]
    """
    name, deflate = b"sec-websocket-extensions", PerMessageDeflate.name.encode()
    offers = [offer.strip() for key, value in headers if key.lower() == name for offer in value.split(b",")]
    kept = b", ".join(offer for offer in offers if offer.partition(b";")[0].strip() == deflate)
    rest = [(key, value) for key, value in headers if key.lower() != name]
    return [*rest, (b"Sec-WebSocket-Extensions", kept)] if kept else rest


def _agreed(headers: Headers) -> list[Any]:
    """Return the extensions that the provider's side of a handshake names. Raises `ConnectionResetError`."""
    value = value_of(headers, b"sec-websocket-extensions").decode("latin-1")
    if not value:
        return []
    deflate = PerMessageDeflate()
    try:
        if value.partition(";")[0].strip() != PerMessageDeflate.name or "," in value:
            raise ValueError(value)
        deflate.finalize(value)
    except ValueError:
        raise ConnectionResetError("the provider agreed to a compression that was not offered") from None
    return [deflate]


def _pieces(connection: Connection, data: bytes) -> Iterator[Event]:
    """Read frames a piece at a time."""
    for at in range(0, len(data), _PIECE_BYTES):
        if connection.state is not ConnectionState.CLOSED:
            connection.receive_data(data[at : at + _PIECE_BYTES])
            yield from connection.events()


class SocketRelay:
    """One socket, from the end of its handshake to its close."""

    def __init__(
        self,
        client: Link,
        provider: Link,
        agreed: Headers,
        opened: Callable[[bytes], Awaitable[tuple[bytes, Account]]],
        admitted: Callable[[str], Awaitable[object]],
        on_report: Callable[[Json], object],
        path: str,
    ) -> None:
        """`agreed`: headers of the provider's handshake. `opened` takes a request, and gives what is sent in its place
        and its account; `admitted` takes the type of any other message. Both raise `BudgetExceeded`, `ExpiredCache`. `path` is shown.

        Raises `ConnectionResetError` for a compression that cannot be read.
        """
        self._client, self._provider = client, provider
        self._near = Connection(ConnectionType.SERVER, _agreed(agreed))
        self._far = Connection(ConnectionType.CLIENT, _agreed(agreed))
        self._opened, self._admitted, self._on_report, self._path = opened, admitted, on_report, path
        self._requests: ResponseSocket[Account] = ResponseSocket()
        self._waiting: asyncio.Queue[Event] = asyncio.Queue()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parts: dict[Connection, list[str | bytes]] = {self._near: [], self._far: []}
        self._n_parts: dict[Connection, int] = {self._near: 0, self._far: 0}
        self._told: set[str] = set()

    async def run(self) -> None:
        """Pass messages both ways until the socket is closed; requests that are then open are told as cut or aborted."""
        self._provider.on_lost = self._close
        forwarding = asyncio.ensure_future(self._forward())
        error = "aborted"
        try:
            for source, sink, take in (
                (self._provider, self._client, self._from_provider),
                (self._client, self._provider, self._from_client),
            ):
                sink.feeder, source.raw = source, take
                take(bytes(source.http.trailing_data[0]))
                source.resume()
            await asyncio.wait({self._over, forwarding}, return_when=asyncio.FIRST_COMPLETED)
            error = "aborted" if self._client.is_lost else "cut"
            if forwarding.done():
                forwarding.result()
        finally:
            forwarding.cancel()
            for account in self._requests.unanswered():
                account.end(error)
            self._client.close()  # what came is sent; without a close frame the client knows that the rest is missing

    # From the client
    # ---------------------------------------------------------------------------------------------------------

    def _from_client(self, data: bytes) -> None:
        for event in self._events(self._near, data):
            self._waiting.put_nowait(event)
        if self._waiting.qsize() > _MOST_WAITING:
            self._client.pause()

    async def _forward(self) -> None:
        while True:
            event = await self._waiting.get()
            if isinstance(event, Message):
                await self._request(event)
            else:
                self._send(self._far, event)
            await self._provider.room()
            if self._waiting.qsize() <= _MOST_WAITING:
                self._client.resume()

    async def _request(self, event: Message[Any]) -> None:
        """Send a message on; a request with its account, of anything else only that it was not read."""
        body = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
        fields = parse_object(body) if isinstance(event, TextMessage) else {}
        kind, stream = str(fields.get("type") or "a message that is no event"), stream_of(fields)
        try:
            if kind != CREATE:
                await self._admitted(kind)
                self._unread(kind)
                self._send(self._far, event)
                return
            sent, account = await self._opened(body)
        except (BudgetExceeded, ExpiredCache) as refused:
            text, code = (
                refused.for_shell(),
                "budget_exceeded" if isinstance(refused, BudgetExceeded) else "cache_expired",
            )
            self._on_report({"refused": {"path": self._path, "text": text}})
            error = {"type": "invalid_request_error", "code": code, "message": f"contextkit proxy: {text}"}
            self._send(self._near, TextMessage(error_message(stream, REFUSED, error).decode()))
            await self._client.room()
            return
        if self._far.state is not ConnectionState.OPEN:  # closed while a budget was asked: it does not leave
            account.end("cut")
            return
        self._requests.sent(stream, account)
        account.sent(len(sent))
        self._send(self._far, event if sent is body else TextMessage(sent.decode()))

    def _unread(self, kind: str) -> None:
        """Say once of each type of message that it is not read."""
        if kind not in self._told:
            self._told.add(kind)
            text = f"{kind} on a WebSocket is passed on unread: what it is billed is recorded nowhere"
            self._on_report({"websocket": {"path": self._path, "text": text}})

    # From the provider
    # -------------------------------------------------------------------------------------------------------

    def _from_provider(self, data: bytes) -> None:
        for event in self._events(self._far, data):
            self._send(self._near, event)
            if isinstance(event, TextMessage):
                answer = self._requests.received(event.data.encode())
                if answer is not None:
                    self._account(answer)

    def _account(self, answer: Answer[Account]) -> None:
        account = answer.call
        if account is None:
            if answer.is_first:
                self._unread("a response that no request asked for")
            return
        if answer.is_first:
            account.began(answer.status, EVENTS if answer.status == 200 else _REFUSALS)
        account.keep(answer.chunk)
        if answer.is_last:
            account.end()

    # Both
    # --------------------------------------------------------------------------------------------------------------------

    def _events(self, connection: Connection, data: bytes) -> list[Event]:
        """Read frames; a message is given once it is whole."""
        if connection.state is ConnectionState.CLOSED:
            return []
        parts, found = self._parts[connection], list[Event]()
        for event in _pieces(connection, data):
            if not isinstance(event, Message):
                found.append(event)
                continue
            parts.append(event.data)
            self._n_parts[connection] += len(event.data)
            if self._n_parts[connection] > MOST_BYTES:
                parts.clear()
                text = f"a message of more than {MOST_BYTES:,} bytes"
                return [*found, CloseConnection(CloseReason.MESSAGE_TOO_BIG, text)]
            if event.message_finished:
                is_text = isinstance(event, TextMessage)
                found.append(TextMessage("".join(parts)) if is_text else BytesMessage(b"".join(parts)))  # type: ignore[arg-type]
                parts.clear()
                self._n_parts[connection] = 0
        return found

    def _send(self, connection: Connection, event: Event) -> None:
        """Send an event to one end; a close also answers the other end where that asked for it or broke the protocol."""
        if not isinstance(event, (Message, Ping, Pong, CloseConnection)):
            return
        link = self._client if connection is self._near else self._provider
        try:
            data = connection.send(event)
        except LocalProtocolError:
            return  # it is closing: nothing more goes there
        if not link.is_lost:
            link.transport.write(data)
        if isinstance(event, CloseConnection):
            other = self._far if connection is self._near else self._near
            if other.state is ConnectionState.OPEN:
                self._send(other, event)  # broke the protocol: it is told so, and answered no more
                self._close()
            if connection.state is ConnectionState.CLOSED:
                self._close()

    def _close(self) -> None:
        if not self._over.done():
            self._over.set_result(None)
