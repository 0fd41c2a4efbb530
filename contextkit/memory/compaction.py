"""The beginning of a new epoch, and what the old one leaves in files: after a compaction the model can still read all of
it, by references that the opening lists.

Takes parts, entries and references, gives parts. Everything before stays in the log; `context.restore` reaches it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from contextkit.canonical import Json, parse
from contextkit.errors import MemoryRefused, UsageError
from contextkit.log.entry import Entry
from contextkit.memory.filestore import FileMemory
from contextkit.memory.offload import BYTES_PER_TOKEN, Offload, offload
from contextkit.memory.preview import preview
from contextkit.memory.reading import READERS
from contextkit.memory.reference import Reference, call_text, references_of
from contextkit.terminal import sanitize

INSTRUCTION = (
    "Stop here and write a summary of this conversation for yourself: it will stand in place of everything above. Keep what was asked, "
    "what was decided and why, what is done and what is not, names, paths, numbers and exact wordings that are still needed, and the "
    "ids of references worth reading again. Call no tool. Answer with the summary alone."
)
"""The request for a summary; appended, so that everything before it is read from the cache."""
OnLost = Literal["raise", "warn", "ignore"]
"""What a compaction does that leaves the model something it can no longer read."""
GOAL_TOKENS = 1_000
"""How much of the user's first turn an opening repeats."""
MOST_KEPT_TOKENS = 20_000
"""Tokens of the newest turns that stay word for word unless a policy says otherwise."""
CALL_LIMIT = 2_000
"""Characters of a call's arguments in a transcript."""
NEWEST = 20
"""How many references are listed in an opening, the newest; an index lists all of them."""
INDEX, CONVERSATION = "index", "conversation"
"""Kinds of the references that a compaction makes: a list of all references, and what was said before it."""
LISTING = "Kept outside"
"""An opening's list of references begins with these words."""
GOAL = "The user asked, at the beginning:"
"""An opening's first line, where it repeats what the user asked."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """When a conversation is compacted, what is kept, and who writes the summary: `Context(…, compact=Compaction())`."""

    at_tokens: int | None = None
    """Compact where the predicted prompt exceeds so many tokens. None: where it pays (`contextkit.economics`), and where
    the window leaves no room for a reply."""
    keep_tokens: int | None = None
    """How much of the newest turns is kept word for word; what the model has not replied to yet is kept in any case.
    None: a fifth of `at_tokens`, 20,000 at most."""
    model: Any = None
    """Provider whose model writes the summary; it reads the whole prompt at its own price. None: the conversation's own,
    which reads it from the cache."""
    client: Any = None
    """SDK client of `model`, for `context.compact_if_due`; None where the conversation's own client serves both."""
    instruction: Any = INSTRUCTION
    """How a summary is asked for."""
    on_lost: OnLost = "warn"
    """What happens where the model cannot read an item of `context.survival()` any more: raise `ItemsLost` before
    anything is compacted, warn, or nothing. A provider's own compaction cannot be prevented: the error comes after it."""

    def __post_init__(self) -> None:
        for name in "at_tokens", "keep_tokens":
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"Compaction({name}={value!r}): a whole number of tokens, 1 or more, or None")
        if self.at_tokens is not None and self.keep_tokens is not None and 2 * self.keep_tokens > self.at_tokens:
            raise UsageError(
                f"Compaction(at_tokens={self.at_tokens}, keep_tokens={self.keep_tokens}): keep at most half, so that a "
                "compaction is not due again at once"
            )
        if self.on_lost not in get_args(OnLost):
            raise UsageError(f"Compaction(on_lost={self.on_lost!r}): one of {', '.join(get_args(OnLost))}")

    @property
    def retained_tokens(self) -> int:
        """`keep_tokens`, or what stands for it."""
        if self.keep_tokens is not None:
            return self.keep_tokens
        return MOST_KEPT_TOKENS if self.at_tokens is None else min(MOST_KEPT_TOKENS, self.at_tokens // 5)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """What a compaction leaves outside the window, and how the model gets there."""

    listing: str
    """The newest references, the index of all and the conversation before, one line each; "" where there are none."""
    references: tuple[Reference, ...] = ()
    """Those that were made for it."""

    @property
    def body(self) -> dict[str, Json]:
        """Field of the entry that holds the listing."""
        return {"references": [reference.body for reference in self.references]} if self.references else {}


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


def opening(summary: Sequence[Json], goal: str, todo: str, listing: str, pins: str = "") -> list[Json]:
    """The parts a new epoch begins with: the goal, pins, the summary, what is still to do, what can be read again.

    >>> [part["text"] for part in opening([{"type": "text", "text": "Two of three prices found."}], "Find three prices.", "", "")]
    ['The user asked, at the beginning:\\nFind three prices.', 'Since then:', 'Two of three prices found.']
    """
    goal_text = preview(goal.encode(), "text", GOAL_TOKENS * BYTES_PER_TOKEN)
    before = [f"{GOAL}\n{goal_text}" if goal else "", pins, "Since then:" if goal else ""]
    return [*(_text(text) for text in before if text), *summary, *(_text(text) for text in (todo, listing) if text)]


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


def goal_of(entries: Iterable[Entry]) -> str:
    """What the user asked first, as text."""
    first: Json = next((parse(entry.body) for entry in entries if entry.kind == "user"), {"content": []})
    return "\n".join(part["text"] for part in first["content"] if part["type"] == "text")


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
