"""Fixes that bills and times answer: against bills worked out by hand, and against a real session."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.analysis.counterfactual.answer import Answer, WhatIf
from contextkit.analysis.counterfactual.fix import readings_of
from contextkit.analysis.counterfactual.fixes import FIXES, fixes_named
from contextkit.analysis.counterfactual.timed_lanes import Lanes, call_of
from contextkit.analysis.counterfactual.what_if import what_if
from contextkit.cache.usage import Usage
from contextkit.errors import UsageError
from contextkit.ledger.calls import Exchange, Remark
from contextkit.ledger.misses import analyzed_calls
from contextkit.models import model_named

OPUS = "claude-opus-4-5"
INPUT, WRITE_5M, WRITE_1H, READ, OUTPUT = (price / 1e6 for price in (5, 6.25, 10, 0.5, 25))
"""Dollars a token of claude-opus-4-5 (https://platform.claude.com/docs/en/about-claude/pricing)."""
PI = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "pi" / "before-compaction.jsonl"
START = 1_765_000_000.0


def call(
    number: int, at: float, *counts: int, model: str = OPUS, session: str = "s", lane: str = "main", seconds: float = 5
) -> Exchange:
    """A call of so many seconds with these counters: fresh, read, write_5m, write_1h, output."""
    usage = Usage(*counts) if counts else None
    provider = "anthropic" if model.startswith("claude") else "openai"
    return Exchange(
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


def replayed(records: Iterable[Exchange]) -> Lanes:
    """The replay of what was."""
    lanes = Lanes(fixes_named([]))
    for judged in analyzed_calls(records):
        one = call_of(judged)
        if not isinstance(one, str):
            lanes.see(one, judged.list_cost_usd or 0.0, "")
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
    one = answer(what_if(GAP), "ttl-1h")
    assert one.after_usd == pytest.approx(REST + 22_000 * WRITE_1H + 41_000 * READ)
    assert (one.before_usd, one.calls, one.answered_from) == (pytest.approx(BEFORE), 3, "usage and times")
    assert one.low_usd is not None and one.high_usd is not None and one.low_usd <= one.after_usd <= one.high_usd
    assert one.note == "long writes cost $0.0825 more, what is found alive saves $0.12"


def test_lifetimes_that_count_from_the_end_outlive_gaps_that_a_long_answer_filled() -> None:
    slow = [GAP[0], call(1, 60, 10, 20_000, 1_000, 0, 100, seconds=200), GAP[2]]
    one = answer(what_if(slow), "ttl-1h")
    again = "happen again"
    missed = (
        REST + 43_000 * WRITE_1H + 20_000 * READ
    )  # so read, the miss is one that nothing explains, and happens again
    assert under(one, lifetime="from end", unexplained=again) == pytest.approx(missed)
    assert under(one, lifetime="from end", unexplained="vanish") == pytest.approx(
        REST + 22_000 * WRITE_1H + 41_000 * READ
    )
    assert (one.low_usd, one.high_usd) == (
        pytest.approx(REST + 22_000 * WRITE_1H + 41_000 * READ),
        pytest.approx(missed),
    )


def test_each_lane_may_choose() -> None:
    sizes = [(0, 20_000), *((19_000 + 1_000 * n, 1_000) for n in range(1, 10))]
    busy = [call(n, 20 * n, 10, read, written, 0, 100, session="t") for n, (read, written) in enumerate(sizes)]
    found = what_if([*GAP, *busy], ["ttl-1h", "ttl-1h-per-lane"], by_session=True)
    every, chosen = (answer(found, name) for name in ("ttl-1h", "ttl-1h-per-lane"))
    saved = {name: answers[0].saves_usd for name, answers in found.groups.items()}
    assert saved["s"] is not None and saved["t"] is not None and saved["s"] > 0 > saved["t"]
    assert every.saves_usd == pytest.approx(saved["s"] + saved["t"])
    assert chosen.saves_usd == pytest.approx(saved["s"])
    assert chosen.note == "worth it in 1 of 2 lanes"


def test_pings_are_reads_with_one_output_token() -> None:
    one = answer(what_if(GAP), "keep-alive")
    ping = 21_000 * READ + 10 * INPUT + OUTPUT
    kept = REST + 22_000 * WRITE_5M + 41_000 * READ
    assert under(one, lifetime="from start", pinging="with hindsight", pings="renew") == pytest.approx(kept + ping)
    # after the last call nobody knows that it was the last: as many pings as a miss would cost, (6.25 - 0.5) / 0.5 of a
    # prefix
    last = 11 * (22_000 * READ + 10 * INPUT + OUTPUT)
    assert one.after_usd == pytest.approx(kept + ping + last)
    assert under(one, lifetime="from start", pinging="until it no longer pays", pings="renew nothing") > BEFORE
    assert one.note == "12 pings; 1 of 1 gaps longer than the lifetime are worth them"


def test_an_hour_of_silence_is_not_worth_its_pings() -> None:
    long = [*GAP[:2], call(2, 60 + 4_000, 10, 0, 22_000, 0, 100)]
    one = answer(what_if(long), "keep-alive")
    assert under(one, lifetime="from start", pinging="with hindsight", pings="renew") == pytest.approx(BEFORE)
    assert one.note.endswith("0 of 1 gaps longer than the lifetime are worth them")


def test_a_miss_nobody_can_explain_happens_again_unless_it_was_an_eviction() -> None:
    early = [*GAP[:2], call(2, 120, 10, 0, 22_000, 0, 100)]
    found = what_if(early)
    assert found.unexplained.n_misses == 1
    one = answer(found, "ttl-1h")
    assert one.after_usd == pytest.approx(REST + 43_000 * WRITE_1H + 20_000 * READ) == pytest.approx(one.high_usd)
    assert one.low_usd == pytest.approx(REST + 22_000 * WRITE_1H + 41_000 * READ)


def test_a_prompt_that_changed_is_written_anew_whatever_the_lifetime() -> None:
    said = Remark("compaction", "s/2", "the user compacted")
    compacted = [*GAP[:2], said, call(2, 460, 10, 0, 22_000, 0, 100)]
    one = answer(what_if(compacted), "ttl-1h")
    assert one.after_usd == one.low_usd == one.high_usd == pytest.approx(REST + 43_000 * WRITE_1H + 20_000 * READ)


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
    one = answer(what_if([call(0, 0, 5_000, 0, 0, 0, 10, model="gpt-4.1")]), "ttl-1h")
    assert (one.after_usd, one.why_not) == (None, "1 call: no write to gpt-4.1's cache asks for a lifetime")


def test_what_is_unknown_is_counted_and_said() -> None:
    odd = [*GAP, call(3, 500), call(4, 600, 1, 2, 3, 0, 5, model="nobody's")]
    found = what_if(odd)
    assert (found.calls, found.calls_with_price) == (5, 3)
    assert answer(found, "ttl-1h").why_not == "1 call: the bill is unknown; 1 call: no price for nobody's"


def test_rows_that_add_up_calls_are_left_out() -> None:
    found = what_if([Remark("sum", "s/main", "between two scrapes"), *GAP])
    assert (found.calls, found.calls_with_price) == (3, 0)


def test_fixes_that_need_text_say_that_there_is_none() -> None:
    for name in ("bridging-marker", "sorted-tools", "clock-to-tail", "no-pruning", "leader-first"):
        one = answer(what_if(GAP), name)
        assert (one.after_usd, one.answered_from) == (None, "")
        assert one.why_not == "3 calls: neither a body nor an outline in the record"


def test_a_fix_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"'magic' is no fix: use one of ttl-1h, .*leader-first"):
        what_if(GAP, ["magic"])


def test_every_fix_names_assumptions_there_are() -> None:
    for fix in FIXES.values():
        assert len(readings_of(fix)) >= 2
        assert [fix.lane, fix.outlines, fix.bodies].count(None) == 2


counts = st.tuples(
    st.integers(0, 50), st.integers(0, 60_000), st.integers(0, 30_000), st.integers(0, 30_000), st.integers(0, 500)
)


@settings(max_examples=60, deadline=None)
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


def test_stopping_early_answers_for_what_was_seen() -> None:
    def first(rows: Iterable[object]) -> Iterable[object]:
        yield from list(rows)[:2]

    found = what_if(GAP, watch=first)
    assert (found.calls, answer(found, "ttl-1h").before_usd) == (
        2,
        pytest.approx(BEFORE - 22_000 * WRITE_5M - REST / 3),
    )


@pytest.mark.skipif(not PI.exists(), reason="the recorded pi session is not beside this checkout")
def test_a_real_session() -> None:
    from contextkit.importers.registry import records_in
    from contextkit.importers.source import Faults

    found = what_if(records_in([str(PI)], Faults()), ["ttl-1h", "keep-alive"])
    (check,) = found.calibrations
    assert (found.unexplained.calls, check.calls, check.agreed) == (471, 469, 461)
    one = answer(found, "ttl-1h")
    # its one expired prefix (call 252, 151,828 tokens) is read instead of written; all other writes cost 3.75 dollars a
    # million more
    written, expired = 1_685_320, 151_828
    assert one.after_usd == pytest.approx(one.before_usd + (written - expired) * 3.75e-6 - expired * 5.75e-6)
    kept = answer(found, "keep-alive")
    best = under(kept, lifetime="from start", pinging="with hindsight", pings="renew")
    assert best < kept.before_usd < (kept.after_usd or 0)
