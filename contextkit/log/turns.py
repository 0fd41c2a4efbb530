"""The log read as a conversation: what is ready for the model, in which order, and which calls are open.

Takes entries one by one, gives positions in the log; knows nothing of bytes on a wire. A pure function of the entries,
O(1) each (amortised; an epoch costs what it keeps).

Three rules make the order: the results of a reply stand behind it in call order, once the last is there; what is said
while calls are open waits behind those results; what was said while a reply was under way stands behind that reply. So
the order only changes at its tail, and a reader who remembers what it took compares from the end: where the same
sequence stands at the same index, everything before it is the same too, until `epoch` moves.

What a phase, an announced tool or an event tells the model is said last, behind what the user says before the model
answers, and never right behind a reply: providers take a system message between turns in that one place only. An epoch
takes phases and tools out; whoever opens one tells them anew. What is told until the next reply is not in the order: it
stands behind it, and is gone when that reply comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from contextkit.canonical import Json, parse
from contextkit.errors import InvalidCall, LogCorrupt, UsageError
from contextkit.log.entry import Entry

HEAD_PARTS = ("system", "tools", "templates")
"""What an `opened` or `epoch` entry may set for the requests after it."""

_TOLD = ("text", "removed", "added")
"""What a `phase` entry may tell the model."""


@dataclass(frozen=True, slots=True)
class OpenCall:
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
    thoughtless: set[int] = field(default_factory=set)
    """Entries whose prefix an epoch changed: their thinking no longer holds."""
    spoken_by: dict[int, str] = field(default_factory=dict)
    """Sequence of a reply → the model that wrote it."""
    withheld: dict[int, list[str]] = field(default_factory=dict)
    """Sequence of a reply → ids of earlier thinking that was left out before it was written."""
    _heads: dict[str, int] = field(default_factory=dict)
    """Head part → sequence of the entry that set it last."""
    _open: dict[str, OpenCall] = field(default_factory=dict)
    """Unanswered calls of the last reply, in call order."""
    _answers: dict[str, int | None] = field(default_factory=dict)
    """All calls of the last reply in call order → sequence of the result, None until it comes."""
    _replies: dict[int, int] = field(default_factory=dict)
    """Sequence of a result in `ordered` → sequence of the reply it answers."""
    _speaks: dict[int, bool] = field(default_factory=dict)
    """Sequences that could still move behind a reply → whether the model is to speak after them (user), or not
    (notice)."""
    _told: set[int] = field(default_factory=set)
    """Entries of this epoch that are told last: phases that tell the model something, tools that came late, events."""
    _dated: set[int] = field(default_factory=set)
    """Those of them that an epoch takes out: whoever opens one tells them anew."""
    _passing: list[int] = field(default_factory=list)
    """Notices that only the next reply is to see."""
    _mute: set[int] = field(default_factory=set)
    """Epochs that say nothing themselves."""

    @classmethod
    def over(cls, entries: Iterable[Entry]) -> Turns:
        """The state after all of `entries` (a `Log`, or any part of one that starts at 0)."""
        turns = cls()
        for entry in entries:
            turns.feed(entry)
        return turns

    def feed(self, entry: Entry) -> None:
        """Take the next entry; raises `InvalidCall` like `check`, and `UsageError` when an entry was left out."""
        if entry.sequence != self.n:
            raise UsageError(
                f"entry {entry.sequence} came where entry {self.n} was due: feed every entry of the log once, in order"
            )
        body = parse(entry.body) if entry.kind in _READ else None
        self.check(entry.kind, body)
        _FEEDS[entry.kind](self, entry.sequence, body)
        self.n += 1

    def check(self, kind: str, body: Json) -> None:
        """Whether an entry could come next; changes nothing. Call it before the log keeps the entry.

        Raises `InvalidCall` for a result or a start of a call that is not open, for a reply while calls are open, for a
        reply that uses an id twice, and for an epoch that would keep results without the reply they answer.
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
    def open_calls(self) -> list[OpenCall]:
        """Calls nobody has answered, in call order."""
        return list(self._open.values())

    @property
    def answers(self) -> list[int]:
        """Sequences of the results of the last reply, in call order; empty until the last is there."""
        found = [result for result in self._answers.values() if result is not None]
        return found if len(found) == len(self._answers) else []

    @property
    def passing(self) -> list[int]:
        """Sequences that stand behind `ordered` until the model has replied, and are never said again."""
        return [] if self._open or self._is_reply_last() else self._passing

    def is_behind_reply(self, sequence: int) -> bool:
        """Whether an entry is something the model has not replied to yet."""
        behind = self.ordered[self.n_before_last_assistant or 0 :]
        return sequence in self.waiting or sequence in self._passing or sequence in behind

    @property
    def head_system(self) -> int:
        """Sequence of the entry that set the system prompt last; 0 is the `opened` entry."""
        return self._heads.get("system", 0)

    @property
    def head_tools(self) -> int:
        """Sequence of the entry that set the tools last."""
        return self._heads.get("tools", 0)

    @property
    def head_templates(self) -> int:
        """Sequence of the entry that named the template versions last."""
        return self._heads.get("templates", 0)

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
        raise InvalidCall(f"call {call!r} is unknown: {self._said_open()}")

    def _check_assistant(self, body: Json) -> None:
        if self._open:
            raise InvalidCall(
                f"a reply cannot be kept yet: {self._said_open()}; append a result for each, then ask the model again"
            )
        if self.last_assistant is not None and body["after"] < self.last_assistant:
            raise InvalidCall(
                f"this reply answers a request from before entry {self.last_assistant}, the last reply: ask the model again"
            )
        calls = [call["id"] for call in body["calls"]]
        if len(set(calls)) < len(calls):
            raise InvalidCall(
                f"a reply uses one id for several calls: its ids are {', '.join(map(repr, calls))}, give each its own"
            )

    def _check_phase(self, body: Json) -> None:
        body.get("text")

    def _check_epoch(self, body: Json) -> None:
        first = body["keep_from"]
        kept = range(self.n, self.n) if first is None else range(first, self.n)
        cut = [reply for result, reply in self._replies.items() if result in kept and reply not in kept]
        cut += [call.assistant for call in self._open.values() if call.assistant not in kept]
        if cut:
            raise InvalidCall(
                f"an epoch that keeps from {first} would leave results without entry {cut[0]} that called for them: "
                "answer its calls and keep from that entry or from one behind its results"
            )

    def _said_open(self) -> str:
        calls = ", ".join(map(repr, self._open))
        return f"calls {calls} of entry {self.last_assistant} are open" if calls else "no call is open"

    def _feed_head(self, sequence: int, body: Json) -> None:
        self._heads.update((part, sequence) for part in HEAD_PARTS if part in body)

    def _feed_user(self, sequence: int, body: Json) -> None:
        self._say(sequence, True)

    def _feed_notice(self, sequence: int, body: Json) -> None:
        if body.get("until") == "reply":
            self._passing.append(sequence)
            return
        if "event" in body:
            self._told.add(sequence)
        self._say(sequence, False)

    def _feed_assistant(self, sequence: int, body: Json) -> None:
        self.waiting = self._take_late(body["after"])
        self._passing = [said for said in self._passing if said > body["after"]]
        self._speaks = {said: self._speaks[said] for said in self.waiting}
        self.spoken_by[sequence] = str((body.get("native") or {}).get("model", ""))
        if body.get("withheld"):
            self.withheld[sequence] = body["withheld"]
        self.last_assistant, self.last_stop, self.n_before_last_assistant = sequence, body["stop"], len(self.ordered)
        self.ordered.append(sequence)
        self.has_pending_user = False
        last = len(body["calls"]) - 1 if body["stop"] == "truncated" else None
        said = enumerate(body["calls"])
        calls = [
            OpenCall(call["id"], call["name"], call["arguments"], sequence, is_cut=index == last)
            for index, call in said
        ]
        self._open = {call.call_id: call for call in calls}
        self._answers = {call.call_id: None for call in calls}
        self._let_through()

    def _feed_result(self, sequence: int, body: Json) -> None:
        del self._open[body["call_id"]]
        self._answers[body["call_id"]] = sequence
        if not self._open and self.last_assistant is not None:
            results = [result for result in self._answers.values() if result is not None]
            self.ordered.extend(results)
            self._replies.update(dict.fromkeys(results, self.last_assistant))
            self.has_pending_user = True
            self._let_through()

    def _feed_begun(self, sequence: int, body: Json) -> None:
        self._open[body["call_id"]] = replace(self._open[body["call_id"]], was_started=True)

    def _feed_epoch(self, sequence: int, body: Json) -> None:
        first = body["keep_from"]
        kept = [] if first is None else [old for old in self.ordered if old >= first]
        kept = [old for old in kept if old not in self._dated]
        self.waiting = [said for said in self.waiting if said not in self._dated]
        self._told -= self._dated
        self._passing = []
        self._dated, self._mute = set(), self._mute | (set() if _speaks(body) else {sequence})
        stray = self._told_to_nobody([sequence, *kept])
        kept, self.waiting = [old for old in kept if old not in stray], sorted([*stray, *self.waiting])
        self._speaks.update(dict.fromkeys(stray, False))
        self.ordered = [sequence, *kept]
        self._replace(kept, body)
        self._replies = {result: self._replies[result] for result in kept if result in self._replies}
        index: dict[int | None, int] = {old: place for place, old in enumerate(self.ordered)}
        self.n_before_last_assistant = index.get(self.last_assistant)
        self.epoch += 1
        self._feed_head(sequence, body)
        self._let_through()

    def _told_to_nobody(self, ordered: list[int]) -> set[int]:
        """What is told last, but stands in an order behind something the model said, or an epoch that says nothing."""
        stray, is_stray = set[int](), False
        for old in ordered:
            if old not in self._told:
                is_stray = old in self.spoken_by or old in self._mute
            elif is_stray:
                stray.add(old)
        return stray

    def _replace(self, kept: list[int], body: Json) -> None:
        """Results told shorter from here on; thinking is dropped from the first entry whose prefix is not what it was."""
        shorter = {int(sequence): told["content"] for sequence, told in body.get("replaced", {}).items()}
        self.replaced.update(shorter)
        first = next((place for place, old in enumerate(kept) if old in shorter), len(kept)) if shorter else 0
        self.thoughtless.update(kept[first:])

    def _feed_phase(self, sequence: int, body: Json) -> None:
        if any(body.get(part) for part in _TOLD):
            self._feed_tools(sequence, body)

    def _feed_tools(self, sequence: int, body: Json) -> None:
        self._told.add(sequence)
        self._dated.add(sequence)
        self._say(sequence, False)

    def _say(self, sequence: int, speaks: bool) -> None:
        self._speaks[sequence] = speaks
        self.waiting.append(sequence)
        self._let_through()

    def _let_through(self) -> None:
        """What was said joins the order, unless a call still holds it back; what is told last joins it last."""
        if self._open:
            return
        spoken = [said for said in self.waiting if said not in self._told]
        told = sorted(
            [*(self._lifted() if self.waiting else ()), *(said for said in self.waiting if said in self._told)]
        )
        self.ordered.extend(spoken)
        self.has_pending_user |= any(self._speaks[said] for said in spoken)
        self.waiting = told if self._is_reply_last() else []
        self.ordered.extend(said for said in told if not self.waiting)

    def _take_late(self, after: int) -> list[int]:
        """Take back what was said after the last entry the request included.

        It stands at the tail, what is told last behind it.
        """
        late, told = list(self.waiting), self._lifted()
        while self.ordered and self.ordered[-1] > after and self.ordered[-1] in self._speaks:
            late.append(self.ordered.pop())
        sent = [] if self._is_reply_last() else [said for said in told if said <= after]
        self.ordered.extend(sent)
        return sorted([*late, *(said for said in told if said not in sent)])

    def _lifted(self) -> list[int]:
        """What is told last and stands at the very end with no reply behind it, taken out."""
        found: list[int] = []
        while self.ordered and self.ordered[-1] in self._told and self.ordered[-1] in self._speaks:
            found.append(self.ordered.pop())
        return found[::-1]

    def _is_reply_last(self) -> bool:
        """Whether nobody has spoken to the model since it spoke."""
        return not self.ordered or self.ordered[-1] == self.last_assistant or self.ordered[-1] in self._mute


def _speaks(epoch: Json) -> bool:
    """Whether an epoch says something in the user's turn; a provider's own compaction stands in the model's."""
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
    "assistant": Turns._check_assistant,
    "result": Turns._check_open,
    "begun": Turns._check_open,
    "phase": Turns._check_phase,
    "epoch": Turns._check_epoch,
}
_READ = frozenset({"opened", "notice", "switch", *_CHECKS})
"""Kinds whose body decides anything here; the others are not even parsed."""
