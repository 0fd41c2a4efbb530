"""Everything that an agent offloaded, wrote or received, searchable: SQLite FTS5 with BM25.

Long texts are cut into passages; a document ranks by its best one. With an embedding function, passages are ranked by
cosine too, and the two rankings are fused by reciprocal rank (Cormack, Clarke & Büttcher 2009, doi
10.1145/1571941.1572114). An index depends only on the documents in it: filled in another order, in other batches or by
another process, it gives the same results.
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from operator import mul
from sys import byteorder
from threading import RLock
from types import TracebackType
from typing import Any, Self

from contextkit.canonical import canonical
from contextkit.errors import StorageError, UsageError
from contextkit.log.log import Log
from contextkit.memory.reference import Reference, line_starts
from contextkit.memory.search.document import Document, SearchHit, documents_of
from contextkit.private_files import connect_private

VERSION = 2
"""Version of the tables. Version 1 kept its own counts of terms and links; it is rebuilt from its passages."""
BUSY_SECONDS = 60.0
"""How long a process waits for another one's batch."""
BATCH = 5_000
"""Documents in one transaction."""
PASSAGE_CHARACTERS = 1_600
"""Longest passage: about a screenful, four hundred tokens."""
SNIPPET_CHARACTERS = 240
EMBEDDED_AT_ONCE = 128
"""Passages given to `embed` in one call."""
CANDIDATES = 64
"""Documents each ranking contributes."""
RANK_OFFSET = 60
"""The k of reciprocal rank fusion, as in the paper."""
MAX_QUERY_PHRASES = 256
"""Phrases that one search looks for; of more, the rarest."""
COUNTED_ROWS = 1_000
"""Passages counted of one phrase; a more frequent phrase counts as so frequent."""

Embed = Callable[[list[str]], Sequence[Sequence[float]]]
"""Texts → one vector each, all of one length."""

