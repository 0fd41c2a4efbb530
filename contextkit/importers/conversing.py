"""Which conversation a request body goes on with, by what it says: for recordings that name none.

Takes the messages of bodies in the order they were sent, gives each a number. A body that begins with all of an earlier
one's messages goes on with it; one that shares a reply with it too, however its front was edited; and one that holds
replies where a named session has one call that waits for some. Any other begins a conversation. Markers that move from
turn to turn are no part of a message, nor is the system text. Knows no recording.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contextkit.prompt.normal_form import MARKERS

MOST_POOLS = 4_096
"""Pools kept."""
MOST_MARKS = 1 << 17
"""Messages kept of each; the oldest are forgotten."""
RECENT = 8
"""Bodies kept as they were read: what the next one says in the same words is not looked at again."""
_IGNORED = MARKERS | {"cachePoint"}
_HEAD = ("system", "developer")
_SPEAKERS = ("assistant", "model")
Mark = tuple[int, bool]
"""A message's digest, and whether the model said it."""


@dataclass(slots=True)
class _Pool:
    """Conversations that may be one another's."""

    ends: dict[int, int] = field(default_factory=dict)
    """Running digest of a conversation's last body → its number."""
    replies: dict[int, int] = field(default_factory=dict)
    """Digest of a reply → the conversation that sent it last."""
    end_of: dict[int, int] = field(default_factory=dict)
    """Number → its running digest in `ends`."""
    unanswered: dict[int, int] = field(default_factory=dict)
    """Number → the model asked, of conversations of which no reply was seen."""
    n: int = 0
    """Conversations so far."""


class Conversations:
    """The conversations of a recording, pool by pool; digests hold within one run."""

    __slots__ = ("_pools", "_recent")

    def __init__(self) -> None:
        self._pools: OrderedDict[str, _Pool] = OrderedDict()
        self._recent: list[tuple[list[Any], list[Mark | None]]] = []

    def place(self, pool: str, asked: str, fields: Mapping[str, Any]) -> int:
        """Number of the conversation, from 0, that a body, sent to the model `asked`, belongs to in `pool`, a session
        or "" for none.

        Another model may go on where replies are shared: the same question put to two models is two conversations.
        """
        found = self._pools.pop(pool, None) or _Pool()
        self._pools[pool] = found
        if len(self._pools) > MOST_POOLS:
            self._pools.popitem(last=False)
        return _place(found, hash(asked), self._marks(_said(fields)), is_named=bool(pool))

    def _marks(self, said: list[Any]) -> list[Mark]:
        """Each message as a digest; the longest beginning that one of the latest bodies had is taken from there."""
        n, known = max(((_n_same(said, other), i) for i, (other, _) in enumerate(self._recent)), default=(0, -1))
        marks = [*self._recent[known][1][:n], *map(_mark_of, said[n:])] if n else [*map(_mark_of, said)]
        if n:
            del self._recent[known]
        self._recent = [(said, marks), *self._recent[: RECENT - 1]]
        return [mark for mark in marks if mark is not None]


def _n_same(one: list[Any], other: list[Any]) -> int:
    most = min(len(one), len(other))
    if not most or one[0] != other[0]:
        return 0
    if one[: most - 1] == other[: most - 1]:  # the usual case, at once; a marker that moved leaves the last one another
        return most if one[most - 1] == other[most - 1] else most - 1
    return next((i for i in range(most) if one[i] != other[i]), most)


def _said(fields: Mapping[str, Any]) -> list[Any]:
    """The messages of a request body, from the first that is no system text on."""
    given: Any = next((fields[name] for name in ("messages", "contents", "input") if name in fields), [])
    listed = given if isinstance(given, list) else [{"role": "user", "content": given}]
    start = next(
        (i for i, one in enumerate(listed) if not isinstance(one, dict) or one.get("role") not in _HEAD), len(listed)
    )
    return listed[start:]


def _mark_of(message: Any) -> Mark | None:
    if not isinstance(message, dict):
        return _digest(message), False
    role, kind = message.get("role"), message.get("type")
    if role in _HEAD:
        return None
    is_reply = role in _SPEAKERS or (role is None and isinstance(kind, str) and not kind.endswith("_output"))
    content = message.get("content")
    if isinstance(content, str) or None in message.values() or not _APART.isdisjoint(message):
        message = {name: value for name, value in message.items() if name not in _APART and value is not None}
        if isinstance(content, str):
            message["content"] = [{"type": "text", "text": content}]
    try:
        return _digest(message), is_reply
    except RecursionError:
        return 0, is_reply  # nested too deep to be told from others like it


_APART = frozenset({"id", "status"})


def _digest(value: Any) -> int:
    """Of what is said, without markers: texts by their own hash, so that nothing is spelled for it."""
    kind = type(value)
    if kind is dict:
        parts: list[Any] = []
        for name, inner in value.items():
            if name not in _IGNORED:
                parts += (name, inner if type(inner) is str else _digest(inner))
        return hash(tuple(parts))
    if kind is str:
        return hash(value)
    if kind is list:
        return hash(
            tuple([_digest(item) for item in value if not (type(item) is dict and item and item.keys() <= _IGNORED)])
        )
    return hash((kind, value))


def _place(pool: _Pool, asked: int, marks: Sequence[Mark], *, is_named: bool) -> int:
    running, ends = asked, []
    for mark, _ in marks:
        running = hash((running, mark))
        ends.append(running)
    number = _gone_on(pool, ends)
    if number is None:
        number = next(
            (pool.replies[mark] for mark, is_reply in reversed(marks) if is_reply and mark in pool.replies), None
        )
    is_answered = any(is_reply for _, is_reply in marks)
    if number is None and is_named and is_answered:
        number = _only_unanswered(pool, asked)
    if number is None:
        number, pool.n = pool.n, pool.n + 1
    if not is_answered:
        pool.unanswered[number] = asked
    else:
        pool.unanswered.pop(number, None)
    _note(pool, number, running, marks)
    return number


def _only_unanswered(pool: _Pool, asked: int) -> int | None:
    """In a session somebody named, whose replies are those of a body that goes on with nothing: of the one call that
    waits for some.
    """
    waiting = [number for number, model in pool.unanswered.items() if model == asked]
    return waiting[0] if len(waiting) == 1 else None


def _gone_on(pool: _Pool, ends: Sequence[int]) -> int | None:
    """The conversation whose last body is the longest beginning of this one."""
    return next((pool.ends[end] for end in reversed(ends) if end in pool.ends), None)


def _note(pool: _Pool, number: int, end: int, marks: Sequence[Mark]) -> None:
    before = pool.end_of.pop(number, None)
    if before is not None and pool.ends.get(before) == number:
        del pool.ends[before]
    pool.ends[end] = number
    pool.end_of[number] = end
    for mark, is_reply in reversed(marks):
        if is_reply:
            if pool.replies.get(mark) == number:
                break  # what stands before it was noted with it
            pool.replies[mark] = number
    for kept in (pool.ends, pool.replies, pool.end_of, pool.unanswered):
        if len(kept) > MOST_MARKS:
            _forget(kept)


def _forget(kept: dict[int, int]) -> None:
    for old in _first(kept, MOST_MARKS // 8):
        del kept[old]


def _first(kept: Iterable[int], n: int) -> list[int]:
    return [key for key, _ in zip(kept, range(n), strict=False)]
