"""What a recording would have cost with one thing changed.

Takes records, gives the bill before and after each fix, with the spread over what has to be assumed. Bills and times
answer what lies in time and price; what lies in the prompt needs outlines or bodies. Says of every fix which of them
answered it, or why nothing did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from contextkit.ledger.calls import Record, Remark
from contextkit.ledger.misses import (
    AnalyzedCall,
    LedgerAnalyzer,
    Prediction,
    list_cost_usd,
    predicted_usage,
    with_later_evidence,
)
from contextkit.ledger.verdict import is_shortfall
from contextkit.models import Model
from contextkit.whatif.answer import Answer, Calibration, WhatIf
from contextkit.whatif.fix import Fix, readings_of
from contextkit.whatif.fixes import fixes_named
from contextkit.whatif.lanes import Lanes, call_of
from contextkit.whatif.prompts import Prompts, Watch
from contextkit.whatif.timed_lane import PricedCall

SUMMED = "a row that adds up several calls"


def what_if(
    records: Iterable[Record],
    fixes: Sequence[str] = (),
    models: Sequence[Model] = (),
    *,
    watch: Watch = iter,
) -> WhatIf:
    """Compute the bill of `records`, and what it would have been with each of `fixes` (all for none), or with each of
    `models` asked instead.

    Calls that are replayed from their prompts pass `watch`; where it stops, what was replayed so far is answered. Raises
    `UsageError` for a fix there is not, `UnknownModel` for a model without a price.
    """
    work = _Work(fixes_named(fixes, models))
    analyzer = LedgerAnalyzer(work.predict)
    fed = (analyzer.feed(record) for record in work.noting_sums(records))
    for analyzed in with_later_evidence(call for call in fed if call is not None):
        work.see(analyzed)
    work.finish(watch)
    return work.result()


def what_if_judged(calls: Iterable[AnalyzedCall], fixes: Sequence[str]) -> WhatIf:
    """Answer fixes for calls that were judged before; raises `UsageError` for a fix there is not."""
    work = _Work(fixes_named(fixes))
    for analyzed in calls:
        work.see(analyzed)
    work.finish(iter)
    return work.result()


class _Work:
    """One run."""

    def __init__(self, fixes: Sequence[Fix]) -> None:
        self._fixes = fixes
        self._lanes, self._prompts = Lanes(fixes), Prompts(fixes)
        self._sums: set[str] = set()
        self._recorded_usd = 0.0
        self._counts: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._predicted = {"recorded": 0.0, "predicted": 0.0}

    def predict(self, prediction: Prediction) -> None:
        """Price the prediction of a call, and compare."""
        pair, read = prediction.pair, prediction.read_tokens
        if pair is None:
            return
        call, usage = pair.now.call, pair.now.usage
        billed = list_cost_usd(call, usage)
        is_same = read == (usage.read or 0)
        predicted = billed if is_same else list_cost_usd(call, predicted_usage(pair, read))
        if billed is None or predicted is None:
            return
        self._predicted["recorded"] += billed
        self._predicted["predicted"] += predicted
        is_miss, is_predicted = (is_shortfall(prediction.expected_tokens, tokens) for tokens in (usage.read or 0, read))
        self._counts.update(predicted=1, agreed=is_miss == is_predicted)

    @property
    def _calibration(self) -> Calibration:
        bill = self._predicted
        return Calibration(
            "usage and times", self._counts["predicted"], bill["recorded"], bill["predicted"], self._counts["agreed"]
        )

    def noting_sums(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records, noting the lanes whose rows are sums and not calls."""
        for record in records:
            if isinstance(record, Remark) and record.kind == "sum":
                self._sums.add(record.about)
            yield record

    def see(self, row: AnalyzedCall) -> None:
        """Add the next call."""
        call = row.call
        analyzed: PricedCall | str = SUMMED if f"{call.session}/{call.lane}" in self._sums else call_of(row)
        self._counts["calls"] += 1
        usd = row.list_cost_usd or 0.0
        if isinstance(analyzed, str):
            self._left[analyzed] += 1
        else:
            self._counts["priced"] += 1
            self._recorded_usd += usd
            self._lanes.add(analyzed, usd)
        if self._prompts.is_wanted:
            self._prompts.see(call, analyzed, usd)

    def finish(self, watch: Watch) -> None:
        """Complete the sums: the recording is over."""
        self._lanes.finish()
        self._prompts.finish(watch)

    def result(self) -> WhatIf:
        """Return all answers."""
        predictions = (self._calibration, self._prompts.calibration)
        return WhatIf(
            self._counts["calls"],
            self._counts["priced"],
            self._recorded_usd,
            tuple(one for one in predictions if one.calls),
            self._lanes.unexplained,
            tuple(map(self._answer, self._fixes)),
        )

    def _answer(self, fix: Fix) -> Answer:
        replay = self._lanes if fix.lanes else self._prompts
        n_calls = self._lanes.n_calls[fix.name] if fix.lanes else self._prompts.n_calls(fix)
        bills = [self._recorded_usd - saved for saved in replay.saved_usd.get(fix.name, [0.0])] if n_calls else []
        source = "usage and times" if fix.lanes else self._prompts.answered_from(fix)
        return Answer(
            fix.name,
            fix.needs,
            source if n_calls else "",
            n_calls,
            None if fix.lanes else self._prompts.n_changed(fix),
            self._recorded_usd,
            bills[0] if bills else None,
            min(bills, default=None),
            max(bills, default=None),
            _reasons_text(self._left + replay.why_not[fix.name] if fix.lanes else replay.why_not[fix.name]),
            replay.note(fix),
            fix.to_do,
            tuple(zip(readings_of(fix), bills, strict=False)),
        )


def _reasons_text(reasons: Counter[str]) -> str:
    """Format reasons: `412 calls: no request body in the record; 3 calls: the bill is unknown`."""
    return "; ".join(f"{n:,} call{'s' * (n != 1)}: {reason}" for reason, n in reasons.most_common())
