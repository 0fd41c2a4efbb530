"""What became of each thing that must not be lost: whether the model still reads it, can read it again, or cannot.

Takes what a conversation holds (pins, plan, open calls, references), what its prompt shows, and the tools the model may
call; gives a report. A claim is checked, not assumed: a text is verbatim where it is in the prompt, and restorable by
the model where a stored conversation holds it that the prompt leads to, or a search gives it. Costs the prompt, and the
stored conversations where something is not in the prompt; nothing is stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from contextkit.canonical import Json, parse
from contextkit.context.reducers import NoMemory
from contextkit.errors import MemoryRefused, StorageError, UsageError
from contextkit.log.entry import Entry
from contextkit.log.log import Log, Turns
from contextkit.memory.memory import Memory
from contextkit.memory.offload import bytes_of
from contextkit.memory.opening import CONVERSATION, INDEX
from contextkit.memory.pins import Pin, Pins
from contextkit.memory.reading import READ_REFERENCE
from contextkit.memory.reference import ID_DIGITS, Reference
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.anthropic.blocks import edited_columns, thinking_in
from contextkit.providers.provider import Provider

Status = Literal["verbatim", "restorable_by_model", "restorable_by_program", "lost"]
"""verbatim: the prompt shows it. restorable_by_model: a tool that may be called gives it, by a reference, an index or a
search. restorable_by_program: only the log or the files have it. lost: nothing has it."""
ItemKind = Literal["task", "constraint", "decision", "fact", "plan", "call", "reference"]
"""What an item is."""
FILE_VERSION = 1
"""Of the JSON form."""
_WORDS: Mapping[Status, str] = {
    "verbatim": "verbatim",
    "restorable_by_model": "restorable by the model",
    "restorable_by_program": "restorable by the program",
    "lost": "lost",
}
_UNREADABLE = frozenset({"image", "pdf", "binary"})
"""Kinds of references that no tool shows as text."""
_ID = re.compile(rf"(?<![0-9a-f])[0-9a-f]{{{ID_DIGITS}}}(?![0-9a-f])")
ERASED, NOT_TEXT = "erased on purpose", "not text, so no tool shows it"
"""Why a reference cannot be read, where no compaction is the cause."""
LISTED_NEXT = "listed behind what the user says next"
_QUERY_CHARACTERS = 300
"""So much of a text is searched for."""
_LABEL_CHARACTERS = 70


@dataclass(frozen=True, slots=True)
class SurvivalItem:
    """One thing that must not be lost, and what became of it."""

    kind: ItemKind
    """What it is."""
    label: str
    """Its first words; of a call its name and id, of a reference its line in lists."""
    status: Status
    """What became of it."""
    how: str
    """Where it is: the call that reads it, or why there is none."""
    entry: int | None = None
    """Sequence of the entry it came with; None for the plan, which is a file."""
    text: str = ""
    """The whole text of a pin or the plan, the id of a call or a reference."""

    @property
    def is_readable(self) -> bool:
        """Return whether the model has it in its prompt, or can read it."""
        return self.status in ("verbatim", "restorable_by_model")

    @property
    def body(self) -> dict[str, Json]:
        """As JSON."""
        return {
            "kind": self.kind,
            "label": self.label,
            "status": self.status,
            "how": self.how,
            "entry": self.entry,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Survival:
    """What became of everything that must not be lost; `context.survival()` gives it.

    >>> print(Survival((SurvivalItem("constraint", "Never push.", "verbatim", "in the prompt", 3),)))
    constraint  verbatim  Never push.  (in the prompt)
    1 item: 1 verbatim
    """

    items: tuple[SurvivalItem, ...]
    """Task, constraints, decisions, facts, plan, open calls, references, in this order."""

    @property
    def lost(self) -> tuple[SurvivalItem, ...]:
        """Items that nothing has any more."""
        return tuple(item for item in self.items if item.status == "lost")

    @property
    def unreadable(self) -> tuple[SurvivalItem, ...]:
        """Items that the model neither has nor can read: the lost ones, and those only the program can restore."""
        return tuple(item for item in self.items if not item.is_readable)

    def of(self, kind: ItemKind) -> tuple[SurvivalItem, ...]:
        """The items of one kind."""
        return tuple(item for item in self.items if item.kind == kind)

    @property
    def counts(self) -> dict[str, int]:
        """Status → how many items."""
        return dict(Counter(item.status for item in self.items))

    def to_json(self) -> dict[str, Json]:
        """The report as JSON: `version`, `counts`, `items`."""
        return {"version": FILE_VERSION, "counts": self.counts, "items": [item.body for item in self.items]}

    def __str__(self) -> str:
        rows = [(item.kind, _WORDS[item.status], f"{item.label}  ({item.how})") for item in self.items]
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        lines = [f"{kind:<{widths[0]}}  {status:<{widths[1]}}  {rest}" for kind, status, rest in rows]
        counts = ", ".join(f"{n} {_WORDS[status]}" for status, n in self.counts.items())  # type: ignore[index]
        total = f"{len(rows)} item{'' if len(rows) == 1 else 's'}"
        return "\n".join([*lines, f"{total}: {counts}" if rows else total])


# What the prompt shows
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """What a prompt shows."""

    text: str
    """All of it, unescaped, one line between parts."""
    entries: frozenset[int]
    """Sequences of the entries in it."""

    def shows(self, text: str) -> bool:
        """Return whether it holds these words."""
        return text in self.text

    @property
    def ids(self) -> set[str]:
        """Everything in it that may be the id of a reference."""
        return set(_ID.findall(self.text))


def strings(value: Json) -> Iterator[str]:
    """Every string of a JSON value; JSON in a string of the name `arguments` is read too, as Chat writes calls."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name == "arguments" and isinstance(inner, str):
                yield from _strings_in(inner)
            else:
                yield from strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings(inner)


