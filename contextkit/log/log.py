"""The log of a conversation, which only grows, and the order in which its entries are rendered.

`Log` takes JSON bodies and gives entries whose bytes, order and digests never change again. `Turns` reads them as a
conversation: what is ready for the model, in which order, and which calls are open. It is a pure function of the
entries, O(1) for each (amortised; an epoch costs what it keeps). Neither knows anything of bytes on a wire.

Three rules make the order: the results of a reply stand behind it in call order, once the last is there; what is said
while calls are open waits behind those results; what was said while a reply was under way stands behind that reply. So
the order only changes at its tail, and a reader who remembers what it read compares from the end: where the same
sequence stands at the same index, everything before it is the same too, until `epoch` moves.

What a phase, an announced tool or an event tells the model is rendered last, behind what the user says before the model
answers, and never right behind a reply: providers take a system message between turns in that one place only. An epoch
takes phases and tools out; whoever opens one announces them anew. A notice that holds until the next reply is not in
the order: it stands behind it, and is gone when that reply comes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from types import TracebackType
from typing import NamedTuple, Self, overload

import orjson

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidCall, LogCorrupt, NewerFormat, UsageError
from contextkit.log.entry import BODY_VERSION, Entry, Kind
from contextkit.log.storage import GENESIS, KINDS, JSONLStorage, MemoryStorage, Storage, digest_of
from contextkit.sequence_view import SequenceView

_PHASE_TEXTS = ("text", "removed", "added")
"""Fields of a `phase` entry that the model is shown."""


class OpenCall(NamedTuple):
    """A call the model made and nobody has answered."""

    call_id: str
    """The provider's id; unique among the calls of one reply only."""
    name: str
    """The tool."""
    arguments: dict[str, Json]
    """What the model passed, in its order."""
    assistant: int
    """Sequence of the reply that made it."""
    was_started: bool = False
    """Whether a `begun` entry says that its side effect may have happened."""
    is_cut: bool = False
    """Whether the reply ended here for want of tokens: its arguments may be a part of what was meant."""


