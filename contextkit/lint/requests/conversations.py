"""Which call goes on from which: calls of a recording grouped into conversations.

Takes calls in the order they come, gives each the conversation it belongs to. Recorded sessions and lanes are believed;
inside one, and where none was recorded, the text decides: sub-agents, titles and side calls are conversations of their
own, while an edited, cut or compacted history stays with its conversation, and so does one in a recorded session that
says the same words otherwise. Knows nothing of rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from unicodedata import normalize

from contextkit.ledger.calls import INFERRED_LANE, Bodies, Exchange
from contextkit.lint.requests.rule import RecordedCall
from contextkit.prompt.block import Block, text_of
from contextkit.prompt.diff import common_bytes
from contextkit.providers.server_state import named_in

SHARE, ANSWERED = 0.3, 0.1
"""Share of the smaller one's message bytes that two calls of one conversation have in common at least; and where the
session was recorded and the model has answered in the later one, so that it is no question of its own."""
ALIKE = 0.5
"""Share of two system texts that is equal in front and behind, for one to be the other with something filled in."""
_RECENT = 8
_HEADS = 8
"""Calls kept whole for a conversation whose system text or tools went to and fro: of agents that hand it to one
another, of users alike."""
_TELLING = 200
"""Bytes from which on what two blocks share tells whose they are."""
_LONG = 8
"""Message blocks from which on a conversation may be compacted to nothing."""
_SUMMARY = ("summar", "compact", "continued from", "previous conversation", "so far")
"""Words at the front of a history that replaces another."""
_SPEAKERS = frozenset({"assistant", "model"})
_SPOKEN = frozenset({"call", "thinking"})
_MEDIA = frozenset({"image", "document", "video"})


@dataclass(slots=True, eq=False)
class Conversation:
    """Calls that go on from one another."""

    name: str
    """As shown: the session, its lane unless that is `main`, a number from the second conversation in one lane on."""
    last: RecordedCall | None = None
    """The latest call, whole."""
    earlier: list[RecordedCall] = field(default_factory=list)
    """Every call before `last`, without raw bytes."""
    siblings: list[Conversation] = field(default_factory=list)
    """Those that split off from it, or that it split off from."""
    left: list[RecordedCall] = field(default_factory=list)
    """The latest calls behind which another head came, whole; one of each head."""

    @property
    def turn(self) -> int:
        """Calls so far."""
        return len(self.earlier) + (self.last is not None)

    _kept: RecordedCall | None = None
    """`last`, as it is kept once it is not the last any more."""

    def before(self, sent: RecordedCall) -> RecordedCall | None:
        """The call `sent` goes on from: the latest, unless an earlier one with the head of `sent` has as much of what
        it says.

        Nobody goes on from a call to which nothing is added.
        """
        if self.last is None or not self.left or _has_same_head(self.last, sent):
            return self.last
        said = _said(sent)
        least = _lead(_said(self.last), said)
        if least == len(said):
            least = 0
        own = (one for one in reversed(self.left) if _has_same_head(one, sent))
        return next((one for one in own if least <= _lead(_said(one), said) == len(_said(one))), self.last)

    def add(self, sent: RecordedCall, kept: RecordedCall) -> None:
        """Go on to `sent`; `kept` is the same without its raw bytes."""
        if self._kept is not None:
            self.earlier.append(self._kept)
        if self.last is not None and not _has_same_head(self.last, sent):
            self.left = [*(one for one in self.left if not _has_same_head(one, self.last)), self.last][-_HEADS:]
        self.last, self._kept = sent, kept


@dataclass(slots=True)
class _Pool:
    """Conversations of one recorded lane, or of all calls that recorded none."""

    found: dict[int, Conversation] = field(default_factory=dict)
    """By `id`, the one that was used last at the end."""
    holders: dict[bytes, Conversation] = field(default_factory=dict)
    """Bytes of a message block → the conversation that sent it last."""
    answers: dict[str, Conversation] = field(default_factory=dict)
    """Id of a call, or the provider's name of a conversation → its conversation."""


