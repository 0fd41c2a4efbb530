"""A log's entries as documents.

Takes entries, gives documents whose links say what belongs together: a result to the reply that called for it, both to
the paths and URLs the call named. Reads the bodies drawn up in `log/entry.py`; what says nothing to a model (`opened`,
`begun`, `phase`, `tools`) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import LogCorrupt
from contextkit.log.entry import Entry
from contextkit.memory.reference import Reference
from contextkit.memory.search.document import Document

_NAME = re.compile(r"[^\s<>|;,(){}\[\]\"']*[/.\\][^\s<>|;,(){}\[\]\"']+", re.ASCII)
"""A word with a dot or a slash inside: a path, a URL, a file's name."""
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
        self._asked: dict[str, tuple[str, ...]] = {}

    def remember(self, entry: Entry) -> None:
        """Take in a reply whose document exists already; other entries are passed over."""
        if entry.kind == "assistant":
            self.document(entry)

    def documents(self, entries: Iterable[Entry]) -> Iterator[Document]:
        """A document for each entry that says something, and for each text it keeps outside.

        Raises `LogCorrupt` for a body that is not as a log holds it.
        """
        for entry in entries:
            if entry.kind in _READ and (document := self.document(entry)).text.strip():
                yield document
                yield from self._offloaded(entry, document)

    def _offloaded(self, entry: Entry, document: Document) -> Iterator[Document]:
        for reference in _references(parse(entry.body)) if self._content else ():
            content = self._content(reference) if self._content else None
            text = None if content is None else _decoded(content)
            if text is not None:
                links = (document.id, *document.links, *([reference.source] if reference.source else []))
                yield Document(reference.id, text, entry.at, "reference", links)

    def document(self, entry: Entry) -> Document:
        """The document of one entry of a kind that speaks."""
        try:
            text, links = _READ[entry.kind](self, parse(entry.body), entry_id(entry.sequence, self._log))
        except (KeyError, TypeError, AttributeError) as fault:
            what = f"{type(fault).__name__}: {fault}"
            raise LogCorrupt(
                f"entry {entry.sequence} ({entry.kind}) is not as contextkit writes one ({what})"
            ) from fault
        return Document(entry_id(entry.sequence, self._log), text, entry.at, entry.kind, links)

    def _user(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        return _text(body["content"]), _links(body["content"])

    def _notice(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        return body["text"], ()

    def _epoch(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        return _text(body["summary"]), _links(body["summary"])

    def _assistant(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        calls = body["calls"]
        named = {call["id"]: tuple(_names(call["arguments"])) for call in calls}
        self._asked = {call: (id, *names) for call, names in named.items()}
        spoken = [f"{call['name']} {canonical(call['arguments']).decode()}" for call in calls]
        return "\n".join(filter(None, [body["text"], *spoken])), tuple(
            name for names in named.values() for name in names
        )

    def _result(self, body: Json, id: str) -> tuple[str, tuple[str, ...]]:
        kept = (reference.id for reference in _references(body))
        return _text(body["content"]), (*self._asked.get(body["call_id"], ()), *_links(body["content"]), *kept)


_READ: dict[str, Callable[[Reader, Json, str], tuple[str, tuple[str, ...]]]] = {
    "user": Reader._user,
    "assistant": Reader._assistant,
    "result": Reader._result,
    "notice": Reader._notice,
    "epoch": Reader._epoch,
}


def _references(body: Json) -> list[Reference]:
    return [Reference.of(told) for told in body.get("references", ())]


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
