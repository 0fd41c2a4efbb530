"""The four rankings joined: what an index gives for a query.

Takes a connection that sees one state of the index and the terms of a query, gives what is shown; knows nothing of how
either came to be.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from contextkit.canonical import Json, canonical
from contextkit.memory.search.document import SearchHit
from contextkit.memory.search.passages import snippet
from contextkit.memory.search.ranking.by_links import by_links
from contextkit.memory.search.ranking.by_words import CANDIDATES, Place, by_words, counts_of, sources_first
from contextkit.memory.search.ranking.fusion import diverse, fused
from contextkit.memory.search.words import terms

CHOSEN_FROM = 24
"""Best documents of the fused list that diversity chooses from; more, when more are asked for."""

_PASSAGES = """
SELECT passage.id, passage.start, passage.line, passage.text, passage.at, document.kind
FROM json_each(?) AS wanted
JOIN passage ON passage.id = json_extract(wanted.value, '$[0]') AND passage.start = json_extract(wanted.value, '$[1]')
JOIN document ON document.id = passage.id
"""


def answer(
    connection: sqlite3.Connection,
    groups: list[list[str]],
    by_meaning: Callable[[int], list[Place]] | None,
    limit: int,
    leave_out: frozenset[str],
) -> list[SearchHit]:
    """The `limit` best documents for the terms of `groups`; `by_meaning` gives so many passages, nearest first."""
    keep = max(CANDIDATES, limit) + _n_passages(connection, leave_out)
    worded = sources_first(by_words(connection, groups, keep))
    meant = by_meaning(keep) if by_meaning else []
    first = {
        place.id: place for place in reversed(worded + meant)
    }  # a document's best passage: by words, else by meaning
    ranked = {"words": _documents(worded, leave_out), "meaning": _documents(meant, leave_out)}
    seeds = [name for name, _ in fused([ids for ids in ranked.values() if ids])]
    ranked["links"] = [name for name in by_links(connection, seeds) if name not in leave_out]
    lists = {name: ids for name, ids in ranked.items() if ids}
    best = fused(list(lists.values()))[: max(CHOSEN_FROM, limit)]
    passages = _passages(connection, [(name, first[name].start if name in first else 0) for name, _ in best])
    chosen = diverse(best, {name: set(terms(text)) for name, (_, _, text, _, _) in passages.items()}, limit)
    weights = {term: 1 / count for term, count in counts_of(connection, groups).items()}
    return [_hit(name, score, passages[name], weights, lists) for name, score in chosen]


def _documents(places: Iterable[Place], leave_out: frozenset[str]) -> list[str]:
    return [name for name in dict.fromkeys(place.id for place in places) if name not in leave_out]


def _n_passages(connection: sqlite3.Connection, ids: frozenset[str]) -> int:
    """How many of a ranking's places could belong to `ids`."""
    counted = connection.execute(
        "SELECT count(*) FROM passage WHERE id IN (SELECT value FROM json_each(?))", (_json(sorted(ids)),)
    )
    return int(counted.fetchone()[0])


_Passage = tuple[int, int, str, float, str]
"""Start, line, text, when it was said, kind of its document."""


def _passages(connection: sqlite3.Connection, wanted: list[tuple[str, int]]) -> dict[str, _Passage]:
    return {found[0]: found[1:] for found in connection.execute(_PASSAGES, (_json(wanted),))}


def _hit(id: str, score: float, passage: _Passage, weights: dict[str, float], lists: dict[str, list[str]]) -> SearchHit:
    start, line, text, at, kind = passage
    by = tuple(name for name, ids in lists.items() if id in ids)
    return SearchHit(id, score, snippet(text, weights), kind, at, start, start + len(text), line, by)


def _json(value: Json) -> str:
    return canonical(value).decode()