class Conversations:
    """Every conversation of a recording; each keeps its last call."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], _Pool] = {}

    def near(self, exchange: Exchange) -> RecordedCall | None:
        """An earlier call whose bytes `exchange` begins with, as far as one of the latest does: cutting can start from
        it.
        """
        pool = self._pools.get(_lane(exchange))
        if pool is None or not isinstance(exchange.prompt, Bodies):
            return None
        latest = [one.last for one in islice(reversed(pool.found.values()), _RECENT) if one.last is not None]
        if len(latest) < 2:
            return latest[0] if latest else None
        raw = exchange.prompt.request
        return max(latest, key=lambda sent: common_bytes(sent.raw, raw))

    def place(self, sent: RecordedCall) -> Conversation:
        """The conversation `sent` goes on, or a new one. It is not added to it."""
        lane = _lane(sent.exchange)
        pool = self._pools.setdefault(lane, _Pool())
        found = _answered(pool, sent) or _best(pool, sent)
        if found is None:
            found = Conversation(_name(*lane, len(pool.found)))
            _relate(found, pool, sent)
        pool.found.pop(id(found), None)
        pool.found[id(found)] = found
        for block in _said(sent):
            pool.holders[block.body] = found
        past = named_in(sent.params)
        pool.answers.update(dict.fromkeys((sent.exchange.id, *((past.name,) if past else ())), found))
        return found


def _lane(exchange: Exchange) -> tuple[str, str]:
    """Session and lane as somebody recorded them: a lane that a reader inferred is looked at again, beside those it was
    told from.
    """
    return exchange.session, "main" if exchange.lane.startswith(INFERRED_LANE) else exchange.lane


def _name(session: str, lane: str, number: int) -> str:
    shown = f"{session or 'unnamed'}/{lane}" if lane not in ("", "main") else session or "unnamed"
    return f"{shown}#{number + 1}" if number else shown


def _answered(pool: _Pool, sent: RecordedCall) -> Conversation | None:
    """The conversation that a request says only the news of."""
    past = named_in(sent.params)
    return pool.answers.get(past.name) if past else None


def _best(pool: _Pool, sent: RecordedCall) -> Conversation | None:
    holders = {id(one): one for block in _said(sent) if (one := pool.holders.get(block.body))}
    known = {id(one): one for holder in holders.values() for one in (holder, *holder.siblings)}
    known.update({id(one): one for one in islice(reversed(pool.found.values()), 1)})
    scored = [
        (score, one)
        for one in known.values()
        if one.last is not None and (score := kinship(one.last, sent)) is not None
    ]
    return max(scored, key=lambda pair: pair[0])[1] if scored else None


def _relate(new: Conversation, pool: _Pool, sent: RecordedCall) -> None:
    """Note whose beginning a new conversation shares: the next call of either may be told apart only by its tail."""
    holder = next((pool.holders[block.body] for block in _said(sent) if block.body in pool.holders), None)
    family = [holder, *holder.siblings] if holder else []
    for one in family[:64]:
        one.siblings.append(new)
        new.siblings.append(one)


def kinship(before: RecordedCall, after: RecordedCall) -> tuple[int, bool, float] | None:
    """How likely `after` goes on from `before`, None where it does not.

    Larger is likelier: whether nothing of `before` is missing, whether the head is the same to the byte, then the bytes
    they share.
    """
    found = _kinship(before, after)
    return (found[0], _has_same_head(before, after), found[1]) if found else None


def _kinship(before: RecordedCall, after: RecordedCall) -> tuple[int, float] | None:
    if before.wire != after.wire:
        return None
    one, other = _said(before), _said(after)
    lead = _lead(one, other)
    if lead == len(one) == len(other) and not _is_alike(_head(before)[1], _head(after)[1], is_empty_alike=True):
        return None  # another agent is given the same words
    has_head = _is_one_head(before, after)
    if lead == len(one) and one and (has_head or (lead > 1 and not _has_tools(before, after))):
        return 1, float(sum(len(block.body) for block in one))
    if not has_head or _is_fork(one, other, lead):
        return None
    texts = one, other
    if any(map(_is_answer, other[lead:])):  # somebody goes on: how large an image is says nothing of who
        texts = _without_media(one), _without_media(other)
    shared, least = _shared_bytes(*texts), min(map(_n_bytes, texts))
    is_recorded = bool(before.exchange.session) and any(map(_is_answer, other))
    if least and shared >= (ANSWERED if is_recorded else SHARE) * least:
        return 0, float(shared)
    if is_recorded and (_is_one_shape(one, other, lead) or _says_the_same(one, other)):
        return 0, float(shared)
    if _is_filled_anew(one, other, lead):
        return 0, float(shared)
    return (0, float(shared)) if _is_compacted(before, one, other, has_kept=shared > 0) else None


def is_said_again(before: RecordedCall, after: RecordedCall) -> bool:
    """Whether `after` says the very same messages behind another head: another user's beginning, or a prompt that
    changed meanwhile.
    """
    one, other = _said(before), _said(after)
    return len(one) == len(other) == _lead(one, other) and not _has_same_head(before, after)


def is_branch(before: RecordedCall, after: RecordedCall) -> bool:
    """Whether `after` goes another way from a place that `before` passed: a question asked anew, a sibling, a step
    back.
    """
    one, other = _said(before), _said(after)
    lead = _lead(one, other)
    return lead < len(one) and _is_fork(one, other, lead)


def _said(sent: RecordedCall) -> Sequence[Block]:
    """Blocks of messages."""
    first = next((i for i, block in enumerate(sent.blocks) if block.level == "messages"), len(sent.blocks))
    return sent.blocks[first:]


def _has_same_head(one: RecordedCall, other: RecordedCall) -> bool:
    """Whether tools and system text are the same to the byte."""
    mine, theirs = (
        one.blocks[: len(one.blocks) - len(_said(one))],
        other.blocks[: len(other.blocks) - len(_said(other))],
    )
    return len(mine) == len(theirs) and all(a is b or a.body == b.body for a, b in zip(mine, theirs, strict=True))


def _lead(one: Sequence[Block], other: Sequence[Block]) -> int:
    most = min(len(one), len(other))
    return next((i for i in range(most) if one[i] is not other[i] and one[i].body != other[i].body), most)


def _is_one_head(before: RecordedCall, after: RecordedCall) -> bool:
    """Whether tools or system text are mostly the same, or there are none."""
    one, other = (_head(sent) for sent in (before, after))
    if not one[0] and not other[0] and not one[1] and not other[1]:
        return True
    names = one[0] & other[0]
    if names and 2 * len(names) >= min(len(one[0]), len(other[0])):
        return True
    return _is_alike(one[1], other[1])


def _head(sent: RecordedCall) -> tuple[frozenset[str], bytes]:
    front = [block for block in sent.blocks if block.level != "messages"]
    words = "\n".join(text_of(block) for block in front if block.level == "system")
    return frozenset(block.role for block in front if block.level == "tools"), words.encode()


def _is_alike(one: bytes, other: bytes, *, is_empty_alike: bool = False) -> bool:
    if not one or not other:
        return is_empty_alike
    front = common_bytes(one, other)
    behind = common_bytes(one[:front:-1], other[:front:-1])
    return front + behind >= ALIKE * min(len(one), len(other))


def _has_tools(*calls: RecordedCall) -> bool:
    return any(block.level == "tools" for sent in calls for block in sent.blocks[:1])


def _is_fork(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Whether `other` takes another way from a place both passed: it goes back there, or says something else that
    nobody answered yet.
    """
    rest, new = one[lead:], other[lead:]
    if not new or _is_asked_anew(one, other, lead):
        return True
    if any(map(_is_answer, (*rest, *new))):
        return False
    left = {block.body for block in rest}
    return not any(block.body in left for block in new) and not _is_said_on(one, other, lead)


