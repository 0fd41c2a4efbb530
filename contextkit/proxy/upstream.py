"""Where requests go: one host, its connections, always with its certificate checked.

Takes a URL, gives open links. A link that was idle is used again for as long as the SDKs' own HTTP client would
(httpx2, 5 s). Knows nothing of requests.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from contextkit.errors import MissingExtra, UsageError
from contextkit.redact import redact_path, redact_text

try:
    import h11
except ImportError:
    raise MissingExtra("the proxy", "server") from None

from contextkit.proxy.link import Link
from contextkit.proxy.passage import Timeouts

CONNECT_SECONDS = Timeouts().connect
"""How long opening a connection may take, its handshake included, unless an `Upstream` says otherwise."""
IDLE_SECONDS = 5.0
"""How long an idle connection is kept (httpx2, `Limits.keepalive_expiry`)."""
_PORTS = {"http": 80, "https": 443}


class Upstream:
    """The provider."""

    def __init__(self, url: str, ca: Path | None = None, connect_seconds: float = CONNECT_SECONDS) -> None:
        """`ca` is a file of certificates trusted beside the system's; `connect_seconds` limits opening a connection.

        Raises `UsageError` for what is no address or no certificate.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as fault:
            raise UsageError(f"--upstream {redact_path(url)!r} is not a URL ({redact_text(str(fault))})") from None
        if (
            parts.query or parts.fragment or parts.username or parts.password
        ):  # which may be secret: they are not said again
            raise UsageError(
                "--upstream takes scheme, host and path alone: keys, names and queries are the client's to send"
            )
        if parts.scheme not in _PORTS or not parts.hostname:
            raise UsageError(
                f"--upstream {redact_path(url)!r}: give scheme and host of a provider, such as https://api.anthropic.com"
            )
        self.name, self._port, self._tls = (
            parts.hostname,
            port or _PORTS[parts.scheme],
            _trust(ca) if parts.scheme == "https" else None,
        )
        self.connect_seconds = connect_seconds
        """How long opening a connection may take."""
        self.url = url.rstrip("/")
        """As given."""
        self.shown = redact_path(self.url)
        """As it may be shown: a path may hold a key."""
        self.host = parts.netloc.encode("idna" if not parts.netloc.isascii() else "ascii")
        """What requests name as their host."""
        self.prefix = parts.path.rstrip("/").encode()
        """What stands before every path."""
        self._idle: deque[tuple[Link, float]] = deque()

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
