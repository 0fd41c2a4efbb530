"""The guard of a watched client: judges each request before it is sent, and each call by its bill.

Takes the bytes of requests and responses from the transport, sends findings to a `Notifier` and rows to a ledger. It
never changes a call and lets pass what it cannot read. One lock, held for a memory compare, protects its state between
threads. `ResponseHistories` restores what requests leave out because the provider stores it; `CallRecorder` writes
whole bodies with secrets redacted, and never headers.
"""

from __future__ import annotations

import json
import logging
import os
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from threading import Lock
from typing import NamedTuple

from contextkit.canonical import Json, canonical, parse, parse_object
from contextkit.errors import (
    ContextKitError,
    PrefixBroken,
    StorageError,
    UnreadableRequest,
    UsageError,
)
from contextkit.ledger.calls import Bodies, ModelCall, Remark
from contextkit.ledger.changes.kinds import gaps_between
from contextkit.ledger.failure_names import CUT
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.misses import priced_gaps
from contextkit.ledger.parsed_call import ParsedCall, parse_call
from contextkit.ledger.request_checks import CAUSES_BEFORE_SENDING, CHECKS_BEFORE_SENDING, failed_checks
from contextkit.ledger.verdict import Verdict
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.findings import (
    Codes,
    Spot,
    agreement,
    all_codes,
    findings_of,
    findings_of_gaps,
)
from contextkit.models import find_model
from contextkit.prompt.breakpoints import MAX_BREAKPOINTS
from contextkit.prompt.conversations import BodyPrefix, has_same_head
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.providers.endpoints import BODIES
from contextkit.providers.histories import CONVERSATION, PREVIOUS, Histories, Unknown, named_in
from contextkit.providers.paths import FOLLOWED, wire_of
from contextkit.providers.request_fields import UnlistedFields
from contextkit.providers.response_facts import ResponseBytes, ResponseSummary, response_bytes
from contextkit.redact import redact
from contextkit.terminal import sanitize
from contextkit.watcher.conversations import RUN, Conversation, Conversations
from contextkit.watcher.diagnostics import with_diagnostics
from contextkit.watcher.live_judge import LiveJudge, Ticket, log_internal_error
from contextkit.watcher.naming import current
from contextkit.watcher.notify import Caller, Notifier, caller

MOST_BYTES = 1 << 26
"""Limit of stored requests and responses that no request has continued yet; the oldest are evicted first."""
_NAMES = tuple(f'"{name}"'.encode() for name in (PREVIOUS, CONVERSATION))


class ResponseHistories:
    """Inputs and outputs of observed responses, so that a request that continues one can be completed.

    No body is parsed before a request names an earlier response.

    >>> histories = ResponseHistories()
    >>> histories.add_response("resp_1", b'{"input":"hi"}', [{"role": "assistant", "content": "Hello."}])
    >>> histories.whole(b'{"input":"and?","previous_response_id":"resp_1"}').count(b'"role"')
    3
    """

    __slots__ = ("_has_responses", "_most", "_n_bytes", "_stored", "_waiting")

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._n_bytes = most_bytes, 0
        self._waiting: OrderedDict[str, tuple[bytes, bytes]] = OrderedDict()
        self._stored, self._has_responses = Histories(most_bytes), False

    def add_response(self, name: str, body: bytes, output: list[Json]) -> None:
        """Store the output items of response `name` to the request `body`, as it was sent."""
        if name in self._waiting:
            return
        items = canonical(output)
        self._waiting[name], self._has_responses = (body, items), True
        self._n_bytes += len(body) + len(items)
        while self._n_bytes > self._most:
            self._n_bytes -= sum(map(len, self._waiting.popitem(last=False)[1]))

    def whole(self, body: bytes) -> bytes:
        """Put the stored history into the input of `body`; return it unchanged where it is complete or the history
        unknown.
        """
        fields = parse_object(body) if self._has_responses and any(name in body for name in _NAMES) else {}
        before = named_in(fields)
        if before is None:
            return body
        self._learn(before.name)
        whole = self._stored.whole(fields)
        if isinstance(whole, Unknown):
            return body
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    def _learn(self, name: str) -> None:
        """Parse a response and those it continues, oldest first."""
        chain = []
        while name in self._waiting:
            body, items = self._waiting.pop(name)
            self._n_bytes -= len(body) + len(items)
            fields = parse_object(body)
            chain.append((name, fields, parse(items)))
            before = named_in(fields)
            name = before.name if before else ""
        for name, fields, output in reversed(chain):
            self._stored.follow(name, fields, output)


