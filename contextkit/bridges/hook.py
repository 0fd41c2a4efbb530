"""The hook on the HTTP client that every bridge shares: which calls of which clients cross it, and what it reports.

A hook takes a client of anthropic's or openai's SDK and gives one whose transport its `watcher` observes. A client that
others use too is observed only inside `listening`. Frameworks have their own modules beside this one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from threading import Lock
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

from contextkit.canonical import Json
from contextkit.errors import MissingExtra, UsageError
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.misses import analyzed_calls
from contextkit.ledger.summary import Summary, summarise
from contextkit.ledger.transport import Call, Watcher, attach, cloned, library_of
from contextkit.log.content import binary_part
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.report.contents import Gathering
from contextkit.report.terminal import text
from contextkit.terminal import sanitize
from contextkit.tools.render import answer
from contextkit.tools.tool import Tool
from contextkit.whatif.what_if import Replays

Client = TypeVar("Client")
_LISTENING: ContextVar[Watcher | None] = ContextVar("contextkit_bridge", default=None)
_ATTACHING = Lock()


class Reported:
    """Calls of an agent, summed up and reported."""

    ledger: Ledger
    """Every call: its bill, the outline of its prompt, what the reference cache expected."""

    def summary(self) -> Summary:
        """The sums so far: `print(bridge.summary())` is one line."""
        return summarise(self.ledger.records)

    def report(self, width: int = 100) -> str:
        """Hit rate, cost, and every miss with its cause, for a terminal."""
        replays = Replays()
        gathered = Gathering(also=[replays.add])
        gathered.add_all(analyzed_calls(self.ledger.records))
        return text(gathered.contents("", what_if=replays.result()), width, has_misses=True)


class ClientHook(Reported):
    """Puts calls of SDK clients before a watcher."""

    watcher: Watcher
    """Observes the requests of a client it is attached to."""

    @property
    def tools(self) -> list[Tool]:
        """Tools that the agent has to have."""
        return []

    def client(self, client: Client) -> Client:
        """A client like `client`, over the same connections, on this bridge; `client` stays as it was.

        Raises `UsageError` for what is no client of anthropic's or openai's SDK.
        """
        inner: Any = client
        if not library_of(getattr(inner, "_client", None)) or not callable(getattr(inner, "copy", None)):
            raise UsageError(
                f"{type(client).__name__} cannot be followed: pass a client of anthropic's or openai's SDK"
            )
        http = cloned(inner._client)
        attach(http, self.watcher)
        copy: Client = inner.copy(http_client=http)
        return copy

    @contextmanager
    def listening(self, clients: Iterable[Any], owner: str = "this model") -> Iterator[None]:
        """For frameworks that keep their clients: inside, calls of `clients` made in this context and its tasks are on this
        bridge. Others that share them are left alone. `owner` is named where there is none to follow.
        """
        https: list[Any] = [http for client in clients if library_of(http := getattr(client, "_client", None))]
        if not https:
            message = (
                f"{owner} has no client of anthropic's or openai's SDK: its calls are neither recorded nor repaired"
            )
            warnings.warn(sanitize(message), stacklevel=4)
        with _ATTACHING:
            for http in https:
                if not getattr(http, "_contextkit_switch", False):
                    attach(http, _Switch())
                    http._contextkit_switch = True
        token = _LISTENING.set(self.watcher)
        try:
            yield
        finally:
            _LISTENING.reset(token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_recording()

    def _end_recording(self) -> None:
        """Close the ledger's file; what is in memory stays readable."""
        self.ledger.close()


class _Switch:
    """The watcher of a shared client: passes its calls to the hook that listens in this context, of several the innermost."""

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        watcher = _LISTENING.get()
        return None if watcher is None else watcher.start(method, path, body, names)

    def close(self) -> None:
        """It belongs to no bridge."""


def framework(module: str, what: str, extra: str) -> ModuleType:
    """A module of a framework; raises `MissingExtra` with the install command where it is not there."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(what, extra) from None


def tool_text(tool: Tool, arguments: Mapping[str, Json]) -> str:
    """What a tool gives, as text: for frameworks that run it in their own loop. Errors are text too."""
    try:
        value = tool.run(dict(arguments))
    except Exception as fault:  # noqa: BLE001 - whatever a tool raises is for the model to read
        value = fault
    content = answer(value, False, binary_part)["content"]
    return "\n".join(part.get("text") or f"[{part['type']}]" for part in content)
