"""What can be found, and what finding it gives.

Takes and gives values only; knows nothing of how they are kept or ranked.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from contextkit.canonical import canonical


@dataclass(frozen=True, slots=True)
class Document:
    """One thing that was offloaded or said."""

    id: str
    """What it is opened by: a reference's id, an entry's id, a page's URL. One document an id; a later one replaces it.
    """
    text: str
    """What is searched."""
    at: float = 0.0
    """When it was said, seconds since 1970."""
    kind: str = "text"
    """What it is: `user`, `assistant`, `result`, `notice`, `epoch`, `reference`, or a word of yours."""
    links: tuple[str, ...] = ()
    """Names it shares with others: ids, URLs, paths. URLs in the text are found without being named here."""

    @property
    def digest(self) -> bytes:
        """16 bytes over everything above; raises `NotSerialisable` for text with a lone surrogate.

        >>> Document("a", "text").digest == Document("a", "text").digest != Document("a", "text", at=1.0).digest
        True
        """
        said = [self.id, self.text, float(self.at), self.kind, sorted(set(self.links))]
        return blake2b(canonical(said), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A document an index gave for a query, and the place in it that answers best."""

    id: str
    """The document."""
    score: float
    """Its fused rank, 1 for the best a query can have: it orders the results of one query and says nothing across
    queries."""
    snippet: str
    """The words around the match, on one line."""
    kind: str
    """The document's kind."""
    at: float
    """When it was said, seconds since 1970."""
    start: int
    """Where the passage that matched begins in the text, in characters."""
    end: int
    """Where that passage ends."""
    line: int
    """The line it begins in, from 1, counted as `read_reference` and `memory_read` count."""
    by: tuple[str, ...]
    """Which lists it stands in: `words`, `links`, `meaning`."""
