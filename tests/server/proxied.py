"""A proxy in a thread, whoever is told, and providers that answer byte by byte as a test says."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from contextkit.proxy.observer import Departed, Ended, Passed
from contextkit.proxy.proxy import Proxy
from contextkit.proxy.upstreams import Upstream

PATIENCE = 10.0


class Seen:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.left: list[Departed] = []
        self.over: list[Ended] = []
        self.others: list[Passed] = []
        self._changed = threading.Condition()

    def departed(self, call: Departed) -> None:
        self.left.append(call)

    def ended(self, call: Ended) -> None:
        with self._changed:
            self.over.append(call)
            self._changed.notify_all()

    def passed(self, request: Passed) -> None:
        with self._changed:
            self.others.append(request)
            self._changed.notify_all()

    def other(self, n: int = 1) -> Passed:
        """What else ended as number `n`, once it has."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.others) >= n, PATIENCE)
        return self.others[n - 1]

    def last(self, n: int = 1) -> Ended:
        """The call that ended as number `n`, once it has."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.over) >= n, PATIENCE)
        return self.over[n - 1]


@contextmanager
def passing(upstream: str, *, ca: Path | None = None, **named: Any) -> Iterator[str]:
    """The URL of a proxy to `upstream`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def started() -> Proxy:
        proxy = Proxy(Upstream(upstream, ca), **{"allow_hosts": ("x", "here"), **named})
        await proxy.start()
        return proxy

    proxy = asyncio.run_coroutine_threadsafe(started(), loop).result(PATIENCE)
    try:
        yield proxy.url
    finally:
        asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


class Wire:
    """One connection as the other end sees it."""

    def __init__(self, link: socket.socket) -> None:
        link.settimeout(PATIENCE)
        self.link = link
        self.rest = b""

    def head(self) -> bytes:
        """Up to the empty line; empty where the connection ended."""
        return self._until(b"\r\n\r\n")

    def request(self) -> tuple[bytes, bytes]:
        """Head and body, as they came; the body of a chunked one joined."""
        head = self.head()
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            return head, b"".join(iter(self.chunk, b""))
        size = int(lower.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        return head, self.exactly(size)

    def chunk(self) -> bytes:
        line = self._until(b"\r\n")
        if not line:
            raise ConnectionResetError("the connection ended")
        data = self.exactly(int(line, 16))
        self.exactly(2)
        return data

    def exactly(self, size: int) -> bytes:
        while len(self.rest) < size:
            more = self.link.recv(65536)
            if not more:
                raise ConnectionResetError("the connection ended")
            self.rest += more
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def everything(self) -> bytes:
        """Until the connection ends."""
        while more := self.link.recv(65536):
            self.rest += more
        data, self.rest = self.rest, b""
        return data

    def say(self, data: bytes) -> None:
        self.link.sendall(data)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self.rest:
            more = self.link.recv(65536)
            if not more:
                return b""
            self.rest += more
        data, _, self.rest = self.rest.partition(mark)
        return data + mark


@contextmanager
def provider(answer: Callable[[Wire], object], *, certificate: Path | None = None) -> Iterator[str]:
    """The URL of a provider whose connections are each handed to `answer`, then closed."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def one(link: socket.socket) -> None:
        with link, suppress(ConnectionError):  # whoever asked may have left
            answer(Wire(link))

    def listen() -> None:
        while True:
            try:
                link, _ = listener.accept()
                if certificate is not None:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain(certificate)
                    link = context.wrap_socket(link, server_side=True)
            except ssl.SSLError:
                continue
            except OSError:
                return
            threads.append(threading.Thread(target=one, args=(link,), daemon=True))
            threads[-1].start()

    threads.append(threading.Thread(target=listen, daemon=True))
    threads[0].start()
    scheme = "http" if certificate is None else "https"
    try:
        yield f"{scheme}://{'127.0.0.1' if certificate is None else 'localhost'}:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextmanager
def client(url: str) -> Iterator[Wire]:
    """A bare connection to a URL."""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), PATIENCE) as link:
        yield Wire(link)
