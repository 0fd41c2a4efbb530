"""Records, compares and repairs the calls of a framework's SDK client.

A `Bridge` takes a client of anthropic's or openai's SDK and gives one whose transport is observed: requests are
repaired on their way out (the proxy's repairs, and plain texts rendered alike in every request), each is compared with
the previous one of its conversation, and each call becomes a row of a ledger: bill, outline of the prompt, what the
reference cache expected; no prompt text. A body of unknown model or blocks is stored whole instead, with secrets
redacted, so that its misses can still be explained. A client that others use too is observed only inside `listening`.

A breakpoint turns the plain text it stands on into a block; when the next request sends that text plain again, its
bytes have moved. So where breakpoints are placed, every text is a block from the first request on.

Frameworks have their own modules beside this one; this one knows none of them.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from threading import Lock, RLock
from time import time
from types import ModuleType, TracebackType
from typing import Any, Protocol, Self, TypeVar

from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.errors import ContextKitError, MissingExtra, StorageError, UsageError
from contextkit.ledger.calls import Bodies, Exchange
from contextkit.ledger.ledger import Ledger, Recorder
from contextkit.ledger.misses import analyzed_calls
from contextkit.ledger.summary import Summary, summarise
from contextkit.ledger.transport import Call, Watcher, attach, cloned, library_of
from contextkit.lint.finding import Finding
from contextkit.models import model_named
from contextkit.providers.body_spans import Span, elements, members
from contextkit.providers.calls import NO_NAMES, ClientNames
from contextkit.providers.codecs import PARSERS
from contextkit.providers.paths import FOLLOWED, wire_of
from contextkit.providers.server_state import named_in
from contextkit.proxy.repairs.repairs import Repairs
from contextkit.redact import redact
from contextkit.report.contents import Gathering
from contextkit.report.terminal import text
from contextkit.terminal import sanitize
from contextkit.watcher.guard import CallRecorder, Guard
from contextkit.watcher.notify import Caller, Notifier, OnBreak, described

_OPENING, _CLOSING = b'[{"type":"text","text":', b"}]"
_MARKER = b'"cache_control"'


class Mending:
    """Some repairs, for the conversations of one bridge; call it with a wire and a body."""

    __slots__ = ("_lock", "_places", "_repairs")

    def __init__(self, names: Sequence[str]) -> None:
        """Raises `UsageError` for a repair there is not."""
        self._repairs, self._places, self._lock = Repairs(names), "place-breakpoints" in names, Lock()

    def __call__(self, wire: str, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """The body to send, and the names of the repairs that changed it; `body` itself where none did."""
        spelled = in_blocks(wire, body) if self._places else body
        with self._lock:
            repaired = self._repairs(wire, spelled)
        return (spelled, ()) if repaired is None else (repaired.body, repaired.names)


def in_blocks(wire: str, body: bytes) -> bytes:
    """`body` with each text of its system and messages as a block.

    As it is where its client sets markers, or on another wire.

    >>> in_blocks("anthropic_messages", b'{"messages":[{"role":"user","content":"hi"}]}')
    b'{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}'
    """
    if wire != "anthropic_messages" or _MARKER in body:
        return body
    try:
        spans = sorted(_texts(body))
    except (ContextKitError, IndexError, KeyError, ValueError):
        return body  # spelled as no SDK does: its provider will say what it thinks of it
    parts, at = list[bytes](), 0
    for start, end in spans:
        parts += [body[at:start], _OPENING, body[start:end], _CLOSING]
        at = end
    return b"".join([*parts, body[at:]])


def _texts(body: bytes) -> Iterator[Span]:
    """Where the texts stand; an empty one is no block."""
    fields = members(body)
    contents = [members(body, start)[b"content"] for start, _ in elements(body, fields[b"messages"][0])]
    yield from (
        span for span in [*contents, *([fields[b"system"]] if b"system" in fields else [])] if _is_text(body, span)
    )


def _is_text(body: bytes, span: Span) -> bool:
    return body[span[0] : span[0] + 1] == b'"' and span[1] - span[0] > 2


@dataclass(frozen=True, slots=True)
class _Noted:
    """A call under way."""

    body: bytes
    """As sent; held, so that its identity stays its own."""
    prompt: Prompt
    """As a cache sees it."""
    entries: Sequence[int]
    """Log sequence of each segment: -1, as there is no log."""
    predicted: Usage
    """What it should be billed."""


class Noting(CallRecorder):
    """The recording of a bridge; its ledger stays readable while it grows."""

    __slots__ = ("_caches", "_lock", "_recorder", "_under_way", "ledger")

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        """In memory where `path` is None.

        Raises `StorageError` where the file cannot be opened, `UnreadableLog` where it is no ledger.
        """
        self.ledger = Ledger() if path is None else Ledger.open(path)
        """Where rows go."""
        self._ledger = self.ledger
        self._recorder = Recorder(self.ledger)
        self._caches: dict[str, PrefixCache[Prompt]] = {}
        self._under_way: dict[int, _Noted] = {}
        self._lock = RLock()

    def start(self, wire: str, body: bytes) -> Callable[[bytes], None]:
        """A body is about to leave: what should it be billed; gives what is told the bytes that will be kept."""
        try:
            fields = parse(body)
            if named_in(fields) is not None:
                return lambda sent: None  # what the provider keeps of it is not known
            parsed = PARSERS[wire](fields)
            cache = self._cache(parsed.model)
        except ContextKitError:
            return lambda sent: None
        with self._lock:
            expected = replace(cache.quote(parsed.prompt, time()), output=None, estimated=True)

        def note(sent: bytes) -> None:
            self._under_way[id(sent)] = _Noted(sent, parsed.prompt, parsed.layout.columns.entries, expected)

        return note

    def append(self, exchange: Exchange, body: bytes) -> None:
        """Append one call; a disk that fails ends the recording with a warning, not the conversation."""
        noted = self._under_way.pop(id(body), None)
        if self._ledger is None:
            return
        if noted is not None:
            self._warm(exchange, noted.prompt)
        try:
            try:
                self._write_down(exchange, body, noted)
            except StorageError:  # this process was forked, or the file rotated
                self.ledger.close()
                self.ledger = self._ledger = Ledger.open(self.ledger.path or "")
                self._recorder = Recorder(self.ledger)
                self._write_down(exchange, body, noted)
        except (OSError, StorageError) as fault:
            what = (fault.strerror if isinstance(fault, OSError) else None) or fault
            text = f"{self.ledger.path} takes no more rows ({what}): recording has stopped, the agent goes on"
            self.close()
            warnings.warn(sanitize(text), stacklevel=2)

    def _write_down(self, exchange: Exchange, body: bytes, noted: _Noted | None) -> None:
        if noted is None:
            self._recorder.record(replace(exchange, prompt=Bodies(redact(body))))
        else:
            self._recorder.record(replace(exchange, predicted=noted.predicted), noted.prompt, noted.entries)

    def _warm(self, exchange: Exchange, prompt: Prompt) -> None:
        """What really left warms the reference cache; without a first byte it warmed nothing."""
        if exchange.first_byte_at is None:
            return
        with self._lock:
            cache = self._cache(exchange.model)
            lease = cache.begin(prompt, exchange.at)
            cache.publish(lease, exchange.first_byte_at)
            cache.end(lease, 0, exchange.ended_at or exchange.first_byte_at)

    def _cache(self, model: str) -> PrefixCache[Prompt]:
        with self._lock:
            if model not in self._caches:
                self._caches[model] = reference_cache(model_named(model))
            return self._caches[model]


Client = TypeVar("Client")


class Notes(Protocol):
    """Who is told of a call before it leaves."""

    def start(self, wire: str, body: bytes) -> Callable[[bytes], None]:
        """A body that is about to leave; gives what is to be told the bytes that are really sent."""
        ...


class Crossing:
    """One bridge's watcher: mending, then the guard, then the notes."""

    __slots__ = ("_guards", "_mend", "_notes", "_on_repair")

    def __init__(
        self, guards: Mapping[str, Guard], mend: Mending, notes: Notes, on_repair: Callable[[tuple[str, ...]], None]
    ) -> None:
        """`guards` holds one an SDK; `told` is given the names of the repairs that changed a body."""
        self._guards, self._mend, self._notes, self._on_repair = guards, mend, notes, on_repair

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """Repair a model call and let the guard see it; None for requests of other kinds."""
        wire = wire_of(method, path)
        if not body or wire not in FOLLOWED:
            return None
        sent, repairs = self._mend(wire, body)
        watched = self._guards[wire.partition("_")[0]].start(method, path, sent, names)
        self._on_repair(repairs)
        if watched is None:
            return None if sent is body else _Unseen(sent)
        self._notes.start(wire, sent if watched.whole is watched.body else watched.whole)(watched.whole)
        return watched

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

    def ended(self, *, is_whole: bool, error: str = "", was_sent: bool = True) -> None:
        """Nothing is noted."""


