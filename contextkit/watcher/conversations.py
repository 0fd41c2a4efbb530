"""The conversations a client is having, told apart by what they say.

Takes request bodies, gives the conversation each goes on from. That is one memory compare: a body goes on where it
begins with everything an earlier one said, but for markers, and ends as it did. Nothing is parsed for it. Memory is
bounded: the conversations that were quiet longest are forgotten.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.lint.requests.conversations import is_branch, kinship
from contextkit.lint.requests.rule import RecordedCall
from contextkit.prompt.block import Block
from contextkit.prompt.diff import is_same_block
from contextkit.providers.server_state import PREVIOUS, Unknown
from contextkit.watcher.shortfall import Answered

RUN = "watch"
"""How the name of a run begins."""
MOST, MOST_BYTES = 64, 1 << 26
"""Conversations kept, and bytes of their bodies: the quietest go first."""
_MARKERS = (b'"cache_control":', b'"prompt_cache_breakpoint":')
_MARKER = re.compile(
    rb',"(?:cache_control|prompt_cache_breakpoint)":(?:\{[^{}]*\}|null)|"(?:cache_control|prompt_cache_breakpoint)":\{[^{}]*\},'
)
ARRAYS = {"anthropic_messages": "messages", "openai_chat": "messages", "openai_responses": "input"}
"""Wire → the field that grows."""


@dataclass(slots=True, eq=False)
class Conversation:
    """One conversation, as far as it was sent."""

    name: str
    """`watch-1`."""
    wire: str
    """Its endpoint."""
    model: str
    """As asked last."""
    body: bytes
    """The last request, as the caller made it."""
    pieces: tuple[bytes, ...]
    """Of it, what stands between cache markers up to the end of the last message; none where it is spelled as no SDK
    does."""
    back: bytes
    """What follows the last message."""
    at: float
    """When it was sent."""
    turn: int
    """How many requests were sent, from 1."""
    sent: RecordedCall | None = None
    """The last request cut into blocks, where that was needed and it is small."""
    answered: Answered | None = None
    """The last call with a bill."""
    previous: str = ""
    """Id of the last response."""
    kept: Unknown | None = None
    """What its last request went on from, kept by the provider; None where it said everything itself."""
    label: str = ""
    """The name its caller gave it; empty where what it says tells it from others."""

    @property
    def n_bytes(self) -> int:
        """What it takes to remember."""
        return 2 * len(self.body)

    def followed_by(self, body: bytes) -> tuple[bytes, ...] | None:
        """The pieces of `body` where it says everything this one said and then goes on, else None.

        Markers may come and go where this one had some, and in what is new.
        """
        if not self.pieces or not body.endswith(self.back) or not body.startswith(self.pieces[0]):
            return None
        at, marks = len(self.pieces[0]), []
        for piece in self.pieces[1:]:
            mark = _marker_at(body, at)
            if mark > at:
                marks.append((at, mark))
            if not body.startswith(piece, mark):
                return None
            at = mark + len(piece)
        stop = len(body) - len(self.back)
        if at > stop or body[at : at + 1] not in (b",", b"]"):
            return None
        return pieces_of(body, stop, [*marks, *markers(body, at, stop)])


class Conversations:
    """All of them, the one that spoke last at the end. Not locked: whoever holds it does that."""

    __slots__ = ("_kept", "_most", "_most_bytes", "_n_bytes", "_numbers", "_run")

    def __init__(self, run: str = RUN, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        """`run` begins the name of each; `most` and `most_bytes` are how many are kept, and how much of them."""
        self._run, self._most, self._most_bytes = run, most, most_bytes
        self._kept: OrderedDict[int, Conversation] = OrderedDict()
        self._n_bytes = 0
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, wire: str, label: str = "") -> Iterator[Conversation]:
        """Those on one endpoint that were given this name, or none; the one that spoke last first."""
        return (one for one in reversed(self._kept.values()) if one.wire == wire and one.label == label)

    def going_on(self, wire: str, body: bytes, label: str = "") -> tuple[Conversation, tuple[bytes, ...]] | None:
        """The one `body` goes on from, the longest where several fit, with the pieces of `body`.

        None where there is none.
        """
        fitting = [(one, pieces) for one in self.of(wire, label) if (pieces := one.followed_by(body)) is not None]
        return max(fitting, key=lambda pair: len(pair[0].body)) if fitting else None

    def named(self, wire: str, past: Unknown, label: str = "") -> Conversation | None:
        """The one whose last response, or whose last request, goes by the name that a request gives its past.

        None where none does.
        """
        is_previous = past.field == PREVIOUS
        return next(
            (one for one in self.of(wire, label) if (one.previous == past.name if is_previous else one.kept == past)),
            None,
        )

    def name(self, wire: str, label: str = "") -> str:
        """For a new one; a branch of one that was given a name has its number behind it."""
        if label and next(self.of(wire, label), None) is None:
            return label + self._run.removeprefix(RUN)
        self._numbers += 1
        return f"{label}{self._run.removeprefix(RUN)}#{self._numbers}" if label else f"{self._run}-{self._numbers}"

    def keep(self, conversation: Conversation, change: Callable[[Conversation], object] = lambda one: None) -> None:
        """Keep one, or `change` one that is kept, as the one that spoke last."""
        key = id(conversation)
        if self._kept.pop(key, None):
            self._n_bytes -= conversation.n_bytes
        change(conversation)
        self._kept[key] = conversation
        self._n_bytes += conversation.n_bytes
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._n_bytes > self._most_bytes):
            self._n_bytes -= self._kept.popitem(last=False)[1].n_bytes

    def forget(self) -> None:
        """All of them."""
        self._kept.clear()
        self._n_bytes = 0


_PROBES = 3
"""Places at which a request is looked up in the bytes of earlier ones."""
_MOST_READ = 8
"""Earlier requests parsed to find out whose continuation one is."""


def resembling(
    conversations: Conversations,
    wire: str,
    sent: RecordedCall,
    read: Callable[[Conversation], RecordedCall],
    label: str = "",
) -> Conversation | None:
    """The conversation that `sent` goes on from with another past.

    None where it begins one, or branches off an earlier request.

    Whoever goes on repeats what was said last; only a branch, or another conversation, does not. `read` cuts a
    conversation's last request. One that was given a name is gone on from whatever is said, unless that is a branch.
    """
    probes = _probes(sent.blocks)
    whole = [one for one in conversations.of(wire, label) if one.kept is None]
    likely = [one for one in whole if any(probe in one.body for probe in probes)][:_MOST_READ]
    fitting = [(score, one) for one in likely if (score := _likeness(read(one), sent)) is not None]
    if fitting or not label or not whole:
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else None
    return None if is_branch(read(whole[0]), sent) else whole[0]


def _probes(blocks: Sequence[Block]) -> list[bytes]:
    """The bytes of a few messages, without their last bracket: a marker may stand there."""
    said = [block for block in blocks if block.level == "messages"]
    places = {len(said) * part // _PROBES for part in range(_PROBES)} if said else set()
    return [said[place].body[:-1] for place in sorted(places)]


def _likeness(before: RecordedCall, after: RecordedCall) -> tuple[int, bool, float] | None:
    """How well `after` goes on from `before`, None where it does not.

    Where something is missing it must repeat what was said last, or say that otherwise: siblings of a fan-out do
    neither.
    """
    score = kinship(before, after)
    if score is None or score[0]:
        return score
    old, new = ([block for block in sent.blocks if block.level == "messages"] for sent in (before, after))
    last = [block for block in old if block.message == old[-1].message]
    known = {(block.role, block.body) for block in new}
    if any((block.role, block.body) in known for block in last):
        return score
    shared = next(
        (i for i, (one, other) in enumerate(zip(old, new, strict=False)) if not is_same_block(one, other)),
        min(len(old), len(new)),
    )
    return score if new[-1].message > old[-1].message and shared >= len(old) - len(last) else None


def pieces_of(body: bytes, stop: int, marks: list[tuple[int, int]]) -> tuple[bytes, ...]:
    """`body` up to `stop`, cut where `marks` stand, and without them."""
    starts, ends = [0, *(end for _, end in marks)], [*(start for start, _ in marks), stop]
    return tuple(body[start:end] for start, end in zip(starts, ends, strict=True))


def markers(body: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Where each cache marker between two places stands, with one comma beside it.

    Inside a string a quote is escaped, so what is found is a key.

    >>> markers(b'[{"text":"hi","cache_control":{"type":"ephemeral"}}]', 0, 52)
    [(13, 50)]
    """
    found = []
    for name in _MARKERS:
        at = body.find(name, start, stop)
        while at >= 0:
            first = at - (body[at - 1 : at] == b",")
            end = _marker_at(body, first)
            if end > first:
                found.append((first, end))
            at = body.find(name, max(end, at + 1), stop)
    return sorted(found)


def _marker_at(body: bytes, at: int) -> int:
    """Behind the marker that stands here as SDKs write it, with the comma before it, or else the one after it.

    `at` where none does.
    """
    match = _MARKER.match(body, at)
    return match.end() if match else at


def cut_at_end(body: bytes, fields: Mapping[str, Json], wire: str) -> tuple[tuple[bytes, ...], bytes]:
    """The pieces of `body` up to the end of its last message, and what follows.

    None where it is not spelled as SDKs do.

    `fields` is `body`, parsed: what stands behind the messages is written again, and must be what stands there.

    >>> cut_at_end(b'{"messages":[1,2],"model":"m"}', {"messages": [1, 2], "model": "m"}, "openai_chat")
    ((b'{"messages":[1,2',), b'],"model":"m"}')
    """
    array = ARRAYS[wire]
    if not isinstance(fields.get(array), list) or not fields[array]:
        return (), b""
    names = list(fields)
    behind = {name: fields[name] for name in names[names.index(array) + 1 :]}
    written = json.dumps(behind, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    back = b"]" + (b"," + written[1:] if behind else b"}")
    if not body.endswith(back):
        return (), b""
    stop = len(body) - len(back)
    return pieces_of(body, stop, markers(body, 0, stop)), back
