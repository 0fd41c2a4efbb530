"""The network of watched clients: a connection to a vendor's public host reaches a local provider in this process instead.

Only connections are replaced: a test that answers its client by another transport, a mocked pool or a recorded cassette
never comes so far.
"""

from __future__ import annotations

import sys
from ipaddress import ip_address
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from contextkit.server.local import LocalServer

VENDOR_HOSTS = frozenset({"api.anthropic.com", "api.openai.com"})
"""Hosts that the SDKs ask by default, whose endpoints the local provider speaks."""


class LocalNetwork:
    """The local provider of a run, started with the first connection, and the hosts that clients reached elsewhere."""

    def __init__(self) -> None:
        self._server: LocalServer | None = None
        self._lock = Lock()
        self.remote_hosts: set[str] = set()
        """Hosts beyond this machine to which a client has connected."""

    def redirect(self, http: Any) -> None:
        """Let the connections of an HTTP client that go to a vendor go to the local provider."""
        transports: list[Any] = [http._transport, *http._mounts.values()]
        pools: list[Any] = [getattr(transport, "_pool", None) for transport in transports]
        for pool in pools:
            backend = getattr(pool, "_network_backend", None)
            if backend is not None and not isinstance(backend, _Backend):
                library = sys.modules[type(pool).__module__.partition(".")[0]]
                kind = _AsyncBackend if hasattr(pool, "aclose") else _SyncBackend
                pool._network_backend = kind(backend, self, library, pool)
        if http._mounts:  # a proxy that the environment names is not asked for a vendor
            pattern = type(next(iter(http._mounts)))
            direct: dict[Any, Any] = {pattern(f"all://{host}"): None for host in sorted(VENDOR_HOSTS)}
            http._mounts = {**direct, **http._mounts}

    def port(self) -> int:
        """Return the port of the local provider, started if need be. Raises `MissingExtra` without the extra."""
        from contextkit.server.local import LocalServer

        with self._lock:
            if self._server is None:
                self._server = LocalServer(allow_hosts=VENDOR_HOSTS).start()
            return int(self._server.url.rpartition(":")[2])

    def local_url(self, url: Any) -> Any:
        """Return the URL of the local provider for one of a vendor, every other one as it is."""
        parts = urlsplit(str(url))
        if parts.hostname not in VENDOR_HOSTS:
            self.note(parts.hostname or "localhost")
            return url
        return urlunsplit(("http", f"127.0.0.1:{self.port()}", parts.path, parts.query, ""))

    def note(self, host: str) -> None:
        """Note a host that a client connects to."""
        if not _is_here(host):
            self.remote_hosts.add(host)

    def stop(self) -> None:
        """Stop the local provider."""
        if self._server is not None:
            self._server.stop()
            self._server = None


def _is_here(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class _Backend:
    """A pool's way to the network."""

    def __init__(self, inner: Any, network: LocalNetwork, library: Any, pool: Any) -> None:
        self._inner, self._network, self._library, self._pool = inner, network, library, pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def _local_port(self) -> int:
        """Return the local provider's port; an error of it is one of the connection, with its reason.

        No connection is kept: a client may outlive the event loop of the test that made one.
        """
        from contextkit.errors import ContextKitError

        self._pool._max_keepalive_connections = 0
        try:
            return self._network.port()
        except ContextKitError as error:
            raise self._library.ConnectError(str(error)) from error


class _SyncBackend(_Backend):
    def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        """Connect to a host, or to the local provider."""
        if host in VENDOR_HOSTS:
            return _SyncPlain(self._inner.connect_tcp("127.0.0.1", self._local_port(), **options))
        self._network.note(host)
        return self._inner.connect_tcp(host, port, **options)


class _AsyncBackend(_Backend):
    async def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        """Connect to a host, or to the local provider."""
        if host in VENDOR_HOSTS:
            return _AsyncPlain(await self._inner.connect_tcp("127.0.0.1", self._local_port(), **options))
        self._network.note(host)
        return await self._inner.connect_tcp(host, port, **options)


class _Plain:
    """A connection that is not encrypted, whatever is asked of it: it does not leave the machine."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)


class _SyncPlain(_Plain):
    def start_tls(self, *values: Any, **options: Any) -> Any:
        """Stay as it is."""
        return self


class _AsyncPlain(_Plain):
    async def start_tls(self, *values: Any, **options: Any) -> Any:
        """Stay as it is."""
        return self
