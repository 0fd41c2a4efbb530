"""Documents into the tables, and out of them again.

Takes a connection within a transaction, gives what changed; knows nothing of queries. What the tables hold depends on
the documents alone: one that was replaced or removed leaves no count behind.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from contextkit.canonical import canonical
from contextkit.memory.search.document import Document
from contextkit.memory.search.passages import cut, line_numbers
from contextkit.memory.search.words import terms

_URL = re.compile(r"https?://[^\s<>\"'`\\)\]}]{1,500}")
_URL_END = ".,;:!?*"
"""Signs behind a URL that belong to the sentence around it."""


def write(connection: sqlite3.Connection, documents: Iterable[Document]) -> int:
    """Keep each document, the last of each id; gives how many were new or changed."""
    digests = {document.id: (document.digest, document) for document in documents}
    kept = dict(
        connection.execute(
            "SELECT id, digest FROM document WHERE id IN (SELECT value FROM json_each(?))", (_json(digests),)
        )
    )
    changed = [document for digest, document in digests.values() if kept.get(document.id) != digest]
    remove(connection, [document.id for document in changed if document.id in kept])
    if changed:
        _insert(connection, changed, [digests[document.id][0] for document in changed])
        connection.execute("UPDATE state SET changes = changes + 1")
    return len(changed)


def remove(connection: sqlite3.Connection, ids: Sequence[str]) -> int:
    """Forget each document, as if it had never been there; gives how many were."""
    rows = [
        row
        for (row,) in connection.execute(
            "SELECT row FROM document WHERE id IN (SELECT value FROM json_each(?))", (_json(ids),)
        )
    ]
    if not rows:
        return 0
    found = connection.execute(
        "SELECT row, text FROM passage WHERE id IN (SELECT value FROM json_each(?))", (_json(ids),)
    ).fetchall()
    spelt = [(row, terms(text)) for row, text in found]
    gone = [(row, " ".join(said)) for row, said in spelt]
    connection.executemany("INSERT INTO words (words, rowid, terms) VALUES ('delete', ?, ?)", gone)
    counted = Counter(chain.from_iterable(set(said) for _, said in spelt))
    connection.executemany(
        "UPDATE term SET passages = passages - ? WHERE term = ?", [(n, term) for term, n in counted.items()]
    )
    connection.executemany("DELETE FROM term WHERE term = ? AND passages = 0", [(term,) for term in counted])
    for statement in (
        "DELETE FROM vector WHERE passage = ?",
        "DELETE FROM signs WHERE passage = ?",
        "DELETE FROM passage WHERE row = ?",
    ):
        connection.executemany(statement, [(row,) for row, _ in spelt])
    for statement in ("DELETE FROM name WHERE document = ?", "DELETE FROM document WHERE row = ?"):
        connection.executemany(statement, [(row,) for row in rows])
    connection.execute("UPDATE state SET changes = changes + 1")
    return len(rows)


def names_of(document: Document) -> set[str]:
    """What a document can be reached by: its id, its links, the URLs in its text.

    >>> sorted(names_of(Document("ref-1", "see https://example.org/a.", links=("src/a.py",))))
    ['https://example.org/a', 'ref-1', 'src/a.py']
    """
    urls = (url.rstrip(_URL_END) for url in _URL.findall(document.text)) if "://" in document.text else ()
    return {document.id, *document.links, *urls}


def _insert(connection: sqlite3.Connection, documents: Sequence[Document], digests: Sequence[bytes]) -> None:
    first = connection.execute("SELECT coalesce(max(row), 0) + 1 FROM document").fetchone()[0]
    numbered = list(enumerate(documents, first))
    connection.executemany(
        "INSERT INTO document VALUES (?, ?, ?, ?, ?)",
        [(row, one.id, digest, float(one.at), one.kind) for (row, one), digest in zip(numbered, digests, strict=True)],
    )
    connection.executemany(
        "INSERT INTO name VALUES (?, ?)", [(name, row) for row, one in numbered for name in names_of(one)]
    )
    _insert_passages(connection, documents)


def _insert_passages(connection: sqlite3.Connection, documents: Sequence[Document]) -> None:
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'passage'").fetchone()
    numbered = list(enumerate((piece for one in documents for piece in _pieces(one)), last[0] + 1 if last else 1))
    connection.executemany("INSERT INTO passage VALUES (?, ?, ?, ?, ?, ?)", [(row, *piece) for row, piece in numbered])
    counted: Counter[str] = Counter()
    spelt = []
    for row, (*_, text) in numbered:
        said = terms(text)
        counted.update(set(said))
        spelt.append((row, " ".join(said)))
    connection.executemany("INSERT INTO words (rowid, terms) VALUES (?, ?)", spelt)
    connection.executemany(
        "INSERT INTO term VALUES (?, ?) ON CONFLICT (term) DO UPDATE SET passages = passages + excluded.passages",
        sorted(counted.items()),
    )


def _pieces(document: Document) -> Iterator[tuple[str, int, int, float, str]]:
    """Id, start, line, time and text of each passage."""
    passages = list(cut(document.text))
    lines = line_numbers(document.text, [start for start, _ in passages])
    return (
        (document.id, start, line, float(document.at), text)
        for (start, text), line in zip(passages, lines, strict=True)
    )


def _json(ids: Iterable[str]) -> str:
    return canonical(list(ids)).decode()
