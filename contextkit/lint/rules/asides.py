"""Calls that stand beside a conversation: one call of their own in the same session, for a title, a summary, a verdict.

Takes the calls of a recording, gives those beside a longer conversation; knows no hazard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contextkit.lint.requests.rule import RecordedCall
from contextkit.lint.rules.history import last_message
from contextkit.lint.rules.openings import Calls
from contextkit.prompt.block import Block, text_of

_LEAST, _SNIPPET, _LOOKED_AT, _QUOTES = 40, 80, 60, 3
_SHORT = 3
"""Messages that a side call has at most, unless it repeats those of the conversation."""


@dataclass(frozen=True, slots=True)
class Aside:
    """A call that nothing goes on from."""

    sent: RecordedCall
    """The call."""
    main: str
    """The conversation it stands beside: the longest of its session that began before it."""
    before: RecordedCall
    """The last call of that conversation in front of it."""
    behind: RecordedCall | None
    """The next one, None where none followed."""
    n_bytes: int
    """Of its messages."""
    quoted: bool
    """Whether it tells what the conversation said."""


def asides(calls: Calls) -> Iterator[Aside]:
    """Every call that is alone in its conversation, in a session that has a longer one, in order.

    A question asked anew takes another way from a place where a conversation has been, and is none.
    """
    conversations = calls.conversations
    longer = {name: mine for name, mine in conversations.items() if len(mine) > 1}
    for mine in conversations.values():
        sent = mine[0]
        beside = [(len(them), name, them) for name, them in longer.items() if _is_beside(sent, them)]
        if len(mine) == 1 and beside and not any(_is_branch(sent, them) for _, _, them in beside):
            _, name, them = max(beside)
            yield _aside(sent, name, them)


def _is_beside(sent: RecordedCall, them: Sequence[RecordedCall]) -> bool:
    return (
        bool(sent.exchange.session) and them[0].exchange.session == sent.exchange.session and them[0].index < sent.index
    )


def _is_branch(sent: RecordedCall, them: Sequence[RecordedCall]) -> bool:
    """Whether a conversation begins as it does, its last message aside: with its head, and what was said up to some
    turn.
    """
    whole, newest = _before(sent, them).blocks, last_message(sent)
    begun = [block for block in sent.blocks if block.message < newest]
    return (
        bool(begun) and len(begun) <= len(whole) and all(a.body == b.body for a, b in zip(begun, whole, strict=False))
    )


def _before(sent: RecordedCall, them: Sequence[RecordedCall]) -> RecordedCall:
    """The last of their calls in front of it."""
    return [one for one in them if one.index < sent.index][-1]


def _aside(sent: RecordedCall, name: str, them: Sequence[RecordedCall]) -> Aside:
    before = _before(sent, them)
    behind = next((one for one in them if one.index > sent.index), None)
    said = _messages(sent)
    return Aside(sent, name, before, behind, sum(len(block.body) for block in said), _quotes(said, _messages(before)))


def _messages(sent: RecordedCall) -> list[Block]:
    return [block for block in sent.blocks if block.level == "messages"]


def _quotes(said: Sequence[Block], main: Sequence[Block]) -> bool:
    """Whether words of the conversation stand in the side call, as its messages or within one of them."""
    text = "\n".join(map(text_of, said))
    snippets = [words[:_SNIPPET] for block in main[-_LOOKED_AT:] if len(words := text_of(block).strip()) >= _LEAST]
    found = sum(snippet in text for snippet in snippets)
    return found >= min(_QUOTES, max(1, len(snippets)))


def is_short(sent: RecordedCall) -> bool:
    """Whether a call holds a question or two, no conversation."""
    return len({block.message for block in sent.blocks if block.level == "messages"}) <= _SHORT
