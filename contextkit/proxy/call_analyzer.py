"""Analysis of the calls that pass through the proxy: conversation, usage, broken prefix and cause of a miss of each.

Gives a ledger row and a report for each call. Runs in a process of its own, so no byte of the traffic waits for it.
Secrets are redacted before anything else reads a body.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from secrets import token_hex

from contextkit.canonical import Json, canonical, parse
from contextkit.content_encoding import MOST_BYTES, UndecodableBody, decoded
from contextkit.errors import NotSerialisable, StorageError
from contextkit.ledger.calls import Bodies, ModelCall, Record, Remark, encode
from contextkit.ledger.misses import AnalyzedCall, LedgerAnalyzer
from contextkit.ledger.summary import Tally
from contextkit.lint.finding import Finding
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.providers.response_facts import error_type
from contextkit.proxy.journal import Journal
from contextkit.proxy.observer import UNREADABLE, Departed, Ended, ForecastRequest, Passed
from contextkit.proxy.other_endpoints import OtherCall, OtherEndpoints, answer_in, bill_of, billed_by
from contextkit.proxy.repairs.splices import undo_of
from contextkit.redact import redact, redact_path, redact_text
from contextkit.report.json import summary_json
from contextkit.watcher.conversations import Conversations
from contextkit.watcher.guard import CallRecorder, Guard, WatchedCall
from contextkit.watcher.notify import Notifier

MOST_BYTES_STORED = 1 << 29
"""Memory of the conversations that are followed at once: a proxy serves many agents."""


@dataclass(slots=True)
class _Open:
    """A call under way."""

    call: Departed
    body: bytes
    """As sent, plain, secrets covered."""
    watched: WatchedCall | OtherCall
    """How the guard follows it, or we do where it cannot."""
    findings: list[Finding]


class _Rows(CallRecorder):
    """Where the guard leaves the row of a call, and what the provider said of it."""

    __slots__ = ("remarks", "row")

    def __init__(self) -> None:
        self._ledger = None
        self.row: ModelCall | None = None
        self.remarks: list[Remark] = []

    def append(self, call: ModelCall, body: bytes) -> None:
        """Take it, with what the provider had kept of it put back."""
        self.row = replace(call, prompt=Bodies(body))

    def remark(self, remark: Remark) -> None:
        """Take it."""
        self.remarks.append(remark)


class CallAnalyzer:
    """The calls that passed so far."""

    def __init__(self, journal: Journal | None, complain: Callable[[str], object]) -> None:
        """`complain` is told once where the journal can be written no more."""
        self._journal, self._complain = journal, complain
        self._run = f"proxy-{token_hex(4)}"
        self._now, self._n_passed = 0.0, 0
        self._is_hurried = False
        self._findings: list[Finding] = []
        self._rows = _Rows()
        conversations = Conversations(self._run, MOST_BYTES_STORED)
        self._guard = Guard(
            Notifier(self._add_finding, "contextkit"), self._rows, clock=lambda: self._now, conversations=conversations
        )
        self._others = OtherEndpoints(self._run)
        self._under_way: dict[int, _Open] = {}
        self._credentials: OrderedDict[str, None] = OrderedDict()
        self._analyzer = LedgerAnalyzer()
        self._tally = Tally()
        self._breaks: Counter[str] = Counter()

    def departed(self, call: Departed) -> None:
        """A call was passed on: compare it with the one before it."""
        body = redact(request_text(call.body, call.encoding), self._covering(call))
        self._now, self._findings = call.at, []
        names = _names(call)
        watched: WatchedCall | OtherCall
        if self._is_hurried:
            watched = self._others.begin_unanalysed(call, body)
        else:
            watched = self._guard.start("POST", call.path, body, names) or self._others.begin(call, body, names)
        findings = self._findings if isinstance(watched, WatchedCall) else list(watched.findings)
        self._under_way[call.number] = _Open(call, body, watched, findings)

    def forecast(self, call: ForecastRequest) -> bytes:
        """Forecast what a call would pay again because a pause has outlived its cache; gives a line about it."""
        body = redact(request_text(call.body, call.encoding), self._covering(call))
        tokens, usd = self._guard.forecast_expired(call.wire, body, call.at, _names(call))
        return canonical({"forecast": {"number": call.number, "tokens": tokens, "usd": usd}})

    def hurry(self) -> None:
        """Record from here on and analyse nothing: there is no time left."""
        self._is_hurried = True

    def passed(self, request: Passed) -> bytes | None:
        """Something else passed: note its sizes; gives a line about it, none for what only looks something up."""
        if request.method in _LOOKS_UP:
            return None
        row = replace(request, path=redact_path(request.path, self._credentials)[:MOST_PATH])
        self._n_passed += 1
        self._record(Remark("passed", self._run, str(row)))
        return canonical({"passed": {**asdict(row), "text": str(row)}})

    def ended(self, call: Ended) -> bytes:
        """A call is over: record it; gives one line of JSON about it."""
        begun = self._under_way.pop(call.number)
        self._findings = begun.findings
        credentials = self._covering(begun.call, call)
        recorded = _redacted(self._row(begun, _readable(call, credentials)), credentials)
        repairs = []
        if (
            begun.call.before is not None
        ):  # with the pieces that restore the client's own body from the one that was sent
            before = redact(begun.call.before, self._covering(begun.call))
            repairs = [Remark("repair", recorded.id, undo_of(before, begun.call.shared, begun.call.repairs))]
        whole = recorded.prompt.request if isinstance(recorded.prompt, Bodies) else begun.body
        # The remark on a repair gives places in the body that was sent, so that body is recorded.
        is_as_sent = bool(repairs) or whole is begun.body
        body = begun.body if is_as_sent else redact(whole, credentials)
        recorded = replace(recorded, prompt=Bodies(body))
        remarks = [
            replace(remark, about=recorded.id, text=redact_text(remark.text, credentials))
            for remark in self._rows.remarks
        ]
        self._rows.remarks = []
        self._record(*remarks, *repairs, recorded)
        for remark in remarks:
            self._analyzer.feed(remark)
        analysed = self._analyzer.feed(replace(recorded, prompt=None) if self._is_hurried else recorded)
        assert analysed is not None  # noqa: S101 - a call is analysed
        self._tally.add(analysed)
        self._breaks.update(finding.code for finding in begun.findings)
        return canonical(_report(analysed, begun))

    def close(self, now: float) -> Iterator[bytes]:
        """Record what never ended as aborted; gives their lines, and that of the summary."""
        for number in tuple(self._under_way):
            yield self.ended(Ended(number, 0, "", "", b"", None, now, "aborted"))
        summary = self._tally.summary()
        yield canonical(
            {
                "summary": summary_json(summary),
                "text": str(summary),
                "breaks": dict(self._breaks),
                "passed": self._n_passed,
            }
        )
        if self._journal is not None:
            self._journal.close()

    def _covering(self, *calls: Departed | Ended) -> tuple[str, ...]:
        """The credentials of calls and of those before them: one that a client has changed stays covered in its prompt."""
        for value in (value for call in calls for value in call.credentials):
            self._credentials[value] = None
            self._credentials.move_to_end(value)
            if len(self._credentials) > MOST_CREDENTIALS:
                self._credentials.popitem(last=False)
        return tuple(self._credentials)

    def _add_finding(self, finding: Finding) -> None:
        self._findings.append(finding)

    def _record(self, *records: Record) -> None:
        if self._journal is None:
            return
        try:
            self._journal.write(*records)
        except (OSError, StorageError) as fault:
            why = getattr(fault, "strerror", None) or fault
            text = f"{self._journal.path} takes no more rows ({why}): recording has stopped, calls still pass"
            self._journal.close()
            self._journal = None
            self._complain(text)

    def _row(self, begun: _Open, call: Ended) -> ModelCall:
        watched = begun.watched
        if isinstance(watched, WatchedCall):
            row = self._passed(watched, call)
            if (row.usage is None or row.usage.prompt is None) and call.status < 400:
                # counters that this vendor of the same wire spells in its own way
                row = replace(row, usage=bill_of(answer_in(call), row.model) or row.usage)
            row = replace(row, provider=billed_by(begun.call, row.model, {}) or row.provider)
        else:
            row = self._others.row(watched, begun.call, call, answer_in(call) if call.status < 400 else None)
        names = _names(begun.call)
        error = _error(row.error, call)
        row = replace(row, ended_at=call.ended_at, error=error, account=names.account, host=names.host)
        if isinstance(watched, OtherCall) and not self._is_hurried:
            self._others.ended(watched, row, begun.body)
        return row

    def _passed(self, watched: WatchedCall, call: Ended) -> ModelCall:
        if call.first_byte_at is not None:
            self._now = call.first_byte_at
            watched.began(call.status, {"content-type": call.content_type, "content-encoding": call.encoding})
            watched.feed(call.body)
        self._now = call.ended_at
        watched.ended(is_whole=not call.error, error=call.error)
        row, self._rows.row = self._rows.row, None
        assert row is not None  # noqa: S101 - a passage that ended has left its row
        return row


def _names(call: Departed) -> ClientNames:
    return ClientNames(*call.names) if call.names else NO_NAMES


MOST_CREDENTIALS = 32
"""Credentials that are covered in every body, the latest analysed."""


def request_text(body: bytes, encoding: str) -> bytes:
    """The text of a request body.

    Of one that cannot be decoded, or is no text, a JSON object with its size and its digest.

    Secrets cannot be found in what is not decoded, so it is never recorded.
    """
    try:
        text = decoded(body, encoding, MOST_BYTES)
        return text if _is_text(text) else _undecoded(body, "not text")
    except UndecodableBody as fault:
        return _undecoded(body, str(fault))


def _is_text(body: bytes) -> bool:
    """Return whether it is UTF-8 without control characters, as JSON is: no compressed bytes, no UTF-16."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(body) is None