def _strings_in(text: str) -> Iterator[str]:
    try:
        yield from strings(parse(text.encode()))
    except ValueError:
        yield text


def texts_of(entry: Entry, wire: str, content: Json = None) -> Iterator[str]:
    """What an entry shows at an endpoint; `content` in place of a result's own."""
    body = parse(entry.body)
    if entry.kind == "assistant":
        yield body["text"]
        for call in body["calls"]:
            yield from strings(call["arguments"])
    elif entry.kind in ("notice", "phase"):
        yield body.get("text") or ""
    elif entry.kind in ("user", "result", "epoch"):
        parts = content if content is not None else body.get("content", body.get("summary", ()))
        for part in parts:
            if part["type"] == "text":
                yield part["text"]
            elif part["type"] == "native" and part["wire"] == wire:
                yield from strings(part["block"])


def cleared(layout: PromptLayout, wire: str, params: Mapping[str, Json]) -> dict[int, str]:
    """Sequence → what is left of an entry of which Anthropic's `context_management` edits clear results or arguments."""
    edits = params.get("context_management")
    if wire != "anthropic_messages" or not isinstance(edits, Mapping) or not edits.get("edits"):
        return {}
    sent = layout.columns
    edited, _ = edited_columns(layout, params)
    thinking = set(thinking_in(sent, layout.n))
    blocks: dict[int, list[int]] = {}
    changed = set[int]()
    for index in range(sent.level_ends[1], layout.n):
        if index in thinking:
            continue
        blocks.setdefault(sent.entries[index], []).append(index)
        if edited.body(index) != sent.body(index) or (index in edited.silent) != (index in sent.silent):
            changed.add(sent.entries[index])
    left = {}
    for sequence in changed:
        bodies = [edited.body(index) for index in blocks[sequence] if index not in edited.silent]
        left[sequence] = "\n".join(text for body in bodies for text in strings(parse(body)))
    return left


# What can be read again
# ----------------------------------------------------------------------------------------------------------------------


