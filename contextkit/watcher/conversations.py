"""The conversations of a watched client: bounded storage of each one's last request, for `prompt/conversations.py`.

A request that only continues an earlier one is found by one memory compare; nothing is parsed for it. Memory is
bounded: the conversations that were not used for longest are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contextkit.ledger.parsed_call import ParsedCall
from contextkit.prompt.conversations import BodyPrefix, Match, choose, longest, probes
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.providers.histories import PREVIOUS, Unknown

RUN = "watch"
"""How the name of a run begins."""
MOST_BYTES = 1 << 26
"""Memory of the stored conversations: the ones not used for longest go first."""
_MOST = 1 << 10
"""A conversation counts at least this part of the memory: each request is compared with all of them."""
_MOST_PARSED = 8
"""Earlier requests parsed to match one request."""


@dataclass(slots=True, eq=False)
class Conversation:
    """One conversation, up to its last request."""

    name: str
    """`watch-1`."""
    wire: str
    """Its endpoint."""
    model: str
    """The model requested last."""
    prefix: BodyPrefix
    """The last request, as the caller made it."""
    at: float
    """When it was sent."""
    turn: int
    """How many requests were sent, from 1."""
    call: ParsedCall | None = None
    """The last request cut into blocks, where that was needed and it is small."""
    previous: str = ""
    """Id of the last response."""
    stored: Unknown | None = None
    """The history that its last request continues, stored by the provider; None where it sent its whole history."""
    label: str = ""
    """The name its caller gave it; empty where its text identifies it."""
    names: ClientNames = NO_NAMES
    """What the headers of its last request name."""

    @property
    def body(self) -> bytes:
        """The last request's body."""
        return self.prefix.body

    @property
    def n_bytes(self) -> int:
        """The memory it takes: the body, and its pieces between markers."""
        return 2 * len(self.body)


class Conversations:
    """All of them, the one used last at the end. Not locked: the owner does that."""

    __slots__ = ("_least_bytes", "_most_bytes", "_n_bytes", "_numbers", "_run", "_stored")

    def __init__(self, run: str = RUN, most_bytes: int = MOST_BYTES) -> None:
        """`run` begins the name of each; `most_bytes` is the memory they may take."""
        self._run, self._most_bytes = run, most_bytes
        self._least_bytes = most_bytes // _MOST
        self._stored: OrderedDict[int, Conversation] = OrderedDict()
        self._n_bytes = 0
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._stored)

    def of(self, wire: str, label: str = "") -> Iterator[Conversation]:
        """Yield those of one endpoint and one label; the one used last first."""
        return (one for one in reversed(self._stored.values()) if one.wire == wire and one.label == label)

    def continued(
        self, wire: str, body: bytes, names: ClientNames, label: str = ""
    ) -> tuple[Conversation, BodyPrefix] | None:
        """Find the conversation whose bytes `body` continues, the longest where several fit, with the prefix of `body`.

        None where there is none, or where the headers of the requests have different `names`: that takes more to match.
        """
        continued = []
        for one in self.of(wire, label):
            if one.names is not names and one.names != names:
                continue
            prefix = one.prefix.continued_by(body)
            if prefix is not None:
                continued.append((one, one.prefix, prefix))
        return longest(continued)

    def by_stored_history(self, wire: str, stored: Unknown, label: str = "") -> Conversation | None:
        """Find the conversation whose last response, or whose last request, has the name of the stored history."""
        for one in self.of(wire, label):
            if one.previous == stored.name if stored.field == PREVIOUS else one.stored == stored:
                return one
        return None

    def matching(
        self, wire: str, call: ParsedCall, read: Callable[[Conversation], ParsedCall], label: str = ""
    ) -> Match[Conversation, ParsedCall] | None:
        """Find the conversation that `call` continues with another past; None where it begins one, or branches off.

        `read` cuts a conversation's last request. A call with a label continues the conversation of that label
        whatever its text, unless it is a branch.
        """
        pieces = probes(call.blocks)
        whole = [one for one in self.of(wire, label) if one.stored is None]
        likely = [one for one in whole if any(piece in one.body for piece in pieces)][:_MOST_PARSED]
        labelled = (whole[0], read(whole[0])) if label and whole else None
        return choose([(one, read(one)) for one in likely], call, labelled)

    def new_name(self, wire: str, label: str = "") -> str:
        """Make the name of a new conversation; a branch of a labelled one has a number behind the label."""
        if label and next(self.of(wire, label), None) is None:
            return label + self._run.removeprefix(RUN)
        self._numbers += 1
        return f"{label}{self._run.removeprefix(RUN)}#{self._numbers}" if label else f"{self._run}-{self._numbers}"

    def store(self, conversation: Conversation, change: Callable[[Conversation], object] = lambda one: None) -> None:
        """Store a new one, or `change` a stored one, as the one used last."""
        key = id(conversation)
        if self._stored.pop(key, None):
            self._n_bytes -= self._counted(conversation)
        change(conversation)
        self._stored[key] = conversation
        self._n_bytes += self._counted(conversation)
        while len(self._stored) > 1 and self._n_bytes > self._most_bytes:
            self._n_bytes -= self._counted(self._stored.popitem(last=False)[1])

    def _counted(self, conversation: Conversation) -> int:
        return max(conversation.n_bytes, self._least_bytes)
