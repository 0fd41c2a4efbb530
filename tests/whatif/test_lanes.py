"""Fixes that bills and times answer: against bills worked out by hand, and against a real session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.usage import Usage
from contextkit.errors import UsageError
from contextkit.ledger.calls import ModelCall, Remark
from contextkit.ledger.misses import analyzed_calls
from contextkit.models import model_named
from contextkit.whatif.answer import Answer, WhatIf
from contextkit.whatif.fix import readings_of
from contextkit.whatif.fixes import FIXES, fixes_named
from contextkit.whatif.lanes import Lanes, call_of
from contextkit.whatif.what_if import what_if
from tests.scale import n_examples

OPUS = "claude-opus-4-5"
INPUT, WRITE_5M, WRITE_1H, READ, OUTPUT = (price / 1e6 for price in (5, 6.25, 10, 0.5, 25))
"""Dollars a token of claude-opus-4-5 (https://platform.claude.com/docs/en/about-claude/pricing)."""
PI = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "pi" / "before-compaction.jsonl"
START = 1_765_000_000.0


def call(
    number: int, at: float, *counts: int, model: str = OPUS, session: str = "s", lane: str = "main", seconds: float = 5
) -> ModelCall:
    """A call of so many seconds with these counters: fresh, read, write_5m, write_1h, output."""
    usage = Usage(*counts) if counts else None
    provider = "anthropic" if model.startswith("claude") else "openai"
    return ModelCall(
        f"{session}/{number}",
        session,
        lane,
        START + at,
        None,
        START + at + seconds,
        provider,
        model,
        None,
        usage,
        None,
        None,
    )


def answer(found: WhatIf, name: str) -> Answer:
    return next(one for one in found.answers if one.fix == name)


def under(one: Answer, **assumed: str) -> float:
    """The bill under one reading of every assumption."""
    return next(usd for reading, usd in one.readings if reading == assumed)


GAP = [  # three calls, the last one 400 s after the second, whose prefix is dead by then
    call(0, 0, 10, 0, 20_000, 0, 100),
    call(1, 60, 10, 20_000, 1_000, 0, 100),
    call(2, 460, 10, 0, 22_000, 0, 100),
]
REST = 3 * (10 * INPUT + 100 * OUTPUT)
BEFORE = REST + 43_000 * WRITE_5M + 20_000 * READ


def test_the_replay_of_what_was_is_the_recorded_bill() -> None:
    found = what_if(GAP)
    rest = found.unexplained
    assert found.recorded_usd == pytest.approx(BEFORE)
    assert (rest.calls, rest.n_misses, rest.n_reads) == (3, 0, 0)
    assert replayed(GAP).difference_usd == pytest.approx(0)


def replayed(records: Iterable[ModelCall]) -> Lanes:
    """The replay of what was."""
    lanes = Lanes(fixes_named([]))
    for judged in analyzed_calls(records):
        one = call_of(judged)
        if not isinstance(one, str):
            lanes.add(one, judged.list_cost_usd or 0.0)
    lanes.finish()
    return lanes


def test_the_check_against_the_bills_is_told_nothing() -> None:
    (check,) = what_if(GAP).calibrations
    assert (check.calls, check.agreed, check.difference_usd) == (2, 2, pytest.approx(0))
    early = [*GAP[:2], call(2, 120, 10, 0, 22_000, 0, 100)]
    (check,) = what_if(early).calibrations
    assert (check.calls, check.agreed) == (2, 1)
    assert check.difference_usd == pytest.approx(-21_000 * (WRITE_5M - READ))
    alive = [*GAP[:2], call(2, 2_000, 10, 21_000, 1_000, 0, 100)]
    (check,) = what_if(alive).calibrations
    assert (check.calls, check.agreed) == (2, 1)
    assert check.difference_usd == pytest.approx(21_000 * (WRITE_5M - READ))


def test_a_longer_lifetime_costs_at_every_write_and_ends_the_miss() -> None:
    one = answer(what_if(GAP), "lifetime")
    assert one.after_usd == pytest.approx(REST + 22_000 * WRITE_1H + 41_000 * READ)
    assert (one.before_usd, one.calls, one.answered_from) == (pytest.approx(BEFORE), 3, "usage and times")
    assert one.low_usd is not None and one.high_usd is not None and one.low_usd <= one.after_usd <= one.high_usd
    assert one.note == "of 1 conversations 1 longer, 0 shorter"


def test_each_conversation_chooses_in_both_directions() -> None:
    sizes = [(0, 20_000), *((19_000 + 1_000 * n, 1_000) for n in range(1, 10))]
    busy = [call(n, 20 * n, 10, read, written, 0, 100, session="t") for n, (read, written) in enumerate(sizes)]
    long = [call(n, 20 * n, 10, read, 0, written, 100, session="u") for n, (read, written) in enumerate(sizes)]
    alone, together = (answer(what_if(rows, ["lifetime"]), "lifetime") for rows in (GAP, [*GAP, *busy, *long]))
    assert alone.saves_usd and together.saves_usd
    assert together.saves_usd == pytest.approx(alone.saves_usd + 29_000 * (WRITE_1H - WRITE_5M))
    assert together.note == "of 3 conversations 1 longer, 1 shorter"


def test_lifetimes_that_count_from_the_end_outlive_gaps_that_a_long_answer_filled() -> None:
    slow = [GAP[0], call(1, 60, 10, 20_000, 1_000, 0, 100, seconds=200), GAP[2]]
    one = answer(what_if(slow, ["lifetime"]), "lifetime")
    # so read, the miss is one that nothing explains, and happens again
    missed = REST + 43_000 * WRITE_1H + 20_000 * READ
    assert under(one, lifetime="from end") == pytest.approx(missed) == one.high_usd
    assert under(one, lifetime="from start") == pytest.approx(REST + 22_000 * WRITE_1H + 41_000 * READ) == one.low_usd


def test_a_miss_nobody_can_explain_happens_again() -> None:
    early = [*GAP[:2], call(2, 120, 10, 0, 22_000, 0, 100)]
    found = what_if(early)
    one = answer(found, "lifetime")
    assert found.unexplained.n_misses == 1
    assert (one.saves_usd, one.note) == (0.0, "of 1 conversations 0 longer, 0 shorter")


def test_a_routing_key_ends_the_misses_of_other_servers() -> None:
    sizes = [(0, 20_000), (19_968, 10_000), (29_952, 10_000), (19_968, 21_000), (40_960, 1_000)]
    calls = [
        call(n, 20 * n, size, read, 0, 0, 100, model="gpt-4.1") for n, (read, size) in enumerate(sizes)
    ]  # the fourth call reads what the first had left
    one = answer(what_if(calls), "routing-key")
    assert one.saves_usd is not None and one.saves_usd > 0
    assert answer(what_if(GAP), "routing-key").why_not == "3 calls: claude-opus-4-5 takes no routing key"


def test_conversations_that_take_no_routing_key_save_nothing_beside_one_that_does() -> None:
    sizes = [(0, 20_000), (19_968, 10_000), (29_952, 10_000), (19_968, 21_000), (40_960, 1_000)]
    grok = [
        replace(call(n, 20 * n, size, read, 0, 0, 100, model="grok-4.7", session="g"), provider="xai")
        for n, (read, size) in enumerate(sizes)
    ]
    one = answer(what_if([*grok, call(0, 500, 5_000, 0, 0, 0, 10, model="gpt-4.1")]), "routing-key")
    assert (one.calls, one.saves_usd) == (1, 0.0)
    assert one.why_not == "5 calls: grok-4.7 takes no routing key"


def test_a_call_without_an_end_is_readable_once_its_response_began() -> None:
    cold, slow = call(0, 0, 0, 0, 20_000, 0, 100), call(1, 30, 0, 0, 21_000, 0, 100)  # sent before the first began
    calls = [
        replace(one, first_byte_at=START + began, ended_at=None)
        for one, began in [(cold, 60), (slow, 70), (call(2, 90, 0, 21_000, 1_000, 0, 100), 95)]
    ]
    assert [one.miss and one.miss.cause for one in analyzed_calls(calls)] == ["first_write", "cold_fan_out", None]
    assert what_if(calls, ["lifetime"]).unexplained.n_misses == 0


def test_a_prompt_that_changed_is_written_anew_whatever_the_lifetime() -> None:
    said = Remark("compaction", "s/2", "the user compacted")
    compacted = [*GAP[:2], said, call(2, 460, 10, 0, 22_000, 0, 100)]
    one = answer(what_if(compacted), "lifetime")
    assert one.after_usd == one.low_usd == one.high_usd == pytest.approx(BEFORE)


def test_a_read_that_outlives_the_table_is_believed() -> None:
    alive = [*GAP[:2], call(2, 2_000, 10, 21_000, 1_000, 0, 100)]
    assert what_if(alive).unexplained.n_reads == 1
    assert replayed(alive).difference_usd == pytest.approx(0)


def test_prices_of_another_model_with_the_same_tokenizer_have_no_spread() -> None:
    found = what_if(GAP, models=[model_named("claude-sonnet-4-5")])
    (one,) = found.answers
    assert one.fix == "prices-of claude-sonnet-4-5"
    assert (
        one.after_usd == pytest.approx(0.6 * BEFORE) == one.low_usd == one.high_usd
    )  # 3 / 15 dollars instead of 5 / 25


def test_prices_of_another_tokenizer_spread() -> None:
    (one,) = what_if(GAP, models=[model_named("claude-opus-4-7")]).answers
    assert one.after_usd == pytest.approx(1.3 * BEFORE, rel=0.01)
    assert one.low_usd == pytest.approx(0.8 * one.after_usd, rel=0.01)
    assert one.high_usd == pytest.approx(1.2 * one.after_usd, rel=0.01)


def test_a_model_whose_cache_is_free_to_write() -> None:
    (one,) = what_if(GAP, models=[model_named("gpt-4.1")]).answers
    same = under(one, lifetime="from start", tokenizer="as listed")
    scale = model_named(OPUS).bytes_per_token / model_named("gpt-4.1").bytes_per_token
    # 2 dollars a million in, 0.5 read, 8 out; 20,000 and 21,000 tokens are repeated, in steps of 128, and it remembers
    # them for long
    assert same == pytest.approx(scale * ((63_030 - 41_000) * 2 + 41_000 * 0.5 + 300 * 8) / 1e6, rel=0.01)


def test_one_model_for_all_reads_across_what_was_a_change_of_models() -> None:
    changed = [GAP[0], call(1, 60, 10, 0, 21_000, 0, 100, model="claude-sonnet-4-5")]
    (one,) = what_if(changed, models=[model_named(OPUS)]).answers
    assert one.after_usd == pytest.approx(2 * (10 * INPUT + 100 * OUTPUT) + 21_000 * WRITE_5M + 20_000 * READ)


def test_a_model_that_keeps_what_it_likes_is_not_asked_for_longer() -> None:
    one = answer(what_if([call(0, 0, 5_000, 0, 0, 0, 10, model="gpt-4.1")]), "lifetime")
    assert (one.after_usd, one.why_not) == (None, "1 call: no write to gpt-4.1's cache asks for a lifetime")


def test_what_is_unknown_is_counted_and_said() -> None:
    odd = [*GAP, call(3, 500), call(4, 600, 1, 2, 3, 0, 5, model="nobody's")]
    found = what_if(odd)
    assert (found.calls, found.calls_with_price) == (5, 3)
    assert answer(found, "lifetime").why_not == "1 call: the bill is unknown; 1 call: no price for nobody's"


def test_rows_that_add_up_calls_are_left_out() -> None:
    found = what_if([Remark("sum", "s/main", "between two scrapes"), *GAP])
    assert (found.calls, found.calls_with_price) == (3, 0)


def test_fixes_that_need_text_say_that_there_is_none() -> None:
    for name in ("breakpoints", "sorted-tools", "clock-to-tail", "no-pruning", "leader-first"):
        one = answer(what_if(GAP), name)
        assert (one.after_usd, one.answered_from) == (None, "")
        assert one.why_not == "3 calls: neither a body nor an outline in the record"


def test_a_fix_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"'magic' is no fix: use one of lifetime, .*leader-first"):
        what_if(GAP, ["magic"])


