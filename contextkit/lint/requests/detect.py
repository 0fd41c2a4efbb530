"""The request detector: records in, findings out, as they come.

Each call is judged as `contextkit report` judges it; its verdict becomes findings (`findings.py`). Beside that a few checks
look at one request and its bill (`checks.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from contextkit.errors import UnreadableRequest
from contextkit.ledger.calls import ModelCall, Record
from contextkit.ledger.misses import LedgerAnalyzer
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
        self._analyzer = LedgerAnalyzer()
        self._before: ParsedCall | None = None
        self._turns: Counter[tuple[str, str]] = Counter()

    def feed(self, record: Record) -> Iterator[Finding]:
        """Yield the findings of the next record; none of a remark."""
        analyzed = self._analyzer.feed(record)
        if analyzed is None or not isinstance(record, ModelCall):
            return
        try:
            sent = parse_call(record, self._before)
        except UnreadableRequest as fault:
            self.n_unreadable += 1
            yield unreadable_finding(record, fault.path, fault.what, self.n_calls + self.n_unreadable)
            return
        if sent is None:
            self.n_skipped += 1
            return
        self.n_calls, self._before = self.n_calls + 1, sent
        self.unlisted_fields += self._unlisted.new(sent.endpoint, sent.params)
        self._turns[record.session, record.lane] += 1
        spot = Spot(_conversation(record), self._turns[record.session, record.lane], record.id)
        for name, failure in failed_checks(sent, self._codes.checks()):
            yield finding_of_check(name, failure, spot, self._codes, diagnosis=analyzed.diagnosis)
        if analyzed.verdict is not None:
            yield from findings_of(analyzed.verdict, record, spot, self._codes, diagnosis=analyzed.diagnosis)


def _conversation(call: ModelCall) -> str:
    """Return the name of a conversation: the session, and its lane unless that is `main`."""
    name = call.session or "unnamed"
    return name if call.lane in ("", "main") else f"{name}/{call.lane}"
