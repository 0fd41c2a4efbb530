"""Providers that requests are passed on to.

`Upstream` holds the connections to one host, always with its certificate checked; an idle one is used again for as long
as the SDKs' own HTTP client would (httpx2, 5 s).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import h11

from contextkit.errors import UsageError
from contextkit.providers.paths import wire_of
from contextkit.proxy.links import Link, asks_for_websocket
from contextkit.proxy.observer import Timeouts
from contextkit.redact import redact_path, redact_text

CONNECT_SECONDS = Timeouts().connect
"""How long opening a connection may take, its handshake included, unless an `Upstream` says otherwise."""
IDLE_SECONDS = 5.0
"""How long an idle connection is kept (httpx2, `Limits.keepalive_expiry`)."""
_PORTS = {"http": 80, "https": 443}


_HOST = re.compile(r"[\w.-]+|[\da-f.]*:[\da-f:.]+(%\w+)?")
"""A host's name or address, as `urlsplit` gives it."""


class Upstream:
    """The provider."""

    def __init__(
        self,
        url: str,
        ca: Path | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        named: str = "--upstream",
    ) -> None:
        """`ca` is a file of certificates trusted beside the system's; `connect_seconds` limits opening a connection; `named`
        says in errors where the address comes from.

        Raises `UsageError` for what is no address or no certificate.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as fault:
            raise UsageError(f"{named} {redact_path(url)!r} is not a URL ({redact_text(str(fault))})") from None
        if (
            parts.query or parts.fragment or parts.username or parts.password
        ):  # which may be secret: they are not said again
            raise UsageError(
                f"{named} takes scheme, host and path alone: keys, names and queries are the client's to send"
            )
        if parts.scheme not in _PORTS or not parts.hostname or not _HOST.fullmatch(parts.hostname):
            raise UsageError(
                f"{named} {redact_path(url)!r}: give scheme and host of a provider, such as https://api.anthropic.com"
            )
        self.name, self._port = parts.hostname, port or _PORTS[parts.scheme]
        self._tls = _trust(ca) if parts.scheme == "https" else None
        self.connect_seconds = connect_seconds
        """How long opening a connection may take."""
        self.url = url.rstrip("/")
        """As given."""
        self.shown = redact_path(self.url)
        """As it may be shown: a path may hold a key."""
        try:
            self.host = parts.netloc.encode("idna" if not parts.netloc.isascii() else "ascii")
            """What requests name as their host."""
        except UnicodeError:
            raise UsageError(f"{named} {redact_path(url)!r}: no host can have this name") from None
        self.prefix = parts.path.rstrip("/").encode()
        """What stands before every path."""
        self._idle: deque[tuple[Link, float]] = deque()

    def chosen(self, request: h11.Request) -> tuple[Upstream, bytes]:
        """Return who is asked, and for what: for a request of any kind this provider, for what the client asked."""
        return self, origin_form(request.target)

    async def link(self, *, is_new: bool = False) -> Link:
        """A connection that nobody uses, `is_new` never did.

        Raises `OSError`, `ssl.SSLError` and `TimeoutError` among them.
        """
        now = asyncio.get_running_loop().time()
        while self._idle and not is_new:
            link, since = self._idle.pop()
            if link.is_quiet and now - since < IDLE_SECONDS:
                return link
            link.abort()
        async with asyncio.timeout(self.connect_seconds):
            loop = asyncio.get_running_loop()
            checked = self.name if self._tls else None
            _, link = await loop.create_connection(
                lambda: Link(h11.CLIENT), self.name, self._port, ssl=self._tls, server_hostname=checked
            )
        return link

    def give_back(self, link: Link) -> None:
        """Keep a connection for the next request where that is possible, else close it."""
        if link.http.trailing_data[0] or not link.rest():
            link.abort()
            return
        self._idle.append((link, asyncio.get_running_loop().time()))
        asyncio.get_running_loop().call_later(IDLE_SECONDS, self._expire)

    def close(self) -> None:
        """Every idle connection."""
        while self._idle:
            self._idle.pop()[0].abort()

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._idle and now - self._idle[0][1] >= IDLE_SECONDS:
            self._idle.popleft()[0].close()


def origin_form(target: bytes) -> bytes:
    """`http://host/path`, as some send it to a proxy, is `/path` here."""
    scheme, mark, rest = target.partition(b"://")
    is_absolute = mark and scheme in (b"http", b"https")
    return b"/" + rest.partition(b"/")[2] if is_absolute else target


@lru_cache(maxsize=4)
def _trust(ca: Path | None) -> ssl.SSLContext:
    """The system's certificates, those of certifi where it is there (Python on macOS has no others), and `ca`."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if find_spec("certifi"):
        context.load_verify_locations(import_module("certifi").where())
    if ca is not None:
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as fault:
            raise UsageError(f"--ca {ca}: no certificates can be read from it ({fault})") from None
    return context


@dataclass(frozen=True, slots=True)
class Route:
    """Requests that go to one provider."""

    upstream: Upstream
    """The provider."""
    wires: frozenset[str]
    """Endpoints that its model calls speak."""
    headers: frozenset[bytes]
    """Headers, in small letters, that only its clients send."""
    paths: tuple[bytes, ...]
    """What its other paths begin with."""
    is_versioned: bool
    """Whether the address of the provider ends with the version of its API, as clients of OpenAI's want it."""

    def takes(self, request: h11.Request, target: bytes) -> bool:
        """Return whether a request is for this provider."""
        method = "POST" if asks_for_websocket(request.headers) else request.method.decode("ascii")
        wire = wire_of(method, target.decode("latin-1"))
        if wire and self.wires:  # a header of the same name may be a key for somebody else
            return wire in self.wires or target.startswith(self.paths)
        return any(name in self.headers for name, _ in request.headers) or target.startswith(self.paths)

    def target(self, target: bytes) -> bytes:
        """Return what the provider is asked for: with the version of its API once, whether the client gave it or not."""
        if self.is_versioned:
            return target.removeprefix(_VERSION) if target.startswith(_VERSION + b"/") else target
        return _VERSION + target if target.startswith(_BARE) else target


_VERSION = b"/v1"
_BARE = b"/messages"
"""What clients of Anthropic's ask for that want the version in the address (AI SDK)."""


class Routes:
    """Several providers behind one port, told apart by the path and the headers of a request."""

    def __init__(self, routes: Sequence[Route], default: int = 0) -> None:
        """Of several routes that take a request the first is chosen; where none does, the one at `default`."""
        self._routes, self._default = tuple(routes), routes[default]

    def chosen(self, request: h11.Request) -> tuple[Upstream, bytes]:
        """Return who is asked, and for what."""
        target = origin_form(request.target)
        route = next((route for route in self._routes if route.takes(request, target)), self._default)
        return route.upstream, route.target(target)

    def close(self) -> None:
        """Close every idle connection."""
        for route in self._routes:
            route.upstream.close()
