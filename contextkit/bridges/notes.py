"""What crossed, as rows of a ledger: bill, outline of the prompt, what the reference cache expected. No prompt text.

Takes bodies and exchanges, gives rows. A body whose model or blocks nobody knows is kept whole instead, secrets
covered, so that its misses can be named all the same.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from time import time

from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.errors import ContextKitError, StorageError
from contextkit.ledger.calls import Bodies, Exchange
from contextkit.ledger.ledger import Ledger, Recorder
from contextkit.models import model_named
from contextkit.providers import PARSERS
from contextkit.providers.server_state import named_in
from contextkit.redact import redact
from contextkit.terminal import sanitize
from contextkit.watcher.guard import Recording


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


class Noting(Recording):
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

    def leaving(self, wire: str, body: bytes) -> Callable[[bytes], None]:
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

    def keep(self, exchange: Exchange, body: bytes) -> None:
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
