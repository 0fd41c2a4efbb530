"""Records, compares and repairs the calls of a framework's SDK client.

Requests are repaired on their way out (the proxy's repairs, and plain texts rendered alike in every request), each is
compared with the previous one of its conversation, and each call becomes a row of a ledger: bill, outline of the
prompt, what the reference cache expected; no prompt text. A body of unknown model or blocks is stored whole instead,
with secrets redacted, so that its misses can still be explained.

A breakpoint turns the plain text it stands on into a block; when the next request sends that text plain again, its
bytes have moved. So where breakpoints are placed, every text is a block from the first request on.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock, RLock
from time import time

from contextkit.bridges.hook import ClientHook
from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.errors import ContextKitError
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger, Recorder
from contextkit.ledger.transport import Call
from contextkit.lint.finding import Finding
from contextkit.models import model_named
from contextkit.providers.body_spans import Span, elements, members
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.histories import named_in
from contextkit.providers.paths import FOLLOWED, wire_of
from contextkit.proxy.repairs.repairs import Repairs
from contextkit.watcher.guard import CallRecorder, Guard
from contextkit.watcher.notify import Caller, Notifier, OnBreak, described

DEFAULT_REPAIRS = ("sort-tools", "place-breakpoints")
"""Repairs that change what no model reads."""
SDKS = ("anthropic", "openai")
"""Whose clients can be followed; what is raised inside one must be an error of that one."""
MOST_FINDINGS = 1000
"""Findings stored; the latest of more."""
_OPENING, _CLOSING = b'[{"type":"text","text":', b"}]"
_MARKER = b'"cache_control"'


class Bridge(ClientHook):
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
    ) -> None:
        """`record` names a ledger to append to.

        `on_break` is that of `contextkit.watch`; `repairs` are names of the proxy's, () for none. Raises `UsageError` for a
        repair or an `on_break` there is not, `StorageError` where the ledger cannot be opened.
        """
        self.findings: deque[Finding] = deque(maxlen=MOST_FINDINGS)
        """What broke, or was billed more than it should have been, in order."""
        self.repaired: Counter[str] = Counter()
        """Repair → calls it changed."""
        self._recorder = _CallRecorder(record)
        notifiers = {sdk: _Notifier(on_break, sdk, self.findings) for sdk in SDKS}
        guards = {sdk: Guard(notifier, self._recorder) for sdk, notifier in notifiers.items()}
        self.watcher = _Repairing(repairs, guards, self._recorder, self.repaired)

    @property
    def ledger(self) -> Ledger:  # type: ignore[override]
        """Every call: its bill, the outline of its prompt, what the reference cache expected.

        No text where the model is known.
        """
        return self._recorder.ledger

    def report(self, width: int = 100) -> str:
        """Hit rate, cost, every miss with its cause, then what broke and where; for a terminal."""
        lines = [described(finding) for finding in self.findings]
        if n := sum(map(_is_unmarked, self.ledger)):
            lines.append(
                f"CKB01 {n:,} of {len(self.ledger):,} calls were long enough to be cached and marked nothing: "
                "the repair place-breakpoints marks them"
            )
        return super().report(width) + "".join(f"! {line}\n" for line in lines)

    def close(self) -> None:
        """End the recording and close the ledger's file; what is in memory stays readable."""
        self._recorder.close()

    def _end_recording(self) -> None:
        self.close()


def _is_unmarked(call: ModelCall) -> bool:
    """Return whether a cache that needs breakpoints neither read nor wrote anything of a call that is long enough for it."""
    row, usage = model_named(call.model, call.provider), call.usage
    if row.cache != "breakpoints" or usage is None or usage.prompt is None:
        return False
    return usage.prompt >= row.min_tokens and usage.fresh == usage.prompt