@dataclass(slots=True)
class Turns:
    """The state of a conversation after the entries fed so far."""

    n: int = 0
    """Entries fed; the next one has this sequence."""
    ordered: list[int] = field(default_factory=list)
    """Sequences ready to be rendered, in that order: the epoch if there is one, then user, notice, assistant and result
    entries."""
    waiting: list[int] = field(default_factory=list)
    """Sequences of what was said while calls are open; they follow the results."""
    epoch: int = 0
    """Epoch entries so far."""
    first_user: int | None = None
    """Sequence of what the user said first."""
    last_assistant: int | None = None
    """Sequence of the last reply."""
    last_stop: str | None = None
    """Why that reply ended."""
    n_before_last_assistant: int | None = None
    """Index of the last reply in `ordered`, so the length of what its request included; None when no reply stands
    there."""
    has_pending_user: bool = False
    """Whether something ready waits for the model to speak: a user entry or results with no reply behind them."""
    replaced: dict[int, Json] = field(default_factory=dict)
    """Sequence of a result → what an epoch tells in its place."""
    without_thinking: set[int] = field(default_factory=set)
    """Entries whose prefix an epoch changed: their thinking no longer holds."""
    written_by: dict[int, str] = field(default_factory=dict)
    """Sequence of a reply → the model that wrote it."""
    withheld: dict[int, list[str]] = field(default_factory=dict)
    """Sequence of a reply → ids of earlier thinking that was left out before it was written."""
    _open: dict[str, OpenCall] = field(default_factory=dict)
    """Unanswered calls of the last reply; of integers beyond 64 bits in their arguments digits may be lost."""
    _reply: bytes | None = field(default=None, compare=False)
    """The body of that reply, until somebody asks for the exact arguments."""
    head_system: int = 0
    """Sequence of the entry that set the system prompt last; 0 is the `opened` entry."""
    head_tools: int = 0
    """Sequence of the entry that set the tools last."""
    head_templates: int = 0
    """Sequence of the entry that named the template versions last."""
    _answers: dict[str, int | None] = field(default_factory=dict)
    """All calls of the last reply in call order → sequence of the result, None until it comes."""
    _replies: dict[int, int] = field(default_factory=dict)
    """Sequence of a result in `ordered` → sequence of the reply it answers."""
    _expects_reply: dict[int, bool] = field(default_factory=dict)
    """Sequences that could still move behind a reply → whether the model is to speak after them (user), or not
    (notice)."""
    _trailing: set[int] = field(default_factory=set)
    """Entries of this epoch that are rendered last: phases with a text, late tools, events."""
    _epoch_bound: set[int] = field(default_factory=set)
    """Those of them that an epoch takes out: whoever opens one tells them anew."""
    until_reply: list[int] = field(default_factory=list)
    """Notices that only the next reply is to see."""
    shown_once: list[int] = field(default_factory=list)
    """Results of which the next reply sees the whole, and every later one a preview."""
    _drops_reasoning: bool = False
    """Whether the model binds the reasoning of that reply to the whole result, so that it must leave the prompt too."""
    _silent_epochs: set[int] = field(default_factory=set)
    """Epochs that say nothing themselves."""

    @classmethod
    def over(cls, entries: Iterable[Entry]) -> Turns:
        """The state after all of `entries` (a `Log`, or any part of one that starts at 0)."""
        turns = cls()
        for entry in entries:
            turns.feed(entry)
        return turns

    def feed(self, entry: Entry) -> None:
        """Take the next entry; raises what `check` and `take` raise."""
        body = _deciding(entry.kind, entry.body) if entry.kind in _READ else None
        self.check(entry.kind, body)
        self.take(entry, body)

    def take(self, entry: Entry, body: Json) -> None:
        """Take the next entry, whose `body` was checked. Raises `UsageError` when an entry was left out."""
        if entry.sequence != self.n:
            raise UsageError(
                f"entry {entry.sequence} came where entry {self.n} was due: feed every entry of the log once, in order"
            )
        _FEEDS[entry.kind](self, entry.sequence, body)
        if entry.kind == "assistant":
            self._reply = entry.body
        self.n += 1

    def check(self, kind: str, body: Json) -> None:
        """Raise `InvalidCall` if an entry cannot come next; change nothing. Call it before the log keeps the entry.

        Refuses a result or a start of a call that is not open, a reply while calls are open, a reply that uses an id
        twice, and an epoch that would keep results without the reply they answer.
        """
        check = _CHECKS.get(kind)
        if check is not None:
            try:
                check(self, body)
            except (KeyError, TypeError, AttributeError) as fault:
                raise LogCorrupt(
                    f"entry {self.n} ({kind}) is not as contextkit writes one ({type(fault).__name__}: {fault})"
                ) from fault

    @property
    def open(self) -> dict[str, OpenCall]:
        """Unanswered calls of the last reply, by id, in call order."""
        if self._reply is not None and self._open:
            for call in parse(self._reply)["calls"]:
                if call["id"] in self._open:
                    self._open[call["id"]] = self._open[call["id"]]._replace(arguments=call["arguments"])
        self._reply = None
        return self._open

    @property
    def open_calls(self) -> list[OpenCall]:
        """Calls nobody has answered, in call order."""
        return list(self.open.values())

    @property
    def answers(self) -> list[int]:
        """Sequences of the results of the last reply, in call order; empty until the last is there."""
        results = [result for result in self._answers.values() if result is not None]
        return results if len(results) == len(self._answers) else []

    @property
    def passing(self) -> list[int]:
        """Sequences that stand behind `ordered` until the model has replied, and are never said again."""
        return [] if self._open or self._ends_with_reply() else self.until_reply

    @property
    def n_settled(self) -> int:
        """Entries of `ordered` that every later request repeats: those before the first result that is shown once."""
        remaining, n = set(self.shown_once), len(self.ordered)
        if self._open or not remaining:
            return n
        for index in range(n - 1, -1, -1):
            if self.ordered[index] in remaining:
                remaining.discard(self.ordered[index])
                n = index
                if not remaining:
                    break
        return n

    def shows(self, sequence: int) -> bool:
        """Return whether the prompt holds an entry as it was said, now or with what is said next."""
        is_there = sequence in self.ordered or sequence in self.waiting
        return is_there and sequence not in self.replaced and sequence not in self.shown_once

    def is_behind_reply(self, sequence: int) -> bool:
        """Return whether an entry is something the model has not replied to yet."""
        behind = self.ordered[self.n_before_last_assistant or 0 :]
        return sequence in self.waiting or sequence in self.until_reply or sequence in behind

    @property
    def head(self) -> int:
        """Sequence of the entry that changed system or tools last."""
        return max(self.head_system, self.head_tools)

    def _check_open(self, body: Json) -> None:
        call = body["call_id"]
        if call in self._open:
            return
        if call in self._answers:
            raise InvalidCall(
                f"call {call!r} of entry {self.last_assistant} is answered already, by entry {self._answers[call]}"
            )
        raise InvalidCall(f"call {call!r} is unknown: {self._open_calls_text()}")

    def _check_assistant(self, body: Json) -> None:
        if self._open:
            raise InvalidCall(
                f"a reply cannot be kept yet: {self._open_calls_text()}; append a result for each, then ask the model again"
            )
        if self.last_assistant is not None and body["after"] < self.last_assistant:
            raise InvalidCall(
                f"this reply answers a request from before entry {self.last_assistant}, the last reply: ask the model again"
            )
        calls = [call["id"] for call in body["calls"]]
        if len(calls) > 1 and len(set(calls)) < len(calls):
            raise InvalidCall(
                f"a reply uses one id for several calls: its ids are {', '.join(map(repr, calls))}, give each its own"
            )

    def _check_phase(self, body: Json) -> None:
        body.get("text")

    def _check_epoch(self, body: Json) -> None:
        first = body["keep_from"]
        numbers = range(self.n, self.n) if first is None else range(first, self.n)
        cut = [reply for result, reply in self._replies.items() if result in numbers and reply not in numbers]
        cut += [call.assistant for call in self._open.values() if call.assistant not in numbers]
        if cut:
            raise InvalidCall(
                f"an epoch that keeps from {first} would leave results without entry {cut[0]} that called for them: "
                "answer its calls and keep from that entry or from one behind its results"
            )

    def _open_calls_text(self) -> str:
        calls = ", ".join(map(repr, self._open))
        return f"calls {calls} of entry {self.last_assistant} are open" if calls else "no call is open"

    def _check_opened(self, body: Json) -> None:
        version = body.get("version", 1)
        if type(version) is int and version > BODY_VERSION:
            raise NewerFormat(
                f"entry {self.n}: this log's entries have format {version}, this contextkit reads up to {BODY_VERSION}: upgrade contextkit"
            )

    def _feed_head(self, sequence: int, body: Json) -> None:
        if "system" in body:
            self.head_system = sequence
        if "tools" in body:
            self.head_tools = sequence
        if "templates" in body:
            self.head_templates = sequence

    def _feed_user(self, sequence: int, body: Json) -> None:
        if self.first_user is None:
            self.first_user = sequence
        self._add(sequence, True)

    def _feed_notice(self, sequence: int, body: Json) -> None:
        if body.get("until") == "reply":
            self.until_reply.append(sequence)
            return
        if body.get("text") == "":  # it says something of another entry to the program, nothing to the model
            return
        if "event" in body:
            self._trailing.add(sequence)
        self._add(sequence, False)

    def _feed_assistant(self, sequence: int, body: Json) -> None:
        after = body["after"]
        if self.waiting or self._has_movable_tail(after):
            self.waiting = self._take_back(after)
        if self.until_reply:
            self.until_reply = [sequence for sequence in self.until_reply if sequence > after]
        self._expects_reply = {waiting: self._expects_reply[waiting] for waiting in self.waiting}
        if self.shown_once:
            if self._drops_reasoning:
                self.without_thinking.add(sequence)
            self.shown_once, self._drops_reasoning = [], False
        self.written_by[sequence] = str((body.get("native") or {}).get("model", ""))
        if body.get("withheld"):
            self.withheld[sequence] = body["withheld"]
        self.last_assistant, self.last_stop, self.n_before_last_assistant = sequence, body["stop"], len(self.ordered)
        self.ordered.append(sequence)
        self.has_pending_user = False
        last = len(body["calls"]) - 1 if body["stop"] == "truncated" else None
        self._open, self._answers = {}, {}
        for index, call in enumerate(body["calls"]):
            call_id = call["id"]
            self._open[call_id] = OpenCall(call_id, call["name"], call["arguments"], sequence, False, index == last)
            self._answers[call_id] = None
        self._release()

    def _feed_result(self, sequence: int, body: Json) -> None:
        del self._open[body["call_id"]]
        self._answers[body["call_id"]] = sequence
        if body.get("whole"):
            self.shown_once.append(sequence)
            self._drops_reasoning = self._drops_reasoning or bool(body.get("drops_reasoning"))
        if not self._open and self.last_assistant is not None:
            results = [result for result in self._answers.values() if result is not None]
            self.ordered.extend(results)
            self._replies.update(dict.fromkeys(results, self.last_assistant))
            self.has_pending_user = True
            self._release()

    def _feed_begun(self, sequence: int, body: Json) -> None:
        self._open[body["call_id"]] = self._open[body["call_id"]]._replace(was_started=True)

    def _feed_epoch(self, sequence: int, body: Json) -> None:
        first = body["keep_from"]
        retained = [] if first is None else [old for old in self.ordered if old >= first]
        retained = [old for old in retained if old not in self._epoch_bound]
        self.waiting = [waiting for waiting in self.waiting if waiting not in self._epoch_bound]
        self._trailing -= self._epoch_bound
        self.until_reply = []
        self.shown_once = [old for old in self.shown_once if old in retained or old not in self.ordered]
        self._epoch_bound = set()
        if not _is_user_text(body):
            self._silent_epochs = self._silent_epochs | {sequence}
        stray = self._misplaced([sequence, *retained])
        retained, self.waiting = [old for old in retained if old not in stray], sorted([*stray, *self.waiting])
        self._expects_reply.update(dict.fromkeys(stray, False))
        self.ordered = [sequence, *retained]
        self._replace(retained, body)
        self._replies = {result: self._replies[result] for result in retained if result in self._replies}
        index: dict[int | None, int] = {old: place for place, old in enumerate(self.ordered)}
        self.n_before_last_assistant = index.get(self.last_assistant)
        self.epoch += 1
        self._feed_head(sequence, body)
        self._release()

    def _misplaced(self, ordered: list[int]) -> set[int]:
        """Trailing entries that stand behind a reply, or behind an epoch without text."""
        stray, is_stray = set[int](), False
        for old in ordered:
            if old not in self._trailing:
                is_stray = old in self.written_by or old in self._silent_epochs
            elif is_stray:
                stray.add(old)
        return stray

    def _replace(self, retained: list[int], body: Json) -> None:
        """Results told shorter from here on; thinking is dropped from the first entry whose prefix is not what it was."""
        shorter = {int(sequence): result["content"] for sequence, result in body.get("replaced", {}).items()}
        self.replaced.update(shorter)
        self.shown_once = [old for old in self.shown_once if old not in shorter]
        first = next((place for place, old in enumerate(retained) if old in shorter), len(retained)) if shorter else 0
        self.without_thinking.update(retained[first:])

    def _feed_phase(self, sequence: int, body: Json) -> None:
        if any(body.get(part) for part in _PHASE_TEXTS):
            self._feed_tools(sequence, body)

    def _feed_tools(self, sequence: int, body: Json) -> None:
        self._trailing.add(sequence)
        self._epoch_bound.add(sequence)
        self._add(sequence, False)

    def _add(self, sequence: int, expects_reply: bool) -> None:
        self._expects_reply[sequence] = expects_reply
        self.waiting.append(sequence)
        self._release()

    def _release(self) -> None:
        """What was said joins the order, unless a call still holds it back; what is told last joins it last."""
        if self._open or not self.waiting:
            return
        direct = [sequence for sequence in self.waiting if sequence not in self._trailing]
        trailing = [sequence for sequence in self.waiting if sequence in self._trailing]
        trailing = sorted([*self._pop_trailing(), *trailing])
        self.ordered.extend(direct)
        self.has_pending_user |= any(self._expects_reply[sequence] for sequence in direct)
        if self._ends_with_reply():
            self.waiting = trailing
        else:
            self.waiting = []
            self.ordered.extend(trailing)

    def _has_movable_tail(self, after: int) -> bool:
        """Return whether the order may end with something said after entry `after`, or told last."""
        last = self.ordered[-1] if self.ordered else -1
        return last > after or last in self._trailing

    def _take_back(self, after: int) -> list[int]:
        """Take back what was said after the last entry the request included.

        It stands at the tail, what is told last behind it.
        """
        late, trailing = list(self.waiting), self._pop_trailing()
        while self.ordered and self.ordered[-1] > after and self.ordered[-1] in self._expects_reply:
            late.append(self.ordered.pop())
        sent = [] if self._ends_with_reply() else [sequence for sequence in trailing if sequence <= after]
        self.ordered.extend(sent)
        return sorted([*late, *(sequence for sequence in trailing if sequence not in sent)])

    def _pop_trailing(self) -> list[int]:
        """Remove and return the trailing entries at the very end, behind which no reply stands."""
        popped: list[int] = []
        while self.ordered and self.ordered[-1] in self._trailing and self.ordered[-1] in self._expects_reply:
            popped.append(self.ordered.pop())
        return popped[::-1]

    def _ends_with_reply(self) -> bool:
        """Return whether nothing for the model stands behind its last reply."""
        return not self.ordered or self.ordered[-1] == self.last_assistant or self.ordered[-1] in self._silent_epochs


