"""The proxy on a port: takes connections, hands each request to a `Relay`, answers for a provider that cannot be
reached.

Takes providers to pass everything on to, an observer and a repair; gives a URL. Keeps no key and adds none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import count

import h11

from contextkit.canonical import Json, canonical
from contextkit.errors import BudgetExceeded, UsageError, trace_of
from contextkit.ledger.budget import Budget
from contextkit.providers.paths import wire_of
from contextkit.proxy.cold import ColdGate, ExpiredCache
from contextkit.proxy.links import Link, asks_for_websocket, in_words, value_of
from contextkit.proxy.observer import Observer, Repair, Timeouts
from contextkit.proxy.other_endpoints import usage_in
from contextkit.proxy.relay import DEFAULT_TIMEOUTS, ClientStalled, Relay, Unreachable
from contextkit.proxy.upstreams import Routes, Upstream
from contextkit.redact import redact_path, redact_text
from contextkit.server.http.hosts import Hosts
from contextkit.terminal import sanitize
from contextkit.watcher.budget import BudgetGate

PAYMENT_REQUIRED = 402
"""Status of a call that a budget has no room for. The SDKs retry 408, 409, 429 and 5xx only."""
UPGRADE_REQUIRED = 426
"""Status of a web socket that a budget does not let pass: at it Codex goes on over HTTP."""
_BACKLOG = 1024
"""Connections that may wait to be taken: agents start by the hundred."""


class Proxy:
    """A pass-through to one provider, or to several, on the running event loop."""

    def __init__(
        self,
        upstream: Upstream | Routes,
        *,
        observer: Observer | None = None,
        repair: Repair | None = None,
        allow_hosts: Iterable[str] = (),
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        budget: Budget | None = None,
        session: str = "proxy",
        allow_unpriced: bool = False,
        caps_output: bool = False,
        cold: ColdGate | None = None,
        on_report: Callable[[Json], None] = lambda report: None,
    ) -> None:
        """`observer` is told of every model call.

        `repair` may change its body. A call that could cost more than `budget` has left, or that has no known price, is
        answered with 402, which no SDK retries, and reported as `{"refused": {"path", "text"}}`; so is a request on a
        WebSocket of the Responses API, with an error event. Any other WebSocket is passed on unread and reported at once
        as `{"websocket": {"path", "text"}}`; a budget answers it with 426, at which clients go on over HTTP. `session`
        spends from a budget per session; `allow_unpriced` lets pass, uncounted, what has no price; `caps_output` lowers
        the output limit of a call to what the budget has left before it is refused, reported as
        `{"capped": {"path", "field", "from", "to", "text"}}`. `cold` holds back once what pays again for an expired
        cache.

        `allow_hosts` are names it answers to besides `localhost`, loopback addresses and the host it listens on.
        Raises `UsageError` for one that is not a host name.
        """
        self._timeouts, self._cold = timeouts, cold
        self._on_report = on_report
        self._gate = (
            None
            if budget is None
            else BudgetGate(
                budget, session, read_response=usage_in, allow_unpriced=allow_unpriced, caps_output=caps_output
            )
        )
        self._upstream, self._observer, self._repair = upstream, observer, repair
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = count(1)
        self._allow_hosts = tuple(allow_hosts)
        self._hosts = Hosts(allowed=self._allow_hosts)
        self.url = ""
        """Base URL for clients, once it listens."""

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen. Raises `UsageError` where the port cannot be had."""
        loop = asyncio.get_running_loop()
        self._hosts = Hosts(host, self._allow_hosts)
        try:
            self._server = await loop.create_server(
                lambda: Link(h11.SERVER, self._accepted), host, port, backlog=_BACKLOG
            )
        except OSError as fault:
            why = (fault.strerror or str(fault)).rpartition("): ")[2]  # asyncio says the address once more in front
            raise UsageError(
                f"cannot listen on {host}:{port} ({why}): choose another port, 0 for a free one, or another host"
            ) from None
        if self._gate is not None:
            self._warming = loop.run_in_executor(None, self._gate.warm_up)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close the port and every connection; calls under way are told as aborted."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._upstream.close()

    def _accepted(self, link: Link) -> None:
        task = asyncio.get_running_loop().create_task(self._served(link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        link.on_lost = task.cancel

    async def _served(self, link: Link) -> None:
        """Every request of one connection."""
        cancel = link.on_lost
        try:
            while await self._one(link) and link.rest():
                link.on_lost = cancel
        except h11.RemoteProtocolError as fault:
            _refuse(link, None, fault.error_status_hint, f"this is not HTTP/1.1 ({in_words(fault)})")
        except ConnectionResetError:
            link.abort()
        except Exception as fault:  # noqa: BLE001 - one connection's trouble is not the others'
            log = logging.getLogger("contextkit.proxy")
            log.error("a connection was given up: %s", sanitize(redact_text(trace_of(fault))))  # noqa: TRY400 - no text of it
            link.abort()
        finally:
            link.close()

    async def _one(self, link: Link) -> bool:
        """One request; whether there was one."""
        try:
            await link.arrival(self._timeouts.idle)
        except TimeoutError:
            return False
        try:
            async with asyncio.timeout(self._timeouts.header):
                request = await link.next_event()
        except TimeoutError:
            _refuse(
                link,
                None,
                408,
                f"the head of the request was not complete after {self._timeouts.header:g} seconds (--header-seconds)",
            )
            return False
        if type(request) is not h11.Request:
            return False
        if request.method == b"CONNECT":
            _refuse(
                link, request, 405, "this is no proxy for HTTPS_PROXY: give its address as the base URL of a client"
            )
            return False
        refused = self._hosts.refusal(request.headers)
        if refused is not None:
            _refuse(link, request, refused.status, refused.text)
            return False
        try:
            upstream, target = self._upstream.chosen(request)
            relay = Relay(
                link,
                request,
                upstream,
                target,
                numbers=self._numbers,
                observer=self._observer,
                repair=self._repair,
                timeouts=self._timeouts,
                gate=self._gate,
                cold=self._cold,
                on_report=self._on_report,
            )
            await relay.run()
        except (BudgetExceeded, ExpiredCache) as refused_by_us:
            text, path = refused_by_us.for_shell(), request.target.partition(b"?")[0].decode("latin-1")
            self._on_report({"refused": {"path": redact_path(path), "text": text}})
            status = UPGRADE_REQUIRED if asks_for_websocket(request.headers) else PAYMENT_REQUIRED
            _refuse(link, request, status, text)
        except Unreachable as fault:
            _refuse(link, request, fault.status, str(fault))
        except ClientStalled:
            text = f"no more of the request came for {self._timeouts.idle:g} seconds (--idle-seconds)"
            _refuse(link, request, 408, text)
            return False
        return True


def _refuse(link: Link, request: h11.Request | None, status: int, text: str) -> None:
    """An error of our own in the provider's shape, where a response can still begin; to `HEAD` its head alone.

    Anthropic's clients send their version on every call.
    """
    if link.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or link.is_lost:
        return
    from contextkit.server.endpoints.table import CHAT, CODECS, MESSAGES

    codec = CHAT
    if request is not None:
        wire = wire_of(request.method.decode("ascii"), request.target.decode("latin-1"))
        is_anthropic = value_of(request.headers, b"anthropic-version") or request.target.startswith(b"/v1/messages")
        codec = CODECS.get(wire, MESSAGES if is_anthropic else CHAT)
    body = canonical(codec.render_error(codec.error(status, f"contextkit proxy: {text}")))
    headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
    link.send(h11.Response(status_code=status, headers=headers))
    if request is None or request.method != b"HEAD":
        link.send(h11.Data(data=body))
    link.send(h11.EndOfMessage())
