"""Conversation matching: the only code that decides which model call continues which.

`score` compares two calls. `Conversations` assigns each call of a stream to a conversation, by recorded names first,
then by text, and names its `Relation` to the calls before it: sub-agents, title generation and other side calls are
conversations of their own; an edited, truncated or compacted history stays in its conversation; a fan-out or a question
asked again from an earlier place is a branch, and so a new conversation. `BodyPrefix` is the fast path: a request body
whose bytes only continue an earlier body.

Names are recorded sessions and lanes, which are believed, and hints that clients put into requests (a session id, an
agent id), which are preferred: a call continues one of another hinted session only where it repeats the model's replies.
"""

from __future__ import annotations

import json
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Literal, Protocol, TypeVar
from unicodedata import normalize

from contextkit.canonical import Json
from contextkit.prompt.block import Block, json_bytes, text_of
from contextkit.prompt.diff import common_bytes
from contextkit.prompt.normal_form import MARKERS

SHARE, ANSWERED_SHARE = 0.3, 0.1
"""Least share of the smaller call's message bytes that two calls of one conversation have in common; the second where
the session was recorded and the later call holds a reply of the model."""
ALIKE = 0.5
"""Least share of two system texts that is equal at front and back for one to be the other with a value filled in."""
_MOST_HEADS = 8
"""Static prefixes of one conversation whose latest call is stored: agents that hand over to one another."""
_LONG_TEXT = 200
"""Bytes from which on shared text identifies a conversation."""
_SHORT_TEXT = 8
"""Bytes of a common beginning that say nothing about the conversation."""
_MANY_BLOCKS = 8
"""Message blocks from which on a conversation may be compacted to nothing."""
_MOST_SIBLINGS = 64
_RECENT = 8
MOST_BLOCKS = 1 << 17
"""Block hashes of a pool that are stored where the number of conversations is limited."""
_SUMMARY_WORDS = ("summar", "compact", "continued from", "previous conversation", "so far")
_MODEL_ROLES = frozenset({"assistant", "model"})
_MODEL_TYPES = frozenset({"call", "thinking"})
_MEDIA_TYPES = frozenset({"image", "document", "video"})


class PromptCall(Protocol):
    """A model call as conversation matching sees it."""

    @property
    def endpoint(self) -> str:
        """The wire format of the request."""

    @property
    def model(self) -> str:
        """The requested model."""

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks in cache order."""

    @property
    def session(self) -> str:
        """The session, recorded or hinted by the client; empty where nothing names it."""

    @property
    def agent(self) -> str:
        """The sub-agent that the client names; empty for the main agent, and where nothing names it."""

    @property
    def window(self) -> str:
        """The context window that the client names, another one after each compaction; empty where nothing names it."""

    @property
    def names(self) -> Sequence[str]:
        """Names that a later request may refer to: the response id, the provider's id of the conversation."""

    @property
    def previous(self) -> str:
        """The name of the stored history that the request continues; empty where it sends its whole history."""


C = TypeVar("C", bound=PromptCall)
T = TypeVar("T")

Relation = Literal["new", "continues", "retry", "branch", "side_call", "sub_agent", "resume", "compaction"]
"""How a call relates to the calls before it. Of the calls that stay in a conversation:

- `continues`: it sends the messages of the call before it and more, or an edited or truncated form of them.
- `retry`: it sends the same messages again; tools, system text and parameters may have changed.
- `resume`: another named session repeats the model's replies.
- `compaction`: a summary of at most half the size stands for the history, or the client names another context window.

Of the calls that begin a conversation, in the order in which they are tried:

- `sub_agent`: the client names its agent; or, in a session that has an agent with tools, it has tools and instructions
  that are not that agent's.
- `branch`: it begins with blocks of messages of another conversation of the same agent, and leaves it: a fan-out, or a
  question asked again from an earlier place.
- `side_call`: in a session that has a conversation, it has no tools and another static prefix, and shares no history:
  title generation, a summary, a verdict. A session's first call is `new`, whatever it is for.
- `new`: none of these.
"""

