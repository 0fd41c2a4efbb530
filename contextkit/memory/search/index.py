"""Everything that was offloaded and said, searchable.

Takes documents, or a log to keep up with; gives the ones that answer a query. Four steps: passages by their words
(BM25), documents by what those are linked to, passages by their meaning where an embedding function was given; fused by
reciprocal rank, and chosen so that no two say the same. An index depends on the documents in it alone: filled in
another order, in other batches, by another process, it gives the same answers with the same scores.
"""

from __future__ import annotations

import os
import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Self

from contextkit.errors import UsageError
from contextkit.log.entry import Entry
from contextkit.log.log import Log
from contextkit.memory.reference import Reference
from contextkit.memory.search.database import Database
from contextkit.memory.search.document import Document, SearchHit
from contextkit.memory.search.entries import Reader
from contextkit.memory.search.ranking.answer import answer
from contextkit.memory.search.ranking.by_meaning import Embed, Signs, by_meaning, keep_vector, vectors_of
from contextkit.memory.search.words import query_groups
from contextkit.memory.search.writing import remove, write

BATCH = 5_000
"""Documents in one transaction: each is one wait for the disk."""
EMBEDDED_AT_ONCE = 128
"""Passages given to `embed` in one call."""
MERGED_FROM = 10_000
"""Documents added at once from which on FTS5 is told to merge what it wrote: half a second for 100,000."""


