"""`lint --requests` tells every miss that `report` lists, as it tells it: tokens, dollars, code, place, evidence."""

from __future__ import annotations

from collections import defaultdict

import pytest

from contextkit.ledger.misses import analyzed_calls
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.requests.detect import find_in_requests
from contextkit.lint.requests.findings import all_codes
from tests.judge.recordings import billed, recording, unlucky
from tests.scale import n_examples


def test_each_miss_of_the_report_is_told_with_its_tokens_dollars_and_cause() -> None:
    n_misses = n_later = 0
    for seed in range(n_examples(100, 400)):
        calls = billed(recording(seed))
        calls = unlucky(calls, seed) if seed % 2 else calls
        found = defaultdict[str, list[Finding]](list)
        for finding in find_in_requests(calls, hazards()):
            if finding.cost_tokens is not None and isinstance(finding.place, RequestPlace):
                found[finding.place.request].append(finding)
        for one in analyzed_calls(calls):
            miss, verdict, told = one.miss, one.verdict, found[one.call.id]
            if miss is None or verdict is None or not miss.is_loss:
                assert verdict is None or verdict.read is None or not verdict.is_miss, (seed, one.index)
                continue
            n_misses += 1
            n_later += miss.where.startswith("a later call read")
            assert sum(finding.cost_tokens or 0 for finding in told) == miss.lost_tokens, (seed, one.index)
            if miss.cost_usd is not None:
                assert sum(finding.cost_usd or 0.0 for finding in told) == pytest.approx(miss.cost_usd), (
                    seed,
                    one.index,
                )
            main = verdict.main
            assert main is not None
            largest = max(told, key=lambda finding: finding.cost_tokens or 0)
            assert largest.code == all_codes().of_gap(main, one.call), (seed, one.index)
            assert largest.message == (main.evidence or main.cause.replace("_", " ")), (seed, one.index)
    assert n_misses > n_examples(100, 400)
    assert n_later
