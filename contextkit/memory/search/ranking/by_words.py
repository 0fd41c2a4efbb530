"""Passages by their words: BM25 as FTS5 computes it, over as many rows as there is time for.

Takes the terms of a query, gives passages, best first; the same whatever the order the index was filled in.

What BM25 costs is the rows it scores, about a microsecond each, and a common word stands in a third of them. So, in the
manner of MaxScore (Turtle & Flood 1995, doi 10.1016/0306-4573(95)00020-H), the rarer terms decide which passages are
scored, and the common ones only add to the score of these. A query of common words alone asks for passages that hold
all of them; are these too many to score, their words tell nothing, and the newest come first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, takewhile

from contextkit.canonical import canonical
from contextkit.memory.search.passages import PASSAGE_CHARACTERS

CANDIDATES = 64
"""Passages a list holds; those that tie with the last stay in."""
ROWS_SCORED = 4_000
"""Passages one query scores at most."""
ROWS_READ = 40_000
"""Rows of the words' lists one query goes through at most, the shortest lists first."""
MAX_TERMS = 24
"""Terms of a query that are used, the rarest."""
_TIED = 4 * CANDIDATES
"""Room for ties behind the last candidate; are they more, a second and slower query tells them apart by id."""

_SCORED = "SELECT rowid, bm25(words) AS cost FROM words WHERE words MATCH ? ORDER BY cost, rowid LIMIT ?"
_SCORED_BY_ID = """
SELECT passage.row, cost FROM (SELECT rowid AS found, bm25(words) AS cost FROM words WHERE words MATCH ?)
JOIN passage ON passage.row = found
ORDER BY cost, passage.id, passage.start LIMIT ?
"""
_WITH_LENGTHS = """
SELECT passage.id, start, passage.row, kind, length(text) FROM passage JOIN document ON document.id = passage.id
WHERE passage.row IN (SELECT value FROM json_each(?))
"""
_TURNS = frozenset({"user", "assistant", "notice", "epoch"})
"""Kinds of documents that speak of what others hold."""
_NEWEST = """
SELECT id, start, row FROM passage INDEXED BY newest WHERE +row IN (SELECT rowid FROM words WHERE words MATCH ?)
ORDER BY at DESC, id, start LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A passage of a document."""

    id: str
    """The document."""
    start: int
    """Where the passage begins, in characters."""
    row: int
    """The passage's row."""
    score: float = 0.0
    """What BM25 gives it; 0 where it was not scored."""
    weight: float = 1.0
    """How much of that counts beside passages of other kinds."""


def by_words(connection: sqlite3.Connection, groups: list[list[str]], keep: int = CANDIDATES) -> list[Place]:
    """At least the `keep` best passages for the terms of `groups`, best first; ties by id and place."""
    counted = sorted((n, term) for term, n in counts_of(connection, groups).items())[:MAX_TERMS]
    if not counted:
        return []
    deciding = _within(counted, ROWS_SCORED)
    if deciding:
        scored = [f'"{term}"' for term in _within(counted, ROWS_READ)]
        phrases = _phrases(groups, {term: n for n, term in counted})
        return _scored(connection, f"({_any(deciding)}) AND ({' OR '.join(scored + phrases)})", keep)
    return _common(connection, [term for _, term in counted], keep)


def counts_of(connection: sqlite3.Connection, groups: list[list[str]]) -> dict[str, int]:
    """In how many passages each term of `groups` stands; those that stand in none are left out."""
    wanted = list(dict.fromkeys(term for group in groups for term in group))
    rows = connection.execute(
        "SELECT term, passages FROM term WHERE term IN (SELECT value FROM json_each(?))", (_json(wanted),)
    )
    return dict(rows.fetchall())


def _within(counted: list[tuple[int, str]], rows: int) -> list[str]:
    """The rarest terms whose lists together are no longer than `rows`."""
    sums = accumulate(n for n, _ in counted)
    return [term for (_, term), _ in takewhile(lambda pair: pair[1] <= rows, zip(counted, sums, strict=True))]


def _phrases(groups: list[list[str]], counts: dict[str, int]) -> list[str]:
    """What the query wrote as one word and the index holds as several: worth more where they stand side by side."""
    together = [group for group in groups if len(group) > 1 and all(term in counts for term in group)]
    affordable = [group for group in together if sum(counts[term] for term in group) <= ROWS_READ // 2]
    return [f'"{" ".join(group)}"' for group in affordable[:4]]


def _common(connection: sqlite3.Connection, every: list[str], keep: int) -> list[Place]:
    """For words that each stand in more passages than one query scores."""
    together = " AND ".join(f'"{term}"' for term in every)
    (n,) = connection.execute("SELECT count(*) FROM words WHERE words MATCH ?", (together,)).fetchone()
    if 0 < n <= ROWS_SCORED:
        return _scored(connection, together, keep)
    found = connection.execute(_NEWEST, (together if n else f'"{every[0]}"', keep))
    return [Place(*place) for place in found]


def _scored(connection: sqlite3.Connection, match: str, keep: int) -> list[Place]:
    room = keep + _TIED
    rows = connection.execute(_SCORED, (match, room)).fetchall()
    if len(rows) == room and rows[keep - 1][1] == rows[-1][1]:
        rows = connection.execute(_SCORED_BY_ID, (match, keep)).fetchall()
    last = rows[min(keep, len(rows)) - 1][1] if rows else 0.0
    costs = {row: cost for row, cost in rows if cost <= last}
    found = connection.execute(_WITH_LENGTHS, (_json([*costs]),))
    places = [
        Place(name, start, row, -costs[row], _weight(kind, length))
        for name, start, row, kind, length in found.fetchall()
    ]
    return sorted(places, key=lambda place: (-place.score, place.id, place.start))


def sources_first(places: Iterable[Place]) -> list[Place]:
    """Passages in the order of their scores, short turns of a conversation lowered; of equals the order stays.

    BM25 gives a word in a short text up to twice what it gives the same word in a full passage. The turn that asks for
    a thing, and the reply that mentions it, would stand before the page that says it.
    """
    return sorted(places, key=lambda place: -place.score * place.weight)


def _weight(kind: str, length: int) -> float:
    return 0.5 + 0.5 * min(length / PASSAGE_CHARACTERS, 1.0) if kind in _TURNS else 1.0


def _any(every: list[str]) -> str:
    return " OR ".join(f'"{term}"' for term in every)


def _json(values: list[str] | list[int]) -> str:
    return canonical(values).decode()
