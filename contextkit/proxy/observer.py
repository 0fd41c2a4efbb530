"""What a proxy tells of a call that passed through it, and who is told.

Of headers an observer gets what decoding the body needs, the client's names of session and agent, and the credentials,
so that it can cover them in bodies. It keeps them in memory only. Paths are redacted before they get here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

UNREADABLE = "undecodable"
"""Stands for the encoding of a response that is not decoded, or was not handed over: nothing is read from it."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the proxy waits, in seconds."""

    header: float = 30.0
    """For the rest of a request's head once its first byte is there; the client gets 408."""
    idle: float = 300.0
    """For anything from or to a client: its next request, more of a body that it has begun, or room for more of the
    response."""
    connect: float = 10.0
    """For a connection to the provider, TLS included; the client gets 502."""
    read: float = 900.0
    """For the next byte of the provider. A model that thinks is silent for minutes, and the SDKs themselves give up
    after 600 seconds (anthropic and openai, `DEFAULT_TIMEOUT`): before the response the client gets 504, inside it the
    response breaks off."""


Run = tuple[int, int, int]
"""Bytes that two bodies share: where they start in the client's, where in the one passed on, how many they are."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A request that was changed on its way."""

    body: bytes
    """As it is passed on."""
    names: tuple[str, ...]
    """Repairs that changed something."""
    shared: tuple[Run, ...]
    """What it has in common with the client's."""


@dataclass(frozen=True, slots=True)
class Departed:
    """A model call that has just been passed on."""

    number: int
    """Which one, from 1."""
    wire: str
    """Its endpoint."""
    path: str
    """As asked, redacted, without the query."""
    encoding: str
    """`Content-Encoding` of its body, empty for none."""
    body: bytes
    """As it was passed on."""
    before: bytes | None
    """As the client sent it, None where nothing was repaired."""
    repairs: tuple[str, ...]
    """What was repaired."""
    shared: tuple[Run, ...]
    """What both bodies have in common, in the order of the client's."""
    at: float
    """When, seconds since 1970."""
    credentials: tuple[str, ...] = field(default=(), repr=False)
    """Of its headers and its query, to be covered wherever they stand; never to be stored."""
    names: Sequence[str] = ()
    """The fields of `ClientNames`, as its headers name them; empty where nobody is told."""
    upstream: str = ""
    """Address of the provider."""


@dataclass(frozen=True, slots=True)
class ForecastRequest(Departed):
    """A model call that waits to be passed on: what it will lose is asked first."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of that call."""

    number: int
    """Which one."""
    status: int
    """Of the response; 0 where none came."""
    content_type: str
    """Of its body."""
    encoding: str
    """`Content-Encoding` of its body, empty for none."""
    body: bytes
    """As it came off the wire, as far as it came."""
    first_byte_at: float | None
    """When the response began."""
    ended_at: float
    """When no more was to come."""
    error: str
    """`cut` where the provider stopped in the middle, `aborted` where the client did, `unreachable` where no response
    came, `timeout` where none came in time, else empty."""
    credentials: tuple[str, ...] = field(default=(), repr=False)
    """Of the response's headers (`Set-Cookie`), as in `Departed`."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that is no model call the proxy knows, or whose body is too large to keep: of it only sizes are told."""

    number: int
    """Which one, counted with the calls."""
    method: str
    """`POST`."""
    path: str
    """As asked, redacted, without the query."""
    status: int
    """Of the response; 0 where none came."""
    n_sent: int
    """Bytes of its body."""
    n_received: int
    """Bytes of the response's body."""
    at: float
    """When it came, seconds since 1970."""
    ended_at: float
    """When no more was to come."""
    error: str
    """As in `Ended`."""

    def __str__(self) -> str:
        """`POST /v1/embeddings 200, 1,200 bytes up, 64 down`."""
        is_switched = self.status == 101  # the link then speaks another protocol until either side has enough
        sizes = (
            "another protocol from there on" if is_switched else f"{self.n_sent:,} bytes up, {self.n_received:,} down"
        )
        said = f", {self.error}" if self.error and not is_switched else ""
        return f"{self.method} {self.path} {self.status or 'no answer'}, {sizes}{said}"


class Observer(Protocol):
    """Who is told; each is called on the event loop and must not take long."""

    def departed(self, call: Departed) -> None:
        """A call was passed on."""
        ...

    def ended(self, call: Ended) -> None:
        """It is over."""
        ...

    def passed(self, request: Passed) -> None:
        """Something else passed, and is over."""
        ...


class Repair(Protocol):
    """Who may change a request."""

    def __call__(self, wire: str, body: bytes) -> Repaired | None:
        """The request to send in place of `body`, None where it is sent as it is."""
        ...
