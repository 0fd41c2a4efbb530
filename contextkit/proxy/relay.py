"""Relays one request to the provider and its response back, without changing a byte.

`Relay` takes the head of a request on a client's link, sends the same request to the provider and every byte of its
response to the client, as it comes. A response that breaks off breaks off for the client; a client that disconnects
cancels the request. A WebSocket of the Responses API is read message by message (`sockets.py`); any other one passes
unread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from functools import cached_property, partial
from typing import Any

import h11

from contextkit.canonical import Json
from contextkit.content_encoding import MOST_BYTES
from contextkit.providers.client_names import names_in_headers
from contextkit.providers.paths import wire_of
from contextkit.proxy.accounts import Account, Pump
from contextkit.proxy.cold import ColdGate
from contextkit.proxy.links import (
    Headers,
    Link,
    asks_for_websocket,
    encoding_of,
    for_provider,
    in_words,
    passed_on,
    value_of,
)
from contextkit.proxy.observer import Departed, Observer, Passed, Repair, Repaired, Timeouts
from contextkit.proxy.repairs.splices import capped
from contextkit.proxy.sockets import SocketRelay, offered
from contextkit.proxy.upstreams import Upstream
from contextkit.redact import credentials_of, redact_path
from contextkit.watcher.budget import Admission, BudgetGate


async def tunnel(client: Link, provider: Link) -> None:
    """Pass bytes both ways until either side closes: another protocol is spoken now."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def closed() -> None:
        if not done.done():
            done.set_result(None)

    def write(sink: Link, data: bytes) -> None:
        if data and not sink.is_lost:
            sink.transport.write(data)

    for source, sink in ((client, provider), (provider, client)):
        sink.feeder = source
        source.raw = partial(write, sink)
        source.raw(source.http.trailing_data[0])
        source.resume()
    provider.on_lost = closed
    await done
    client.close()


_BROKEN = (OSError, h11.RemoteProtocolError)
"""What a provider's connection can fail with; a time-out is an OSError."""
DEFAULT_TIMEOUTS = Timeouts()
SOCKET_WIRE = "openai_responses"
"""The endpoint whose WebSockets are read."""
CLOSED_AT_ONCE_SECONDS = 1.0
"""How soon an idle connection that its other side had closed says so when it is used: a round trip. One that was silent
for longer had taken the request, and may be at work on it."""


class Unreachable(Exception):
    """No response came; the text says why, `status` is what the client is told."""

    def __init__(self, text: str, status: int = 502) -> None:
        super().__init__(text)
        self.status = status


class ClientStalled(Exception):
    """The client began a request and sent no more of it."""


