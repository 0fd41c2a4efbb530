"""The log: what was said, in order; it only grows.

Takes JSON bodies, gives entries whose bytes, order and digests never change again. Knows nothing of providers, prompts
or turns.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from types import TracebackType
from typing import Self, overload

from contextkit.canonical import Json, canonical
from contextkit.errors import UsageError
from contextkit.log.entry import Entry, Kind
from contextkit.log.jsonl import GENESIS, KINDS, digest_of
from contextkit.log.storage import JSONLStorage, MemoryStorage, Storage


def check_clock(clock: object) -> None:
    """Raises `UsageError` for what cannot be asked for the time."""
    if not callable(clock):
        raise UsageError(
            f"clock is a function that gives seconds since 1970, such as time.time, not {type(clock).__name__}"
        )


class Log(Sequence[Entry]):
    """Entries in the order they were written; safe to append to from several threads.

    >>> log = Log(clock=lambda: 0.0)
    >>> log.append("user", {"content": [{"type": "text", "text": "hello"}]}).body
    b'{"content":[{"type":"text","text":"hello"}]}'
    >>> len(log), log.digest == log[-1].digest
    (1, True)
    """

    def __init__(self, storage: Storage | None = None, clock: Callable[[], float] = time.time) -> None:
        """A log over what `storage` holds; in memory without one. `clock` gives seconds since 1970."""
        check_clock(clock)
        self.storage: Storage = MemoryStorage() if storage is None else storage
        """Where the entries are kept."""
        self._clock = clock
        self._entries = list(self.storage.load())
        self._lock = Lock()

    @classmethod
    def open(cls, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> Self:
        """The log in a JSONL file, created when it is not there; raises `LogLocked`, `LogCorrupt`."""
        check_clock(clock)  # before the file is held
        return cls(JSONLStorage(path), clock)

    def append(self, kind: Kind, body: Json, at: float | None = None) -> Entry:
        """Freeze `body` and keep it; when this returns, the entry survives a crash.

        Raises `NotSerialisable` for a body without a JSON form and what the storage raises; the log is then as it was.
        """
        if kind not in KINDS:
            raise UsageError(f"an entry cannot be of kind {kind!r}: use one of {', '.join(KINDS)}")
        if at is not None and type(at) not in (int, float):
            raise UsageError(f"at is seconds since 1970, not {type(at).__name__}")
        frozen = canonical(body)
        with self._lock:
            now = float(self._clock() if at is None else at)
            entry = Entry(len(self._entries), kind, frozen, now, digest_of(self.digest, kind, now, frozen))
            self.storage.append(entry, self.digest)
            self._entries.append(entry)
        return entry

    def fork(self, at: Entry | int, path: str | os.PathLike[str] | Storage | None = None) -> Log:
        """A log that shares every entry up to and including `at`, and goes its own way after an `opened` entry that
        names this one.

        With `path` the child is a file: it holds only its own lines and names this log's file, relative to its own;
        when this log is not in a file, the shared entries are written into the child. With a storage the child is kept
        there, likewise. Raises `UsageError` for an entry of another log, and for a path that holds a log already.
        """
        try:
            last = self.find(at)
        except UsageError as fault:
            raise UsageError(f"cannot fork at entry {getattr(at, 'sequence', at)!r}: {fault}") from None
        child = Log(path if path is None or isinstance(path, Storage) else JSONLStorage(path), self._clock)
        try:
            child._inherit(self, last)
        except BaseException:
            child.close()
            raise
        return child

    def find(self, at: Entry | int) -> Entry:
        """The entry `at` stands for, a negative number counting from the end.

        Raises `UsageError` where it is none of this log.
        """
        if not isinstance(at, int | Entry):
            raise UsageError(f"an entry, or its sequence, not {type(at).__name__}")
        index = at if isinstance(at, int) else at.sequence
        if not -len(self) <= index < len(self):
            raise UsageError(f"there is no entry {index}: the log has {len(self)} entries")
        found = self._entries[index]
        if isinstance(at, Entry) and found.digest != at.digest:
            raise UsageError(f"entry {index} is an entry of another log: give one of this log")
        return found

    def close(self) -> None:
        """Let others write the file; reading goes on."""
        with self._lock:
            self.storage.close()

    @property
    def digest(self) -> bytes:
        """Digest of the last entry: equal digests, equal logs. 16 zero bytes while the log is empty."""
        return self._entries[-1].digest if self._entries else GENESIS

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        return self._entries[index]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _inherit(self, parent: Log, last: Entry) -> None:
        """Begin as `parent` up to `last`."""
        if self._entries:
            where = self.storage.path or "that storage"
            raise UsageError(f"cannot fork into {where}: it holds {len(self)} entries already, choose a new path")
        shared = parent[: last.sequence + 1]
        way = self.storage.inherit(parent.storage, shared)
        self._entries = shared
        self.append("opened", {"parent": {"path": way, "sequence": last.sequence, "digest": last.digest.hex()}})
