"""The terminal page: everything in wide and narrow, in colour and without, in Unicode and in ASCII; unknown is never 0."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import Summary, summarise
from contextkit.report.contents import RAMP, UNKNOWN, buckets, losses, shares, sparkline
from contextkit.report.overview import action_rows
from contextkit.report.terminal import GROUPS, MISSES, SESSIONS, show, text
from tests.report.made_up import gathered, many_sessions, one_session


def calls(*rows: tuple[str, Usage | None], gap: float = 30) -> Iterator[ModelCall]:
    for i, (model, usage) in enumerate(rows):
        at = 1_764_000_000.0 + gap * i
        yield ModelCall(f"m{i}", "s", "main", at, at + 1, at + 2, "anthropic", model, None, usage, None, None)


def a_summary(*rows: tuple[str, Usage | None]) -> Summary:
    ledger = Ledger()
    for call in calls(*rows):
        ledger.append(call)
    return summarise(ledger)


OPUS = "claude-opus-4-5"
FIRST, HIT, LOST = Usage(1, 0, 50_000, 0, 9), Usage(1, 50_000, 100, 0, 9), Usage(1, 0, 50_200, 0, 9)
TYPICAL = a_summary((OPUS, FIRST), (OPUS, HIT), (OPUS, None), (OPUS, LOST))


@pytest.mark.parametrize("width", [40, 120])
def test_the_page_fits_and_says_what_matters(width: int) -> None:
    page = text(TYPICAL, width, has_misses=True, is_verbose=True)
    assert max(map(len, page.splitlines())) <= width
    words = " ".join(page.split())
    for said in ("33.3 %", "1 miss", "usage unknown for 1 of 4 calls", "unknown", "50,100", "not recorded", "$0.29"):
        assert said in words, said
    assert "\x1b" not in page


def test_the_line_of_calls_shows_hits_misses_and_unknowns() -> None:
    assert f"hit rate  {RAMP[0]}{RAMP[-1]}{UNKNOWN}{RAMP[0]}" in text(TYPICAL, is_verbose=True)


def test_names_are_never_read_as_markup() -> None:
    page = text(a_summary(("[bold]me[/]", FIRST), (OPUS, LOST)), 120, has_misses=True, is_verbose=True)
    assert "\n[bold]me[/]  " in page
    assert "anthropic/[bold]me[/] → " in page


def test_many_misses_are_cut_to_the_largest() -> None:
    summary = a_summary(*[(OPUS, LOST)] * (MISSES + 7))
    assert "and 6 more, smaller ones" in text(summary, has_misses=True)
    assert "smaller ones" not in text(summary, is_verbose=True), "none is listed"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_any_terminal_can_show_it(encoding: str) -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as file:
        show(a_summary((OPUS, FIRST), ("modèle·→", LOST)), file, has_misses=True, is_verbose=True)
        file.flush()
        page = raw.getvalue().decode(encoding)
    assert "model_changed" in page


rates = st.lists(st.none() | st.floats(0, 1), max_size=60)


@given(rates, st.integers(0, 40))
def test_a_sparkline_never_outgrows_its_place(values: list[float | None], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) == min(width, len(values))
    assert set(line) <= {*RAMP, UNKNOWN}
    assert sparkline(values, width, is_ascii=True).isascii()


@given(rates, st.integers(1, 40))
def test_buckets_leave_nothing_out(values: list[float | None], width: int) -> None:
    found = [value for value in buckets(values, width) if value is not None]
    known = [value for value in values if value is not None]
    assert bool(found) == bool(known)
    assert all(min(known) - 1e-9 <= value <= max(known) + 1e-9 for value in found)


@given(st.builds(Usage, *[st.integers(0, 10**6)] * 5))
def test_shares_are_parts_of_one(usage: Usage) -> None:
    found = shares(usage)
    assert not usage.prompt or sum(share for _, share in found) == pytest.approx(1)


def test_losses_by_cause_the_largest_first() -> None:
    summary = a_summary((OPUS, FIRST), (OPUS, LOST), ("claude-sonnet-4-5", LOST), ("claude-sonnet-4-5", LOST))
    assert [(loss.cause, loss.n) for loss in losses(summary)] == [("unknown", 2), ("model_changed", 1)]
    assert sum(loss.lost_tokens for loss in losses(summary)) == sum(miss.lost_tokens for miss in summary.misses)


def test_a_grouping_has_a_row_each_and_the_dearest_are_kept() -> None:
    contents, _ = gathered(many_sessions(80), by="session")
    page = text(contents, 120)
    rows = re.findall(r"^(\w+) 2026-\d\d-\d\d \d\d:\d\d \((\w+/\d{4})\) ", page, re.MULTILINE)
    assert len(rows) == GROUPS and "and 50 more sessions, less dear" in page
    assert all(session.startswith(f"{project}/") for project, session in rows)
    dearest = sorted(contents.summary.groups, key=lambda row: -(row.cost_usd or 0))
    assert [session for _, session in rows] == [row.name for row in dearest[:GROUPS]]


def test_the_dearest_sessions_are_listed_without_a_grouping() -> None:
    contents, _ = gathered(many_sessions(80))
    page = text(contents, 120, is_verbose=True)
    rows = re.findall(r"^\w+ 2026-\S+ \S+ \((\w+/\d{4})\) ", page, re.MULTILINE)
    assert len(rows) == SESSIONS and f"and {80 - SESSIONS} more sessions, less dear" in page
    assert sum(row.calls for row in contents.session_rows) == contents.summary.calls


def test_causes_come_before_single_misses_with_what_to_change() -> None:
    contents, _ = gathered(one_session(1_000))
    page = text(contents, has_misses=True)
    lost = {loss.cause: loss for loss in losses(contents.summary)}
    assert len(lost) > 1
    for cause, loss in lost.items():
        row = re.search(rf"^{cause} +{loss.n} +{loss.lost_tokens:,} +(\S+)", page, re.MULTILINE)
        assert row is not None and loss.cost_usd is not None
        assert float(row[1].strip("$").replace(",", "")) == pytest.approx(loss.cost_usd, abs=0.005)
        assert row.start() < page.index("call   cause")
    rows = {row.action.causes[0]: row for row in action_rows(contents)}
    assert rows.keys() == {"system_changed", "messages_changed"}, "the longer lifetime costs more than it saves"
    told = " ".join(page.split())
    for cause, row in rows.items():
        assert re.search(rf"^{cause} .* {row.title}", page, re.MULTILINE)
        assert f"{row.saves} gpu-prices: 1 session {row.step.text}" in told


def test_an_unknown_cause_is_told_as_such_and_its_share() -> None:
    page = " ".join(text(TYPICAL, is_verbose=True).split())
    assert "cannot be determined: - no cause is known for 1 of the 1 miss, 100% of the lost tokens" in page
    assert "Lost, cause unknown: $0.29 in 1 call (contextkit proxy --record records why)" in " ".join(
        text(gathered(calls((OPUS, FIRST), (OPUS, LOST)))[0]).split()
    )


@pytest.mark.parametrize("width", [40, 120])
def test_the_provider_s_verdict_stands_beside_the_cause(width: int) -> None:
    contents, _ = gathered(one_session(600))
    assert contents.verdicts
    page = " ".join(text(contents, width, has_misses=True).split())
    assert "agrees" in page


def test_a_report_cut_short_says_so_first() -> None:
    contents, _ = gathered(one_session(9))
    lines = text(replace(contents, is_partial=True)).splitlines()
    assert lines[0] == "made-up.jsonl" and lines[1].startswith("partial: ")