def _is_user_text(epoch: Json) -> bool:
    """Return whether an epoch says something in the user's turn; a provider's own compaction stands in the model's."""
    return any(
        part["type"] != "native" or part["block"].get("type") != "compaction" for part in epoch.get("summary", ())
    )


_FEEDS: dict[str, Callable[[Turns, int, Json], None]] = {
    "opened": Turns._feed_head,
    "user": Turns._feed_user,
    "assistant": Turns._feed_assistant,
    "result": Turns._feed_result,
    "begun": Turns._feed_begun,
    "notice": Turns._feed_notice,
    "phase": Turns._feed_phase,
    "tools": Turns._feed_tools,
    "switch": Turns._feed_head,
    "epoch": Turns._feed_epoch,
}
_CHECKS: dict[str, Callable[[Turns, Json], None]] = {
    "opened": Turns._check_opened,
    "assistant": Turns._check_assistant,
    "result": Turns._check_open,
    "begun": Turns._check_open,
    "phase": Turns._check_phase,
    "epoch": Turns._check_epoch,
}
_READ = frozenset({"notice", "switch", *_CHECKS})
"""Kinds whose body decides anything here; the others are not even parsed."""


_USUAL_RESULT = re.compile(rb'\{"call_id":"([^"\\]*)","name":"')