class Reach:
    """What the model can read from a prompt on, by the tools it may call."""

    def __init__(
        self,
        view: View,
        memory: Memory | None,
        allows: Callable[[str], bool],
        made: Iterable[Reference] = (),
        *,
        is_listing_due: bool = False,
    ) -> None:
        """`allows` says whether a tool is there and may be called now; `made` are references not known to the memory
        yet; `is_listing_due`: a list of all of them follows what the user says next.
        """
        self._is_listing_due = is_listing_due
        self._view, self._memory, self._allows = view, memory, allows
        self._made = {reference.id: reference for reference in made}
        self._can_read = memory is not None and allows(READ_REFERENCE)
        self._can_search = (
            memory is not None and memory.index is not None and allows("memory_search") and allows("memory_read")
        )
        self._paths: dict[str, str] | None = None
        self._conversations: list[tuple[str, str]] = []

    def _walk(self) -> dict[str, str]:
        """Id of a reference that the model can come by → how; reads indexes and conversations that it can read."""
        if self._paths is None:
            self._paths = {name: f'read_reference(id="{name}")' for name in self._view.ids if self._reference(name)}
            pending = sorted(self._paths)
            while pending:
                name = pending.pop()
                reference = self._reference(name)
                if reference is None or reference.kind not in (INDEX, CONVERSATION):
                    continue
                text = self._content(reference)
                if text is None:
                    continue
                if reference.kind == CONVERSATION:
                    self._conversations.append((name, text))
                for inner in dict.fromkeys(_ID.findall(text)):
                    if inner not in self._paths and self._reference(inner) is not None:
                        self._paths[inner] = f'read_reference(id="{inner}"), named in {name}'
                        pending.append(inner)
        return self._paths

    def _reference(self, name: str) -> Reference | None:
        reference = None if self._memory is None else self._memory.references.get(name)
        return reference or self._made.get(name)

    def _content(self, reference: Reference) -> str | None:
        """The text of a reference; None where it cannot be had, or is no text."""
        try:
            return None if self._memory is None else bytes_of(reference, self._memory.files).decode()
        except (MemoryRefused, StorageError, OSError, UnicodeDecodeError):
            return None

    def of_text(self, text: str) -> tuple[Status, str]:
        """What became of a text that the log holds."""
        if self._view.shows(text):
            return "verbatim", "in the prompt"
        if self._can_read:
            self._walk()
            for name, conversation in self._conversations:
                if text in conversation:
                    return "restorable_by_model", f'read_reference(id="{name}"): the conversation before'
            if self._is_listing_due:
                return "restorable_by_model", LISTED_NEXT
        search = self._searched(text)
        if search is not None:
            return "restorable_by_model", search
        return "restorable_by_program", "in the log only"

    def of_reference(self, reference: Reference) -> tuple[Status, str]:
        """What became of a large result."""
        memory = self._memory
        if memory is None:
            return "restorable_by_program", "in the files of a memory that this context was not given"
        is_at_source = reference.source is not None and memory.fetch is not None
        if not memory.files.holds(reference.digest) and not is_at_source:
            if memory.files.is_erased(reference.digest):
                return "lost", ERASED
            if reference.source is not None:
                return "restorable_by_program", f"at its source only, {reference.source}: give Memory(…, fetch=…)"
            return "lost", "no longer in the files"
        if reference.kind in _UNREADABLE or (reference.field != "text" and self._content(reference) is None):
            return "restorable_by_program", NOT_TEXT
        if self._can_read:
            path = self._walk().get(reference.id)
            if path is not None:
                return "restorable_by_model", path
            if self._is_listing_due:
                return "restorable_by_model", LISTED_NEXT
            content = self._content(reference) if self._can_search else None
            search = None if content is None else self._searched(content, reference.title)
            if search is not None:
                return "restorable_by_model", search
            return "restorable_by_program", "nothing in the prompt leads to it"
        return "restorable_by_program", f"the model may not call {READ_REFERENCE} now"

    def of_plan(self, text: str) -> tuple[Status, str]:
        """What became of the plan."""
        if self._view.shows(text):
            return "verbatim", "in the prompt"
        if self._allows("memory"):
            return "restorable_by_model", "the tool memory reads its file"
        return "restorable_by_program", "in its file only"

    def _searched(self, text: str, title: str = "") -> str | None:
        """The search by which the model comes to a text, tried out; None where it does not."""
        if not self._can_search or self._memory is None or self._memory.index is None:
            return None
        query = title or " ".join(text[:_QUERY_CHARACTERS].split())
        for hit in self._memory.index.search(query, 8):
            try:
                if text in self._memory.index.read(hit.id):
                    return f'memory_search, memory_read(id="{hit.id}")'
            except UsageError:
                continue
        return None


@dataclass(frozen=True, slots=True)
class Items:
    """What must not be lost, of one conversation."""

    pins: tuple[Pin, ...]
    """The task first."""
    plan: str
    """The open items as they are recited; "" for none."""
    calls: tuple[tuple[str, str, int], ...]
    """(name, id, sequence of the reply) of each call nobody has answered."""
    references: tuple[Reference, ...]
    """Large results and earlier parts of the conversation."""


def survey(items: Items, view: View, reach: Reach) -> Survival:
    """What became of each item."""
    report = list[SurvivalItem]()
    for pin in items.pins:
        status, how = reach.of_text(pin.text)
        report.append(SurvivalItem(pin.kind, _label(pin.text), status, how, pin.place, pin.text))
    if items.plan:
        status, how = reach.of_plan(items.plan)
        report.append(SurvivalItem("plan", _label(items.plan), status, how, None, items.plan))
    for name, call_id, sequence in items.calls:
        is_shown = sequence in view.entries
        status, how = ("verbatim", "in the prompt") if is_shown else ("restorable_by_program", "in the log only")
        report.append(SurvivalItem("call", f"{name} ({call_id})", status, how, sequence, call_id))
    for reference in items.references:
        status, how = reach.of_reference(reference)
        report.append(SurvivalItem("reference", reference.line, status, how, None, reference.id))
    return Survival(tuple(report))