# Two calls
# --------------------------------------------------------------------------------------------------------------


Score = tuple[int, bool, float]
"""Whether nothing is missing, whether the static prefix is the same to the byte, shared bytes: larger is likelier."""


def score(before: PromptCall, after: PromptCall) -> Score | None:
    """How likely `after` continues `before`; None where it does not."""
    likeness = _likeness(before, after)
    return (likeness[0], has_same_head(before, after), likeness[1]) if likeness else None


def _likeness(before: PromptCall, after: PromptCall) -> tuple[int, float] | None:
    if before.endpoint != after.endpoint:
        return None
    one, other = messages_of(before), messages_of(after)
    lead = _common_blocks(one, other)
    if lead == len(one) == len(other) and not _is_alike(_head(before)[1], _head(after)[1], is_empty_alike=True):
        return None  # another agent gets the same question
    has_head = _is_one_head(before, after)
    if lead == len(one) and one and (has_head or (lead > 1 and not _has_tools(before, after))):
        return 1, float(sum(len(block.body) for block in one))
    if not has_head or not _is_one_agent(before, after) or _is_fork(one, other, lead):
        return None
    texts = one, other
    if any(map(_is_reply, other[lead:])):  # a continued conversation: the size of an image says nothing about which
        texts = _without_media(one), _without_media(other)
    shared, least = _shared_bytes(*texts), min(map(_n_bytes, texts))
    is_recorded = bool(before.session) and any(map(_is_reply, other))
    if least and shared >= (ANSWERED_SHARE if is_recorded else SHARE) * least:
        return 0, float(shared)
    if is_recorded and (_has_same_shape(one, other, lead) or _has_same_text(one, other)):
        return 0, float(shared)
    if _is_filled_anew(one, other, lead):
        return 0, float(shared)
    return (0, float(shared)) if _is_compacted(before, one, other, has_kept=shared > 0) else None


def _relation(before: PromptCall, after: PromptCall, *, is_whole: bool = False) -> Relation:
    """The relation of a call to the one before it in its conversation; `is_whole` where it has all of its messages."""
    if before.session and after.session and before.session != after.session:
        return "resume"
    if after.previous:
        is_repeated = before.previous == after.previous
        return "retry" if is_repeated and _has_same_messages(before, after) else "continues"
    one, other = messages_of(before), messages_of(after)
    lead = len(one) if is_whole else _common_blocks(one, other)
    if lead == len(one):
        return "retry" if len(other) == lead else "continues"
    return "compaction" if _is_summarised(one, other) or _is_in_new_window(before, after) else "continues"


def _has_same_messages(one: PromptCall, other: PromptCall) -> bool:
    mine, theirs = messages_of(one), messages_of(other)
    return len(mine) == len(theirs) == _common_blocks(mine, theirs)


def _leaves(before: PromptCall, after: PromptCall) -> bool:
    """Return whether `after` leaves `before` at a place both passed: a question asked again, a sibling, a step back."""
    one, other = messages_of(before), messages_of(after)
    lead = _common_blocks(one, other)
    return lead < len(one) and _is_fork(one, other, lead)


def _is_branch(before: PromptCall, after: PromptCall) -> bool:
    """Return whether a call that begins a conversation starts with messages of `before`, of the same agent and
    session.
    """
    if before.endpoint != after.endpoint or not _may_continue(before, after, is_resumable=False):
        return False
    one, other = messages_of(before), messages_of(after)
    if not _common_blocks(one, other) or _is_summarised(one, other):
        return False
    return _is_one_head(before, after) and _is_one_agent(before, after)


def _common_blocks(one: Sequence[Block], other: Sequence[Block]) -> int:
    """Number of leading blocks with the same content; a text is the same as a string and as a part."""
    most = min(len(one), len(other))
    at = 0
    while at < most:
        a, b = one[at], other[at]
        if a is not b and a.body != b.body and (a.type != "text" or _content(a) != _content(b)):
            break
        at += 1
    return at


