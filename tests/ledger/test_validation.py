"""Predictions scored against bills: small recordings whose scores are worked out by hand, and the real logs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import files_at, records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.summary import summarise
from contextkit.ledger.validation import Lifetime, Scoreboard, validate
from contextkit.report.terminal import text
from tests.ledger.test_causes import HEAD_ONLY, Session, claude, codex


def scored(*sessions: Session) -> Scoreboard:
    return validate([("made up", session.records) for session in sessions])


def test_nothing_recorded_has_no_score() -> None:
    found = scored()
    assert (found.total.calls, found.total.agreement, found.calls) == (0, None, 0)
    assert json.loads(found.to_json())["total"]["agreement"] is None


def test_a_predicted_miss_agrees_and_the_trivial_prediction_is_wrong() -> None:
    (score,) = scored(claude((HEAD_ONLY, ("event", "resume: ")))).scores
    assert (score.calls, score.misses, score.agreed, score.agreed_trivial) == (1, 1, 1, 0)
    assert (score.read_tokens, score.predicted_tokens, score.predicted_tokens_trivial) == (16_000, 16_000, 76_010)
    assert (score.median_error, score.median_error_trivial) == (0.0, pytest.approx(60_010 / 16_000))
    assert (score.source, score.model, score.month) == ("made up", "claude-opus-4-5", "2026-05")


def test_where_both_differ_is_said_with_its_cause() -> None:
    missed = scored(claude((HEAD_ONLY, ("event", "skill: commit"))))
    assert [(one.kind, one.cause, one.calls, one.tokens) for one in missed.deviations] == [
        ("missed, hit predicted", "unknown", 1, 60_000)
    ]
    hit = scored(codex().call(Usage(fresh=6_000, read=29_568, output=10), ("turn", "4900")))
    assert [(one.kind, one.cause, one.calls, one.tokens) for one in hit.deviations] == [
        ("hit, miss predicted", "reasoning_stripped", 1, 29_568 - 22_432)
    ]
    assert hit.total.agreement == pytest.approx(2 / 3)


def test_lifetimes_are_counted_from_the_end_of_a_call() -> None:
    session = Session("anthropic", "claude-opus-4-5").call(Usage(10, 0, 60_000, 0, 5), lasts=20)
    session.call(Usage(10, 60_000, 900, 0, 5), gap=310).call(Usage(10, 0, 61_900, 0, 5), gap=420)
    assert scored(session).lifetimes == (
        Lifetime("made up", 300, 0.9, 1.0, 1, 0),
        Lifetime("made up", 300, 1.33, float("inf"), 0, 1),
    )


def test_pauses_of_a_model_whose_lifetime_nobody_documents_are_counted_in_the_assumed_one() -> None:
    session = Session("opencode", "big-pickle").call(Usage(fresh=60_000, read=10_000, output=5))
    session.call(Usage(fresh=900, read=69_888, output=5), gap=9_008)
    assert scored(session).lifetimes == (Lifetime("made up", 300, 1.33, float("inf"), 1, 0),)


def test_calls_without_a_bill_are_counted_and_not_scored() -> None:
    session = claude((HEAD_ONLY, ("event", "resume: ")))
    unbilled = replace(session.records[0], id="x", session="other", usage=None)
    found = validate([("made up", session.records), ("no bills", [unbilled])])
    assert (found.calls, found.calls_without_bill, found.total.calls) == (3, 1, 1)


def silent(n: int = 3) -> Session:
    """Calls of a host that says of none what it read."""
    session = Session("tensorix", "some-model")
    for number in range(n):
        session.call(Usage(fresh=20_000 + 3_000 * number, read=0, output=5))
    return session


def test_what_a_host_without_reads_would_have_read_is_unknown_to_the_report_and_not_scored() -> None:
    found, summary = scored(silent()), summarise(silent().records)
    assert (found.calls, found.calls_silent, found.total.calls, found.deviations) == (3, 2, 0, ())
    assert (summary.hit_rate, str(summary.total.misses), summary.saved_usd) == (None, "unknown", None)
    assert summary.hit_rates == (0.0, None, None)
    assert str(summary).startswith("hit rate unknown: the host reports no reads · misses unknown")
    page = text(summary, is_verbose=True)
    assert "of hosts that report no reads" in page and "Misses unknown" in page
    assert "the host reports no reads in 2 of the 3 calls of some-model" in page and "0.0%" not in page


def test_a_host_that_reports_reads_after_all_is_judged_by_them() -> None:
    session = silent().call(Usage(fresh=3_000, read=25_984, output=5)).call(Usage(fresh=32_000, read=0, output=5))
    found, summary = scored(session), summarise(session.records)
    assert (found.calls_silent, found.total.calls, found.total.misses) == (2, 2, 1)
    assert (summary.total.calls_silent, str(summary.total.misses)) == (0, "1")
    assert summary.hit_rate == summary.usage.hit_rate


def test_calls_of_a_host_without_reads_leave_the_hit_rate_of_the_others() -> None:
    elsewhere = [replace(one, session="other") for one in silent().records if isinstance(one, ModelCall)]
    summary = summarise([*elsewhere, *codex().records])
    (without, known), total = summary.models, summary.total
    assert (without.hit_rate, str(without.misses), str(known.misses)) == (None, "unknown", "0")
    assert (total.calls_silent, str(total.misses)) == (2, "≥ 0")
    assert total.hit_rate == pytest.approx((known.usage.read or 0) / ((known.usage.prompt or 0) + 20_000))


def test_recorded_requests_are_counted_beside_their_bills() -> None:
    body = {
        "model": "claude-opus-4-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Read the notes. " * 200}],
    }
    (call,) = Session("anthropic", "claude-opus-4-5").call(Usage(800, 0, 0, 0, 5)).records
    assert isinstance(call, ModelCall)
    (size,) = validate([("pairs", [replace(call, prompt=Bodies(json.dumps(body).encode()))])]).sizes
    assert (size.model, size.has_tools, size.calls) == ("claude-opus-4-5", False, 1)
    assert 0.5 < size.median_ratio < 2 and size.median_difference == pytest.approx(800 * (size.median_ratio - 1))


@pytest.mark.parametrize(("agent", "least"), [("claude-code", 0.99), ("codex", 0.94)])
def test_real_bills_are_predicted(shared: Path, agent: str, least: float) -> None:
    files = files_at([str(shared / "data" / "agent-logs" / agent)])
    found = validate([(known.name, records) for known, records in (records_at(file, Faults()) for file in files)])
    score = found.total
    assert score.agreement is not None and score.agreement_trivial is not None
    assert score.agreement >= least > score.agreement_trivial
    assert score.median_error <= 0.01
    assert abs(score.predicted_tokens - score.read_tokens) < 0.02 * score.read_tokens