_TABLES = """
CREATE TABLE document (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL);
CREATE TABLE passage (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, start INTEGER NOT NULL, line INTEGER NOT NULL, text TEXT NOT NULL
);
CREATE UNIQUE INDEX passage_of ON passage (id, start);
CREATE TABLE vector (passage INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS fed (log TEXT PRIMARY KEY, sequence INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2')
"""
_OLD_TABLES = ("document", "passage", "term", "name", "vector", "signs", "state", "words")
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005\u3007\u3040-\u30fa\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Scripts without spaces between words (Han, kana, Hangul, Thai, …): every character is indexed, and a query looks for
each pair of neighbours."""
_UNSPACED_RUN = re.compile(f"{_UNSPACED.pattern}+")
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u0900-\u0963\u0966-\u0dff\u200c\u200d"
)
"""Signs within a word that are no letters to Python: accents, vowel signs of Hebrew, Arabic and the scripts of India."""
_WORD = re.compile(rf"[^\W_](?:[^\W_]|[{_MARKS}])*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BREAKS = ("\n\n", "\n", ". ", " ")
"""Where a passage preferably ends, best first."""


class Index:
    """Documents on disk or in memory; safe to use from several threads and processes.

    >>> with Index(":memory:") as index:
    ...     index.add(Document("ref-1", "The cache missed after the tool list was sorted."))
    ...     [hit.id for hit in index.search("why did caches miss?")]
    True
    ['ref-1']
    """

    def __init__(self, path: str | os.PathLike[str] = ":memory:", *, embed: Embed | None = None) -> None:
        """Open or create an index.

        `embed` turns texts into vectors; passages without a vector get one at the next `add`. Raises `UsageError` if
        this SQLite has no FTS5, `StorageError` if the file is not an index, or of a later version.
        """
        self.path = os.fspath(path)
        self._embed = embed
        self._lock = RLock()
        self._connection = _connect(self.path)

    def add(self, document: Document) -> bool:
        """Store one document durably, replacing one of the same id; return whether it was new or changed."""
        return self.add_all((document,)) == 1

    def add_all(self, documents: Iterable[Document]) -> int:
        """Store documents in batches that survive a crash each; return how many were new or changed.

        Raises `NotSerialisable` for a text with a lone surrogate, `StorageError` for a full disk; earlier batches stay.
        """
        remaining, changed = iter(documents), 0
        while batch := list(islice(remaining, BATCH)):
            with self._transaction("BEGIN IMMEDIATE") as connection:
                changed += _write(connection, batch)
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
        """Add the entries of `log` since the last call, durably with the place reached; return how many were new.

        `name` distinguishes several logs in one index; `start` and `end` bound the entries that it names, for entries
        that a fork shares with its parent. `content` returns the bytes of what an entry keeps outside, None if they
        are not at hand: text among them becomes a document named by its reference. Raises `UsageError` if `name` stood
        for another log.
        """
        stop = len(log) if end is None else end
        with self._transaction("BEGIN") as connection:
            start = max(start, _next_sequence(connection, log, name, stop))
        for first in range(start, stop, BATCH):
            entries = log[first : min(first + BATCH, stop)]
            with self._transaction("BEGIN IMMEDIATE") as connection:
                _write(connection, documents_of(entries, name, content))
                last = entries[-1]
                connection.execute("INSERT OR REPLACE INTO fed VALUES (?, ?, ?)", (name, last.sequence, last.digest))
        self._embed_missing()
        return max(stop - start, 0)

    def remove(self, *ids: str) -> int:
        """Erase documents with their text; return how many there were."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            return _remove(connection, ids)

    def search(self, query: str, limit: int = 8, *, leave_out: Collection[str] = ()) -> list[SearchHit]:
        """Return the documents that match `query`, best first; no text is an invalid query.

        `leave_out` names documents that must not be returned. Of a query of more than `MAX_QUERY_PHRASES` different
        phrases, those that fewest passages hold are looked for.
        """
        phrases = _phrases(query)
        if limit < 1 or not phrases:
            return []
        excluded, n = _json(leave_out), max(CANDIDATES, limit)
        vector = self._query_vector(query)
        with self._transaction("BEGIN") as connection:
            match = " OR ".join(f'"{phrase}"' for phrase in _rarest(connection, phrases))
            rankings = {"words": connection.execute(_BY_WORDS, (match, excluded, n)).fetchall() if match else []}
            if vector is not None:
                rankings["meaning"] = _by_meaning(connection, vector, excluded)[:n]
            scores: dict[str, float] = {}
            passages: dict[str, int] = {}
            for ranking in rankings.values():
                for rank, (name, row) in enumerate(ranking, 1):
                    scores[name] = scores.get(name, 0.0) + 1 / (RANK_OFFSET + rank)
                    passages.setdefault(name, row)
            most = sum(1 for ranking in rankings.values() if ranking) / (RANK_OFFSET + 1)
            best = sorted(scores, key=lambda name: (-scores[name], name))[:limit]
            hits = []
            for name in best:
                start, line, text, document_kind, at = connection.execute(_PASSAGE, (passages[name],)).fetchone()
                by = tuple(kind for kind, ranking in rankings.items() if any(name == other for other, _ in ranking))
                snippet = _snippet(text, query)
                hits.append(
                    SearchHit(name, scores[name] / most, snippet, document_kind, at, start, start + len(text), line, by)
                )
        return hits

    def read(self, id: str) -> str:
        """Return a document's text. Raises `UsageError` for an unknown id."""
        with self._transaction("BEGIN") as connection:
            rows = connection.execute("SELECT text FROM passage WHERE id = ? ORDER BY start", (id,)).fetchall()
        if not rows:
            raise UsageError(
                f"the index has no document {id!r}: ids are those that search gives, character for character"
            )
        return "".join(text for (text,) in rows)

    def __contains__(self, id: str) -> bool:
        with self._transaction("BEGIN") as connection:
            return connection.execute("SELECT 1 FROM document WHERE id = ?", (id,)).fetchone() is not None

    def __len__(self) -> int:
        """Return the number of documents."""
        with self._transaction("BEGIN") as connection:
            return int(connection.execute("SELECT count(*) FROM document").fetchone()[0])

    def close(self) -> None:
        """Close the file; closing twice is closing."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        """Run a block on one state of the index; its changes are durable together, or undone if it raises."""
        with self._lock:
            try:
                self._connection.execute(begin)
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.ProgrammingError as fault:
                raise UsageError(f"the index {self.path} cannot be used: {fault} Open a new Index on it.") from fault
            except sqlite3.DatabaseError as fault:
                raise _unreadable(self.path, fault) from fault

    def _query_vector(self, query: str) -> array[float] | None:
        if self._embed is None:
            return None
        with self._transaction("BEGIN") as connection:
            dimensions = _dimensions(connection)
        return _vectors(self._embed, [query], dimensions)[0] if dimensions else None

    def _embed_missing(self) -> None:
        """Give a vector to each passage that has none; what `embed` raises is raised, and the texts stay."""
        while self._embed is not None:
            with self._transaction("BEGIN") as connection:
                rows = connection.execute(_WITHOUT_VECTOR, (EMBEDDED_AT_ONCE,)).fetchall()
                dimensions = _dimensions(connection)
            if not rows:
                return
            vectors = _vectors(self._embed, [text for _, text in rows], dimensions)
            with self._transaction("BEGIN IMMEDIATE") as connection:
                for (row, _), vector in zip(rows, vectors, strict=True):
                    connection.execute(_STORE_VECTOR, (row, _little_endian(vector).tobytes(), row))


_BY_WORDS = """
SELECT id, row FROM (
    SELECT passage.id AS id, passage.row AS row, min(cost) AS cost
    FROM (SELECT rowid AS hit, bm25(words) AS cost FROM words WHERE words MATCH ? LIMIT -1)  -- bm25 needs its own query
    JOIN passage ON passage.row = hit
    WHERE passage.id NOT IN (SELECT value FROM json_each(?)) GROUP BY passage.id
) ORDER BY cost, id LIMIT ?
"""
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
_PASSAGE = """
SELECT passage.start, passage.line, passage.text, document.kind, document.at
FROM passage JOIN document ON document.id = passage.id WHERE passage.row = ?
"""
_WITHOUT_VECTOR = """
SELECT row, text FROM passage WHERE row NOT IN (SELECT passage FROM vector) ORDER BY row LIMIT ?
"""
_STORE_VECTOR = "INSERT OR REPLACE INTO vector SELECT ?, ? WHERE EXISTS (SELECT 1 FROM passage WHERE row = ?)"


def require_module(connection: sqlite3.Connection, module: str) -> None:
    """Raise `UsageError` if this SQLite was compiled without `module`."""
    try:
        connection.execute(f"CREATE VIRTUAL TABLE temp.probe USING {module}(x)")
        connection.execute("DROP TABLE temp.probe")
    except sqlite3.OperationalError as fault:
        if "no such module" not in str(fault):
            raise
        raise UsageError(
            f"searching needs SQLite's {module.upper()} module, and the SQLite of this Python has none: use a Python whose sqlite3 has "
            f"it (those of python.org, uv and conda do), SQLite here is {sqlite3.sqlite_version} ({fault})"
        ) from fault


def _connect(path: str) -> sqlite3.Connection:
    try:
        options: dict[str, Any] = {"timeout": BUSY_SECONDS, "isolation_level": None, "check_same_thread": False}
        is_in_memory = path in ("", ":memory:")
        connection = sqlite3.connect(path, **options) if is_in_memory else connect_private(path, **options)
    except (sqlite3.OperationalError, OSError) as fault:
        raise StorageError(
            f"the index {path} cannot be opened ({fault}): is its folder there, and may it be written?"
        ) from fault
    try:
        require_module(connection, "fts5")
        _prepare(connection, path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:  # the latter: a message that quotes damaged bytes
        connection.close()
        raise _unreadable(path, fault) from fault
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Create the tables in a new file, rebuild those of version 1, refuse any other."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StorageError(
            f"{path} holds an index of version {version}, this contextkit reads up to {VERSION}: upgrade contextkit, or choose another "
            "path and feed the log to it anew"
        )
    if version == 0 and tables:
        raise StorageError(f"{path} holds a database of something else: choose another path")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # a batch that was acknowledged survives a power cut
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < VERSION:  # another process may have prepared it in the meantime
        documents = list(_old_documents(connection)) if version else []
        for table in _OLD_TABLES if version else ():
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        _write(connection, documents)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _old_documents(connection: sqlite3.Connection) -> Iterator[Document]:
    for name, at, kind in connection.execute("SELECT id, at, kind FROM document").fetchall():
        rows = connection.execute("SELECT text FROM passage WHERE id = ? ORDER BY start", (name,))
        yield Document(name, "".join(text for (text,) in rows), at, kind)


def _unreadable(path: str, fault: Exception) -> StorageError:
    return StorageError(
        f"the index {path} cannot be read or written ({fault}). An index holds nothing that is not in the log and the memory files: "
        "free the disk or the lock, or delete it and feed it anew"
    )


def _write(connection: sqlite3.Connection, documents: Iterable[Document]) -> int:
    """Store each document, the last of each id; return how many were new or changed."""
    latest = {document.id: document for document in documents}
    rows = connection.execute(
        "SELECT id, digest FROM document WHERE id IN (SELECT value FROM json_each(?))", (_json(latest),)
    )
    digests = dict(rows.fetchall())
    changed = [document for document in latest.values() if digests.get(document.id) != document.digest]
    _remove(connection, [document.id for document in changed])
    for document in changed:
        connection.execute(
            "INSERT INTO document (id, digest, at, kind) VALUES (?, ?, ?, ?)",
            (document.id, document.digest, float(document.at), document.kind),
        )
        passages = list(_passages(document.text))
        begins = line_starts(document.text) if len(passages) > 1 else [0]
        for start, text in passages:
            line = max(1, bisect_right(begins, start))
            row = connection.execute(
                "INSERT INTO passage (id, start, line, text) VALUES (?, ?, ?, ?)", (document.id, start, line, text)
            ).lastrowid
            connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row, _searchable(text)))
    return len(changed)


def _remove(connection: sqlite3.Connection, ids: Collection[str]) -> int:
    """Remove each document without a trace; return how many there were."""
    passages = connection.execute(
        "SELECT row, text FROM passage WHERE id IN (SELECT value FROM json_each(?))", (_json(ids),)
    ).fetchall()
    for row, text in passages:
        connection.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (row, _searchable(text)))
        connection.execute("DELETE FROM vector WHERE passage = ?", (row,))
        connection.execute("DELETE FROM passage WHERE row = ?", (row,))
    return connection.execute(
        "DELETE FROM document WHERE id IN (SELECT value FROM json_each(?))", (_json(ids),)
    ).rowcount


def _passages(text: str) -> Iterator[tuple[int, str]]:
    """Yield start and text of each passage; joined they are the text."""
    start = 0
    while len(text) - start > PASSAGE_CHARACTERS:
        room = start + PASSAGE_CHARACTERS
        ends = (text.rfind(mark, start + PASSAGE_CHARACTERS // 2, room) + len(mark) for mark in _BREAKS)
        end = next((end for end in ends if end > start + PASSAGE_CHARACTERS // 2), room)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def _searchable(text: str) -> str:
    """Return `text` as FTS5 gets it: names of code cut at their humps, and characters of scripts without spaces apart."""
    apart = _HUMP.sub(" ", text).encode("utf-8", "ignore").decode()
    return apart if apart.isascii() else _UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFKC", apart))


def terms(text: str, *, has_characters: bool = False) -> list[str]:
    """Return the words of a text in lower case without accents, plurals as singulars, in order.

    Scripts without spaces give each pair of neighbours, and each character too with `has_characters`.

    >>> terms("readReferences() of Cafés, 缓存前")
    ['read', 'reference', 'of', 'cafe', '缓存', '存前']
    """
    decomposed = unicodedata.normalize("NFKD", _HUMP.sub(" ", text))
    plain = unicodedata.normalize("NFKC", re.sub("[\u0300-\u036f]", "", decomposed)).casefold()
    found = list[str]()
    for word in _WORD.findall(_UNSPACED_RUN.sub(r" \g<0> ", plain)):
        if not _UNSPACED.match(word):
            found.append(_singular(word))
            continue
        found += [first + second for first, second in pairwise(word)] or [word]
        found += list(word) if has_characters and len(word) > 1 else []
    return found


def _singular(word: str) -> str:
    """Return an English plural as its singular, any other word as it is (S-stemmer: Harman 1991, "How effective is
    suffixing?").
    """
    if len(word) < 4 or not word.endswith("s") or word.endswith(("us", "ss")):
        return word
    if word.endswith("ies"):
        return word if word.endswith(("aies", "eies")) else f"{word[:-3]}y"
    return word if word.endswith(("aes", "ees", "oes")) else word[:-1]


def _phrases(query: str) -> list[str]:
    """Return what a query asks for: its words, and as a phrase what it writes without a space.

    >>> _phrases('"cache" OR src/a.py')
    ['cache', 'OR', 'src a py', 'src', 'a', 'py']
    """
    phrases = []
    for chunk in query.split():
        words = _WORD.findall(_searchable(chunk))
        phrases += [" ".join(words)] if words else []
        phrases += [word for word in words if len(words) > 1 and not _UNSPACED.match(word)]
        phrases += [f"{a} {b}" for a, b in pairwise(words) if _UNSPACED.match(a) and _UNSPACED.match(b)]
    return list(dict.fromkeys(phrases))


def _rarest(connection: sqlite3.Connection, phrases: list[str]) -> list[str]:
    """Return `phrases`, of more than `MAX_QUERY_PHRASES` those that fewest passages hold."""
    if len(phrases) <= MAX_QUERY_PHRASES:
        return phrases
    counts = {phrase: connection.execute(_COUNT, (f'"{phrase}"', COUNTED_ROWS)).fetchone()[0] for phrase in phrases}
    return sorted((phrase for phrase in phrases if counts[phrase]), key=counts.__getitem__)[:MAX_QUERY_PHRASES]


def _snippet(passage: str, query: str) -> str:
    """Return the stretch of `passage` around the query's longest word in it, white space as single spaces."""
    line = " ".join(passage.split())
    if len(line) <= SNIPPET_CHARACTERS:
        return line
    words = sorted(set(terms(query)), key=lambda word: (-len(word), word))
    place = next((at for word in words if (at := line.casefold().find(word)) >= 0), 0)
    first = max(0, min(place - SNIPPET_CHARACTERS // 3, len(line) - SNIPPET_CHARACTERS))
    last = first + SNIPPET_CHARACTERS
    first = line.find(" ", first, place) + 1 or first if first else 0
    last = line.rfind(" ", place, last) if last < len(line) and line.rfind(" ", place, last) > first else last
    return f"{'… ' if first else ''}{line[first:last]}{' …' if last < len(line) else ''}"


def _by_meaning(connection: sqlite3.Connection, vector: array[float], excluded: str) -> list[tuple[str, int]]:
    """Return id and passage of each document nearer than a right angle, nearest first."""
    rows = connection.execute(
        "SELECT id, row, vector FROM vector JOIN passage ON row = passage "
        "WHERE id NOT IN (SELECT value FROM json_each(?)) ORDER BY row",
        (excluded,),
    )
    best: dict[str, tuple[float, int]] = {}
    for name, row, stored in rows:
        other = array("f", stored)
        # fsum: the same sum on every version of Python
        cosine = math.fsum(map(mul, vector, _little_endian(other)))
        if cosine > max(best.get(name, (0.0, 0))[0], 0.0):
            best[name] = cosine, row
    return [(name, best[name][1]) for name in sorted(best, key=lambda name: (-best[name][0], name))]


def _vectors(embed: Embed, texts: list[str], dimensions: int | None) -> list[array[float]]:
    """Return the embeddings of `texts`, each of length 1 (all zeros stay). Raises `UsageError` for other values."""
    vectors = [array("f", vector) for vector in embed(texts)]
    if len(vectors) != len(texts):
        raise UsageError(
            f"embed was given {len(texts)} texts and gave {len(vectors)} vectors: it must give one for each, in their order"
        )
    expected = dimensions or len(vectors[0])
    for vector in vectors:
        if len(vector) != expected or not expected:
            raise UsageError(
                f"embed gave a vector of {len(vector)} numbers where the index holds vectors of {expected}: "
                "use the model the index was made with, or a new index"
            )
        if not all(map(math.isfinite, vector)):
            raise UsageError("embed gave a vector with NaN or infinity in it: check the model")
    lengths = [math.sqrt(math.fsum(map(mul, vector, vector))) for vector in vectors]
    return [
        array("f", [number / (length or 1.0) for number in vector])
        for vector, length in zip(vectors, lengths, strict=True)
    ]


def _little_endian(vector: array[float]) -> array[float]:
    """Swap the bytes of a vector where the machine is big-endian: vectors are stored in little-endian order."""
    if byteorder == "big":
        vector = array("f", vector)
        vector.byteswap()
    return vector


def _dimensions(connection: sqlite3.Connection) -> int | None:
    row = connection.execute("SELECT length(vector) / 4 FROM vector LIMIT 1").fetchone()
    return None if row is None else int(row[0])


def _next_sequence(connection: sqlite3.Connection, log: Log, name: str, stop: int) -> int:
    """Return where to continue in `log`, of which entries before `stop` go by `name`."""
    row = connection.execute("SELECT sequence, digest FROM fed WHERE log = ?", (name,)).fetchone()
    if row is None:
        return 0
    sequence = int(row[0])
    if stop < len(log) and sequence >= stop:  # another log shares these entries and has more
        return stop
    if sequence >= len(log) or log[sequence].digest != row[1]:
        raise UsageError(
            f"the index took in another log under the name {name!r}: give this one its own, add_log(log, name=...)"
        )
    return sequence + 1


def _json(ids: Iterable[str]) -> str:
    return canonical(list(ids)).decode()
