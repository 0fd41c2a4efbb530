"""Calls that `watch` does not follow: Gemini, Bedrock, a vendor's own body on Vertex AI, legacy completions, a stored
history that was not observed.

Gives each call its conversation, where its prefix breaks, and its ledger row. Responses and bills are read as the
importers read them, so that a recording has the same content however it was made.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, parse_object
from contextkit.content_encoding import UndecodableBody, decoded
from contextkit.errors import ContextKitError
from contextkit.importers.answers import amazon_events, answer_of
from contextkit.importers.billed import provider_of_request, requested_model
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.parsed_call import RECENT, ParsedCall, nearest, parse_call
from contextkit.lint.finding import Finding
from contextkit.lint.requests.findings import Spot, all_codes
from contextkit.prompt.conversations import Conversations
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.providers.endpoints import endpoint_of
from contextkit.providers.histories import named_in
from contextkit.providers.response_facts import ResponseFacts
from contextkit.proxy.observer import Departed, Ended
from contextkit.server.endpoints.eventstream import CONTENT_TYPE
from contextkit.watcher.guard import broken_by
from contextkit.watcher.live_judge import LiveJudge, Ticket

MOST_CONVERSATIONS, MOST_BYTES = 256, 1 << 26
"""Conversations whose last request is stored, and bytes of them together."""
_EXCEPTION = re.compile(rb":exception-type\x07..([\w.-]{1,64})", re.DOTALL)
"""How Bedrock ends a stream that failed (botocore/eventstream.py)."""


@dataclass(frozen=True, slots=True)
class OtherCall:
    """A call under way."""

    session: str
    """Its conversation."""
    turn: int
    """Its number there, from 1."""
    model: str
    """The requested model, in the body or in the address."""
    provider: str
    """Who bills it."""
    findings: tuple[Finding, ...]
    """Where its prefix breaks."""
    ticket: Ticket | None = None
    """Its ticket at the judge; None for one that is not judged."""


class OtherEndpoints:
    """The conversations of these calls."""

    def __init__(self, run: str) -> None:
        """`run` begins the name of each conversation."""
        self._run = run
        self._conversations: Conversations[ParsedCall] = Conversations(MOST_CONVERSATIONS, most_bytes=MOST_BYTES)
        self._numbers: Counter[str] = Counter()
        self._judge: LiveJudge[None] = LiveJudge()

    def begin(self, call: Departed, body: bytes, names: ClientNames = NO_NAMES) -> OtherCall:
        """A call was passed on, with this body, decoded and redacted, and these names in its headers."""
        fields = parse_object(body)
        model = requested_model(fields, call.path)
        provider = billed_by(call, model, fields)
        family = call.wire.partition("_")[0]
        recorded = self._parsed_call(call, body, model, provider, family, names) if named_in(fields) is None else None
        if recorded is None:
            return OtherCall(self._single(), 1, model, provider, ())
        placement = self._conversations.place(recorded, (family,), n_bytes=len(body))
        conversation = placement.conversation
        if conversation.name is None:
            self._numbers[family] += 1
            conversation.name = f"{self._run}-{family}-{self._numbers[family]}", "main"
        session, turn = conversation.name[0], conversation.n_calls
        sent = replace(recorded.call, id=f"{session}/{turn}", session=session, account=names.account, host=names.host)
        forecast = self._judge.forecast(sent, body)
        spot = Spot(session, turn, "")
        findings = broken_by(forecast, recorded, spot, all_codes()) if forecast else []
        return OtherCall(session, turn, model, provider, tuple(findings), self._judge.sent(call.at))

    def ended(self, other: OtherCall, row: ModelCall, body: bytes) -> None:
        """Judge a call that ended, so that later ones are compared with it."""
        self._judge.ended(other.ticket, replace(row, id=f"{other.session}/{other.turn}"), body, None)

    def begin_unanalysed(self, call: Departed, body: bytes) -> OtherCall:
        """A call that is recorded and compared with none: a conversation of its own."""
        fields = parse_object(body)
        model = requested_model(fields, call.path)
        return OtherCall(self._single(), 1, model, billed_by(call, model, fields), ())

    def row(self, other: OtherCall, call: Departed, ended: Ended, answer: ResponseFacts | None) -> ModelCall:
        """The ledger row of a call that is over, without its body."""
        answer = answer or ResponseFacts()
        name, bill = answer.id or f"{other.session}-{other.turn}", bill_of(answer, other.model)
        times = call.at, None if ended.status >= 400 else ended.first_byte_at, ended.ended_at
        end = None, _failure(answer, ended), answer.billed_usd
        return ModelCall(name, other.session, "main", *times, other.provider, other.model, None, bill, *end)

    def _single(self) -> str:
        self._numbers["alone"] += 1
        return f"{self._run}-alone-{self._numbers['alone']}"

    def _parsed_call(
        self, call: Departed, body: bytes, model: str, provider: str, family: str, names: ClientNames
    ) -> ParsedCall | None:
        """Parse the body into blocks; None where it cannot be read."""
        recorded = ModelCall(id="", at=call.at, provider=provider, model=model, prompt=Bodies(body))
        try:
            near = nearest(self._conversations.recent((family,), RECENT), body)
            return parse_call(recorded, near, in_headers=names)
        except ContextKitError:
            return None


def billed_by(call: Departed, model: str, fields: dict[str, Json]) -> str:
    """The id prices are looked up under: by who is called, then by wire and model; empty where nobody knows."""
    wire = endpoint_of(fields, model.lower()) or call.wire
    provider = provider_of_request(f"{call.upstream}{call.path}", fields, wire, model)
    # a router's names have a slash, but so have those of models on a host of one's own
    return "" if provider == "openrouter" and provider not in call.upstream else provider


def usage_in(model: str, content_type: str, encoding: str, body: bytes, is_whole: bool) -> Usage | None:
    """The usage that a response of one of these endpoints reports, None where it says none."""
    try:
        text = decoded(body, encoding, MOST_BYTES, is_partial=not is_whole) if encoding else body
    except UndecodableBody:
        return None
    return bill_of(answer_in(Ended(0, 200, content_type, "", text, None, 0.0, "")), model)


def answer_in(call: Ended) -> ResponseFacts | None:
    """The answer in a decoded response; None where it has none that can be read."""
    text = call.body
    if not call.content_type.startswith(CONTENT_TYPE):
        return answer_of(text.decode("utf-8", "replace"))
    answer, exception = answer_of(list(amazon_events(text))), _EXCEPTION.search(text)
    if exception is None:
        return answer
    return replace(answer or ResponseFacts(is_stream=True), error=exception[1].decode("ascii"), has_ended=False)


def bill_of(answer: ResponseFacts | None, model: str) -> Usage | None:
    """The usage that was billed, None where it is unknown or contradicts itself; the output of a cut stream is partial."""
    return answer.usage(model=model) if answer is not None and answer.counts else None


def _failure(answer: ResponseFacts, ended: Ended) -> str | None:
    """Why it did not end well, as far as the body tells."""
    if answer.has_ended:
        return None
    return answer.error or ended.error or ("cut" if answer.is_stream else None)