def _content(block: Block) -> bytes:
    """The bytes of a block; of a plain text part those of its string."""
    value = block.value
    if block.type != "text" or not isinstance(value, dict) or value.get("type") != "text":
        return block.body
    text = value.get("text")
    return json_bytes(text) if isinstance(text, str) and value.keys() <= _TEXT_KEYS else block.body


_TEXT_KEYS = MARKERS | {"type", "text"}


def messages_of(call: PromptCall) -> Sequence[Block]:
    """The blocks of messages."""
    first = next((i for i, block in enumerate(call.blocks) if block.level == "messages"), len(call.blocks))
    return call.blocks[first:]


def has_same_head(one: PromptCall, other: PromptCall) -> bool:
    """Return whether tools and system text are the same to the byte."""
    mine = one.blocks[: len(one.blocks) - len(messages_of(one))]
    theirs = other.blocks[: len(other.blocks) - len(messages_of(other))]
    return len(mine) == len(theirs) == _common_blocks(mine, theirs)


def _is_one_head(before: PromptCall, after: PromptCall) -> bool:
    """Return whether tools or system text are mostly the same, or there are none."""
    one, other = (_head(call) for call in (before, after))
    if not one[0] and not other[0] and not one[1] and not other[1]:
        return True
    names = one[0] & other[0]
    if names and 2 * len(names) >= min(len(one[0]), len(other[0])):
        return True
    return _is_alike(one[1], other[1])


def _is_one_agent(before: PromptCall, after: PromptCall) -> bool:
    """Return whether tool names or system text stayed: a sub-agent has some of the tools and instructions of its
    own.
    """
    one, other = (_head(call) for call in (before, after))
    return one[0] == other[0] or not one[1] or not other[1] or _is_alike(one[1], other[1])


def _head(call: PromptCall) -> tuple[frozenset[str], bytes]:
    front = [block for block in call.blocks if block.level != "messages"]
    text = "\n".join(text_of(block) for block in front if block.level == "system")
    return frozenset(block.role for block in front if block.level == "tools"), text.encode("utf-8", "surrogatepass")


def _is_alike(one: bytes, other: bytes, *, is_empty_alike: bool = False) -> bool:
    if not one or not other:
        return is_empty_alike
    front = common_bytes(one, other)
    behind = common_bytes(one[:front:-1], other[:front:-1])
    return front + behind >= ALIKE * min(len(one), len(other))


def _has_tools(*calls: PromptCall) -> bool:
    return any(block.level == "tools" for call in calls for block in call.blocks[:1])