def _is_asked_anew(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Whether one question ends `other` behind an answer, where `one` asked another: a user who went back there and
    asks again.

    What stands for all that followed is no question: a summary, or something that was said later on.
    """
    rest, new = one[lead:], other[lead:]
    if (
        not rest
        or not lead
        or not _is_answer(one[lead - 1])
        or not _is_question(rest[0])
        or new[0].role != rest[0].role
    ):
        return False
    if not all(map(_is_question, new)) or new[-1].message != new[0].message:
        return False
    is_retold = {block.body for block in rest} & {block.body for block in new} or (
        _n_bytes(new) >= _TELLING and _is_summary(new)
    )
    return not is_retold


def _is_question(block: Block) -> bool:
    """Whether a user said it."""
    return block.type != "result" and not _is_answer(block)


def _is_said_on(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Whether the last message lost a piece, and another one follows: its speaker did not take it back."""
    rest, new = one[lead:], other[lead:]
    if not rest or new[-1].message <= rest[-1].message:
        return False
    last = rest[-1].message
    if new[0].message > last:
        return lead > 0 and one[lead - 1].message == last
    return (
        new[0].message == last
        and bool(text_of(new[0]).strip())
        and text_of(rest[0]).startswith(text_of(new[0]).rstrip())
    )


def _is_answer(block: Block) -> bool:
    """Whether a model said it; calls and thoughts that are items of their own have no role that says so."""
    return block.role in _SPEAKERS or block.type in _SPOKEN


def _shared_bytes(one: Sequence[Block], other: Sequence[Block]) -> int:
    mine, theirs = (Counter(block.body for block in blocks) for blocks in (one, other))
    return sum(len(body) * count for body, count in (mine & theirs).items())


def _without_media(blocks: Sequence[Block]) -> Sequence[Block]:
    return [block for block in blocks if block.type not in _MEDIA]


def _is_one_shape(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Whether one block stands for each block of the call before, and more follow: a history whose items were
    shortened.
    """
    has_all = 0 < lead < len(one) < len(other)
    return has_all and all(a.role == b.role and a.type == b.type for a, b in zip(one, other, strict=False))


def _is_filled_anew(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Whether the first block that differs is mostly the same, as a question with a clock or memories in it, and was
    answered meanwhile.
    """
    if lead >= min(len(one), len(other)) or not any(map(_is_answer, other[lead + 1 :])):
        return False
    was, now = one[lead], other[lead]
    return was.role == now.role and len(was.body) >= _TELLING and _is_alike(was.body, now.body)


def _says_the_same(one: Sequence[Block], other: Sequence[Block]) -> bool:
    """Whether both say the same words, whatever stands around or between them: ids, shapes, white space, the ends of
    messages.
    """
    mine, theirs = ([*map(_words, blocks)] for blocks in (one, other))
    least = min(sum(map(len, mine)), sum(map(len, theirs)))
    common = Counter(mine) & Counter(theirs)
    if least and sum(len(text) * count for text, count in common.items()) >= SHARE * least:
        return True
    return least > 0 and common_bytes("".join(mine).encode(), "".join(theirs).encode()) >= SHARE * least


def _words(block: Block) -> str:
    return "".join(normalize("NFC", text_of(block)).split())


def _n_bytes(blocks: Sequence[Block]) -> int:
    return sum(len(block.body) for block in blocks)


def _is_compacted(before: RecordedCall, one: Sequence[Block], other: Sequence[Block], *, has_kept: bool) -> bool:
    """Whether a shorter history stands for a longer one, in a conversation somebody recorded as one."""
    is_long = has_kept or len(one) >= _LONG
    if not before.exchange.session or not is_long or 2 * _n_bytes(other) > _n_bytes(one):
        return False
    return _is_summary(other[:3])


def _is_summary(blocks: Sequence[Block]) -> bool:
    """Whether it speaks of what was said before; a short one may as well be a question that does."""
    opening = " ".join(map(text_of, blocks)).lower()[:20_000]
    return any(word in opening for word in _SUMMARY)
