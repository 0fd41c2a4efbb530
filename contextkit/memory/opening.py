"""The beginning of a new epoch, and what the old one leaves in files: after a compaction the model can still read all of
it, by references that the opening lists.

Takes parts, entries and references, gives parts. Everything before stays in the log; `context.restore` reaches it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import MemoryRefused
from contextkit.log.entry import REFUSED, Entry
from contextkit.log.variation import unvaried
from contextkit.memory.compaction import LeftBehind
from contextkit.memory.filestore import FileMemory
from contextkit.memory.offload import BYTES_PER_TOKEN, Offload, offload
from contextkit.memory.pins import GOAL
from contextkit.memory.preview import preview
from contextkit.memory.reading import READERS
from contextkit.memory.reference import Reference, call_text, one_line, references_of
from contextkit.terminal import sanitize

GOAL_TOKENS = 1_000
"""How much of the user's first turn an opening repeats."""
CALL_LIMIT = 2_000
"""Characters of a call's arguments in a transcript."""
NEWEST = 20
"""How many references are listed in an opening, the newest; an index lists all of them."""
INDEX, CONVERSATION = "index", "conversation"
"""Kinds of the references that a compaction makes: a list of all references, and what was said before it."""
LISTING = "Kept outside"
"""An opening's list of references begins with these words."""
FAILED = "These calls failed"
"""An opening's list of failures begins with these words."""
_FAILED_CALL, _FAILED_ERROR = 80, 110
"""Characters of a failed call, and of its error, in that list."""


class Outside:
    """The references of one conversation, and what a compaction must list; fed every entry of its log, in order."""

    __slots__ = ("_end", "_is_unlisted", "_references", "_stored_to")

    def __init__(self) -> None:
        self._references: dict[str, tuple[int, Reference]] = {}
        """Digest → sequence of the entry that named it first, and the reference; indexes are left out."""
        self._end = 0
        """Where the entries end that the last compaction took out of the prompt."""
        self._stored_to = 0
        """Where the entries end that transcripts hold."""
        self._is_unlisted = False
        """Whether the prompt begins with a provider's own compaction, which names no references."""

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        if entry.kind == "epoch" and (body := parse(entry.body))["reason"] == "compaction":
            self._end = entry.sequence if body["keep_from"] is None else body["keep_from"]
            self._is_unlisted = any(part["type"] == "native" for part in body["summary"])
        for reference in references_of(entry):
            if reference.kind == CONVERSATION:
                self._stored_to = self._end
            if reference.kind == INDEX or reference.kind == CONVERSATION:
                self._is_unlisted = False
            if reference.kind != INDEX:
                self._references.setdefault(reference.digest, (entry.sequence, reference))

    @property
    def references(self) -> list[Reference]:
        """All of them, in the order they came; no index."""
        return [reference for _, reference in self._references.values()]

    @property
    def unlisted_to(self) -> int | None:
        """Where the entries end that a provider's own compaction took out and nothing lists yet; None for none."""
        return self._end if self._is_unlisted else None

    def leave(self, log: Sequence[Entry], end: int, files: FileMemory) -> LeftBehind:
        """Store and list what the entries before `end` leave outside the window: what was said, and an index.

        The references that stay in the window are in the index alone. Where the store takes no more, the newest
        references are listed without an index, with a warning. Deterministic.
        """
        every, made = self.references, list[Reference]()
        newest = [reference for sequence, reference in self._references.values() if sequence < end][-NEWEST:]
        try:
            entries = log[self._stored_to : end]
            if text := transcript(entries):
                title = f"what was said, entries {entries[0].sequence} to {entries[-1].sequence}"
                made.append(_stored(text, CONVERSATION, title, files))
            every += made
            if len(every) > len(newest) + len(made):
                lines = [f"All {len(every)} references, in the order they came:", *(one.line for one in every)]
                made.append(_stored("\n".join(lines), INDEX, f"index of all {len(every)} references", files))
        except (MemoryRefused, OSError) as refused:
            warnings.warn(sanitize(f"a compaction lists the newest references only: {refused}"), stacklevel=4)
            return LeftBehind(listed(newest, len(self._references)))
        return LeftBehind(listed([*newest, *made], len(every)), tuple(made))