_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def _undecoded(body: bytes, why: str) -> bytes:
    return canonical({"contextkit_undecoded": {"bytes": len(body), "sha256": sha256(body).hexdigest(), "reason": why}})


def _readable(call: Ended, credentials: tuple[str, ...]) -> Ended:
    """`call` with its body decoded and redacted, as far as it came.

    A body that cannot be decoded is left out: of it nothing is read.
    """
    try:
        text = decoded(call.body, call.encoding, MOST_BYTES, is_partial=bool(call.error))
    except UndecodableBody:
        return replace(call, body=b"", encoding=UNREADABLE)
    # Amazon's binary events carry checksums: what is read from them is redacted instead
    return replace(call, body=redact(text, credentials) if _is_text(text) else text, encoding="")


def _redacted(row: ModelCall, credentials: tuple[str, ...]) -> ModelCall:
    """`row` with its names redacted: they come from the response or the address."""
    return replace(
        row,
        id=redact_text(row.id, credentials),
        model=redact_text(row.model, credentials),
        session=redact_text(row.session, credentials),
        lane=redact_text(row.lane, credentials),
        error=redact_text(row.error, credentials) if row.error else row.error,
    )


_LOOKS_UP = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_PATH = 200
"""Characters of a path that are told."""


_ERROR_EVENT = b'"type":"error"'


