"""Where a framework's calls cross to the wire: repaired on their way out, compared, and shown to a recording on their
way back.

Takes clients of anthropic's and openai's SDK, gives the same clients whose transports are looked at. Knows nothing of
frameworks. A client that others use too is looked at only inside `listening`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, Protocol, TypeVar

from contextkit.bridges.mending import Mending
from contextkit.errors import UsageError
from contextkit.terminal import sanitize
from contextkit.watcher.guard import PATHS, Guard
from contextkit.watcher.transport import Call, Watcher, attach, cloned, library_of

Client = TypeVar("Client")


class Notes(Protocol):
    """Who is told of a call before it leaves."""

    def leaving(self, wire: str, body: bytes) -> Callable[[bytes], None]:
        """A body that is about to leave; gives what is to be told the bytes that are really sent."""
        ...


class Crossing:
    """One bridge's watcher: mending, then the guard, then the notes."""

    __slots__ = ("_guards", "_mend", "_notes", "_told")

    def __init__(
        self, guards: Mapping[str, Guard], mend: Mending, notes: Notes, told: Callable[[tuple[str, ...]], None]
    ) -> None:
        """`guards` holds one an SDK; `told` is given the names of the repairs that changed a body."""
        self._guards, self._mend, self._notes, self._told = guards, mend, notes, told

    def leaving(self, method: str, path: str, body: bytes) -> Call | None:
        """Repair a model call and let the guard see it; None for requests of other kinds."""
        wire = next((wire for ending, wire in PATHS.items() if path.endswith(ending)), "") if method == "POST" else ""
        if not wire:
            return None
        sent, names = self._mend(wire, body)
        passage = self._guards[wire.partition("_")[0]].leaving(method, path, sent)
        self._told(names)
        if passage is None:
            return None if sent is body else _Unseen(sent)
        self._notes.leaving(wire, sent if passage.whole is passage.body else passage.whole)(passage.whole)
        return passage

    def close(self) -> None:
        """The client is closed; the bridge goes on."""


class _Unseen:
    """A repaired call that the guard does not follow."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """Nothing is noted."""

    def feed(self, chunk: bytes) -> None:
        """Nothing is noted."""

    def ended(self, *, is_whole: bool, error: str = "") -> None:
        """Nothing is noted."""


_LISTENING: ContextVar[Watcher | None] = ContextVar("contextkit_bridge", default=None)
_ATTACHING = Lock()


class _Switch:
    """The watcher of a shared client: whoever listens in this context hears its calls, of several the innermost."""

    def leaving(self, method: str, path: str, body: bytes) -> Call | None:
        crossing = _LISTENING.get()
        return None if crossing is None else crossing.leaving(method, path, body)

    def close(self) -> None:
        """It belongs to no bridge."""


@contextmanager
def listening(crossing: Watcher, clients: Iterable[Any], whose: str) -> Iterator[None]:
    """Inside, calls of `clients` made in this context and its tasks cross `crossing`.

    `whose` is named where there is none to follow.
    """
    found = [http for client in clients if library_of(http := getattr(client, "_client", None))]
    if not found:
        text = f"{whose} has no client of anthropic's or openai's SDK: its calls are neither recorded nor repaired"
        warnings.warn(sanitize(text), stacklevel=4)
    for http in found:
        _switched(http)
    token = _LISTENING.set(crossing)
    try:
        yield
    finally:
        _LISTENING.reset(token)


def _switched(http: Any) -> None:
    """Put the switch on an HTTP client, once."""
    with _ATTACHING:
        if not getattr(http, "_contextkit_switch", False):
            attach(http, _Switch())
            http._contextkit_switch = True


def crossed(client: Client, crossing: Watcher) -> Client:
    """A client like `client`, over the same connections, every call of which crosses.

    Raises `UsageError` for what is none.
    """
    inner: Any = client
    if not library_of(getattr(inner, "_client", None)) or not callable(getattr(inner, "copy", None)):
        raise UsageError(f"{type(client).__name__} cannot be followed: pass a client of anthropic's or openai's SDK")
    http = cloned(inner._client)
    attach(http, crossing)
    copy: Client = inner.copy(http_client=http)
    return copy
