"""Passages by their words: BM25 as FTS5 computes it, over as many rows as there is time for.

Takes the terms of a query, gives passages, best first; the same whatever the order the index was filled in.

What BM25 costs is the rows it scores, about a microsecond each, and a common word stands in a third of them. So, in the
manner of MaxScore (Turtle & Flood 1995, doi 10.1016/0306-4573(95)00020-H), the rarer terms decide which passages are
scored, and the common ones only add to the score of these. A query of common words alone asks for passages that hold
all of them; are these too many to score, their words tell nothing, and the newest come first.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from itertools import accumulate, takewhile

from contextkit.canonical import canonical

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


def by_words(connection: sqlite3.Connection, groups: list[list[str]], keep: int = CANDIDATES) -> list[Place]:
    """At least the `keep` best passages for the terms of `groups`, best first; ties by id and place."""
    asked = list(dict.fromkeys(term for group in groups for term in group))
    counted = connection.execute(
        "SELECT passages, term FROM term WHERE term IN (SELECT value FROM json_each(?))", (_json(asked),)
    )
    known = [(n, term) for n, term in sorted(counted)[:MAX_TERMS]]
    if not known:
        return []
    deciding = _within(known, ROWS_SCORED)
    if deciding:
        heard = [f'"{term}"' for term in _within(known, ROWS_READ)]
        phrases = _phrases(groups, {term: n for n, term in known})
        return _scored(connection, f"({_any(deciding)}) AND ({' OR '.join(heard + phrases)})", keep)
    return _common(connection, [term for _, term in known], keep)


def _within(known: list[tuple[int, str]], rows: int) -> list[str]:
    """The rarest terms whose lists together are no longer than `rows`."""
    sums = accumulate(n for n, _ in known)
    return [term for (_, term), _ in takewhile(lambda pair: pair[1] <= rows, zip(known, sums, strict=True))]


def _phrases(groups: list[list[str]], known: dict[str, int]) -> list[str]:
    """What the query wrote as one word and the index holds as several: worth more where they stand side by side."""
    together = [group for group in groups if len(group) > 1 and all(term in known for term in group)]
    affordable = [group for group in together if sum(known[term] for term in group) <= ROWS_READ // 2]
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
    found = connection.execute(
        "SELECT id, start, row FROM passage WHERE row IN (SELECT value FROM json_each(?))", (_json([*costs]),)
    )
    return sorted((Place(*place) for place in found), key=lambda place: (costs[place.row], place.id, place.start))


def _any(every: list[str]) -> str:
    return " OR ".join(f'"{term}"' for term in every)


def _json(values: list[str] | list[int]) -> str:
    return canonical(values).decode()