def opening(
    summary: Sequence[Json], goal: str, todo: str, listing: str, pins: str = "", failures: str = ""
) -> list[Json]:
    """The parts a new epoch begins with: the goal, pins, the summary, what failed, what is still to do, what can be read
    again.

    >>> [part["text"] for part in opening([{"type": "text", "text": "Two of three prices found."}], "Find three prices.", "", "")]
    ['The user asked, at the beginning:\\nFind three prices.', 'Since then:', 'Two of three prices found.']
    """
    goal_text = preview(goal.encode(), "text", GOAL_TOKENS * BYTES_PER_TOKEN)
    before = [f"{GOAL}\n{goal_text}" if goal else "", pins, "Since then:" if goal else ""]
    return [
        *(_text(text) for text in before if text),
        *summary,
        *(_text(text) for text in (failures, todo, listing) if text),
    ]


def failures(entries: Iterable[Entry], end: int, most: int) -> str:
    """The `most` newest calls whose failure stands before entry `end`, one line each; "" for none.

    A call that was answered again since is left out, since it came to something or its failure is still in the window;
    so is one that the phase refused.
    """
    calls: dict[str, Json] = {}
    failed: dict[bytes, str] = {}
    for entry in entries if most else ():
        if entry.kind not in ("assistant", "result"):
            continue
        body = parse(entry.body)
        if entry.kind == "assistant":
            calls = {call["id"]: call for call in body["calls"] if call["id"] not in body.get(REFUSED, {})}
        elif (call := calls.get(body["call_id"])) is not None:
            name, arguments = call["name"], call["arguments"]
            key = canonical([name, arguments], sort=True)
            failed.pop(key, None)
            if body["is_error"] and entry.sequence < end:
                error = " ".join(part["text"] for part in unvaried(body) if part["type"] == "text")
                called = one_line(f"{name}({call_text(arguments)})", _FAILED_CALL)
                failed[key] = f"- {called}: {_both_ends(error, _FAILED_ERROR)}"
    newest = list(dict.fromkeys(reversed(failed.values())))[:most]
    return "\n".join([f"{FAILED}, the newest last:", *reversed(newest)]) if newest else ""


def _both_ends(text: str, most_characters: int) -> str:
    """A text in one line, with its beginning and its end where it is longer: a traceback says what is wrong last."""
    line, n_first = one_line(text, len(text)), most_characters // 3
    return line if len(line) <= most_characters else f"{line[:n_first]}…{line[n_first + 1 - most_characters :]}"


def listed(references: Sequence[Reference], n: int) -> str:
    """The lines that name `references`, of `n` there are."""
    if not references:
        return ""
    return "\n".join(
        [f"{LISTING}, the newest of {n} references, for read_reference(id=…):", *(one.line for one in references)]
    )


def transcript(entries: Iterable[Entry]) -> str:
    """What was said, as Markdown: a heading for each entry, and results as the window held them."""
    return "\n\n".join(filter(None, map(_entry_text, entries)))


def _entry_text(entry: Entry) -> str:
    if entry.kind not in ("user", "assistant", "result", "notice"):
        return ""
    body = parse(entry.body)
    if entry.kind == "assistant":
        calls = [f"{call['name']}({call_text(call['arguments'], CALL_LIMIT)})" for call in body["calls"]]
        lines = [body["text"], *calls]
    elif entry.kind == "notice":
        lines = [body["text"]]
    elif body.get("name") in READERS:
        lines = ["[what it read is stored already]"]
    else:
        lines = [part["text"] if part["type"] == "text" else f"[{part['type']}]" for part in body["content"]]
    who = f"result of {body['name']}" if entry.kind == "result" else entry.kind
    return "\n".join([f"## {entry.sequence} {who}", *filter(None, lines)])


def _stored(text: str, kind: str, title: str, files: FileMemory) -> Reference:
    content = text.encode("utf-8", "replace")
    return Reference(files.keep(content).digest, len(content), kind, title=title)


def replaced(results: Iterable[Entry], files: FileMemory, rule: Offload) -> Mapping[str, Any]:
    """Sequence → the content and references of each result that has a part large enough to go.

    For the body of an epoch.
    """
    shorter = {}
    for entry in results:
        body = parse(entry.body)
        stored = offload(body["content"], files, rule, is_error=body["is_error"], tool=body["name"])
        if stored.references:
            named = [*references_of(entry), *stored.references]
            shorter[str(entry.sequence)] = {
                "content": stored.content,
                "references": [reference.body for reference in named],
            }
    return shorter


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
