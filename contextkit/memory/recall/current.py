"""An index that has taken in what was said up to this moment.

Takes an index and the logs of the conversations that share it, gives what an index gives. Costs what was said since it
was asked last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Lock

from contextkit.log.log import Log
from contextkit.memory.reference import Reference
from contextkit.memory.search.document import SearchHit
from contextkit.memory.search.index import Index


class Current:
    """An index and the logs it follows; safe to ask from several threads."""

    __slots__ = ("_content", "_index", "_lock", "_logs")

    def __init__(self, index: Index, content: Callable[[Reference], bytes | None]) -> None:
        """`content` gives the bytes of what an entry keeps outside, None where they cannot be had."""
        self._index, self._content = index, content
        self._logs: dict[str, Log] = {}
        self._lock = Lock()

    def follow(self, log: Log) -> None:
        """Take in what this log says too; a branch is a log of its own."""
        opened = next(entry for entry in reversed(log) if entry.kind == "opened")
        self._logs[name_of(opened.digest)] = log

    def search(self, query: str, limit: int = 8, *, leave_out: Collection[str] = ()) -> list[SearchHit]:
        """As `Index.search`, with all that was said."""
        self._catch_up()
        return self._index.search(query, limit, leave_out=leave_out)

    def read(self, id: str) -> str:
        """As `Index.read`."""
        return self._index.read(id)

    def _catch_up(self) -> None:
        with self._lock:
            for name, log in self._logs.items():
                self._index.add_log(log, name, content=self._content)


def name_of(digest: bytes) -> str:
    """What the documents of a log are named by: the beginning of the digest of the entry that opened it."""
    return digest.hex()[:8]
