"""One request to the provider and its response back.

Takes the head of a request on a client's link, gives the same request to the provider and every byte of its response to
the client, as it comes. A response that breaks off breaks off for the client; a client that leaves cancels the request.
"""

from __future__ import annotations

import asyncio
import time
from functools import cached_property
from typing import Any

import h11

from contextkit.proxy.account import Account
from contextkit.proxy.headers import encoding_of, for_provider, passed_on, value_of
from contextkit.proxy.link import Link
from contextkit.proxy.passage import MOST_BYTES, Departed, Observer, Passed, Repair, Repaired, Timeouts, wire_of
from contextkit.proxy.pump import Pump, tunnel
from contextkit.proxy.upstream import Upstream
from contextkit.redact import credentials_of, redact_path, redact_text

_BROKEN = (OSError, h11.RemoteProtocolError)
"""What a provider's connection can fail with; a time-out is an OSError."""
DEFAULT_TIMEOUTS = Timeouts()
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
        observer: Observer | None,
        repair: Repair | None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._client, self._request, self._upstream, self._timeouts = client, request, upstream, timeouts
        self._observer, self._repair = observer, repair
        self._target = _origin_form(request.target)
        self._wire = wire_of(request.method.decode("ascii"), self._target.decode("latin-1"))
        self._at = time.time()

    async def run(self, number: int) -> None:
        """Pass it on. The client's link says by its state whether it can go on.

        Raises `Unreachable` where no response began, `ClientStalled` where the client sent nothing more for too long.
        """
        body, is_whole = await self._gathered()
        repaired = self._repaired(body) if is_whole and self._wire else None
        is_kept = self._wire and is_whole
        self._account = Account(
            self._observer, self._departed(number, body, repaired) if is_kept else self._passing(number)
        )
        try:
            sent = repaired.body if repaired else body
            if not await self._passed(sent, is_whole=is_whole, is_longer=repaired is not None):
                await self._passed(sent, is_whole=is_whole, is_longer=repaired is not None, is_again=True)
        except Unreachable as fault:
            self._account.end("timeout" if fault.status == 504 else "unreachable")
            raise
        finally:
            self._account.end("aborted")

    # The request
    # ----------------------------------------------------------------------------------------------------------

    async def _gathered(self) -> tuple[bytes, bool]:
        """The body of a model call, or of what has none, and whether it is all there; of anything else nothing yet."""
        chunks, n_bytes = list[bytes](), 0
        has_body = any(value_of(self._request.headers, name) for name in (b"content-length", b"transfer-encoding"))
        while (self._wire or not has_body) and n_bytes <= MOST_BYTES:
            try:
                event = await self._client.next_event(self._timeouts.idle)
            except TimeoutError:
                raise ClientStalled from None
            if type(event) is h11.EndOfMessage:
                return b"".join(chunks), True
            chunks.append(bytes(event.data))
            n_bytes += len(event.data)
        return b"".join(chunks), False

    def _repaired(self, body: bytes) -> Repaired | None:
        """None also for a body that is compressed, or that a signature covers (Amazon's SigV4)."""
        encoding, proof = encoding_of(self._request.headers), value_of(self._request.headers, b"authorization")
        is_open = encoding.lower() in ("", "identity") and not proof.startswith(b"AWS4-")
        return self._repair(self._wire, body) if self._repair is not None and is_open else None

    def _departed(self, number: int, body: bytes, repaired: Repaired | None) -> Departed:
        encoding = encoding_of(self._request.headers)
        sent, names, shared = (repaired.body, repaired.names, repaired.shared) if repaired else (body, (), ())
        return Departed(
            number,
            self._wire,
            self._path,
            encoding,
            sent,
            body if repaired else None,
            names,
            shared,
            time.time(),
            self._credentials,
        )

    def _passing(self, number: int) -> Passed:
        """Anything else, of which nothing is known yet but what it asks for."""
        return Passed(number, self._request.method.decode("ascii"), self._path, 0, 0, 0, self._at, self._at, "")

    @cached_property
    def _credentials(self) -> tuple[str, ...]:
        return credentials_of(self._request.headers, self._target) if self._observer is not None else ()

    @cached_property
    def _path(self) -> str:
        """Without the query, redacted."""
        path = self._target.partition(b"?")[0].decode("latin-1")
        return redact_path(path, self._credentials) if self._observer is not None else path

    async def _passed(self, body: bytes, *, is_whole: bool, is_longer: bool, is_again: bool = False) -> bool:
        """Whether a response came; False where it may be asked for once more.

        A provider may close an idle connection just when it is used again. The request goes out on a new one then.
        Where the connection stood for longer before it closed, the provider may have done what was asked: the client
        decides whether to ask again.
        """
        link = await self._connected(is_new=is_again)
        asked_at = time.monotonic()
        try:
            await self._exchanged(link, body, is_whole=is_whole, is_longer=is_longer)
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

    async def _exchanged(self, link: Link, body: bytes, *, is_whole: bool, is_longer: bool) -> None:
        headers = for_provider(self._request.headers.raw_items(), self._upstream.host, len(body) if is_longer else None)
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
            self._client.send(h11.InformationalResponse(status_code=101, headers=_switching(head), reason=head.reason))
            self._account.began(101, [])
            await tunnel(self._client, link)
            self._account.end()
            return
        headers = head.headers.raw_items()
        self._account.began(head.status_code, headers)
        self._client.send(h11.Response(status_code=head.status_code, headers=passed_on(headers), reason=head.reason))
        if await Pump(link, self._client, self._account, self._timeouts).run():
            self._break_off()

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

    def _break_off(self) -> None:
        """What came is sent, then the link closes inside the message.

        Where only the end of the link would end it, it is reset.
        """
        is_framed = (self._client.http.their_http_version or b"") >= b"1.1"
        (self._client.close if is_framed else self._client.reset)()


def _switching(head: h11.InformationalResponse) -> list[tuple[bytes, bytes]]:
    """The headers of a 101: those of the connection belong to it."""
    return list(head.headers.raw_items())


def _origin_form(target: bytes) -> bytes:
    """`http://host/path`, as some send it to a proxy, is `/path` here."""
    scheme, mark, rest = target.partition(b"://")
    is_absolute = mark and scheme in (b"http", b"https")
    return b"/" + rest.partition(b"/")[2] if is_absolute else target


def in_words(fault: BaseException) -> str:
    """What went wrong in few words, never without any.

    H11 quotes the header it stumbles over behind a colon, which may be a key.
    """
    text = str(fault)
    return redact_text(text.partition(":")[0] if isinstance(fault, h11.ProtocolError) else text) or type(fault).__name__