class _Repairing:
    """The watcher of one bridge: repairs a call, lets the guard compare it, and predicts its bill."""

    __slots__ = ("_guards", "_lock", "_places", "_recorder", "_repaired", "_repairs")

    def __init__(
        self, names: Sequence[str], guards: Mapping[str, Guard], recorder: _CallRecorder, repaired: Counter[str]
    ) -> None:
        """`guards` holds one an SDK; `repaired` counts the calls that each repair changed."""
        self._repairs, self._places, self._lock = Repairs(names), "place-breakpoints" in names, Lock()
        self._guards, self._recorder, self._repaired = guards, recorder, repaired

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """Repair a model call and let the guard see it; None for requests that go as they are."""
        wire = wire_of(method, path)
        if not body or wire not in FOLLOWED:
            return None
        sent = in_blocks(wire, body) if self._places else body
        with self._lock:
            repaired = self._repairs(wire, sent)
        outgoing = sent if repaired is None else repaired.body
        call = self._guards[wire.partition("_")[0]].start(method, path, outgoing, names)
        self._repaired.update(() if repaired is None else repaired.names)
        if call is None:
            return None if outgoing is body else _UnrecordedCall(outgoing)
        self._recorder.predict(wire, call.whole)
        return call

    def close(self) -> None:
        """The client is closed; the bridge goes on."""


class _UnrecordedCall:
    """A repaired request that the guard does not follow: its history was not observed, or it is unreadable."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """Record nothing."""

    def feed(self, chunk: bytes) -> None:
        """Record nothing."""

    def ended(self, *, is_whole: bool, error: str = "", was_sent: bool = True) -> None:
        """Record nothing."""


@dataclass(frozen=True, slots=True)
class _Prediction:
    """What is known of a call before it is sent."""

    body: bytes
    """As sent; held, so that its identity stays its own."""
    prompt: Prompt
    """As a cache sees it."""
    entries: Sequence[int]
    """Log sequence of each segment: -1, as there is no log."""
    usage: Usage
    """What it should be billed."""


class _CallRecorder(CallRecorder):
    """Writes outlines and predictions instead of bodies; its ledger stays readable while it grows."""

    __slots__ = ("_caches", "_closed", "_lock", "_predictions", "_recorder")

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        """In memory where `path` is None.

        Raises `StorageError` where the file cannot be opened, `UnreadableLog` where it is no ledger.
        """
        self._closed = Ledger() if path is None else Ledger.open(path)
        self._ledger = self._closed
        self._recorder = Recorder(self._closed)
        self._caches: dict[str, PrefixCache[Prompt]] = {}
        self._predictions: dict[int, _Prediction] = {}
        self._lock = RLock()

    @property
    def ledger(self) -> Ledger:
        """Where rows go: another one after the file was opened anew; after `close`, the last one."""
        return self._closed if self._ledger is None else self._ledger

    def close(self) -> None:
        """Close the file; later calls are not recorded."""
        self._closed = self.ledger
        super().close()

    def predict(self, wire: str, body: bytes) -> None:
        """Predict the bill of a body that is about to be sent, as far as its model and its blocks are known."""
        try:
            fields = parse(body)
            if named_in(fields) is not None:
                return  # what the provider stores of it is not known
            parsed = PARSERS[wire](fields)
            with self._lock:
                usage = replace(self._cache(parsed.model).quote(parsed.prompt, time()), output=None, estimated=True)
        except ContextKitError:
            return
        entries = parsed.layout.columns.entries
        self._predictions[id(body)] = _Prediction(body, parsed.prompt, entries, usage)

    def append(self, call: ModelCall, body: bytes) -> None:
        """Append one call; a disk that fails ends the recording with a warning, not the conversation."""
        prediction = self._predictions.pop(id(body), None)
        if self._ledger is None:
            return
        if prediction is None:
            super().append(call, body)
            return
        if call.first_byte_at is not None:  # without a first byte it warmed nothing
            with self._lock:
                cache = self._cache(call.model)
                lease = cache.begin(prediction.prompt, call.at)
                cache.publish(lease, call.first_byte_at)
                cache.end(lease, 0, call.ended_at or call.first_byte_at)
        predicted = replace(call, predicted=prediction.usage)
        self._write(lambda ledger: self._recorder_of(ledger).record(predicted, prediction.prompt, prediction.entries))

    def _recorder_of(self, ledger: Ledger) -> Recorder:
        """The recorder of the ledger, which is another one after a fork of the process or a rotation of its file."""
        if self._recorder.ledger is not ledger:
            self._recorder = Recorder(ledger)
        return self._recorder

    def _cache(self, model: str) -> PrefixCache[Prompt]:
        with self._lock:
            if model not in self._caches:
                self._caches[model] = reference_cache(model_named(model))
            return self._caches[model]


class _Notifier(Notifier):
    """Notifies as it was asked to, and stores the findings."""

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
    contents += [fields[b"system"]] if b"system" in fields else []
    yield from ((start, end) for start, end in contents if body[start : start + 1] == b'"' and end - start > 2)
