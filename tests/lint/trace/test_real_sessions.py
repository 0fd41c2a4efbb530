"""Real conversations as captured requests: nothing is found in them but what really broke."""

from __future__ import annotations

from pathlib import Path

import pytest

from contextkit.ledger.misses import analyzed_calls
from contextkit.ledger.parsed_call import ParsedCall, parse_call
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import RequestPlace
from contextkit.lint.requests.detect import RequestDetector, find_in_requests
from tests.lint.injection.sessions import (
    FIRST_COMPACTION,
    WIRES,
    beginning_of_the_coding_session,
    body_of,
    coding_session,
    service_runs,
    with_body,
)
from tests.scale import cases, n_examples

COMPACTED = [174, 304]
"""Calls of the coding session before which its history was replaced by a summary."""


@pytest.mark.parametrize("wire", cases(WIRES[:1], WIRES))
def test_a_real_coding_session_is_rewritten_where_it_was_compacted_and_no_text_of_it_is_lost(
    wire: str, shared: Path, request: pytest.FixtureRequest
) -> None:
    """By default its first 199 calls, on one wire."""
    is_full = request.config.getoption("--full")
    calls = coding_session(shared, wire) if is_full else beginning_of_the_coding_session(shared, wire, FIRST_COMPACTION)
    gaps = [
        (place, gap) for place, one in enumerate(analyzed_calls(calls), 1) if one.verdict for gap in one.verdict.gaps
    ]
    assert [place for place, gap in gaps if gap.cause == "compaction"] == [n for n in COMPACTED if n <= len(calls)]
    assert [(place, gap.cause) for place, gap in gaps if gap.whose == "program_bytes"] == []
    findings = list(find_in_requests(calls, hazards()))
    assert {one.code for one in findings} <= {"CKP02", "CKL01", "CKL04"}  # each explained in the baseline
    assert not {one.place.turn for one in findings if isinstance(one.place, RequestPlace)} & {*COMPACTED}


@pytest.mark.parametrize("wire", WIRES)
def test_real_runs_have_no_findings(wire: str, shared: Path) -> None:
    detector = RequestDetector(hazards())
    runs = service_runs(shared, wire, n_examples(20, 200))
    found = [one for run in runs for call in run for one in detector.feed(call)]
    assert (found, detector.n_calls) == ([], sum(map(len, runs)))


@pytest.mark.parametrize("wire", WIRES)
def test_real_calls_are_cut_alike_from_the_front_and_from_the_call_before(wire: str, shared: Path) -> None:
    for run in service_runs(shared, wire, 12):
        before: ParsedCall | None = None
        for call in run:
            before, whole = parse_call(call, before), parse_call(call)
            assert before is not None
            assert whole is not None
            assert (before.blocks, before.body) == (whole.blocks, whole.body)


def test_a_clock_put_into_a_real_run_costs_what_the_run_s_cache_held_and_its_removal_what_was_new_since(
    shared: Path,
) -> None:
    run = list(service_runs(shared, "anthropic_messages", 1)[0])
    body = body_of(run[5])
    body["system"][0]["text"] += " It is 10:01."
    run[5] = with_body(run[5], body)
    findings = list(find_in_requests(run, hazards()))
    places = [finding.place for finding in findings if isinstance(finding.place, RequestPlace)]
    assert [(place.turn, place.path) for place in places] == [(6, "system[0]"), (7, "system[0]")]  # there, and back
    there, back = (finding.cost_tokens or 0 for finding in findings)
    assert there > 4_000 and 0 < back < 500  # what the calls before it wrote can still be read
