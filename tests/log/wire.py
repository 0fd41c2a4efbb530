"""The network between a client and a server, on a port of this machine: it passes bytes on until it is silent or cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

SILENCES = ("connect", "request", "answer", "middle")
"""Where nothing comes through any more: a new connection, what a client sends, what the server answers, the second half
of that."""


class Wire:
    """A listener on 127.0.0.1, and the connections made through it. A client finds them open while it is silent."""

    def __init__(self, upstream: Callable[[], socket.socket]) -> None:
        """`upstream` connects to the server."""
        self.cuts, self.is_up, self.silence = 0, True, ""
        """Answers to swallow, each with its connection; whether it accepts new ones; one of `SILENCES`."""
        self._upstream, self._flows = upstream, threading.Event()
        self._flows.set()
        self._ends, self._threads = list[socket.socket](), list[threading.Thread]()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def be_silent(self, where: str) -> None:
        """Hold back what comes from here on."""
        assert where in SILENCES
        self.silence = where
        self._flows.clear()

    def flow(self) -> None:
        """Pass on again, late, what was held back."""
        self.silence = ""
        self._flows.set()

    def reset(self) -> None:
        """Cut every connection, as a firewall does that forgot them."""
        for end in [*self._ends]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.flow()
        self.reset()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.is_up:
                client.close()
                continue
            self._threads.append(threading.Thread(target=self._join, args=(client,), daemon=True))
            self._threads[-1].start()

    def _join(self, client: socket.socket) -> None:
        self._ends.append(client)
        if self.silence == "connect":
            self._flows.wait()
        with client:
            try:
                upstream = self._upstream()
            except OSError:  # the server is down
                return
            self._ends.append(upstream)
            with upstream:
                back = threading.Thread(target=self._pass, args=(upstream, client, True), daemon=True)
                back.start()
                self._pass(client, upstream, False)
                back.join()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_answer and self.cuts:  # the server has done what it was asked, and nobody hears of it
                    self.cuts -= 1
                    break
                if self.silence == "middle" and is_answer:
                    target.sendall(data[: len(data) // 2])
                    data = data[len(data) // 2 :]
                    self._flows.wait()
                elif self.silence == ("answer" if is_answer else "request"):
                    self._flows.wait()
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wired(upstream: Callable[[], socket.socket]) -> Iterator[Wire]:
    """A wire that is closed at the end."""
    wire = Wire(upstream)
    try:
        yield wire
    finally:
        wire.close()
