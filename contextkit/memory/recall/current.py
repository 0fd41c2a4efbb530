"""An index that has taken in what was said up to this moment.

Takes an index and the logs of the conversations that share it, gives what an index gives. Costs what was said since the
last query. An entry that a fork shares with its parent is one document: it goes by the log that it was written to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from threading import Lock

from contextkit.log.log import Log
from contextkit.memory.reference import Reference
from contextkit.memory.search.document import SearchHit, entry_id
from contextkit.memory.search.index import Index

NAME_DIGITS = 8
"""Hexadecimal digits of the digest of an `opened` entry that name the documents of the entries behind it."""


class Current:
    """An index and the logs it follows; safe to use from several threads."""

    __slots__ = ("_content", "_index", "_lock", "_logs")

    def __init__(self, index: Index, content: Callable[[Reference], bytes | None]) -> None:
        """`content` gives the bytes of what an entry keeps outside, None where they cannot be had."""
        self._index, self._content = index, content
        self._logs: dict[str, tuple[Log, list[tuple[str, int]]]] = {}
        """Name → log, and the names and first entries of its stretches."""
        self._lock = Lock()

    def follow(self, log: Log) -> None:
        """Take in what this log says too; a branch is a log of its own."""
        stretches = stretches_of(log)
        self._logs[stretches[-1][0]] = log, stretches

    def leave(self, log: Log) -> None:
        """Take in nothing more of this log."""
        self._logs.pop(stretches_of(log)[-1][0], None)

    def search(self, query: str, limit: int = 8, *, leave_out: Collection[str] = ()) -> list[SearchHit]:
        """As `Index.search`, with all that was said."""
        self._catch_up()
        return self._index.search(query, limit, leave_out=leave_out)

    def read(self, id: str) -> str:
        """As `Index.read`."""
        return self._index.read(id)

    def _catch_up(self) -> None:
        with self._lock:
            for log, stretches in list(self._logs.values()):
                ends = [start for _, start in stretches[1:]]
                for (name, start), end in zip(stretches, [*ends, None], strict=True):
                    self._index.add_log(log, name, content=self._content, start=start, end=end)


def stretches_of(log: Log) -> list[tuple[str, int]]:
    """The stretches of a log, each from an `opened` entry on: its name, and its first sequence.

    A fork has those of its parent in front; equal entries of two logs have the same names.
    """
    opened = [entry for entry in log if entry.kind == "opened"]
    return [(entry.digest.hex()[:NAME_DIGITS], entry.sequence) for entry in opened]


def entry_ids(log: Log, sequences: Iterable[int]) -> list[str]:
    """The ids that the entries of a log go by in an index."""
    stretches = stretches_of(log)
    return [
        entry_id(sequence, next(name for name, start in reversed(stretches) if start <= sequence))
        for sequence in sequences
    ]
