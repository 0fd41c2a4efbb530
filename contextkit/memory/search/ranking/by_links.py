"""Documents by what they are linked to: breadth-first from the best that words found.

Takes ids, best first, gives ids. Two documents are linked when they share a name: one's id, URL or path stands in the
other, or both name a third thing. Each step halves what a document is worth; the best way to it counts.
"""

from __future__ import annotations

import sqlite3

from contextkit.canonical import canonical

SEEDS = 4
"""Documents the walk starts from: the first three or four places of a result stay with what words and meaning found."""
STEPS = 2
"""How far it goes: an entry, the call it answers, what else that call named."""
DECAY = 0.5
"""What is left of a worth after one step."""
HUB = 32
"""A name that stands in more documents than these is walked past: what everything is linked to tells nothing."""
FRONTIER = 64
"""Documents a step goes on from, the worthiest."""


def by_links(connection: sqlite3.Connection, seeds: list[str]) -> list[str]:
    """The seeds and what is linked to them, worthiest first, ties by id.

    Nothing where nothing but the seeds is reached.
    """
    rows = _rows(connection, seeds[:SEEDS])
    worth = {rows[seed]: 1 / place for place, seed in enumerate(seeds[:SEEDS], 1)}
    frontier = dict(worth)
    for _ in range(STEPS):
        reached = _step(connection, frontier)
        frontier = {row: found for row, found in reached.items() if found > worth.get(row, 0.0)}
        worth |= frontier
        frontier = _worthiest(connection, frontier)
    if len(worth) == len(rows):
        return []
    ids = _ids(connection, list(worth))
    return [ids[row] for row in sorted(worth, key=lambda row: (-worth[row], ids[row]))]


def _step(connection: sqlite3.Connection, frontier: dict[int, float]) -> dict[int, float]:
    """What one step reaches from `frontier`."""
    names = connection.execute(
        "SELECT name, document FROM name WHERE document IN (SELECT value FROM json_each(?))", (_json([*frontier]),)
    )
    by_name: dict[str, float] = {}
    for name, row in names:
        by_name[name] = max(by_name.get(name, 0.0), frontier[row])
    reached: dict[int, float] = {}
    for name, worth in by_name.items():
        sharing = connection.execute("SELECT document FROM name WHERE name = ? LIMIT ?", (name, HUB + 1)).fetchall()
        for (row,) in sharing if len(sharing) <= HUB else ():
            reached[row] = max(reached.get(row, 0.0), worth * DECAY)
    return reached


def _worthiest(connection: sqlite3.Connection, frontier: dict[int, float]) -> dict[int, float]:
    if len(frontier) <= FRONTIER:
        return frontier
    ids = _ids(connection, list(frontier))
    first = sorted(frontier, key=lambda row: (-frontier[row], ids[row]))[:FRONTIER]
    return {row: frontier[row] for row in first}


def _rows(connection: sqlite3.Connection, ids: list[str]) -> dict[str, int]:
    return dict(
        connection.execute("SELECT id, row FROM document WHERE id IN (SELECT value FROM json_each(?))", (_json(ids),))
    )


def _ids(connection: sqlite3.Connection, rows: list[int]) -> dict[int, str]:
    return dict(
        connection.execute("SELECT row, id FROM document WHERE row IN (SELECT value FROM json_each(?))", (_json(rows),))
    )


def _json(values: list[str] | list[int]) -> str:
    return canonical(values).decode()
