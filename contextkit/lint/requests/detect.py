"""The request detector: records in, findings out, as they come.

Each call is judged as `contextkit report` judges it; its verdict becomes findings (`findings.py`). Beside that a few checks
look at one request and its bill (`checks.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from contextkit.errors import UnreadableRequest
from contextkit.ledger.calls import ModelCall, Record
from contextkit.ledger.misses import AnalyzedCall, LaterEvidence, LedgerAnalyzer
from contextkit.ledger.parsed_call import ParsedCall, parse_call
from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.checks import failed_checks
from contextkit.lint.requests.findings import Codes, Spot, finding_of_check, findings_of, unreadable_finding
from contextkit.providers.request_fields import UnlistedFields


def find_in_requests(records: Iterable[Record], hazards: Iterable[Hazard]) -> Iterator[Finding]:
    """Yield the findings of a recording, call by call. Calls without a recorded body are judged with the others, and not
    reported.
    """
    detector = RequestDetector(hazards)
    for record in records:
        yield from detector.feed(record)
    yield from detector.close()


class RequestDetector:
    """The detector of hazards in recorded requests, fed record by record."""

    def __init__(self, hazards: Iterable[Hazard]) -> None:
        self.n_calls = 0
        """Calls looked at."""
        self.n_skipped = 0
        """Calls without a recorded body, or whose body is no model call."""
        self.n_unreadable = 0
        """Bodies that could not be read: one `CK000` each."""
        self.unlisted_fields: list[str] = []
        """A sentence for each request field that no table lists, once."""
        self._unlisted = UnlistedFields()
        self._codes = Codes(hazards)
        self._analyzer, self._later = LedgerAnalyzer(), LaterEvidence()
        self._waiting: dict[int, _Looked] = {}
        """Number of a call that is held back → what was found in it."""
        self._before: ParsedCall | None = None
        self._turns: Counter[tuple[str, str]] = Counter()

    def feed(self, record: Record) -> Iterator[Finding]:
        """Add the next record and yield the findings of the calls of which nothing more can be learnt, in order."""
        analyzed = self._analyzer.feed(record)
        if analyzed is None or not isinstance(record, ModelCall):
            return
        looked = self._looked(record, analyzed)
        if looked is not None:
            self._waiting[analyzed.index] = looked
        bare = replace(analyzed, call=replace(record, prompt=None))
        for call in self._later.feed(bare):
            yield from self._findings(call)

    def close(self) -> Iterator[Finding]:
        """Yield the findings of the calls that were held back."""
        for call in self._later.close():
            yield from self._findings(call)

    def _looked(self, record: ModelCall, analyzed: AnalyzedCall) -> _Looked | None:
        """Look at the body of a call; None where there is none."""
        try:
            sent = parse_call(record, self._before)
        except UnreadableRequest as fault:
            self.n_unreadable += 1
            return _Looked(None, [unreadable_finding(record, fault.path, fault.what, self.n_calls + self.n_unreadable)])
        if sent is None:
            self.n_skipped += 1
            return None
        self.n_calls, self._before = self.n_calls + 1, sent
        self.unlisted_fields += self._unlisted.new(sent.endpoint, sent.params)
        self._turns[record.session, record.lane] += 1
        spot = Spot(_conversation(record), self._turns[record.session, record.lane], record.id)
        checked = failed_checks(sent, self._codes.checks())
        diagnosis = analyzed.diagnosis
        return _Looked(spot, [finding_of_check(*one, spot, self._codes, diagnosis=diagnosis) for one in checked])

    def _findings(self, analyzed: AnalyzedCall) -> Iterator[Finding]:
        looked = self._waiting.pop(analyzed.index, None)
        if looked is None:
            return
        yield from looked.findings
        if looked.spot is not None and analyzed.verdict is not None:
            call, diagnosis = analyzed.call, analyzed.diagnosis
            yield from findings_of(analyzed.verdict, call, looked.spot, self._codes, diagnosis=diagnosis)


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was found in a request, whatever its verdict is."""

    spot: Spot | None
    """Where it is; None for a body that cannot be read."""
    findings: list[Finding]
    """What its checks found."""


def _conversation(call: ModelCall) -> str:
    """Return the name of a conversation: the session, and its lane unless that is `main`."""
    name = call.session or "unnamed"
    return name if call.lane in ("", "main") else f"{name}/{call.lane}"