def _error(reported: str | None, call: Ended) -> str | None:
    """Why it did not end well: the provider's own type of error where it said one, at which a client may leave before
    the provider does.
    """
    text = call.body
    if call.status >= 400:
        return _type_of(text) or str(call.status)
    last = text.rfind(_ERROR_EVENT) if reported in ("cut", "aborted") else -1
    return (_type_of(text[text.rfind(b"data:", 0, last) + 5 :].partition(b"\n")[0]) if last >= 0 else "") or reported


def _type_of(text: bytes) -> str:
    """`overloaded_error` (Anthropic), `rate_limit_exceeded` (OpenAI: the code says more than the type),
    `RESOURCE_EXHAUSTED` (Gemini).
    """
    try:
        body = parse(text)
    except NotSerialisable:
        return ""
    return error_type(
        body[0] if isinstance(body, list) and body else body
    )  # Gemini answers an array to who asked for a stream


def _report(analysed: AnalyzedCall, begun: _Open) -> Json:
    call, miss = analysed.call, analysed.miss
    return {
        "call": parse(encode(replace(call, prompt=None))),
        "hit_rate": analysed.usage.hit_rate if analysed.usage else None,
        "cost_usd": analysed.cost_usd,
        "list_cost_usd": analysed.list_cost_usd,
        "cost_uncached_usd": analysed.cost_uncached_usd,
        "cause": miss.cause if miss else None,
        "lost_tokens": miss.lost_tokens if miss else 0 if analysed.usage else None,
        "repairs": list(begun.call.repairs),
        "findings": [
            {
                "code": finding.code,
                "message": finding.message,
                # behind a proxy nobody knows the line of code a finding came from
                **{name: value for name, value in asdict(finding.place).items() if name != "caller"},
                "cost_tokens": finding.cost_tokens,
                "cost_usd": finding.cost_usd,
                "verdict": finding.verdict,
            }
            for finding in begun.findings
        ],
    }