def test_every_fix_names_assumptions_there_are() -> None:
    for fix in FIXES.values():
        assert len(readings_of(fix)) >= 2
        assert sum(map(bool, (fix.lanes, fix.outlines, fix.bodies))) == 1


counts = st.tuples(
    st.integers(0, 50), st.integers(0, 60_000), st.integers(0, 30_000), st.integers(0, 30_000), st.integers(0, 500)
)


@settings(max_examples=n_examples(12, 200), deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.5, 5_000), counts, st.sampled_from(["main", "a"]), st.floats(0, 400)),
        min_size=1,
        max_size=25,
    )
)
def test_whatever_was_billed_is_replayed_to_the_cent(rows: list[tuple[float, tuple[int, ...], str, float]]) -> None:
    at, ledger = 0.0, []
    for number, (gap, counted, lane, seconds) in enumerate(rows):
        at += gap
        ledger.append(call(number, at, *counted, lane=lane, seconds=seconds))
    found = what_if(ledger)
    assert replayed(ledger).difference_usd == pytest.approx(0, abs=1e-9)
    for one in found.answers:
        if one.after_usd is not None:
            assert (
                one.low_usd is not None
                and one.high_usd is not None
                and 0 <= one.low_usd <= one.after_usd <= one.high_usd
            )


@pytest.mark.skipif(not PI.exists(), reason="the recorded pi session is not beside this checkout")
def test_a_real_session() -> None:
    from contextkit.importers.registry import records_in
    from contextkit.importers.source import Faults

    found = what_if(records_in([str(PI)], Faults()), ["lifetime"])
    (check,) = found.calibrations
    assert (found.unexplained.calls, check.calls, check.agreed) == (471, 469, 461)
    # its one expired prefix (call 252, 151,828 tokens) would be read; all other writes would cost 3.75 dollars a million
    # more, so it stays as it is
    assert answer(found, "lifetime").saves_usd == 0.0
