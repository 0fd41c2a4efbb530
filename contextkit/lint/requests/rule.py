"""The interface of request rules: a rule is asked about a call, alone or compared with the one before it, and returns
evidence that its hazard shows there.

Takes captured calls already cut and compared; the detector asks, the functions in `rules/` answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, overload

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.ledger.calls import ModelCall
from contextkit.models import Model
from contextkit.prompt.block import Block
from contextkit.prompt.diff import Change
from contextkit.providers.calls import NO_NAMES, ClientNames, client_names
from contextkit.providers.server_state import named_in

__all__ = ["Calls", "Change", "Evidence", "On", "RecordedCall", "RequestRule", "Step"]

On = Literal["change", "step", "call", "session"]
"""change: asked for each difference in the prompt's text, the first rule that answers names it; step: asked once for
each two neighbouring calls of a conversation; call: asked for each call alone; session: asked once, with all calls of a
recording."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One captured call, cut once."""

    call: ModelCall
    """As recorded; `call.prompt` holds the raw bytes."""
    raw: bytes
    """The body that was sent."""
    body: Mapping[str, Json]
    """The same, parsed."""
    wire: str
    """anthropic_messages, openai_chat, openai_responses, gemini, bedrock_converse."""
    blocks: Sequence[Block]
    """All blocks, in cache order: tools, system, messages."""
    params: Mapping[str, Json]
    """Top-level fields that are not blocks."""
    row: Model
    """The model table on it."""
    usage: Usage | None
    """What was billed."""
    verdict: str
    """The provider's own diagnosis of this call, empty where it gave none."""
    index: int
    """Which call of the whole recording, from 0."""
    rerouted: str = ""
    """Between which hosts an aggregator moved its conversation with this call (`alpha → beta`), or between which
    projects of a cloud its address did (`project alpha → beta`); empty where nobody said so."""
    in_headers: ClientNames = NO_NAMES
    """What the headers of the request name, where they are known."""

    @property
    def endpoint(self) -> str:
        """The wire format."""
        return self.wire

    @property
    def model(self) -> str:
        """The requested model."""
        return self.call.model

    @property
    def session(self) -> str:
        """The recorded session, else the one that the client names."""
        return self.call.session or client_names(self.params, self.in_headers).session

    @property
    def agent(self) -> str:
        """The sub-agent that the client names."""
        return client_names(self.params, self.in_headers).agent

    @property
    def window(self) -> str:
        """The context window that the client names."""
        return client_names(self.params, self.in_headers).window

    @property
    def previous(self) -> str:
        """The name of the stored history that the request continues; empty where it sends its whole history."""
        stored = named_in(self.params)
        return stored.name if stored else ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names that a later request may refer to."""
        previous = self.previous
        return (self.call.id, previous) if previous else (self.call.id,)


class Calls(Sequence[RecordedCall]):
    """All calls of a recording in order, without their raw bytes: the argument of a session rule."""

    def __init__(self, calls: Sequence[RecordedCall], conversations: Mapping[int, str]) -> None:
        self._calls = calls
        self._names = conversations

    @overload
    def __getitem__(self, index: int) -> RecordedCall: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecordedCall]: ...
    def __getitem__(self, index: int | slice) -> RecordedCall | Sequence[RecordedCall]:
        return self._calls[index]

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def conversations(self) -> Mapping[str, Sequence[RecordedCall]]:
        """Name of a conversation → its calls, in order."""
        by_name: dict[str, list[RecordedCall]] = {}
        for sent in self._calls:
            by_name.setdefault(self._names[sent.index], []).append(sent)
        return by_name


@dataclass(frozen=True, slots=True)
class Step:
    """A call beside the one before it in its conversation."""

    before: RecordedCall
    """The call before."""
    after: RecordedCall
    """The call that is judged."""
    turn: int
    """Of `after` in its conversation, from 1."""
    changes: tuple[Change, ...]
    """What differs in what both sent, in order; empty where `after` only goes on."""
    earlier: Sequence[RecordedCall]
    """Every call of the conversation before `after`, oldest first; the last is `before`."""

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
    sent: RecordedCall | None = None
    """The call it shows in, for rules asked of a whole session; otherwise the call that is judged."""
    lost_tokens: int | None = None
    """Tokens that were not in the cache and that a breakpoint would have made readable; None for rules that do not count
    them, whose cost is what the reference cache, or the bill, shows to be lost."""


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
