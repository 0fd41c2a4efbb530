"""Calls the guard does not follow: Gemini, Bedrock, a vendor's own body on Vertex AI, legacy completions, a past that
nobody saw.

Takes calls as they depart and end, gives each its conversation, what broke its prefix, and its row. Bodies and bills
are read as the importers read them, so that a recording says the same however it was made.
"""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.errors import ContextKitError
from contextkit.importers.answers import Answer, amazon_events, answer_of
from contextkit.importers.billed import model_in, provider_of
from contextkit.importers.conversing import Conversations
from contextkit.ledger.calls import Bodies, Exchange
from contextkit.ledger.prompts import wire_of
from contextkit.lint.finding import Finding
from contextkit.lint.requests.cut import cut
from contextkit.lint.requests.rule import RecordedCall
from contextkit.providers.server_state import named_in
from contextkit.providers.usage import usage_of
from contextkit.proxy.passage import Departed, Ended
from contextkit.terminal import sanitize
from contextkit.watcher.breaks import broken, catalogue, step_of
from contextkit.watcher.guard import fields_of

MOST_CONVERSATIONS, MOST_KEPT_BYTES = 256, 1 << 26
"""Conversations whose last request is kept, and bytes of them together."""
_BINARY = "application/vnd.amazon.eventstream"
_EXCEPTION = re.compile(rb":exception-type\x07..([\w.-]{1,64})", re.DOTALL)
"""How Bedrock ends a stream that failed (botocore/eventstream.py)."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A call under way."""

    session: str
    """Its conversation."""
    turn: int
    """Its number there, from 1."""
    model: str
    """As asked, in the body or in the address."""
    provider: str
    """Who bills it."""
    findings: tuple[Finding, ...]
    """What broke its prefix."""


@dataclass(slots=True)
class Elsewhere:
    """Their conversations."""

    run: str
    """How each is named."""
    upstream: str
    """Who is called."""
    _conversations: Conversations = field(default_factory=Conversations)
    _last: OrderedDict[str, RecordedCall] = field(default_factory=OrderedDict)
    _turns: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _n_bytes: int = 0
    _n_alone: int = 0

    def left(self, call: Departed, body: bytes) -> Followed:
        """A call was passed on, with this body, plain and without secrets."""
        fields = fields_of(body)
        model = str(fields.get("model") or model_in(call.path)).removeprefix("models/")
        session = self._session(call.wire, model, fields)
        turn = self._turns.pop(session, 0) + 1
        self._turns[session] = turn
        if len(self._turns) > 16 * MOST_CONVERSATIONS:
            self._turns.popitem(last=False)
        provider = billed_by(self.upstream, call, model, fields)
        return Followed(session, turn, model, provider, self._compared(call, body, session, turn, model, provider))

    def unfollowed(self, call: Departed, body: bytes) -> Followed:
        """A call that is recorded and compared with none: a conversation of its own."""
        fields = fields_of(body)
        model = str(fields.get("model") or model_in(call.path)).removeprefix("models/")
        return Followed(
            self._session(call.wire, model, {}), 1, model, billed_by(self.upstream, call, model, fields), ()
        )

    def row(self, followed: Followed, call: Departed, ended: Ended, answer: Answer | None) -> Exchange:
        """What is known once it is over, its body aside."""
        answer = answer or Answer()
        name = answer.id or f"{followed.session}-{followed.turn}"
        times = call.at, ended.first_byte_at, ended.ended_at
        return Exchange(
            name,
            followed.session,
            "main",
            *times,
            followed.provider,
            followed.model,
            None,
            bill_of(answer),
            None,
            _failure(answer, ended),
        )

    def _session(self, wire: str, model: str, fields: dict[str, Any]) -> str:
        if not fields or named_in(fields) is not None:
            self._n_alone += 1
            return f"{self.run}-alone-{self._n_alone}"
        family = wire.partition("_")[0]
        return f"{self.run}-{family}-{self._conversations.place(family, f'{wire} {model}', fields) + 1}"

    def _compared(
        self, call: Departed, body: bytes, session: str, turn: int, model: str, provider: str
    ) -> tuple[Finding, ...]:
        """What breaks between a conversation's last request and this one; nothing where either cannot be read."""
        before = self._last.pop(session, None)
        self._n_bytes -= len(before.raw) if before else 0
        asked = Exchange("", session, "main", call.at, None, None, provider, model, Bodies(body), None, None, None)
        try:
            sent = cut(asked, before, index=1)
        except ContextKitError:
            return ()
        if sent is None:
            return ()
        self._keep(session, sent)
        return _breaks(before, sent, turn, session) if before else ()

    def _keep(self, session: str, sent: RecordedCall) -> None:
        self._last[session] = sent
        self._n_bytes += len(sent.raw)
        while len(self._last) > 1 and (len(self._last) > MOST_CONVERSATIONS or self._n_bytes > MOST_KEPT_BYTES):
            self._n_bytes -= len(self._last.popitem(last=False)[1].raw)


def _breaks(before: RecordedCall, sent: RecordedCall, turn: int, session: str) -> tuple[Finding, ...]:
    try:
        return tuple(broken(step_of(replace(before, index=0), sent, turn), catalogue(), session))
    except Exception as error:  # noqa: BLE001 - a fault of a rule must not end the recording of what passes
        warnings.warn(
            sanitize(f"a request was recorded unjudged, a rule failed ({type(error).__name__})"), stacklevel=2
        )
        return ()


def billed_by(upstream: str, call: Departed, model: str, fields: dict[str, Json]) -> str:
    """The id prices are looked up under: by who is called, then by wire and model; empty where nobody knows."""
    wire = wire_of(fields, model.lower()) or call.wire
    found = provider_of(f"{upstream}{call.path}", "", wire, model, str(fields.get("anthropic_version") or ""))
    # a router's names have a slash, but so have those of models on a host of one's own
    return "" if found == "openrouter" and found not in upstream else found


def heard(call: Ended) -> Answer | None:
    """What a response says, decoded as it is; None where it says nothing that can be read."""
    text = call.body
    if not call.content_type.startswith(_BINARY):
        return answer_of(text.decode("utf-8", "replace"))
    answer, exception = answer_of(list(amazon_events(text))), _EXCEPTION.search(text)
    return (
        answer
        if exception is None
        else replace(answer or Answer(is_stream=True), error=exception[1].decode("ascii"), has_ended=False)
    )


def bill_of(answer: Answer | None) -> Usage | None:
    """What it was billed, None where nothing says it; a bill that contradicts itself is none."""
    usage = usage_of(answer.counts, lambda what: None) if answer and answer.counts else None
    # what a stream said of its output before it was cut is no bill
    return replace(usage, output=None) if usage and answer and answer.is_stream and not answer.has_ended else usage


def _failure(answer: Answer, ended: Ended) -> str | None:
    """Why it did not end well, as far as the body tells."""
    if answer.has_ended:
        return None
    return answer.error or ended.error or ("cut" if answer.is_stream else None)
