"""Passages by their meaning: the cosine between embeddings that a function of the user's makes.

Takes vectors, gives passages, nearest first. Every passage is compared by the signs of its vector's numbers, one bit
each (XOR and a count of bits); the nearest of these are compared exactly. With no more passages than that, every one
is. Plain Python and `array`: NumPy is not needed here, and is the reference model's alone.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from sys import byteorder

from contextkit.canonical import canonical
from contextkit.errors import UsageError
from contextkit.memory.search.ranking.by_words import Place

Embed = Callable[[list[str]], Sequence[Sequence[float]]]
"""Texts → one vector each, all of one length."""

COMPARED = 256
"""Passages compared exactly; those that tie with the last by signs too."""


def vectors_of(embed: Embed, texts: list[str], dimensions: int | None) -> list[array[float]]:
    """What `embed` makes of `texts`, each of length 1 (all zeros stay so).

    Raises `UsageError` for what cannot be compared.
    """
    made = [array("f", vector) for vector in embed(texts)]
    if len(made) != len(texts):
        raise UsageError(
            f"embed was given {len(texts)} texts and gave {len(made)} vectors: it must give one for each, in their order"
        )
    wanted = dimensions or len(made[0])
    for vector in made:
        if len(vector) != wanted or not wanted:
            raise UsageError(
                f"embed gave a vector of {len(vector)} numbers where the index holds vectors of {wanted}: "
                "use the model the index was made with, or a new index"
            )
        if not all(map(math.isfinite, vector)):
            raise UsageError(
                "embed gave a vector with NaN or infinity in it, which is near to nothing: check the model"
            )
    return [_normal(vector) for vector in made]


def keep_vector(connection: sqlite3.Connection, passage: int, vector: array[float]) -> None:
    """Store a passage's vector, if the passage is still there."""
    stored = array("f", vector)
    if byteorder == "big":
        stored.byteswap()
    is_there = "WHERE EXISTS (SELECT 1 FROM passage WHERE row = ?)"
    connection.execute(f"INSERT OR REPLACE INTO vector SELECT ?, ? {is_there}", (passage, stored.tobytes(), passage))
    connection.execute(f"INSERT OR REPLACE INTO signs SELECT ?, ? {is_there}", (passage, _signs(vector), passage))


@dataclass(slots=True)
class Signs:
    """The signs of every stored vector, in memory while the index does not change."""

    changes: int = -1
    """State of the index they were read at."""
    rows: list[int] = field(default_factory=list)
    """Passages."""
    bits: list[int] = field(default_factory=list)
    """Their signs, one bit a number."""

    def read(self, connection: sqlite3.Connection) -> None:
        """Take them anew if anything was written since."""
        (changes,) = connection.execute("SELECT changes FROM state").fetchone()
        if changes != self.changes:
            found = connection.execute("SELECT passage, bits FROM signs").fetchall()
            self.rows = [row for row, _ in found]
            self.bits = [int.from_bytes(bits, "big") for _, bits in found]
            self.changes = changes

    def nearest(self, vector: array[float], n: int = COMPARED) -> list[int]:
        """The `n` passages whose signs differ least, and those that tie with the last."""
        asked = int.from_bytes(_signs(vector), "big")
        apart = [(bits ^ asked).bit_count() for bits in self.bits]
        if len(apart) <= n:
            return self.rows
        counted = sorted(Counter(apart).items())
        sums = accumulate(count for _, count in counted)
        furthest = next(distance for (distance, _), total in zip(counted, sums, strict=True) if total >= n)
        return [row for row, distance in zip(self.rows, apart, strict=True) if distance <= furthest]


def by_meaning(connection: sqlite3.Connection, signs: Signs, vector: array[float], keep: int) -> list[Place]:
    """The `keep` passages nearest to `vector`, ties by id and place; those at right angles or beyond are left out."""
    signs.read(connection)
    rows = canonical(signs.nearest(vector, max(COMPARED, keep))).decode()
    found = connection.execute(
        "SELECT vector, id, start, row FROM vector JOIN passage ON row = passage WHERE passage IN (SELECT value FROM json_each(?))",
        (rows,),
    )
    near = [(_cosine(vector, stored), Place(*place)) for stored, *place in found]
    ordered = sorted((pair for pair in near if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].id, pair[1].start))
    return [place for _, place in ordered[:keep]]


def _cosine(vector: array[float], stored: bytes) -> float:
    other = array("f")
    other.frombytes(stored)
    if byteorder == "big":
        other.byteswap()
    return math.fsum(map(mul, vector, other))  # fsum: the same sum on every version of Python


def _normal(vector: array[float]) -> array[float]:
    length = math.sqrt(math.fsum(map(mul, vector, vector)))
    return array("f", [number / length for number in vector]) if length else vector


def _signs(vector: array[float]) -> bytes:
    bits = "".join("1" if number > 0 else "0" for number in vector)
    return int(bits, 2).to_bytes((len(bits) + 7) // 8, "big")
