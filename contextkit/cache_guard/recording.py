"""The model calls of one pass of a test, recorded at the clients' transports for the judge."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace

from contextkit.canonical import Json
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.transport import Call
from contextkit.ledger.verdict import Verdict
from contextkit.lint.finding import Finding
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.watcher.guard import EndedCall, Guard
from contextkit.watcher.live_judge import LiveJudge, Ticket
from contextkit.watcher.notify import Notifier


@dataclass(frozen=True, slots=True)
class SentCall:
    """A call that was answered."""

    call: ModelCall
    """Its row, with the name of its conversation, without a bill: a reply that a test made up bills nothing real."""
    body: bytes
    """Its request, with the history that the provider stores."""
    sent_from: str = ""
    """`file:line` of the code that sent it."""


class _Collected(LiveJudge[EndedCall]):
    """Keeps calls for a judge that sees all passes."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[SentCall] = []

    def forecast(self, call: ModelCall, body: bytes) -> Verdict | None:
        """Return nothing: a request is judged when its test has ended."""
        return None

    def ended(
        self, ticket: Ticket | None, call: ModelCall, body: bytes | None, about: EndedCall
    ) -> list[tuple[EndedCall, Verdict | None]]:
        """Keep a call that was answered; a reply that a test made up may lack what ends one."""
        if body is not None or call.first_byte_at is not None:
            sent = about.request
            self.calls.append(SentCall(replace(call, usage=None, error=None), body or sent.body, str(sent.where)))
        return []


class PassRecorder:
    """Records the calls of one pass; a `Watcher` of transports."""

    def __init__(self, clock: Callable[[], float], after_request: Callable[[], object] = lambda: None) -> None:
        """`clock` is the real one; `after_request` is called when a request was built, before it is sent."""
        self._collected, self._after_request = _Collected(), after_request
        self.findings: list[Finding] = []
        """What its requests show by themselves: breakpoints that a provider refuses."""
        self._guard = Guard(Notifier(self.findings.append, "anthropic"), clock=clock, judge=self._collected)

    @property
    def calls(self) -> list[SentCall]:
        """The calls in the order in which they were sent."""
        return sorted(self._collected.calls, key=lambda one: one.call.at)

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """Begin a call."""
        call = self._guard.start(method, path, body, names)
        if call is not None:
            self._after_request()
        return call

    def close(self) -> None:
        """Do nothing: clients come and go in a test."""


_FIELDS = ("id", "session", "at", "first_byte_at", "ended_at", "provider", "model", "account", "host")


def as_json(calls: list[SentCall]) -> list[Json]:
    """Write calls for another process."""
    return [
        {
            **{name: getattr(one.call, name) for name in _FIELDS},
            "body": b64encode(one.body).decode(),
            "sent_from": one.sent_from,
        }
        for one in calls
    ]


def from_json(rows: list[dict[str, Json]]) -> list[SentCall]:
    """Read the calls that another process wrote."""
    return [
        SentCall(
            ModelCall(**{name: row[name] for name in _FIELDS}),
            b64decode(str(row["body"])),
            str(row["sent_from"]),
        )
        for row in rows
    ]
