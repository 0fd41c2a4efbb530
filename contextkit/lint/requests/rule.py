"""The interface of request rules: a rule is asked about a call, alone or compared with the one before it, and returns
evidence that its hazard shows there.

Takes captured calls already cut and compared; the detector asks, the functions in `rules/` answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, overload

from contextkit.ledger.parsed_call import ParsedCall
from contextkit.ledger.verdict import Verdict
from contextkit.prompt.diff import Change

__all__ = ["Calls", "Change", "Evidence", "On", "RequestRule", "Step"]

On = Literal["change", "step", "call", "session"]
"""change: asked for each difference in the prompt's text, the first rule that answers names it; step: asked once for
each two neighbouring calls of a conversation; call: asked for each call alone; session: asked once, with all calls of a
recording."""


class Calls(Sequence[ParsedCall]):
    """All calls of a recording in order, without their raw bytes: the argument of a session rule."""

    def __init__(self, calls: Sequence[ParsedCall], conversations: Mapping[int, str]) -> None:
        self._calls = calls
        self._names = conversations

    @overload
    def __getitem__(self, index: int) -> ParsedCall: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ParsedCall]: ...
    def __getitem__(self, index: int | slice) -> ParsedCall | Sequence[ParsedCall]:
        return self._calls[index]

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def conversations(self) -> Mapping[str, Sequence[ParsedCall]]:
        """Name of a conversation → its calls, in order."""
        by_name: dict[str, list[ParsedCall]] = {}
        for sent in self._calls:
            by_name.setdefault(self._names[sent.index], []).append(sent)
        return by_name


@dataclass(frozen=True, slots=True)
class Step:
    """A call beside the one before it in its conversation."""

    before: ParsedCall
    """The call before."""
    after: ParsedCall
    """The call that is judged."""
    turn: int
    """Of `after` in its conversation, from 1."""
    changes: tuple[Change, ...]
    """What differs in what both sent, in order; empty where `after` only goes on."""
    earlier: Sequence[ParsedCall]
    """Every call of the conversation before `after`, oldest first; the last is `before`."""
    verdict: Verdict | None = None
    """What the judge says of `after`; None where nothing says what it could have read."""

    @property
    def gap_seconds(self) -> float:
        """From start to start."""
        return self.after.call.at - self.before.call.at


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a rule says that its hazard is here."""

    message: str
    """One sentence with the figures."""
    path: str = ""
    """Where, when it is not the change's own block: `tool_choice`, `messages[3].content[0].cache_control`."""
    was: str = ""
    """What stood there."""
    now: str = ""
    """What stands there."""
    sent: ParsedCall | None = None
    """The call it shows in, for rules asked of a whole session; otherwise the call that is judged."""


@dataclass(frozen=True, slots=True)
class RequestRule:
    """One way a hazard shows in requests."""

    on: On
    """What it is asked of."""
    ask: Callable[..., Evidence | Iterable[Evidence] | None]
    """change: (step, change); step: (step); call: (sent); session: (all calls in order) → evidence, or an iterable of
    it for session."""
    rank: int = 50
    """Rules on a change are asked in this order; the narrower, the lower: a date inside a text is asked before `system
    text changed`."""