def _is_fork(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Return whether `other` goes another way from a place both passed.

    It returns there, or says something else that no model has replied to yet.
    """
    rest, new = one[lead:], other[lead:]
    if not new or _is_repeated_question(one, other, lead):
        return True
    if any(map(_is_reply, (*rest, *new))):
        return False
    left = {block.body for block in rest}
    return not any(block.body in left for block in new) and not _continues_last_message(one, other, lead)


def _is_repeated_question(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Return whether one question ends `other` behind a reply, where `one` has another question.

    A block that stands for all that followed is no question: a summary, or something from further down.
    """
    rest, new = one[lead:], other[lead:]
    if not rest or not lead or not _is_reply(one[lead - 1]) or not _is_question(rest[0]) or new[0].role != rest[0].role:
        return False
    if not all(map(_is_question, new)) or new[-1].message != new[0].message:
        return False
    repeated = {block.body for block in rest} & {block.body for block in new}
    return not repeated and not (_n_bytes(new) >= _LONG_TEXT and _is_summary(new))


def _is_question(block: Block) -> bool:
    """Return whether a user wrote it."""
    return block.type != "result" and not _is_reply(block)


def _continues_last_message(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Return whether the last message lost a piece and another message follows, so that it was not withdrawn."""
    rest, new = one[lead:], other[lead:]
    if not rest or new[-1].message <= rest[-1].message:
        return False
    last = rest[-1].message
    if new[0].message > last:
        return lead > 0 and one[lead - 1].message == last
    text = text_of(new[0])
    return new[0].message == last and bool(text.strip()) and text_of(rest[0]).startswith(text.rstrip())


def _is_reply(block: Block) -> bool:
    """Return whether a model wrote it; calls and thinking that are items of their own have no role that says so."""
    return block.role in _MODEL_ROLES or block.type in _MODEL_TYPES


def _shared_bytes(one: Sequence[Block], other: Sequence[Block]) -> int:
    mine, theirs = (Counter(block.body for block in blocks) for blocks in (one, other))
    return sum(len(body) * count for body, count in (mine & theirs).items())


def _without_media(blocks: Sequence[Block]) -> Sequence[Block]:
    return [block for block in blocks if block.type not in _MEDIA_TYPES]


def _has_same_shape(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Return whether each block has a counterpart and more follow: a history whose items were shortened."""
    has_all = 0 < lead < len(one) < len(other)
    return has_all and all(a.role == b.role and a.type == b.type for a, b in zip(one, other, strict=False))


def _is_filled_anew(one: Sequence[Block], other: Sequence[Block], lead: int) -> bool:
    """Return whether the first block that differs is mostly the same and was replied to: a question that holds a
    clock.
    """
    if lead >= min(len(one), len(other)) or not any(map(_is_reply, other[lead + 1 :])):
        return False
    was, now = one[lead], other[lead]
    return was.role == now.role and len(was.body) >= _LONG_TEXT and _is_alike(was.body, now.body)


def _has_same_text(one: Sequence[Block], other: Sequence[Block]) -> bool:
    """Return whether both have the same text: ids, shapes, white space and message ends are ignored."""
    mine, theirs = ([*map(_text_without_space, blocks)] for blocks in (one, other))
    least = min(sum(map(len, mine)), sum(map(len, theirs)))
    common = Counter(mine) & Counter(theirs)
    if least and sum(len(text) * count for text, count in common.items()) >= SHARE * least:
        return True
    front = common_bytes(*("".join(texts).encode("utf-8", "surrogatepass") for texts in (mine, theirs)))
    return front >= max(_SHORT_TEXT, SHARE * least)


def _text_without_space(block: Block) -> str:
    return "".join(normalize("NFC", text_of(block)).split())


def _n_bytes(blocks: Sequence[Block]) -> int:
    return sum(len(block.body) for block in blocks)


def _is_compacted(before: PromptCall, one: Sequence[Block], other: Sequence[Block], *, has_kept: bool) -> bool:
    """Return whether a shorter history replaces a longer one, in a session that has a name."""
    is_long = has_kept or len(one) >= _MANY_BLOCKS
    return bool(before.session) and is_long and _is_summarised(one, other)


def _is_summarised(one: Sequence[Block], other: Sequence[Block]) -> bool:
    """Return whether a summary of at most half the size stands for the history."""
    return 2 * _n_bytes(other) <= _n_bytes(one) and _is_summary(other[:3])


def _is_summary(blocks: Sequence[Block]) -> bool:
    """Return whether the text summarises a conversation; a short text may as well be a question about one."""
    opening = " ".join(map(text_of, blocks)).lower()[:20_000]
    return any(word in opening for word in _SUMMARY_WORDS)


# A stream of calls
# --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Conversation(Generic[C]):
    """Calls that continue one another."""

    number: int
    """Its number in its pool, from 1."""
    name: tuple[str, str] | None = None
    """Session and lane under which the caller records it."""
    last: C | None = None
    """The latest call."""
    n_calls: int = 0
    """Calls so far."""
    siblings: list[Conversation[C]] = field(default_factory=list)
    """Conversations that branched off from it, or that it branched off from."""
    n_bytes: int = 0
    """Size of the latest call."""
    heads: list[C] = field(default_factory=list)
    """The latest calls that another static prefix followed; one of each static prefix."""

    def _before(self, call: C) -> C | None:
        """The call that `call` continues: the latest, unless an earlier one with the static prefix of `call` has as
        much of its messages.

        Nothing continues a call to which nothing is added.
        """
        if self.last is None or not self.heads or has_same_head(self.last, call):
            return self.last
        messages = messages_of(call)
        least = _common_blocks(messages_of(self.last), messages)
        if least == len(messages):
            least = 0
        for one in reversed(self.heads):
            if has_same_head(one, call):
                own = messages_of(one)
                if least <= _common_blocks(own, messages) == len(own):
                    return one
        return self.last

    def _add(self, call: C) -> None:
        """Append `call`."""
        if self.last is not None and not has_same_head(self.last, call):
            others = [one for one in self.heads if not has_same_head(one, self.last)]
            self.heads = [*others, self.last][-_MOST_HEADS:]
        self.last = call
        self.n_calls += 1

    def forget(self) -> None:
        """Remove the stored calls: no later call continues it."""
        self.last, self.n_bytes = None, 0
        self.heads.clear()
        for sibling in self.siblings:
            sibling.siblings.remove(self)
        self.siblings.clear()


@dataclass(frozen=True, slots=True)
class Placement(Generic[C]):
    """A call in its conversation."""

    conversation: Conversation[C]
    """The conversation, the call included."""
    relation: Relation
    """How the call relates to those before it."""
    before: C | None = None
    """The call before it in the conversation; None for the first."""
    parent: Conversation[C] | None = None
    """The conversation that a branch left, or that a side call or a sub-agent stands beside, as far as it is stored."""


@dataclass(slots=True)
class _Pool(Generic[C]):
    """Conversations of one recorded lane, or of all calls without one."""

    conversations: OrderedDict[int, Conversation[C]] = field(default_factory=OrderedDict)
    """By `id`, the one used last at the end."""
    holders: dict[int, Conversation[C]] = field(default_factory=dict)
    """Hash of a message block → the conversation that sent it last."""
    names: dict[str, Conversation[C]] = field(default_factory=dict)
    """Id of a call, or the provider's name of a conversation → its conversation."""
    agents: dict[tuple[str, str], list[Conversation[C]]] = field(default_factory=dict)
    """Session and agent → its conversations used last, the latest at the end."""
    n: int = 0
    """Conversations so far."""


class Conversations(Generic[C]):
    """Assigns the calls of a stream to conversations.

    `most` and `most_bytes` limit the conversations that calls are compared with: the ones not used for longest are
    forgotten, and so are the oldest of `MOST_BLOCKS` block hashes of a pool.
    """

    def __init__(self, most: int | None = None, *, most_bytes: int | None = None) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._pools: OrderedDict[tuple[str, ...], _Pool[C]] = OrderedDict()
        self._stored: OrderedDict[int, tuple[Conversation[C], _Pool[C]]] = OrderedDict()
        self._n_bytes = 0

    def recent(self, pool: tuple[str, ...], n: int) -> list[C]:
        """The latest calls of the `n` conversations of a pool that were used last."""
        within = self._pools.get(pool)
        latest = islice(reversed(within.conversations.values()), n) if within else ()
        return [one.last for one in latest if one.last is not None]

    def place(self, call: C, pool: tuple[str, ...] = (), *, n_bytes: int = 0) -> Placement[C]:
        """Append `call` to the conversation that it continues, or to a new one.

        Calls of different pools are never compared: a pool is what was recorded of session and lane. `n_bytes` is the
        size of the call, where `most_bytes` limits it.
        """
        within = self._pools.get(pool)
        if within is None:
            within = self._pools[pool] = _Pool()
        placement = _placement(within, call)
        conversation = placement.conversation
        conversation._add(call)
        within.conversations[id(conversation)] = conversation
        within.conversations.move_to_end(id(conversation))
        for block in reversed(messages_of(call)):
            key = hash(_content(block))
            if within.holders.get(key) is conversation:
                break  # the blocks before it were stored with it
            within.holders[key] = conversation
        for name in call.names:
            within.names[name] = conversation
        if call.session:
            others = [one for one in within.agents.get((call.session, call.agent), ()) if one is not conversation]
            within.agents[call.session, call.agent] = [*others, conversation][-_RECENT:]
        self._n_bytes += n_bytes - conversation.n_bytes
        conversation.n_bytes = n_bytes
        self._stored[id(conversation)] = conversation, within
        self._stored.move_to_end(id(conversation))
        self._limit()
        return placement

    def _limit(self) -> None:
        """Forget the conversations not used for longest."""
        while len(self._stored) > 1 and (
            (self._most is not None and len(self._stored) > self._most)
            or (self._most_bytes is not None and self._n_bytes > self._most_bytes)
        ):
            _, (conversation, pool) = self._stored.popitem(last=False)
            self._n_bytes -= conversation.n_bytes
            del pool.conversations[id(conversation)]
            conversation.forget()
            _shorten(pool)


def _shorten(pool: _Pool[Any]) -> None:
    """Remove the oldest entries of the indexes of a pool that have become too long."""
    indexes: tuple[dict[Any, Any], ...] = (pool.holders, pool.names, pool.agents)
    for index in indexes:
        if len(index) > MOST_BLOCKS:
            for key in [*islice(index, MOST_BLOCKS // 8)]:
                del index[key]


def _placement(pool: _Pool[C], call: C) -> Placement[C]:
    """The conversation that `call` continues, or a new one; the call is not added yet."""
    conversation = pool.names.get(call.previous) if call.previous else None
    if conversation is None:
        conversation = _continued(pool, call)
        if conversation is not None and conversation.last is not None:
            before = conversation.last
            return Placement(conversation, _relation(before, call, is_whole=True), before)
        match = choose(_candidates(pool, call), call)
        conversation = match.candidate if match else None
    if conversation is None:
        pool.n += 1
        conversation = Conversation(pool.n)
        _relate(conversation, pool, call)
        return _opening(conversation, pool, call)
    earlier = conversation._before(call)
    return Placement(conversation, "new" if earlier is None else _relation(earlier, call), earlier)


def _opening(new: Conversation[C], pool: _Pool[C], call: C) -> Placement[C]:
    """The relation of a call that begins the conversation `new`."""
    beside = [one for one in pool.agents.get((call.session, ""), ()) if one.last is not None]
    main = max(beside, key=lambda one: one.n_calls, default=None)
    if call.agent:
        return Placement(new, "sub_agent", parent=main)
    for sibling in new.siblings:
        if sibling.last is not None and _is_branch(sibling.last, call):
            return Placement(new, "branch", parent=sibling)
    calls = [one.last for one in beside if one.last is not None]
    if not _has_tools(call):
        is_apart = bool(calls) and not any(has_same_head(one, call) for one in calls)
        return Placement(new, "side_call", parent=main) if is_apart else Placement(new, "new")
    agents = [one for one in calls if _has_tools(one)]
    is_apart = bool(agents) and not any(_is_one_agent(one, call) for one in agents)
    return Placement(new, "sub_agent", parent=main) if is_apart else Placement(new, "new")


def _continued(pool: _Pool[C], call: C) -> Conversation[C] | None:
    """The conversation that `call` continues with the same static prefix; None where it continues none so.

    The holder of the latest stored block is the longest such conversation: a longer one would hold a later block.
    """
    for block in reversed(messages_of(call)):
        holder = pool.holders.get(hash(_content(block)))
        if holder is not None and holder.last is not None:
            if not _may_continue(holder.last, call):
                return None
            rank = score(holder.last, call)
            return holder if rank is not None and rank[:2] == (1, True) else None
    return None


def _candidates(pool: _Pool[C], call: C) -> list[tuple[Conversation[C], C]]:
    holders = {}
    for block in messages_of(call):
        holder = pool.holders.get(hash(_content(block)))
        if holder is not None:
            holders[id(holder)] = holder
    near = {id(one): one for holder in holders.values() for one in (holder, *holder.siblings)}
    latest = [*islice(reversed(pool.conversations.values()), 1), *pool.agents.get((call.session, call.agent), ())]
    near.update({id(one): one for one in latest})
    return [(one, one.last) for one in near.values() if one.last is not None]


@dataclass(frozen=True, slots=True)
class Match(Generic[T, C]):
    """The candidate that a call continues."""

    candidate: T
    """As the caller named it."""
    before: C
    """Its latest call."""
    relation: Relation
    """How the call relates to that one."""


def choose(candidates: Iterable[tuple[T, C]], call: C, labelled: tuple[T, C] | None = None) -> Match[T, C] | None:
    """The candidate whose latest call `call` most likely continues; None where it continues none of them.

    A call with another agent's name continues nothing of this one's; one with another session's name only where it
    repeats replies. An agent in a new context window continues its conversation, whatever the text. So does a call that
    its caller gave a label: of the conversation with that label, `labelled`, unless it is a branch.
    """
    best, best_score, compacted = None, None, None
    for candidate, before in candidates:
        if not _may_continue(before, call):
            continue
        if before.session and before.session == call.session and _is_in_new_window(before, call):
            compacted = candidate, before
        rank = score(before, call)
        if rank is not None and (best_score is None or rank > best_score):
            best, best_score = (candidate, before), rank
    match = best or compacted
    if match is None and labelled is not None and not _leaves(labelled[1], call):
        match = labelled
    return Match(*match, _relation(match[1], call)) if match else None


def _is_in_new_window(before: PromptCall, call: PromptCall) -> bool:
    return bool(before.window and call.window) and before.window != call.window


def _may_continue(before: PromptCall, call: PromptCall, *, is_resumable: bool = True) -> bool:
    """Return whether the names of two calls allow that one continues the other."""
    if not before.session or not call.session:
        return True
    if before.agent != call.agent:
        return False
    return before.session == call.session or (is_resumable and _shares_reply(before, call))


def _shares_reply(before: PromptCall, after: PromptCall) -> bool:
    """Return whether `after` begins with the messages of `before`, a reply of the model among them: a resumed
    session.
    """
    one, other = messages_of(before), messages_of(after)
    lead = _common_blocks(one, other)
    return any(map(_is_reply, other[:lead]))


def _relate(new: Conversation[C], pool: _Pool[C], call: C) -> None:
    """Store whose beginning a new conversation shares: the next call of either may differ in its tail only."""
    holder = None
    for block in messages_of(call):
        holder = pool.holders.get(hash(_content(block)))
        if holder is not None and holder.last is not None:
            break
    family = [holder, *holder.siblings] if holder and holder.last is not None else []
    for one in family[:_MOST_SIBLINGS]:
        one.siblings.append(new)
        new.siblings.append(one)


# Bytes
# --------------------------------------------------------------------------------------------------------------

_MARKERS = (b'"cache_control":', b'"prompt_cache_breakpoint":')
_MARKER = re.compile(
    rb',"(?:cache_control|prompt_cache_breakpoint)":(?:\{[^{}]*\}|null)|"(?:cache_control|prompt_cache_breakpoint)":\{[^{}]*\},'
)


_END = 32
"""Bytes by which most bodies of other conversations are told apart."""


@dataclass(frozen=True, slots=True)
class BodyPrefix:
    """A request body as the beginning of later bodies: bytes between cache markers, up to the last message's end."""

    body: bytes
    """The body as it was sent."""
    pieces: tuple[bytes, ...]
    """The bytes between markers up to the end of the last message; none for a body in a spelling no SDK has."""
    back: bytes
    """The bytes behind the last message."""

    @classmethod
    def of(cls, body: bytes, fields: Mapping[str, Json], array: str) -> BodyPrefix:
        """The prefix of `body`, whose parsed fields are `fields` and whose messages are in the field `array`.

        The fields behind the messages are rendered again, and must give the same bytes.

        >>> prefix = BodyPrefix.of(b'{"messages":[1,2],"model":"m"}', {"messages": [1, 2], "model": "m"}, "messages")
        >>> prefix.pieces, prefix.back
        ((b'{"messages":[1,2',), b'],"model":"m"}')
        >>> prefix.continued_by(b'{"messages":[1,2,3],"model":"m"}').pieces
        (b'{"messages":[1,2,3',)
        """
        if not isinstance(fields.get(array), list) or not fields[array]:
            return cls(body, (), b"")
        names = list(fields)
        behind = {name: fields[name] for name in names[names.index(array) + 1 :]}
        written = json.dumps(behind, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        back = b"]" + (b"," + written[1:] if behind else b"}")
        if not body.endswith(back):
            return cls(body, (), b"")
        stop = len(body) - len(back)
        return cls(body, _pieces(body, stop, markers(body, 0, stop)), back)

    def continued_by(self, body: bytes) -> BodyPrefix | None:
        """The prefix of `body` where it has all messages of this body, then more or nothing; None where it does not.

        One memory compare. Markers may move where this body had some, and in the new part.
        """
        if not self.pieces or not body.endswith(self.back):
            return None
        first = self.pieces[0]
        # Conversations of one agent share a long beginning, so the end is compared first.
        if not body.startswith(first[-_END:], max(0, len(first) - _END)) or not body.startswith(first):
            return None
        at, marks = len(first), []
        for piece in self.pieces[1:]:
            end = _marker_end(body, at)
            if end > at:
                marks.append((at, end))
            if not body.startswith(piece, end):
                return None
            at = end + len(piece)
        stop = len(body) - len(self.back)
        if at > stop or body[at : at + 1] not in (b",", b"]"):
            return None
        return BodyPrefix(body, _pieces(body, stop, [*marks, *markers(body, at, stop)]), self.back)

    @property
    def n_markers(self) -> int:
        """Cache markers of the body."""
        return len(self.pieces) - 1 + len(markers(self.back, 0, len(self.back)))


def longest(continued: Iterable[tuple[T, BodyPrefix, BodyPrefix]]) -> tuple[T, BodyPrefix] | None:
    """Of (conversation, its prefix, the body as its continuation) the one with the longest prefix."""
    best = max(continued, key=lambda candidate: len(candidate[1].body), default=None)
    return (best[0], best[2]) if best else None


def markers(body: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    """Start and end of each cache marker between two places, with one comma beside it.

    Inside a string a quote is escaped, so a match is a key.

    >>> markers(b'[{"text":"hi","cache_control":{"type":"ephemeral"}}]', 0, 52)
    [(13, 50)]
    """
    places = []
    for name in _MARKERS:
        at = body.find(name, start, stop)
        while at >= 0:
            first = at - (body[at - 1 : at] == b",")
            end = _marker_end(body, first)
            if end > first:
                places.append((first, end))
            at = body.find(name, max(end, at + 1), stop)
    return sorted(places)


def _marker_end(body: bytes, at: int) -> int:
    """The end of the marker that begins at `at`, its comma included; `at` where none does."""
    match = _MARKER.match(body, at)
    return match.end() if match else at


def _pieces(body: bytes, stop: int, marks: list[tuple[int, int]]) -> tuple[bytes, ...]:
    """`body` up to `stop` without the markers at `marks`, cut there."""
    starts, ends = [0, *(end for _, end in marks)], [*(start for start, _ in marks), stop]
    return tuple(body[start:end] for start, end in zip(starts, ends, strict=True))


_PROBES = 3


def probes(blocks: Sequence[Block]) -> list[bytes]:
    """The bytes of a few message blocks, by which a body that holds one of them can be found.

    Without their last bracket: a marker may stand there.
    """
    messages = [block for block in blocks if block.level == "messages"]
    places = {len(messages) * part // _PROBES for part in range(_PROBES)} | {len(messages) - 1} if messages else set()
    return [messages[place].body[:-1] for place in sorted(places)]
