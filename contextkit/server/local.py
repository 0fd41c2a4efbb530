"""The local provider on a port: in a thread beside a test, or in the foreground.

    with LocalServer(replies=[{"parts": [{"type": "text", "text": "hi"}]}], now=0.0) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="any")

Listens on loopback unless `host` says otherwise. API keys are neither checked nor kept.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from contextkit.content_encoding import MOST_BYTES
from contextkit.engines.registry import Engine, engine
from contextkit.errors import MissingExtra, UsageError
from contextkit.ledger.ledger import Ledger
from contextkit.providers.anthropic.blocks import BillingHeader
from contextkit.server.endpoints.notices import Notice
from contextkit.server.http.app import app
from contextkit.server.http.hosts import Hosts
from contextkit.server.scripted import ReplySource
from contextkit.server.state import Clock, State
from contextkit.server.warm_up import warm_up, warm_up_loaded

if TYPE_CHECKING:
    from contextkit.server.http.listening import Listening

LOOPBACK = "127.0.0.1"
_START_SECONDS = 10.0


class LocalServer:
    """A provider that is not there, for the real SDK clients.

    `replies` is a list of scripts (see `scripted.py`), a callable `(parsed, body) -> script`, or None for an echo. `now`
    starts the clock at a given second; a clock that was given stands still unless `is_frozen=False`. `cache` is an
    engine, or the name of one (`contextkit.engines.registry`): then the OpenAI-compatible endpoints take any model and
    are billed by that engine's cache. `allow_hosts` are names it answers to besides `localhost`, loopback addresses and
    `host` (`http/hosts.py`). `strict` refuses fields that an endpoint does not know, and models that are unknown or
    retired, as the provider does; without it they are accepted and listed in `findings`. `billing_header="significant"`
    lets Claude Code's billing header take part in the cache key (`providers/anthropic/blocks.py`). `mixed_lifetimes=False`
    bills as if a breakpoint read no entry of another lifetime; None is what `contextkit/facts/rules.toml` and the user's
    files say.
    """

    def __init__(
        self,
        replies: ReplySource | Iterable[Any] | None = None,
        *,
        now: float | None = None,
        is_frozen: bool | None = None,
        host: str = LOOPBACK,
        port: int = 0,
        cache: Engine | str | None = None,
        allow_hosts: Iterable[str] = (),
        strict: bool = False,
        billing_header: BillingHeader = "neutral",
        mixed_lifetimes: bool | None = None,
    ) -> None:
        """Raises `UsageError` for an engine there is not, and for an allowed host that is not a host name."""
        clock = Clock(now, is_frozen=now is not None if is_frozen is None else is_frozen)
        own = engine(cache) if isinstance(cache, str) else cache
        self._state = State(
            clock,
            replies,
            own,
            is_strict=strict,
            billing_header=billing_header,
            mixed_lifetimes=mixed_lifetimes,
        )
        self._host, self._port, self._hosts = host, port, Hosts(host, allow_hosts)
        self._server: Listening | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Base URL for Anthropic's client; OpenAI's takes it with `/v1` behind."""
        return _url(self._host, self._port)

    @property
    def ledger(self) -> Ledger:
        """The calls and bills since the last reset."""
        return self._state.ledger

    @property
    def findings(self) -> list[Notice]:
        """The notices of what was accepted on an assumption since the last reset: unknown fields, assumed and retired
        models, each once.
        """
        return self._state.notices.all()

    @property
    def clock(self) -> Clock:
        """The time its caches live by."""
        return self._state.clock

    def script(self, replies: Iterable[Any]) -> None:
        """Put replies behind those that wait; raises `UnreadableRequest` naming the one that is wrong."""
        with self._state.lock:
            self._state.replies.extend(replies)

    def reset(self) -> None:
        """Forget caches, ledger, waiting scripts and counters; the clock goes back to its start."""
        self._state.reset()

    def start(self) -> Self:
        """Listen, with all loaded that a first request needs: the first start in a process takes some seconds.

        One that listens already goes on. Raises `UsageError` where the port is taken, `MissingExtra` without the extra.
        """
        if self._server is not None:
            return self
        server, listener = _server(self._state, self._hosts), _listener(self._host, self._port)
        warm_up_loaded()
        self._port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listener],), name="contextkit-server", daemon=True)
        thread.start()
        patience = time.monotonic() + _START_SECONDS
        while not server.started and thread.is_alive() and time.monotonic() < patience:
            time.sleep(0.002)
        if not server.started:
            listener.close()
            raise UsageError(f"the local server did not start on {self.url} within {_START_SECONDS:g} s")
        self._server, self._thread = server, thread
        return self

    def stop(self) -> None:
        """Close the port and every connection."""
        if self._server and self._thread:
            self._server.end()
            self._thread.join(_START_SECONDS)
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serve(
    host: str = LOOPBACK,
    port: int = 8787,
    *,
    replies: ReplySource | Iterable[Any] | None = None,
    now: float | None = None,
    is_frozen: bool = False,
    cache: Engine | None = None,
    announce: Callable[[str], None] = lambda url: None,
    allow_hosts: Iterable[str] = (),
    strict: bool = False,
    billing_header: BillingHeader = "neutral",
) -> None:
    """Serve in the foreground until interrupted; `announce` is called with the URL once the server answers there.

    Raises `UsageError` where the port is taken or an allowed host is not one, `MissingExtra` without the extra.
    """
    state = State(Clock(now, is_frozen=is_frozen), replies, cache, is_strict=strict, billing_header=billing_header)
    hosts = Hosts(host, allow_hosts)
    server = _server(state, hosts, lambda: announce(_url(host, listener.getsockname()[1])))
    listener = _listener(host, port)
    try:
        warm_up()
        server.run([listener])
    except KeyboardInterrupt:
        return
    finally:
        listener.close()


def _server(state: State, hosts: Hosts, started: Callable[[], None] = lambda: None) -> Listening:
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("the local server", "server") from None
    from contextkit.server.http.listening import HalfClosable, Listening

    settings = uvicorn.Config(
        app(state, hosts),
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        loop="asyncio",
        http=HalfClosable,
        ws="wsproto",
        ws_max_size=MOST_BYTES,
        ws_ping_interval=None,  # a client may read nothing while it runs a tool, and then answers no ping
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    return Listening(settings, started)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio switches Nagle's delay off (40 ms a reply) only on sockets that say they are
    # TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as fault:
        listener.close()
        raise UsageError(
            f"cannot listen on {host}:{port} ({fault.strerror}): choose another port, 0 for any free one"
        ) from None
    return listener


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