class Index:
    """Documents on disk or in memory; safe to use from several threads and processes.

    >>> with Index(":memory:") as index:
    ...     index.add(Document("ref-1", "The cache missed after the tool list was sorted."))
    ...     [found.id for found in index.search("why did caches miss?")]
    True
    ['ref-1']
    """

    def __init__(self, path: str | os.PathLike[str] = ":memory:", *, embed: Embed | None = None) -> None:
        """Open, or create.

        `embed` turns texts into vectors; what the index holds without a vector gets one at the next `add`.

        Raises `UsageError` where SQLite has no FTS5, `StorageError` where the file is not an index of this version.
        """
        self._database = Database(path)
        self._embed = embed
        self._signs = Signs()

    def add(self, document: Document) -> bool:
        """Keep one document, durably; whether it was new or changed. One of the same id is replaced."""
        return self.add_all((document,)) == 1

    def add_all(self, documents: Iterable[Document]) -> int:
        """Keep many, in batches that survive a crash each.

        Gives how many were new or changed. Takes an iterator: memory holds a batch.

        Raises `NotSerialisable` for a text with a lone surrogate, `StorageError` for a full disk; batches before it are
        kept.
        """
        remaining, changed = iter(documents), 0
        while batch := list(islice(remaining, BATCH)):
            with self._database.writing() as connection:
                changed += write(connection, batch)
        if changed >= MERGED_FROM:
            with self._database.writing() as connection:
                connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        self._embed_missing()
        return changed

    def add_log(
        self,
        log: Log,
        name: str = "",
        *,
        content: Callable[[Reference], bytes | None] | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> int:
        """Take in what `log` has said since the last call, durably with the place reached.

        Gives how many entries were new.

        `name` tells several logs of one index apart; `start` and `end` bound the entries that go by it, which a fork
        shares with its parent. `content` gives the bytes of what an entry keeps outside, None where they cannot be had:
        text among them becomes a document of its own, named by its reference. Raises `UsageError` when what was taken
        in under `name` was another log.
        """
        stop = len(log) if end is None else end
        with self._database.reading() as connection:
            start = max(start, _next_sequence(connection, log, name, stop))
        entries = log[start:stop]
        reader = Reader(name, content)
        for entry in _last_reply(log, start):
            reader.remember(entry)
        for first in range(0, len(entries), BATCH):
            batch = entries[first : first + BATCH]
            with self._database.writing() as connection:
                write(connection, reader.documents(batch))
                last = batch[-1]
                connection.execute("INSERT OR REPLACE INTO fed VALUES (?, ?, ?)", (name, last.sequence, last.digest))
        self._embed_missing()
        return len(entries)

    def remove(self, *ids: str) -> int:
        """Forget documents, their text with them (an erasure); gives how many there were."""
        with self._database.writing() as connection:
            return remove(connection, ids)

    def search(self, query: str, limit: int = 8, *, leave_out: Collection[str] = ()) -> list[SearchHit]:
        """The documents that answer `query`, best first, no text of it an error.

        `leave_out` names what must not come back.

        The same index content and query give the same answer, whatever the order the index was filled in.
        """
        groups = query_groups(query)
        if limit < 1 or not groups:
            return []
        vector = self._vector_of(query)
        with self._database.reading() as connection:
            meant = partial(by_meaning, connection, self._signs, vector) if vector else None
            return answer(connection, groups, meant, limit, frozenset(leave_out))

    def read(self, id: str) -> str:
        """A document's text. Raises `UsageError` for an id the index has not."""
        with self._database.reading() as connection:
            texts = [
                text for (text,) in connection.execute("SELECT text FROM passage WHERE id = ? ORDER BY start", (id,))
            ]
        if not texts:
            raise UsageError(f"the index has no document {id!r}: ids are those that search gives, letter for letter")
        return "".join(texts)

    def __contains__(self, id: str) -> bool:
        with self._database.reading() as connection:
            return connection.execute("SELECT 1 FROM document WHERE id = ?", (id,)).fetchone() is not None

    def __len__(self) -> int:
        """How many documents there are."""
        with self._database.reading() as connection:
            return int(connection.execute("SELECT count(*) FROM document").fetchone()[0])

    def close(self) -> None:
        """Give the file back."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _vector_of(self, query: str) -> array[float] | None:
        if self._embed is None:
            return None
        with self._database.reading() as connection:
            dimensions = _dimensions(connection)
        return vectors_of(self._embed, [query], dimensions)[0] if dimensions else None

    def _embed_missing(self) -> None:
        """Give a vector to each passage that has none.

        What the function raises is the caller's, and what was kept stays.
        """
        if self._embed is None:
            return
        while True:
            with self._database.reading() as connection:
                rows = connection.execute(_WITHOUT_VECTOR, (EMBEDDED_AT_ONCE,)).fetchall()
                dimensions = _dimensions(connection)
            if not rows:
                return
            vectors = vectors_of(self._embed, [text for _, text in rows], dimensions)
            with self._database.writing() as connection:
                for (row, _), vector in zip(rows, vectors, strict=True):
                    keep_vector(connection, row, vector)
                connection.execute("UPDATE state SET changes = changes + 1")


_WITHOUT_VECTOR = (
    "SELECT row, text FROM passage WHERE row > (SELECT coalesce(max(passage), 0) FROM signs) ORDER BY row LIMIT ?"
)
"""Rows are given once and in order, and so are their vectors: what has none stands behind the last that has one."""


def _dimensions(connection: sqlite3.Connection) -> int | None:
    stored = connection.execute("SELECT length(vector) / 4 FROM vector LIMIT 1").fetchone()
    return None if stored is None else int(stored[0])


def _next_sequence(connection: sqlite3.Connection, log: Log, name: str, stop: int) -> int:
    """Where to go on in `log`, of which entries before `stop` go by `name`."""
    fed = connection.execute("SELECT sequence, digest FROM fed WHERE log = ?", (name,)).fetchone()
    if fed is None:
        return 0
    sequence = int(fed[0])
    if stop < len(log) and sequence >= stop:  # another log shares these entries and has said more
        return stop
    if sequence >= len(log) or log[sequence].digest != fed[1]:
        raise UsageError(
            f"the index took in another log under the name {name!r}: give this one its own, add_log(log, name=...)"
        )
    return sequence + 1


def _last_reply(log: Log, start: int) -> Iterator[Entry]:
    """The reply before `start`, whose calls the next results answer; calls never reach further back."""
    return islice((log[at] for at in range(start - 1, -1, -1) if log[at].kind == "assistant"), 1)