def newly_unreadable(after: Survival, before: Survival | None) -> list[SurvivalItem]:
    """Items that the model can read no longer; what was erased on purpose is left out."""
    ignored: Collection[tuple[str, str]] = ()
    if before is not None:
        ignored = {(item.kind, item.text) for item in before.unreadable}
    items = [item for item in after.unreadable if (item.kind, item.text) not in ignored]
    return [item for item in items if item.how not in (ERASED, NOT_TEXT)]


def loss_text(items: Iterable[SurvivalItem], *, is_done: bool) -> str:
    """The message of `ItemsLost`, and of the warning in its place."""
    listed = list(items)
    lines = [f"{item.kind} {item.label!r}: {_WORDS[item.status]}, {item.how}" for item in listed[:10]]
    more = [f"and {len(listed) - 10} more"] if len(listed) > 10 else []
    done = "The conversation goes on without them" if is_done else "Nothing was compacted"
    return (
        f"after this compaction the model cannot read {len(listed)} item{'' if len(listed) == 1 else 's'}: "
        + "; ".join([*lines, *more])
        + f". {done}: pin what must stay word for word (context.pin(text)), give a memory so that the rest can be read "
        "again (memory=FileMemory(folder)), allow read_reference in the present phase, or set Compaction(on_lost='ignore')"
    )


def _label(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LABEL_CHARACTERS else f"{line[: _LABEL_CHARACTERS - 1]}…"


class Surveyor:
    """Reports what became of the items of one conversation."""

    def __init__(self, log: Log, turns: Turns, memory: NoMemory, pins: Pins, may_call: Callable[[str], bool]) -> None:
        """`may_call`: whether the model has a tool and may call it now."""
        self._log, self._turns, self._memory, self._pins, self._may_call = log, turns, memory, pins, may_call

    def now(self, provider: Provider, layout: PromptLayout, overrides: Mapping[str, Json]) -> Survival:
        """As the next request shows them: with what waits to be said behind the user's next turn."""
        left = cleared(layout, provider.wire, {**provider.params, **overrides})
        sequences = [*self._turns.ordered, *self._turns.waiting, *self._turns.passing]
        is_listing_due = self._memory.is_listing_due
        return self._report(provider.wire, sequences, left, [self._pins.unstated], (), is_listing_due=is_listing_due)

    def after(
        self, provider: Provider, opening: Iterable[Json], keep_from: int | None, made: Iterable[Reference]
    ) -> Survival:
        """As they would be behind an epoch that says `opening`, made the references `made`, and keeps what stands from
        `keep_from` on.
        """
        retained = [] if keep_from is None else [old for old in self._turns.ordered if old >= keep_from]
        texts = [part["text"] for part in opening if part["type"] == "text"]
        return self._report(provider.wire, [*retained, *self._turns.waiting], {}, texts, made)

    def _report(
        self,
        wire: str,
        sequences: Iterable[int],
        left: Mapping[int, str],
        texts: Iterable[str],
        made: Iterable[Reference],
        *,
        is_listing_due: bool = False,
    ) -> Survival:
        """For a prompt of these entries; `left` is what is left of those that the provider clears, `texts` is said
        beside them.
        """
        turns, sequences_shown, lines = self._turns, set[int](), list(texts)
        for sequence in sequences:
            sequences_shown.add(sequence)
            if sequence in left:
                lines.append(left[sequence])
                continue
            entry, content = self._log[sequence], turns.replaced.get(sequence)
            if sequence in turns.shown_once:
                content = parse(entry.body)["whole"]
            lines.extend(texts_of(entry, wire, content))
        view = View("\n".join(lines), frozenset(sequences_shown))
        reach = Reach(view, self._memory.memory, self._can_call, made, is_listing_due=is_listing_due)
        return survey(self._items(), view, reach)

    def _items(self) -> Items:
        task = self._pins.task
        unpinned = [] if task is None or self._pins.named("task", task.text) is not None else [task]
        calls = tuple((call.name, call.call_id, call.assistant) for call in self._turns.open_calls)
        return Items((*unpinned, *self._pins), self._memory.plan, calls, self._memory.references)

    def _can_call(self, name: str) -> bool:
        return self._may_call(name) and (name != READ_REFERENCE or self._memory.can_read)