class CallRecorder:
    """Writes the calls of a watched client to a ledger, which is opened at once and closed with the client."""

    __slots__ = ("_ledger",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `StorageError` where the file cannot be opened, `UnreadableLog` where it is no ledger."""
        if not isinstance(path, str | os.PathLike):
            raise UsageError(f"record is the path of a ledger, or None, not {type(path).__name__}")
        self._ledger: Ledger | None = Ledger.open(path)

    def recorded(self) -> Ledger:
        """Return everything in it so far; nothing where its file is closed."""
        return Ledger() if self._ledger is None else self._ledger

    def append(self, call: ModelCall, body: bytes) -> None:
        """Append one call with its body; a failing disk stops the recording with a warning, not the conversation.

        The file is opened again in a forked process (a worker of a web server) and after it was rotated.
        """
        if self._ledger is not None:
            record = replace(call, prompt=Bodies(redact(body)))
            self._write(lambda ledger: ledger.append(record))

    def remark(self, remark: Remark) -> None:
        """Append a remark in front of its call; a failing disk is reported as in `append`."""
        self._write(lambda ledger: ledger.remark(remark))

    def _write(self, put: Callable[[Ledger], object]) -> None:
        if self._ledger is None:
            return
        try:
            try:
                put(self._ledger)
            except StorageError:
                self._ledger.close()
                self._ledger = Ledger.open(self._ledger.path or "")
                put(self._ledger)
        except (OSError, StorageError) as fault:
            what = (fault.strerror if isinstance(fault, OSError) else None) or fault
            text = f"{self._ledger.path} takes no more rows ({what}): recording has stopped, the client goes on"
            self.close()
            try:
                warnings.warn(sanitize(text), stacklevel=3)
            except UserWarning:  # a filter made an error of it: the reply that was just read must not be lost to that
                logging.getLogger("contextkit.watch").error("%s", sanitize(text))  # noqa: TRY400 - the text says it all

    def close(self) -> None:
        """Close the file."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None


_MOST_CUT_BYTES = 1 << 16
"""Larger requests are parsed again when needed: their blocks take several times the memory of their bytes."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """Facts of a request at the time it is sent."""

    wire: str
    """Its endpoint."""
    model: str
    """Model the request names."""
    body: bytes
    """Body as the caller made it."""
    at: float
    """Time it was sent, in seconds since 1970."""
    where: Caller
    """Line that sent it."""
    name: str
    """Its conversation."""
    turn: int
    """Number of the call in its conversation, from 1."""
    findings: tuple[Finding, ...]
    """Findings reported before it was sent."""
    names: ClientNames
    """What its headers name."""


class EndedCall(NamedTuple):
    """A call that ended and is judged when those sent before it have ended."""

    request: SentRequest
    """Its request."""
    call: ModelCall
    """Its row."""
    diagnosis: str
    """The provider's own."""


class Guard:
    """Watches one client."""

    __slots__ = (
        "_clock",
        "_codes",
        "_conversations",
        "_has_diagnostics",
        "_histories",
        "_judge",
        "_lock",
        "_notifier",
        "_recording",
        "_unlisted",
        "_unmarked",
    )

    def __init__(
        self,
        notifier: Notifier,
        recording: CallRecorder | None = None,
        *,
        asks: bool = False,
        hazards: Sequence[Hazard] | None = None,
        clock: Callable[[], float] = time.time,
        conversations: Conversations | None = None,
        judge: LiveJudge[EndedCall] | None = None,
    ) -> None:
        """`asks` adds the provider's own diagnostics to requests; `hazards` replaces the catalogue.

        `conversations` replaces the default store of conversations, `judge` the default judge.
        """
        self._notifier, self._recording, self._has_diagnostics, self._clock = notifier, recording, asks, clock
        self._codes = None if hazards is None else Codes(hazards)
        self._lock, self._histories = Lock(), ResponseHistories()
        self._judge: LiveJudge[EndedCall] = LiveJudge() if judge is None else judge
        self._unlisted = UnlistedFields()
        self._unmarked: set[str] = set()
        """Models whose requests were reported to mark nothing."""
        # A ledger may hold several runs; conversations of different runs get different names.
        run = RUN if recording is None else f"{RUN}-{token_hex(4)}"
        self._conversations = Conversations(run) if conversations is None else conversations

    def close(self) -> None:
        """Close the ledger."""
        if self._recording is not None:
            self._recording.close()

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> WatchedCall | None:
        """Compare a request with the last one of its conversation before it is sent; None for other endpoints.

        `names` are the session and agent named in its headers. Raises `PrefixBroken` where `on_break` is "raise".
        """
        wire = wire_of(method, path)
        if not body or wire not in FOLLOWED:
            return None
        where, at = caller(), self._clock()
        try:
            conversation, sent_request = self._continue_or_parse(wire, body, names, where, at)
        except (PrefixBroken, Warning):
            raise
        except ContextKitError:
            return None  # unreadable (the provider will refuse it), or its history was not observed
        except Exception as error:  # noqa: BLE001 - an internal error must not stop the caller's request
            log_internal_error("a request was not compared", error)
            return None
        outgoing = self._with_diagnostics(conversation, sent_request)
        return WatchedCall(
            self, conversation, sent_request, outgoing, self._whole(outgoing), ticket=self._judge.sent(at)
        )

    def forecast_expired(self, wire: str, body: bytes, at: float, names: ClientNames) -> tuple[int, float | None]:
        """Return the tokens that a request would pay again since their cache has expired, and what that costs more.

        0 where its endpoint is not followed or its prompt cannot be read. Nothing is noted of the request.
        """
        if wire not in FOLLOWED:
            return 0, 0.0
        call = _call_of(wire, str(parse_object(body).get("model") or ""), "forecast", 1, at, names)
        verdict = self._judge.forecast(call, self._whole(body))
        expired = tuple(gap for gap in verdict.gaps if gap.cause in _PAUSES) if verdict else ()
        if verdict is None or not expired:
            return 0, 0.0
        costs = [usd for _, usd in priced_gaps(replace(verdict, gaps=expired), call)]
        known = [usd for usd in costs if usd is not None]
        return sum(gap.tokens for gap in expired), sum(known) if len(known) == len(costs) else None

    def _whole(self, body: bytes) -> bytes:
        with self._lock:
            return self._histories.whole(body)

    def _continue_or_parse(
        self, wire: str, body: bytes, names: ClientNames, where: Caller, at: float
    ) -> tuple[Conversation, SentRequest]:
        with self._lock:
            match = self._conversations.continued(wire, body, names, current())
            if match is not None and not _has_too_many_markers(*match):
                one, prefix = match
                self._conversations.store(one, lambda one: _advance(one, prefix, at, None))
                return one, _sent_request(one, body, at, where)
        return self._parse_and_judge(wire, body, names, where, at)

    def _parse_and_judge(
        self, wire: str, body: bytes, names: ClientNames, where: Caller, at: float
    ) -> tuple[Conversation, SentRequest]:
        """Judge a request that does not simply append to an earlier one; a request that is stopped is not stored."""
        call = parsed_body(body, wire, at=at, in_headers=names)
        for text in self._unlisted.new(wire, call.body):
            logging.getLogger("contextkit.watch").warning("%s", sanitize(text))
        stored = named_in(call.body)
        prefix = (
            BodyPrefix.of(body, call.body, BODIES[wire].message_field) if stored is None else BodyPrefix(body, (), b"")
        )
        conversations, label = self._conversations, current()
        with self._lock:
            match = conversations.matching(wire, call, _read, label) if stored is None else None
            past = match.candidate if match else None
            if stored is not None:
                past = conversations.by_stored_history(wire, stored, label)
                if past is None and stored.field == PREVIOUS:
                    raise UnreadableRequest(
                        "body", "continues a response that was not observed, or that another request has continued"
                    )
            before = _read(past) if past else None
            # A retry behind another static prefix leaves the earlier request as it is: that may still be continued.
            is_retry = match is not None and match.relation == "retry"
            is_apart = before is None or (is_retry and not label and not has_same_head(before, call))
            own = None if is_apart else past
            name, turn = past.name if past else conversations.new_name(wire, label), past.turn + 1 if past else 1
        whole = body if stored is None else self._whole(body)
        is_whole = stored is None or whole is not body
        forecast = self._judge.forecast(_call_of(wire, call.model, name, turn, at, names), whole) if is_whole else None
        findings = self._findings(before, call, forecast, Spot(name, turn, "", str(where)))
        for finding in findings:
            self._notifier.before(finding, where)
        conversation = own or Conversation(name, wire, "", prefix, at, turn - 1, label=label)
        with self._lock:
            conversation.names = names
            conversations.store(conversation, lambda one: _advance(one, prefix, at, call, stored))
            return conversation, _sent_request(conversation, body, at, where, findings)

    def _findings(
        self, before: ParsedCall | None, sent: ParsedCall, forecast: Verdict | None, spot: Spot
    ) -> tuple[Finding, ...]:
        """Say what breaks the prefix, with its cost, and which markers a provider refuses.

        A request that continues a history that only the provider has is compared with `before`.
        """
        codes = self._all_codes()
        refused = failed_checks(sent, CHECKS_BEFORE_SENDING)
        if forecast is not None:
            broken = broken_by(forecast, sent, spot, codes)
            return (*broken, *findings_of_gaps(refused, sent.call, spot, codes, "guard"))
        changed = gaps_between(before, sent) if before and sent.previous else ()
        return (*findings_of_gaps([*changed, *refused], sent.call, spot, codes, "guard"),)

    def _all_codes(self) -> Codes:
        return all_codes() if self._codes is None else self._codes

    def _with_diagnostics(self, conversation: Conversation, sent_request: SentRequest) -> bytes:
        if not self._has_diagnostics:
            return sent_request.body
        return with_diagnostics(sent_request.body, parse(sent_request.body), sent_request.wire, conversation.previous)

    # Responses
    # ------------------------------------------------------------------------------------------------------

    def finish(
        self,
        conversation: Conversation,
        sent_request: SentRequest,
        call: ModelCall,
        bill: ResponseSummary,
        watched: WatchedCall,
    ) -> None:
        """Finish a call: update its conversation, record it, and report what its bill shows."""
        with self._lock:
            conversation.previous = bill.id or conversation.previous
        numbered = replace(call, id=_id_of(sent_request.name, sent_request.turn), session=sent_request.name)
        is_answered = call.usage is not None or call.error is None
        end = EndedCall(sent_request, call, bill.verdict)
        judged = self._judge.ended(watched.ticket, numbered, watched.whole if is_answered else None, end)
        if not is_answered:
            judged.append((end, None))
        if bill.items is not None:
            with self._lock:
                self._histories.add_response(bill.id, watched.body, bill.items)
        if self._recording is not None:
            if bill.verdict:
                self._recording.remark(Remark("verdict", call.id, bill.verdict))
            self._recording.append(call, watched.whole)
        for one, verdict in judged:
            for finding in self._findings_after(one.request, one.call, verdict, one.diagnosis):
                self._notifier.after(finding, one.request.where)

    def _findings_after(
        self, sent_request: SentRequest, call: ModelCall, verdict: Verdict | None, diagnosis: str
    ) -> list[Finding]:
        """Say what the bill shows that was not said before the request left: the largest loss, if it is a miss."""
        if diagnosis:
            return [self._verdict_finding(sent_request, diagnosis)]
        if verdict is None or verdict.read is None or not verdict.is_miss:
            return []
        spot = Spot(sent_request.name, sent_request.turn, "", str(sent_request.where))
        reported = {finding.code for finding in sent_request.findings}
        found = findings_of(verdict, call, spot, self._all_codes(), "provider")
        new = [one for one in found if one.cost_tokens and one.code not in reported][:1]
        if any(one.code == _NOTHING_MARKED for one in new):  # once for each model: no request of it marks anything
            new = [] if call.model in self._unmarked else new
            self._unmarked.add(call.model)
        return new

    def _verdict_finding(self, sent_request: SentRequest, verdict: str) -> Finding:
        """Relate the provider's verdict to a finding reported before the request was sent, or report it as new."""
        if not sent_request.findings:
            return self._unexpected_verdict(sent_request, verdict)
        confirmed = [self._confirmed(finding, verdict) for finding in sent_request.findings]
        return next((one for one in confirmed if one.message == _AGREED["confirmed"]), confirmed[0])

    def _confirmed(self, finding: Finding, verdict: str) -> Finding:
        """Repeat a finding with the provider's agreement, without the cost already reported."""
        items = replace(finding, detector="provider", verdict=verdict, cost_tokens=None, cost_usd=None)
        hazard = self._all_codes().hazards.get(finding.code)
        return replace(items, message=_AGREED["silent" if hazard is None else agreement(items, hazard)])

    def _unexpected_verdict(self, sent_request: SentRequest, verdict: str) -> Finding:
        """Report a verdict on a request without findings."""
        code = _VERDICTS.get(verdict, _OTHER_SETTING)
        return Finding(
            code,
            "the provider found a difference that the guard did not",
            _place(sent_request),
            "provider",
            verdict=verdict,
        )


_NOTHING_MARKED = "CKB01"
"""The hazard of a request without breakpoints."""
_PAUSES = ("ttl_expired", "cold_start")
"""Causes of a pause that outlived the cache: its own lifetime, or any that is sold."""
_TURN = "/"
"""Divides the name of a conversation from the number of a call in it."""


def _id_of(name: str, turn: int) -> str:
    """Return the id of a call for the judge: ids of responses may be missing, or be the same."""
    return f"{name}{_TURN}{turn}"


def _call_of(wire: str, model: str, name: str, turn: int, at: float, names: ClientNames) -> ModelCall:
    """Make the ledger row of a call that is about to be sent."""
    provider = _provider_of(model, wire)
    return ModelCall(
        _id_of(name, turn), name, at=at, provider=provider, model=model, account=names.account, host=names.host
    )


def _provider_of(model: str, wire: str) -> str:
    row = find_model(model)
    return row.provider if row else wire.partition("_")[0]


def _has_too_many_markers(one: Conversation, prefix: BodyPrefix) -> bool:
    """Return whether a request that only appends has more breakpoints than any provider accepts."""
    return len(prefix.pieces) > len(one.prefix.pieces) and prefix.n_markers > MAX_BREAKPOINTS


_AGREED = {
    "confirmed": "confirmed by the provider",
    "contradicted": "not confirmed by the provider",
    "silent": "seen by the provider too",
}
"""Agreement of a verdict with a finding → message; "silent" where no verdict is known to confirm its hazard."""
_VERDICTS = {
    "model_changed": "CKP01",
    "prompt_cache_key_changed": "CKR06",
    "service_tier_changed": "CKP06",
    "text_format_changed": "CKP05",
    "reasoning_effort_changed": "CKP02",
    "verbosity_changed": "CKP02",
    "tools_changed": "CKT10",
    "system_changed": "CKS10",
    "messages_changed": "CKM22",
    "input_changed": "CKM22",
    "context_compacted": "CKM22",
}
"""Verdict on a request without findings → nearest hazard."""
_OTHER_SETTING = "CKP06"
"""The hazard of a verdict that is not known: something outside the text keys the cache."""


class WatchedCall:
    """One watched request and its response."""

    __slots__ = (
        "_bytes",
        "_conversation",
        "_first_byte_at",
        "_guard",
        "_is_over",
        "_sent_request",
        "_status",
        "body",
        "ticket",
        "whole",
    )

    def __init__(
        self,
        guard: Guard,
        conversation: Conversation,
        sent_request: SentRequest,
        body: bytes,
        whole: bytes,
        *,
        ticket: Ticket,
    ) -> None:
        self._guard, self._conversation, self._sent_request = guard, conversation, sent_request
        self._bytes: ResponseBytes | None = None
        self._first_byte_at: float | None = None
        self._status = 0
        self._is_over = False
        self.body = body
        """Body that is sent."""
        self.whole = whole
        """Body with the history that the provider stores, where it is known; this is recorded."""
        self.ticket = ticket
        """Its ticket at the judge."""

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """Start the response."""
        self._first_byte_at, self._status = self._guard._clock(), status
        self._bytes = response_bytes(
            self._sent_request.wire, headers.get("content-type", ""), headers.get("content-encoding", "")
        )

    def feed(self, chunk: bytes) -> None:
        """Read a chunk of the response."""
        if self._bytes is not None:
            self._bytes.feed(chunk)

    def ended(self, *, is_whole: bool, error: str = "", was_sent: bool = True) -> None:
        """End the response; only the first call has an effect.

        `error` is a name of `ledger.failure_names` for a call that ended without an error of the provider's.
        """
        if self._is_over:
            return
        self._is_over = True
        bill = self._bytes.summary(is_closed=is_whole) if self._bytes is not None else ResponseSummary()
        refused = bill.error or str(self._status) if self._status >= 400 else ""
        if refused:
            bill = ResponseSummary()  # a refused request has no usage, whatever its body holds
        failed = refused or (None if bill.is_complete else bill.error or error or CUT)
        sent_request, now = self._sent_request, self._guard._clock()
        call = ModelCall(
            id=bill.id or f"{sent_request.name}-{sent_request.turn}",
            session=sent_request.name,
            at=sent_request.at,
            first_byte_at=None if refused else self._first_byte_at,
            ended_at=now,
            provider=_provider_of(sent_request.model, sent_request.wire),
            model=sent_request.model,
            usage=bill.usage,
            error=failed,
            billed_usd=bill.billed_usd,
            account=sent_request.names.account,
            host=sent_request.names.host,
        )
        try:
            self._guard.finish(self._conversation, sent_request, call, bill, self)
        except Exception as error:  # noqa: BLE001 - the reply that was just read must not be lost to it
            log_internal_error("a call was not followed to its end", error)


def _advance(
    one: Conversation, prefix: BodyPrefix, at: float, parsed: ParsedCall | None, stored: Unknown | None = None
) -> None:
    one.prefix, one.at, one.stored = prefix, at, stored
    one.call = parsed if len(prefix.body) <= _MOST_CUT_BYTES else None
    one.turn += 1
    if parsed is not None:
        one.model = parsed.call.model


def _sent_request(
    one: Conversation, body: bytes, at: float, where: Caller, findings: tuple[Finding, ...] = ()
) -> SentRequest:
    """Return the facts of the request that was just added to conversation `one`."""
    return SentRequest(one.wire, one.model, body, at, where, one.name, one.turn, findings, one.names)


def _read(conversation: Conversation) -> ParsedCall:
    """Parse the last request of a conversation; a small one stays parsed until the next."""
    call = conversation.call
    if call is None:
        call = parsed_body(conversation.body, conversation.wire, at=conversation.at, in_headers=conversation.names)
        conversation.call = call if len(conversation.body) <= _MOST_CUT_BYTES else None
    return call


def broken_by(forecast: Verdict, sent: ParsedCall, spot: Spot, codes: Codes) -> list[Finding]:
    """Find what a request itself breaks: its text, or settings that key the cache, and a breakpoint behind changed text.

    What a pause has lost is left out: the program cannot change that in this request.
    """
    has_changed = any(gap.whose == "program_bytes" for gap in forecast.gaps)
    gaps = tuple(
        gap
        for gap in forecast.gaps
        if gap.whose == "program_bytes"
        or gap.cause == "below_minimum"
        or (gap.cause in CAUSES_BEFORE_SENDING and (gap.cause != "breakpoint_place" or has_changed or gap.kind))
    )
    return findings_of(replace(forecast, gaps=gaps), sent.call, spot, codes, "guard")


def parsed_body(body: bytes, wire: str, *, at: float, in_headers: ClientNames = NO_NAMES) -> ParsedCall:
    """Parse a body as a call. Raises `UnreadableRequest` for one that is not a model call."""
    model = str(parse_object(body).get("model") or "")
    provider = _provider_of(model, wire)
    sent = parse_call(ModelCall("", at=at, provider=provider, model=model, prompt=Bodies(body)), in_headers=in_headers)
    if sent is None:
        raise UnreadableRequest("body", "not a request to a model: it has neither messages, nor input, nor contents")
    return sent


def _place(sent_request: SentRequest) -> RequestPlace:
    return RequestPlace(
        sent_request.name, sent_request.turn, "", "messages", "usage", 0, "", "", str(sent_request.where)
    )
