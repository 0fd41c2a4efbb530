"""A log's entries as documents.

Takes entries, gives documents whose links say what belongs together: a result to the reply that called for it, both to
the paths and URLs the call named. Reads the bodies drawn up in `log/entry.py`; what says nothing to a model (`opened`,
`begun`, `phase`, `tools`) is left out, and so is what repeats other documents: searches and what they gave, parts read
of a reference, what was recalled, previews of what is searched in full, the lists of a compaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import LogCorrupt
from contextkit.log.entry import Entry
from contextkit.memory.compaction import GOAL, LISTING
from contextkit.memory.reading import READERS
from contextkit.memory.reference import Reference
from contextkit.memory.search.document import Document

_NAME = re.compile(r"[^\s<>|;,(){}\[\]\"']*[/.\\][^\s<>|;,(){}\[\]\"']+", re.ASCII)
"""A word with a dot or a slash inside: a path, a URL, a file's name."""
_REPEATING = frozenset({"recall", "recitation", "references"})
"""Events whose notices repeat what stands elsewhere."""
_LONGEST_NAME = 300
"""Characters; a longer argument is content, no name."""


def entry_id(sequence: int, log: str = "") -> str:
    """What an entry is called in an index; `log` tells the logs of one index apart.

    >>> entry_id(12), entry_id(12, "gpu-prices")
    ('entry/12', 'gpu-prices/entry/12')
    """
    return f"{log}/entry/{sequence}" if log else f"entry/{sequence}"


class Reader:
    """Entries in their order, made documents; remembers the calls of the last reply, which results answer."""

    def __init__(self, log: str = "", content: Callable[[Reference], bytes | None] | None = None) -> None:
        self._log, self._content = log, content
        self._links: dict[str, tuple[str, ...]] = {}
        """Call of the last reply → the id of its document, and the names among its arguments."""

    def remember(self, entry: Entry) -> None:
        """Take in a reply whose document exists already; other entries are passed over."""
        if entry.kind == "assistant":
            self.document(entry)

    def documents(self, entries: Iterable[Entry]) -> Iterator[Document]:
        """A document for each entry that says something, and for each text it keeps outside.

        Raises `LogCorrupt` for a body that is not as a log holds it.
        """
        for entry in entries:
            if entry.kind not in _READ:
                continue
            texts = self._stored(entry)
            document = self.document(entry, {reference.part for reference, _ in texts})
            if document.text.strip():
                yield document
            for reference, text in texts:
                links = (document.id, *document.links, *([reference.source] if reference.source else []))
                yield Document(reference.id, text, entry.at, "reference", links)

    def _stored(self, entry: Entry) -> list[tuple[Reference, str]]:
        """The texts that an entry keeps outside, where they can be had."""
        texts = list[tuple[Reference, str]]()
        if self._content is not None and entry.kind == "result":
            for reference in _references(parse(entry.body)):
                content = self._content(reference)
                text = None if content is None else _decoded(content)
                if text is not None:
                    texts.append((reference, text))
        return texts

    def document(self, entry: Entry, stored: Collection[int] = ()) -> Document:
        """The document of one entry of a kind that speaks; `stored` are the parts that are documents of their own."""
        try:
            body = parse(entry.body)
            text, links = _READ[entry.kind](self, body, entry_id(entry.sequence, self._log))
            if stored and text:
                text = _text(_labelled(body, stored))
        except (KeyError, TypeError, AttributeError) as fault:
            what = f"{type(fault).__name__}: {fault}"
            raise LogCorrupt(
                f"entry {entry.sequence} ({entry.kind}) is not as contextkit writes one ({what})"
            ) from fault
        return Document(entry_id(entry.sequence, self._log), text, entry.at, entry.kind, links)

    def _user(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        return _text(body["content"]), _links(body["content"])

    def _notice(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        is_repeated = (body.get("event") or {}).get("type") in _REPEATING
        return "" if is_repeated else body["text"], ()

    def _epoch(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        own = [part for part in body["summary"] if not part.get("text", "").startswith((GOAL, LISTING))]
        return _text(own), _links(own)

    def _assistant(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        calls = [call for call in body["calls"] if call["name"] not in READERS]
        named = {call["id"]: tuple(_names(call["arguments"])) for call in calls}
        self._links = {call: (id, *names) for call, names in named.items()}
        lines = [f"{call['name']} {canonical(call['arguments']).decode()}" for call in calls]
        return "\n".join(filter(None, [body["text"], *lines])), tuple(
            name for names in named.values() for name in names
        )

    def _result(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        if body.get("name") in READERS:
            return "", ()
        kept = (reference.id for reference in _references(body))
        return _text(body["content"]), (*self._links.get(body["call_id"], ()), *_links(body["content"]), *kept)


_READ: dict[str, Callable[[Reader, Json, str], tuple[str, tuple[str, ...]]]] = {
    "user": Reader._user,
    "assistant": Reader._assistant,
    "result": Reader._result,
    "notice": Reader._notice,
    "epoch": Reader._epoch,
}


def _references(body: Json) -> list[Reference]:
    return [Reference.of(stored) for stored in body.get("references", ())]


def _labelled(body: Json, stored: Collection[int]) -> Json:
    """The parts of a result, a label in place of the preview of each that is a document of its own."""
    parts = list(body["content"])
    for reference in _references(body):
        if reference.part in stored and parts[reference.part].get("text", "").startswith(f"[{LISTING}"):
            label = " ".join(filter(None, (reference.tool, reference.call, reference.title)))
            parts[reference.part] = {"type": "text", "text": label}
    return parts


def _decoded(content: bytes) -> str | None:
    """As text; None for what is none, an image or a PDF, which has no words to search."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _text(parts: Json) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _links(parts: Json) -> tuple[str, ...]:
    return tuple(part["url"] for part in parts if "url" in part)


def _names(arguments: Json) -> Iterator[str]:
    """Paths and URLs among the strings of a call's arguments, at any depth."""
    pending = [arguments]
    for value in pending:
        if isinstance(value, str) and len(value) <= _LONGEST_NAME:
            yield from (
                name.removeprefix("./").rstrip(".:/") for name in _NAME.findall(value) if re.search(r"\w", name)
            )
        elif isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
