"""The request detector: records in, findings out, as they come; each is a gap that the judge of `contextkit report` found, or
a check that a request failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from contextkit.ledger.calls import ModelCall, Record
from contextkit.ledger.misses import AnalyzedCall, LaterEvidence, LedgerAnalyzer
from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.findings import Codes, Spot, findings_of, findings_of_gaps, unreadable_finding
from contextkit.whatif.actions import reader_of


def find_in_requests(records: Iterable[Record], hazards: Iterable[Hazard]) -> Iterator[Finding]:
    """Yield the findings of a recording, call by call."""
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
        """Calls on which there is no verdict: refused, neither body nor bill recorded, a body that is no model call."""
        self.n_unreadable = 0
        """Bodies that cannot be parsed: one `CK000` each."""
        self._codes = Codes(hazards)
        self._analyzer, self._later = LedgerAnalyzer(is_checking=True), LaterEvidence()
        self._turns: Counter[tuple[str, str]] = Counter()

    def feed(self, record: Record) -> Iterator[Finding]:
        """Add the next record and yield the findings of the calls of which nothing more can be learnt, in order."""
        analyzed = self._analyzer.feed(record)
        if analyzed is not None:
            bare = replace(analyzed, call=replace(analyzed.call, prompt=None), sent=None)
            for call in self._later.feed(bare):
                yield from self._findings(call)

    def close(self) -> Iterator[Finding]:
        """Yield the findings of the calls that were held back."""
        for call in self._later.close():
            yield from self._findings(call)

    def _findings(self, analyzed: AnalyzedCall) -> Iterator[Finding]:
        call = analyzed.call
        if analyzed.unreadable is not None:
            self.n_unreadable += 1
            yield unreadable_finding(call, analyzed.unreadable, self.n_calls + self.n_unreadable)
        elif analyzed.verdict is None and not analyzed.has_body:
            self.n_skipped += 1
        else:
            self.n_calls += 1
            self._turns[call.session, call.lane] += 1
            spot = Spot(_conversation(call), self._turns[call.session, call.lane], call.id, "", reader_of(analyzed))
            findings = [*findings_of_gaps(analyzed.checks, call, spot, self._codes)]
            findings += findings_of(analyzed.verdict, call, spot, self._codes) if analyzed.verdict else ()
            yield from (replace(finding, verdict=analyzed.diagnosis) for finding in findings)


def _conversation(call: ModelCall) -> str:
    """Return the name of a conversation: the session, and its lane unless that is `main`."""
    name = call.session or "unnamed"
    return name if call.lane in ("", "main") else f"{name}/{call.lane}"