_LISTENING: ContextVar[Watcher | None] = ContextVar("contextkit_bridge", default=None)
_ATTACHING = Lock()


class _Switch:
    """The watcher of a shared client: whoever listens in this context hears its calls, of several the innermost."""

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        crossing = _LISTENING.get()
        return None if crossing is None else crossing.start(method, path, body, names)

    def close(self) -> None:
        """It belongs to no bridge."""


@contextmanager
def listening(crossing: Watcher, clients: Iterable[Any], owner: str) -> Iterator[None]:
    """Inside, calls of `clients` made in this context and its tasks cross `crossing`.

    `whose` is named where there is none to follow.
    """
    https = [http for client in clients if library_of(http := getattr(client, "_client", None))]
    if not https:
        text = f"{owner} has no client of anthropic's or openai's SDK: its calls are neither recorded nor repaired"
        warnings.warn(sanitize(text), stacklevel=4)
    for http in https:
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


DEFAULT_REPAIRS = ("sort-tools", "place-breakpoints")
"""Repairs that change what no model reads."""
SDKS = ("anthropic", "openai")
"""Whose clients can be followed; what is raised inside one must be an error of that one."""
MOST_FINDINGS = 1000
"""Findings kept; the latest of more."""


class Bridge:
    """What is known of one agent's calls.

    >>> bridge = Bridge()
    >>> len(bridge.ledger), list(bridge.findings)
    (0, [])
    """

    def __init__(
        self,
        record: str | os.PathLike[str] | None = None,
        *,
        on_break: OnBreak = "warn",
        repairs: Sequence[str] = DEFAULT_REPAIRS,
        diagnostics: bool = False,
    ) -> None:
        """`record` names a ledger to append to.

        `on_break` is that of `contextkit.watch`; `repairs` are names of the proxy's, () for none.

        `diagnostics` asks the provider's own diagnosis. Raises `UsageError` for a repair or an `on_break` there is not,
        `StorageError` where the ledger cannot be opened.
        """
        self.findings: deque[Finding] = deque(maxlen=MOST_FINDINGS)
        """What broke, or was billed more than it should have been, in order."""
        self.repaired: Counter[str] = Counter()
        """Repair → calls it changed."""
        notifiers = {sdk: _Noticing(on_break, sdk, self.findings) for sdk in SDKS}
        mended, self._noting = Mending(repairs), Noting(record)
        guards = {sdk: Guard(notifier, self._noting, asks=diagnostics) for sdk, notifier in notifiers.items()}
        self._crossing = Crossing(guards, mended, self._noting, self.repaired.update)

    @property
    def ledger(self) -> Ledger:
        """Every call: its bill, the outline of its prompt, what the reference cache expected.

        No text where the model is known.
        """
        return self._noting.ledger

    def client(self, client: Client) -> Client:
        """A client like `client`, over the same connections, on this bridge; `client` stays as it was.

        Raises `UsageError` for what is no client of anthropic's or openai's SDK.
        """
        return crossed(client, self._crossing)

    @property
    def watcher(self) -> Watcher:
        """Observes the requests of a client it is attached to."""
        return self._crossing

    def listening(self, clients: Iterable[Any], owner: str = "this model") -> AbstractContextManager[None]:
        """For frameworks that keep their clients: inside, calls of `clients` are on this bridge.

        Others that share them are left alone.
        """
        return listening(self._crossing, clients, owner)

    def summary(self) -> Summary:
        """The sums so far: `print(bridge.summary())` is one line."""
        return summarise(self.ledger)

    def report(self, width: int = 100) -> str:
        """Hit rate, cost, every miss with its cause, then what broke and where; for a terminal."""
        gathered = Gathering()
        gathered.add_all(analyzed_calls(self.ledger.records))
        lines = [described(finding) for finding in self.findings]
        if self.n_unmarked:
            lines.append(
                f"CKB01 {self.n_unmarked} calls were long enough to be cached and marked nothing, so nothing of them was: "
                "the repair place-breakpoints marks them"
            )
        return text(gathered.contents(""), width) + "".join(f"! {line}\n" for line in lines)

    @property
    def n_unmarked(self) -> int:
        """Calls to a cache that keeps only what is marked, long enough for it, that neither read nor wrote."""
        return sum(map(_is_unmarked, self.ledger))

    def close(self) -> None:
        """Give the ledger's file back; what is in memory stays readable."""
        self._noting.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_unmarked(exchange: Exchange) -> bool:
    row, usage = model_named(exchange.model, exchange.provider), exchange.usage
    if row.cache != "breakpoints" or usage is None or usage.prompt is None:
        return False
    return usage.prompt >= row.min_tokens and usage.fresh == usage.prompt


class _Noticing(Notifier):
    """Tells as it was asked to, and keeps what it told."""

    __slots__ = ("_findings",)

    def __init__(self, on_break: OnBreak, sdk: str, findings: deque[Finding]) -> None:
        super().__init__(on_break, sdk)
        self._findings = findings

    def before(self, finding: Finding, where: Caller) -> None:
        self._findings.append(finding)
        super().before(finding, where)

    def after(self, finding: Finding, where: Caller) -> None:
        self._findings.append(finding)
        super().after(finding, where)


def framework(module: str, what: str, extra: str) -> ModuleType:
    """A module of a framework; raises `MissingExtra` with the install command where it is not there."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(what, extra) from None