class Relay:
    """One request on its way."""

    def __init__(
        self,
        client: Link,
        request: h11.Request,
        upstream: Upstream,
        target: bytes,
        *,
        numbers: Iterator[int],
        observer: Observer | None = None,
        repair: Repair | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        gate: BudgetGate | None = None,
        cold: ColdGate | None = None,
        on_report: Callable[[Json], object] = lambda report: None,
    ) -> None:
        """`target` is what `upstream` is asked for; `numbers` are those of calls; `on_report` is told what a socket leaves
        unread, of its requests that a budget refuses, and of requests whose output limit a budget lowers.
        """
        self._client, self._request, self._upstream, self._target = client, request, upstream, target
        self._gate, self._observer, self._repair, self._timeouts = gate, observer, repair, timeouts
        self._numbers, self._cold, self._on_report = numbers, cold, on_report
        self._method = request.method.decode("ascii")
        self._wire = wire_of(self._method, target.decode("latin-1"))
        self._is_upgrade = asks_for_websocket(request.headers)
        self._is_socket = self._is_upgrade and wire_of("POST", target.decode("latin-1")) == SOCKET_WIRE
        self._is_unpriced = (
            gate is not None
            and not self._is_socket
            and gate.is_unpriced(self._method, target.decode("latin-1"), is_upgrade=self._is_upgrade)
        )
        self._at = time.time()

    async def run(self) -> None:
        """Pass it on. The client's link says by its state whether it can go on.

        Raises `Unreachable` where no response began, `ClientStalled` where the client sent nothing more for too long,
        `BudgetExceeded` where a budget has no room for it, `ExpiredCache` where its cache has expired.
        """
        body, is_whole = await self._gathered()
        sent = body
        if self._wire and is_whole:
            sent, self._account = await self._call(self._wire, body)
        else:
            is_priced = bool(self._wire) or self._is_unpriced
            admission = await self._admitted(self._method, self._bare_path, body) if is_priced else None
            told = Passed(next(self._numbers), self._method, self._path, 0, 0, 0, self._at, self._at, "")
            self._account = Account(self._observer, told, admission=admission)
        try:
            is_longer = sent is not body
            if not await self._passed(sent, is_whole=is_whole, is_longer=is_longer):
                await self._passed(sent, is_whole=is_whole, is_longer=is_longer, is_again=True)
        except Unreachable as fault:
            self._account.end("timeout" if fault.status == 504 else "unreachable")
            raise
        finally:
            self._account.end("aborted")

    async def _call(self, wire: str, body: bytes) -> tuple[bytes, Account]:
        """Repair a model call, let a budget admit it, and tell that it departs; give what is sent, and its account."""
        repaired = self._repaired(wire, body)
        sent = repaired.body if repaired else body
        departed = self._departed(wire, body, repaired)
        if self._cold is not None:
            await self._cold.check(departed)
        admission = await self._admitted("POST", self._bare_path, sent)
        cap = admission.cap if admission is not None else None
        if cap is not None:
            repaired = capped(body, repaired, cap.splices)
            sent, names, shared = repaired.body, repaired.names, repaired.shared
            departed = replace(departed, body=sent, before=body, repairs=names, shared=shared)
            told = {"path": self._path, "field": cap.field, "from": cap.before, "to": cap.after, "text": str(cap)}
            self._on_report({"capped": told})
        return sent, Account(self._observer, departed, admission=admission)

    # The request
    # ----------------------------------------------------------------------------------------------------------

    async def _gathered(self) -> tuple[bytes, bool]:
        """The body of a model call, of what is refused, or of what has none, and whether it is all there; of anything else
        nothing yet.
        """
        chunks, n_bytes = list[bytes](), 0
        has_body = any(value_of(self._request.headers, name) for name in (b"content-length", b"transfer-encoding"))
        while (self._wire or self._is_unpriced or not has_body) and n_bytes <= MOST_BYTES:
            try:
                event = await self._client.next_event(self._timeouts.idle)
            except TimeoutError:
                raise ClientStalled from None
            if type(event) is h11.EndOfMessage:
                return b"".join(chunks), True
            chunks.append(bytes(event.data))
            n_bytes += len(event.data)
        return b"".join(chunks), False

    async def _admitted(self, method: str, path: str, body: bytes) -> Admission | None:
        """Reserve the call's part of a budget, computed off the event loop."""
        if self._gate is None:
            return None
        is_upgrade = self._is_upgrade and not self._is_socket
        encoding, path = encoding_of(self._request.headers), self._upstream.prefix.decode("latin-1") + path
        admitting = asyncio.ensure_future(
            asyncio.to_thread(
                self._gate.admit, method, path, body, encoding, is_upgrade=is_upgrade, is_signed=self._is_signed
            )
        )
        try:
            return await asyncio.shield(admitting)
        except asyncio.CancelledError:
            admitting.add_done_callback(_released)
            raise

    def _repaired(self, wire: str, body: bytes) -> Repaired | None:
        """None also for a body that is compressed, or that a signature covers (Amazon's SigV4)."""
        is_open = encoding_of(self._request.headers).lower() in ("", "identity") and not self._is_signed
        return self._repair(wire, body) if self._repair is not None and is_open else None

    @property
    def _is_signed(self) -> bool:
        """Whether a signature covers the body (Amazon's SigV4, in a header or in the query)."""
        proof = value_of(self._request.headers, b"authorization")
        return proof.startswith(b"AWS4-") or b"x-amz-signature=" in self._target.lower()

    def _departed(self, wire: str, body: bytes, repaired: Repaired | None) -> Departed:
        encoding, client_names = encoding_of(self._request.headers), tuple[str, ...]()
        if self._observer is not None:
            headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._request.headers)
            found = names_in_headers(headers, self._upstream.host.decode("ascii"))
            client_names = astuple(found)
        sent, names, shared = (repaired.body, repaired.names, repaired.shared) if repaired else (body, (), ())
        change = sent, body if repaired else None, names, shared
        whose = self._credentials, client_names
        number = next(self._numbers)
        return Departed(number, wire, self._path, encoding, *change, time.time(), *whose, self._upstream.url)

    @cached_property
    def _credentials(self) -> tuple[str, ...]:
        return credentials_of(self._request.headers, self._target) if self._observer is not None else ()

    @cached_property
    def _path(self) -> str:
        """Without the query, redacted."""
        path = self._bare_path
        return redact_path(path, self._credentials) if self._observer is not None else path

    @property
    def _bare_path(self) -> str:
        return self._target.partition(b"?")[0].decode("latin-1")

    async def _passed(self, body: bytes, *, is_whole: bool, is_longer: bool, is_again: bool = False) -> bool:
        """Return whether a response came; False where it may be asked for once more.

        A provider may close an idle connection just when it is used again. The request goes out on a new one then.
        Where the connection stood for longer before it closed, the provider may have done what was asked: the client
        decides whether to ask again.
        """
        link = await self._connected(is_new=is_again)
        asked_at = time.monotonic()
        try:
            await self._called(link, body, is_whole=is_whole, is_longer=is_longer)
        except Unreachable:
            was_idle = link.is_used and link.is_silent and time.monotonic() - asked_at < CLOSED_AT_ONCE_SECONDS
            if is_again or not is_whole or not was_idle:
                raise
            return False
        finally:
            self._client.feeder = self._client.raw = link.raw = None
            self._upstream.give_back(link)
        return True

    async def _connected(self, *, is_new: bool) -> Link:
        try:
            return await self._upstream.link(is_new=is_new)
        except TimeoutError as fault:
            text = f"{self._upstream.shown} cannot be reached: no connection after {self._upstream.connect_seconds:g} seconds"
            raise Unreachable(f"{text} (--connect-seconds)") from fault
        except OSError as fault:
            raise Unreachable(f"{self._upstream.shown} cannot be reached ({in_words(fault)})") from fault

    async def _called(self, link: Link, body: bytes, *, is_whole: bool, is_longer: bool) -> None:
        headers = for_provider(self._request.headers.raw_items(), self._upstream.host, len(body) if is_longer else None)
        headers = offered(headers) if self._is_socket else headers
        link.send(
            h11.Request(method=self._request.method, target=self._upstream.prefix + self._target, headers=headers)
        )
        upload = asyncio.create_task(self._upload(link, body, is_whole=is_whole))
        try:
            await self._answered(link, upload)
        finally:
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)

    async def _upload(self, link: Link, body: bytes, *, is_whole: bool) -> None:
        """The body, or what is there of it and then the rest as it comes."""
        if body:
            link.send(h11.Data(data=body))
            self._account.sent(len(body))
        try:
            while not is_whole:
                event = await self._client.next_event(self._timeouts.idle)
                is_whole = type(event) is h11.EndOfMessage
                if not is_whole:
                    link.send(event)
                    self._account.sent(len(event.data))
                    await link.room()
                else:
                    link.send(h11.EndOfMessage(headers=event.headers))
                    return
            link.send(h11.EndOfMessage())
        except (h11.RemoteProtocolError, TimeoutError):
            link.abort()  # the client's body is no HTTP, or does not go on: the provider must not wait for the rest of it
            raise

    # The response
    # ---------------------------------------------------------------------------------------------------------

    async def _answered(self, link: Link, upload: asyncio.Task[None]) -> None:
        try:
            head = await self._head(link, upload)
        except TimeoutError:
            raise Unreachable(
                f"{self._upstream.shown} sent nothing for {self._timeouts.read:g} seconds (--read-seconds)", 504
            ) from None
        except _BROKEN as fault:
            raise Unreachable(
                f"{self._upstream.shown} closed the connection before it answered ({in_words(fault)})"
            ) from fault
        if type(head) is h11.InformationalResponse:
            headers = list(head.headers.raw_items())  # those of the connection belong to a 101
            self._client.send(h11.InformationalResponse(status_code=101, headers=headers, reason=head.reason))
            self._account.began(101, [])
            await self._switched(link, headers)
            self._account.end()
            return
        headers = head.headers.raw_items()
        self._account.began(head.status_code, headers)
        self._client.send(h11.Response(status_code=head.status_code, headers=passed_on(headers), reason=head.reason))
        if await Pump(link, self._client, self._account, self._timeouts).run():
            # sends what came, then closes inside the message; where only the end of the link would end that, it is reset
            is_framed = (self._client.http.their_http_version or b"") >= b"1.1"
            (self._client.close if is_framed else self._client.reset)()

    async def _switched(self, link: Link, agreed: Headers) -> None:
        """Go on in the other protocol until either side closes."""
        if self._is_socket:

            async def opened(body: bytes) -> tuple[bytes, Account]:
                return await self._call(SOCKET_WIRE, body)

            async def admitted(kind: str) -> Admission | None:
                return await self._admitted("POST", f"{self._bare_path}/{kind}", b"")

            await SocketRelay(self._client, link, agreed, opened, admitted, self._on_report, self._path).run()
            return
        text = (
            "a WebSocket is passed on unread: no call in it is recorded, compared or counted; let the client use HTTP"
        )
        self._on_report({"websocket": {"path": self._path, "text": text}})
        await tunnel(self._client, link)

    async def _head(self, link: Link, upload: asyncio.Task[None]) -> Any:
        """The head of the response, or of the switch to another protocol; what is said before it is passed on."""
        while True:
            try:
                event = await link.next_event(self._timeouts.read)
            except TimeoutError:
                if not upload.done():
                    continue  # it may be waiting for the rest of the request
                raise
            if type(event) is h11.Response or (type(event) is h11.InformationalResponse and event.status_code == 101):
                return event
            if type(event) is not h11.InformationalResponse:
                raise ConnectionResetError("no response")
            if (self._client.http.their_http_version or b"") >= b"1.1":
                headers = passed_on(event.headers.raw_items())
                self._client.send(
                    h11.InformationalResponse(status_code=event.status_code, headers=headers, reason=event.reason)
                )


def _released(admitting: asyncio.Future[Admission | None]) -> None:
    """Give back what was set aside for a call whose client has left meanwhile."""
    admission = None if admitting.cancelled() or admitting.exception() else admitting.result()
    if admission is not None:
        admission.release()
