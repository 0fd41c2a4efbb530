"""What can be searched: documents, those made of a log's entries, and hits.

Reads the bodies described in `log/entry.py`. Entries without text for a model (`opened`, `begun`, `phase`, `tools`) are
left out, and so is what repeats other documents: searches and their results, parts read of a reference, what was
recalled, previews of what is searched in full, the lists of a compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import LogCorrupt
from contextkit.log.entry import Entry
from contextkit.memory.opening import FAILED, LISTING
from contextkit.memory.pins import GOAL
from contextkit.memory.reading import READERS
from contextkit.memory.reference import Reference

_KINDS = ("user", "assistant", "result", "notice", "epoch")
_REPEATING = frozenset({"recall", "recitation", "references"})
"""Events whose notices repeat other documents."""

Content = Callable[[Reference], bytes | None]
"""The bytes that a reference names, None if they are not at hand."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text that can be searched."""

    id: str
    """What opens it: an id of a reference or an entry, a page's URL. A later document of the same id replaces it."""
    text: str
    at: float = 0.0
    """When it was written, seconds since 1970."""
    kind: str = "text"
    """`user`, `assistant`, `result`, `notice`, `epoch`, `reference`, or a word of the caller's."""

    @property
    def digest(self) -> bytes:
        """16 bytes over all fields; raises `NotSerialisable` for text with a lone surrogate."""
        return blake2b(canonical([self.id, self.text, float(self.at), self.kind]), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A document that matches a query, and its best passage."""

    id: str
    score: float
    """Fused rank, 1 for first place in every ranking; comparable within one query only."""
    snippet: str
    """The words around the match, on one line."""
    kind: str
    at: float
    """When it was written, seconds since 1970."""
    start: int
    """Where the passage begins in the text, in characters."""
    end: int
    line: int
    """The line it begins in, from 1, counted as `read_reference` and `memory_read` count."""
    by: tuple[str, ...]
    """Rankings it stands in: `words`, `meaning`."""


def entry_id(sequence: int, log: str = "") -> str:
    """Return an entry's id in an index; `log` distinguishes the logs of one index.

    >>> entry_id(12), entry_id(12, "gpu-prices")
    ('entry/12', 'gpu-prices/entry/12')
    """
    return f"{log}/entry/{sequence}" if log else f"entry/{sequence}"


def documents_of(entries: Iterable[Entry], log: str = "", content: Content | None = None) -> Iterator[Document]:
    """Yield a document for each entry with text, and for each text that it keeps outside.

    Raises `LogCorrupt` for a body that is not as a log holds it.
    """
    for entry in entries:
        if entry.kind not in _KINDS:
            continue
        try:
            body = parse(entry.body)
            stored = _stored_texts(body, content) if content is not None and entry.kind == "result" else {}
            text = _text_of(entry.kind, body, {reference.part for reference in stored})
        except (KeyError, TypeError, AttributeError) as fault:
            what = f"{type(fault).__name__}: {fault}"
            raise LogCorrupt(
                f"entry {entry.sequence} ({entry.kind}) is not as contextkit writes one ({what})"
            ) from fault
        if text.strip():
            yield Document(entry_id(entry.sequence, log), text, entry.at, entry.kind)
        for reference, stored_text in stored.items():
            yield Document(reference.id, stored_text, entry.at, "reference")


def _stored_texts(body: Json, content: Content) -> dict[Reference, str]:
    """Return the texts that a result keeps outside; an image or a PDF has none."""
    texts = {}
    for reference in map(Reference.of, body.get("references", ())):
        stored = content(reference)
        try:
            if stored is not None:
                texts[reference] = stored.decode()
        except UnicodeDecodeError:
            continue
    return texts


def _text_of(kind: str, body: Json, stored: Collection[int]) -> str:
    """Return an entry's own text; `stored` are the parts of a result that are documents of their own."""
    if kind == "notice":
        return "" if (body.get("event") or {}).get("type") in _REPEATING else str(body["text"])
    if kind == "assistant":
        calls = [call for call in body["calls"] if call["name"] not in READERS]
        lines = [f"{call['name']} {canonical(call['arguments']).decode()}" for call in calls]
        return "\n".join(filter(None, [body["text"], *lines]))
    if kind == "epoch":
        own = [part for part in body["summary"] if not part.get("text", "").startswith((GOAL, LISTING, FAILED))]
        return _joined(own)
    if kind == "result" and body.get("name") in READERS:
        return ""
    parts = list(body["content"])
    for reference in map(Reference.of, body.get("references", ()) if stored else ()):
        if reference.part in stored and parts[reference.part].get("text", "").startswith(f"[{LISTING}"):
            label = " ".join(filter(None, (reference.tool, reference.call, reference.title)))
            parts[reference.part] = {"type": "text", "text": label}
    return _joined(parts)


def _joined(parts: Json) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")