def _deciding(kind: str, body: bytes) -> Json:
    """What `Turns` reads of a body: of a result that is shown in every request, which call it answers.

    Of a reply all but the arguments of its calls are exact; see `Turns.open`.
    """
    if kind == "result" and b'"whole":' not in body and (usual := _USUAL_RESULT.match(body)) is not None:
        return {"call_id": usual[1].decode()}
    if kind != "assistant":
        return parse(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return parse(body)  # raises what says where


def check_clock(clock: object) -> None:
    """Raises `UsageError` for what cannot be asked for the time."""
    if not callable(clock):
        raise UsageError(
            f"clock is a function that gives seconds since 1970, such as time.time, not {type(clock).__name__}"
        )


class Log(Sequence[Entry]):
    """Entries in the order they were written; safe to append to from several threads.

    >>> log = Log(clock=lambda: 0.0)
    >>> log.append("user", {"content": [{"type": "text", "text": "hello"}]}).body
    b'{"content":[{"type":"text","text":"hello"}]}'
    >>> len(log), log.digest == log[-1].digest
    (1, True)
    """

    def __init__(self, storage: Storage | None = None, clock: Callable[[], float] = time.time) -> None:
        """A log over what `storage` holds; in memory without one. `clock` gives seconds since 1970."""
        check_clock(clock)
        self.storage: Storage = MemoryStorage() if storage is None else storage
        """Where the entries are kept."""
        self._clock = clock
        self._entries = list(self.storage.load())
        self._lock = Lock()
        self._raised: Entry | None = None
        """The entry whose append raised last."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], clock: Callable[[], float] = time.time) -> Self:
        """The log in a JSONL file, created when it is not there; raises `LogLocked`, `LogCorrupt`."""
        check_clock(clock)  # before the file is held
        return cls(JSONLStorage(path), clock)

    def append(self, kind: Kind, body: Json, at: float | None = None) -> Entry:
        """Freeze `body` and keep it; when this returns, the entry survives a crash.

        Raises `NotSerialisable` for a body without a JSON form and what the storage raises; the log is then as it was.
        Appending the same again right after that is a second try for one entry, which has the time of the first: where
        a connection was lost and nobody knows whether it was kept, it is kept once.
        """
        if kind not in KINDS:
            raise UsageError(f"an entry cannot be of kind {kind!r}: use one of {', '.join(KINDS)}")
        if at is not None and type(at) not in (int, float):
            raise UsageError(f"at is seconds since 1970, not {type(at).__name__}")
        frozen = canonical(body)
        with self._lock:
            now = float(self._clock() if at is None else at)
            before = self._entries[-1].digest if self._entries else GENESIS
            entry, raised = (
                Entry(len(self._entries), kind, frozen, now, digest_of(before, kind, now, frozen)),
                self._raised,
            )
            if raised is not None and (raised.kind, raised.body, at) == (kind, frozen, None):
                entry = raised
            self._raised = entry
            self.storage.append(entry, before)
            self._raised = None
            self._entries.append(entry)
        return entry

    def fork(self, at: Entry | int, path: str | os.PathLike[str] | Storage | None = None) -> Log:
        """A log that shares every entry up to and including `at`, and goes its own way after an `opened` entry that
        names this one.

        With `path` the child is a file: it holds only its own lines and names this log's file, relative to its own;
        when this log is not in a file, the shared entries are written into the child. With a storage the child is kept
        there, likewise. Raises `UsageError` for an entry of another log, and for a path that holds a log already.
        """
        try:
            last = self.find(at)
        except UsageError as fault:
            raise UsageError(f"cannot fork at entry {getattr(at, 'sequence', at)!r}: {fault}") from None
        child = Log(path if path is None or isinstance(path, Storage) else JSONLStorage(path), self._clock)
        try:
            child._inherit(self, last)
        except BaseException:
            child.close()
            raise
        return child

    def find(self, at: Entry | int) -> Entry:
        """The entry `at` stands for, a negative number counting from the end.

        Raises `UsageError` where it is none of this log.
        """
        if not isinstance(at, int | Entry):
            raise UsageError(f"an entry, or its sequence, not {type(at).__name__}")
        index = at if isinstance(at, int) else at.sequence
        if not -len(self) <= index < len(self):
            raise UsageError(f"there is no entry {index}: the log has {len(self)} entries")
        entry = self._entries[index]
        if isinstance(at, Entry) and entry.digest != at.digest:
            raise UsageError(f"entry {index} is an entry of another log: give one of this log")
        return entry

    def close(self) -> None:
        """Let others write the file; reading goes on."""
        with self._lock:
            self.storage.close()

    @property
    def entries(self) -> Sequence[Entry]:
        """All of them, to read; only `append` adds to them."""
        return SequenceView(self._entries)

    @property
    def digest(self) -> bytes:
        """Digest of the last entry: equal digests, equal logs. 16 zero bytes while the log is empty."""
        return self._entries[-1].digest if self._entries else GENESIS

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        return self._entries[index]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _inherit(self, parent: Log, last: Entry) -> None:
        """Begin as `parent` up to `last`."""
        if self._entries:
            where = self.storage.path or "that storage"
            raise UsageError(f"cannot fork into {where}: it holds {len(self)} entries already, choose a new path")
        shared = parent[: last.sequence + 1]
        way = self.storage.inherit(parent.storage, shared)
        self._entries = shared
        self.append("opened", {"parent": {"path": way, "sequence": last.sequence, "digest": last.digest.hex()}})
