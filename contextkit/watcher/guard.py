"""What requests leave out since the provider keeps it, put back: a recording says what each call was asked with.

Takes request bodies and what was answered, gives bodies with their whole input. No body is read before a request names
its past: whoever says everything in each request pays for keeping the answers only.

What a watched client sent, in a ledger: whole bodies, secrets covered, headers never. Of headers, the names of session
and agent are compared, and kept in memory.

Takes bodies and bills, gives rows of a `Ledger`.

The guard itself: what leaves is compared before it leaves, what comes back is compared with what was expected.

Takes the bytes of requests and responses from the transport, gives findings to a teller and rows to a recording.
Nothing it does changes a call; what it cannot read, it lets pass. One lock, held for a memory compare, keeps its memory
whole between threads.
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

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import (
    ContextKitError,
    NotSerialisable,
    PrefixBroken,
    StorageError,
    UnreadableRequest,
    UsageError,
)
from contextkit.ledger.calls import Bodies, Exchange, Record, Remark
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.misses import is_shortfall
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.naming import UNNAMED, Rules, agreement, finding_of
from contextkit.lint.requests.rule import RecordedCall
from contextkit.models import find_model, model_named
from contextkit.prompt.conversations import BodyPrefix, has_same_head
from contextkit.providers.calls import NO_NAMES, ClientNames
from contextkit.providers.codecs import CODECS
from contextkit.providers.request_fields import UnlistedFields
from contextkit.providers.response_facts import ResponseBytes, ResponseSummary, response_bytes
from contextkit.providers.server_state import CONVERSATION, PREVIOUS, Histories, Unknown, named_in
from contextkit.redact import redact
from contextkit.terminal import sanitize
from contextkit.watcher.breaks import broken, catalogue, evidence_of_step, recorded_call, refused, step_of
from contextkit.watcher.conversations import RUN, Conversation, Conversations
from contextkit.watcher.diagnostics import with_diagnostics
from contextkit.watcher.naming import current
from contextkit.watcher.notify import Caller, Teller, caller
from contextkit.watcher.response import CUT
from contextkit.watcher.shortfall import Answered, billed, expected_tokens, missing_tokens

MOST_BYTES = 1 << 26
"""Of requests and answers that nobody has gone on from yet; the oldest go first."""
_NAMES = tuple(f'"{name}"'.encode() for name in (PREVIOUS, CONVERSATION))


class Pasts:
    """Of the responses that passed by.

    >>> pasts = Pasts()
    >>> pasts.add_response("resp_1", b'{"input":"hi"}', [{"role": "assistant", "content": "Hello."}])
    >>> pasts.whole(b'{"input":"and?","previous_response_id":"resp_1"}').count(b'"role"')
    3
    """

    __slots__ = ("_has_responses", "_histories", "_most", "_n_bytes", "_waiting")

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._n_bytes = most_bytes, 0
        self._waiting: OrderedDict[str, tuple[bytes, bytes]] = OrderedDict()
        self._histories, self._has_responses = Histories(most_bytes), False

    def add_response(self, name: str, body: bytes, output: list[Json]) -> None:
        """The response `name` answered `body`, as it was sent, with these items."""
        if name in self._waiting:
            return
        items = canonical(output)
        self._waiting[name], self._has_responses = (body, items), True
        self._n_bytes += len(body) + len(items)
        while self._n_bytes > self._most:
            self._n_bytes -= sum(map(len, self._waiting.popitem(last=False)[1]))

    def whole(self, body: bytes) -> bytes:
        """`body` with what it goes on from in its input; itself where it says everything, or where that is not known."""
        fields = fields_of(body) if self._has_responses and any(name in body for name in _NAMES) else {}
        before = named_in(fields)
        if before is None:
            return body
        self._learn(before.name)
        whole = self._histories.whole(fields)
        if isinstance(whole, Unknown):
            return body
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    def _learn(self, name: str) -> None:
        """A response, and those it went on from, oldest first."""
        chain = []
        while name in self._waiting:
            body, items = self._waiting.pop(name)
            self._n_bytes -= len(body) + len(items)
            fields = fields_of(body)
            chain.append((name, fields, parse(items)))
            before = named_in(fields)
            name = before.name if before else ""
        for name, fields, output in reversed(chain):
            self._histories.follow(name, fields, output)


def fields_of(body: bytes) -> dict[str, Json]:
    """A body as an object, empty where it is none."""
    try:
        fields = parse(body)
    except NotSerialisable:
        return {}
    return fields if isinstance(fields, dict) else {}


class Recording:
    """The ledger a watched client writes; it is opened at once, and given back with the client."""

    __slots__ = ("_ledger",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `StorageError` where the file cannot be opened, `UnreadableLog` where it is no ledger."""
        if not isinstance(path, str | os.PathLike):
            raise UsageError(f"record is the path of a ledger, or None, not {type(path).__name__}")
        self._ledger: Ledger | None = Ledger.open(path)

    def keep(self, exchange: Exchange, body: bytes) -> None:
        """Append one exchange with its body; a disk that fails ends the recording with a warning, not the conversation.

        A process that was forked, as workers of web servers are, opens the file for itself; so does everybody when the
        file was rotated.
        """
        if self._ledger is not None:
            self._write(replace(exchange, prompt=Bodies(redact(body))))

    def remark(self, remark: Remark) -> None:
        """Append what is known of an exchange, in front of it; a disk that fails is told as in `keep`."""
        self._write(remark)

    def _write(self, record: Record) -> None:
        if self._ledger is None:
            return
        try:
            try:
                self._put(self._ledger, record)
            except StorageError:
                self._ledger.close()
                self._ledger = Ledger.open(self._ledger.path or "")
                self._put(self._ledger, record)
        except (OSError, StorageError) as fault:
            what = (fault.strerror if isinstance(fault, OSError) else None) or fault
            text = f"{self._ledger.path} takes no more rows ({what}): recording has stopped, the client goes on"
            self.close()
            warnings.warn(sanitize(text), stacklevel=3)

    @staticmethod
    def _put(ledger: Ledger, record: Record) -> None:
        ledger.append(record) if isinstance(record, Exchange) else ledger.remark(record)

    def close(self) -> None:
        """Give the file back."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None


PATHS = {"/messages": "anthropic_messages", "/chat/completions": "openai_chat", "/responses": "openai_responses"}
"""End of the path → the wire that is spoken there."""
_MOST_CUT_BYTES = 1 << 16
"""Larger requests are cut again when they are needed: their blocks would take several times the memory of their bytes.
"""
_EXPLAINING = ("breakpoints", "routing", "lifetime", "engine")
"""Levels whose rules on a step can say why a bill is too high although the text only grew."""
_UNEXPLAINED = {"breakpoints": "CKL05"}
"""Kind of cache → the hazard of a shortfall that nothing explains."""
_BEST_EFFORT = "CKL08"
"""The same for caches that promise nothing."""


@dataclass(frozen=True, slots=True)
class Departure:
    """What is known of a request when it leaves."""

    wire: str
    """Its endpoint."""
    model: str
    """As asked."""
    body: bytes
    """As the caller made it."""
    at: float
    """When."""
    where: Caller
    """Who sent it."""
    name: str
    """Its conversation."""
    turn: int
    """Its number there."""
    before: Answered | None
    """The last call of the conversation that was billed."""
    findings: tuple[Finding, ...]
    """What was told before it left."""


class Guard:
    """Watches one client."""

    __slots__ = (
        "_clock",
        "_conversations",
        "_has_diagnostics",
        "_lock",
        "_pasts",
        "_recording",
        "_rules",
        "_teller",
        "_unlisted",
    )

    def __init__(
        self,
        teller: Teller,
        recording: Recording | None = None,
        *,
        asks: bool = False,
        hazards: Sequence[Hazard] | None = None,
        clock: Callable[[], float] = time.time,
        conversations: Conversations | None = None,
    ) -> None:
        """`asks` puts the provider's own diagnostics into requests.

        `hazards` stands in for the catalogue, `conversations` for few.
        """
        self._teller, self._recording, self._has_diagnostics, self._clock = teller, recording, asks, clock
        self._rules = None if hazards is None else Rules(hazards)
        self._lock, self._pasts = Lock(), Pasts()
        self._unlisted = UnlistedFields()
        # A ledger goes on from run to run, and the conversations of one run are not those of another.
        run = RUN if recording is None else f"{RUN}-{token_hex(4)}"
        self._conversations = Conversations(run) if conversations is None else conversations

    def forget(self) -> None:
        """Every conversation: the next request begins one."""
        with self._lock:
            self._conversations.forget()

    def close(self) -> None:
        """Give the recording's file back."""
        if self._recording is not None:
            self._recording.close()

    def leaving(self, method: str, path: str, body: bytes, names: ClientNames = NO_NAMES) -> Passage | None:
        """Compare a request with the last of its conversation; None for requests of other kinds.

        `names` are those in its headers. Raises `PrefixBroken` where the caller wants to be stopped.
        """
        wire = next((wire for ending, wire in PATHS.items() if path.endswith(ending)), "") if method == "POST" else ""
        if not wire:
            return None
        where, at = caller(), self._clock()
        try:
            conversation, departure = self._compared(wire, body, names, where, at)
        except PrefixBroken:
            raise
        except ContextKitError:
            return None  # nothing to compare: not a request anybody could read (its provider will say so), or one without its past
        outgoing = self._with_diagnostics(conversation, departure)
        return Passage(
            self, conversation, departure, outgoing, outgoing if self._recording is None else self._whole(outgoing)
        )

    def _whole(self, body: bytes) -> bytes:
        with self._lock:
            return self._pasts.whole(body)

    def _compared(
        self, wire: str, body: bytes, names: ClientNames, where: Caller, at: float
    ) -> tuple[Conversation, Departure]:
        with self._lock:
            match = self._conversations.continued(wire, body, names, current())
            if match is not None and not _has_too_many_markers(*match):
                one, prefix = match
                self._conversations.store(one, lambda one: _advance(one, prefix, at, None))
                return one, _departure(one, body, at, where)
        return self._parsed(wire, body, names, where, at)

    def _parsed(
        self, wire: str, body: bytes, names: ClientNames, where: Caller, at: float
    ) -> tuple[Conversation, Departure]:
        """A request that does not simply continue another is cut into blocks; one that is stopped is not stored."""
        call = replace(recorded_call(body, wire, at=at), index=1, in_headers=names)
        for text in self._unlisted.new(wire, call.body):
            logging.getLogger("contextkit.watch").warning("%s", sanitize(text))
        stored = named_in(call.body)
        prefix = (
            BodyPrefix.of(body, call.body, CODECS[wire].body.message_field)
            if stored is None
            else BodyPrefix(body, (), b"")
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
        findings = self._findings(before, call, turn, name, where)
        for finding in findings:
            self._teller.before(finding, where)
        conversation = own or Conversation(name, wire, "", prefix, at, turn - 1, label=label)
        with self._lock:
            conversation.names = names
            conversations.store(conversation, lambda one: _advance(one, prefix, at, call, stored))
            return conversation, _departure(conversation, body, at, where, findings)

    def _findings(
        self, before: RecordedCall | None, after: RecordedCall, turn: int, name: str, where: Caller
    ) -> tuple[Finding, ...]:
        """What breaks, with what it costs, and what no provider takes.

        A rule that fails is a warning, never the end of a call.
        """
        try:
            rules, caller_ = self._all_rules(), str(where)
            broke = broken(step_of(replace(before, index=0), after, turn), rules, name, caller_) if before else []
            return (*broke, *refused(after, turn, rules, name, caller_))
        except Exception as error:  # noqa: BLE001 - a fault of ours must not stop a call of theirs
            warnings.warn(
                sanitize(f"a request was sent unjudged, a rule failed ({type(error).__name__})"), stacklevel=2
            )
            return ()

    def _all_rules(self) -> Rules:
        return catalogue() if self._rules is None else self._rules

    def _with_diagnostics(self, conversation: Conversation, departure: Departure) -> bytes:
        if not self._has_diagnostics:
            return departure.body
        return with_diagnostics(departure.body, parse(departure.body), departure.wire, conversation.previous)

    # What comes back
    # ------------------------------------------------------------------------------------------------------

    def returned(
        self,
        conversation: Conversation,
        departure: Departure,
        exchange: Exchange,
        bill: ResponseSummary,
        passage: Passage,
    ) -> None:
        """A call is over: remember what it left in the cache, write it down, and tell what does not fit."""
        usage = billed(bill.usage, departure.model)
        answered = None
        if usage is not None and exchange.first_byte_at is not None:
            answered = Answered(
                departure.wire, departure.model, departure.body, departure.at, exchange.first_byte_at, usage
            )
        with self._lock:
            if answered is not None and (conversation.answered is None or conversation.answered.at <= answered.at):
                conversation.answered = answered
            conversation.previous = bill.id or conversation.previous
        if self._recording is not None:
            if bill.items is not None:
                with self._lock:
                    self._pasts.add_response(bill.id, passage.body, bill.items)
            if bill.verdict:
                self._recording.remark(Remark("verdict", exchange.id, bill.verdict))
            self._recording.keep(exchange, passage.whole)
        for finding in self._afterwards(departure, answered, bill.verdict):
            self._teller.after(finding, departure.where)

    def _afterwards(self, departure: Departure, answered: Answered | None, verdict: str) -> list[Finding]:
        if verdict:
            return [self._verdict_finding(departure, verdict)]
        short = self._shortfall(departure, answered) if answered is not None else None
        return [] if short is None else [short]

    def _verdict_finding(self, departure: Departure, verdict: str) -> Finding:
        """A verdict: on what was told before the request left, of several findings the one it speaks of, or on what
        nobody had seen.
        """
        if not departure.findings:
            return self._unseen(departure, verdict)
        judged = [self._judged(finding, verdict) for finding in departure.findings]
        return next((one for one in judged if one.message == _AGREED["confirmed"]), judged[0])

    def _judged(self, finding: Finding, verdict: str) -> Finding:
        """Whether the provider agrees; what was told already, cost and both sides, is not told again."""
        items = replace(finding, detector="provider", verdict=verdict, cost_tokens=None, cost_usd=None)
        hazard = self._all_rules().hazards.get(finding.code)
        return replace(items, message=_AGREED["silent" if hazard is None else agreement(items, hazard)])

    def _unseen(self, departure: Departure, verdict: str) -> Finding:
        """A verdict on a request in which the guard saw nothing."""
        codes = (code for code, one in self._all_rules().hazards.items() if verdict in one.confirmed_by)
        code = _VERDICTS.get(verdict) or next(codes, UNNAMED)
        return Finding(
            code,
            "the provider found a difference that the guard did not",
            _place(departure),
            "provider",
            verdict=verdict,
        )

    def _shortfall(self, departure: Departure, answered: Answered) -> Finding | None:
        """The bill against the prediction: the reference cache is asked only where the last bill promised more, or the
        prefix broke.
        """
        before, read = departure.before, answered.usage.read or 0
        should = expected_tokens(before, departure.model, departure.at)
        if before is None or before.model != departure.model or not (departure.findings or is_shortfall(should, read)):
            return None
        one = recorded_call(before.body, before.wire, at=before.at, began_at=before.began_at, usage=before.usage)
        other = recorded_call(departure.body, departure.wire, at=departure.at, usage=answered.usage, before=one)
        step = step_of(one, other, departure.turn)
        explained = None if departure.findings else next(evidence_of_step(step, self._all_rules(), _EXPLAINING), None)
        if explained is not None:
            finding = finding_of(*explained, other, departure.name, departure.turn, None, should - read)
            return replace(finding, detector="provider", place=replace(finding.place, caller=str(departure.where)))  # type: ignore[arg-type]
        missing = missing_tokens(step) if not (departure.findings and named_in(other.params)) else 0
        message = f"{read:,} tokens were read where {read + missing:,} stood in the cache, and nothing in the request explains it"
        code = _UNEXPLAINED.get(model_named(departure.model).cache, _BEST_EFFORT)
        return Finding(code, message, _place(departure), "provider", cost_tokens=missing) if missing else None


_MARKERS = 4
"""A request with more is refused
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching#cache-limitations)."""


def _has_too_many_markers(one: Conversation, prefix: BodyPrefix) -> bool:
    """Whether a request that only continues has more markers than any provider accepts; counted where some were added."""
    return len(prefix.pieces) > len(one.prefix.pieces) and prefix.n_markers > _MARKERS


_AGREED = {
    "confirmed": "confirmed by the provider",
    "contradicted": "not confirmed by the provider",
    "silent": "seen by the provider too",
}
"""What a verdict says of a finding; silent where nobody knows which verdicts confirm its hazard."""
_VERDICTS = {
    "model_changed": "CKP01",
    "prompt_cache_key_changed": "CKR06",
    "service_tier_changed": "CKP06",
    "text_format_changed": "CKP05",
    "reasoning_effort_changed": "CKP02",
    "verbosity_changed": "CKP02",
    "tools_changed": "CKT10",
    "system_changed": "CKS10",
}
"""What a provider may say of a request in which the guard saw nothing → the nearest hazard."""


class Passage:
    """One request on its way out and back."""

    __slots__ = (
        "_bytes",
        "_conversation",
        "_departure",
        "_first_byte_at",
        "_guard",
        "_is_over",
        "_status",
        "body",
        "whole",
    )

    def __init__(
        self, guard: Guard, conversation: Conversation, departure: Departure, body: bytes, whole: bytes
    ) -> None:
        self._guard, self._conversation, self._departure = guard, conversation, departure
        self._bytes: ResponseBytes | None = None
        self._first_byte_at: float | None = None
        self._status = 0
        self._is_over = False
        self.body = body
        """What is sent."""
        self.whole = whole
        """The same with what it goes on from, where that is kept by the provider and known; recorded."""

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """The response begins."""
        self._first_byte_at, self._status = self._guard._clock(), status
        self._bytes = response_bytes(
            self._departure.wire, headers.get("content-type", ""), headers.get("content-encoding", "")
        )

    def feed(self, chunk: bytes) -> None:
        """A chunk passes by."""
        if self._bytes is not None:
            self._bytes.feed(chunk)

    def ended(self, *, is_whole: bool, error: str = "") -> None:
        """No more will come.

        The first word counts. `error` is a word of `failure`, for what ends without one of the provider's.
        """
        if self._is_over:
            return
        self._is_over = True
        bill = self._bytes.summary(is_closed=is_whole) if self._bytes is not None else ResponseSummary()
        refused = bill.error or str(self._status) if self._status >= 400 else ""
        if refused:
            bill = ResponseSummary()  # a refusal is no bill, whatever else its body holds
        failed = refused or (None if bill.is_complete else bill.error or error or CUT)
        departure, now = self._departure, self._guard._clock()
        row = find_model(departure.model)
        exchange = Exchange(
            bill.id or f"{departure.name}-{departure.turn}",
            departure.name,
            "main",
            departure.at,
            None if refused else self._first_byte_at,
            now,
            row.provider if row else departure.wire.partition("_")[0],
            departure.model,
            None,
            bill.usage,
            None,
            failed,
        )
        self._guard.returned(self._conversation, departure, exchange, bill, self)


def _advance(
    one: Conversation, prefix: BodyPrefix, at: float, call: RecordedCall | None, stored: Unknown | None = None
) -> None:
    one.prefix, one.at, one.stored = prefix, at, stored
    one.call = call if len(prefix.body) <= _MOST_CUT_BYTES else None
    one.turn += 1
    if call is not None:
        one.model = call.exchange.model


def _departure(
    one: Conversation, body: bytes, at: float, where: Caller, findings: tuple[Finding, ...] = ()
) -> Departure:
    """The request that `one` has just gone on to."""
    return Departure(one.wire, one.model, body, at, where, one.name, one.turn, one.answered, findings)


def _read(conversation: Conversation) -> RecordedCall:
    """The last request of a conversation, cut, with its bill where it is known.

    A small one is kept until the conversation goes on.
    """
    call, answered = conversation.call, conversation.answered
    if call is None:
        call = recorded_call(conversation.body, conversation.wire, at=conversation.at)
        call = replace(call, in_headers=conversation.names)
        conversation.call = call if len(conversation.body) <= _MOST_CUT_BYTES else None
    return replace(call, usage=answered.usage) if answered is not None and answered.body == conversation.body else call


def _place(departure: Departure) -> RequestPlace:
    return RequestPlace(departure.name, departure.turn, "", "messages", "usage", 0, "", "", str(departure.where))
