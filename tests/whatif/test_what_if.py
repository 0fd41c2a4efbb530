"""Sums of replays: against bills worked out by hand, and against a real session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.errors import UsageError
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall, Record, Remark
from contextkit.ledger.misses import analyzed_calls
from contextkit.models import model_named
from contextkit.whatif.changes import CHANGES
from contextkit.whatif.replay import SUMMARY_TOKENS, TAIL_TOKENS
from contextkit.whatif.what_if import OtherModel, Saving, WhatIf, what_if
from tests.scale import n_examples
from tests.whatif.conversations import OPUS, SONNET, START, call, conversations

INPUT, WRITE_5M, WRITE_1H, READ, OUTPUT = (price / 1e6 for price in (5, 6.25, 10, 0.5, 25))
"""Dollars a token of claude-opus-4-5 (https://platform.claude.com/docs/en/about-claude/pricing)."""
GAP = [  # three calls, the last one 400 s after the second, whose prefix is dead by then
    call(0, 0, 10, 0, 20_000, 0, 100),
    call(1, 60, 10, 20_000, 1_000, 0, 100),
    call(2, 460, 10, 0, 22_000, 0, 100),
]
REST = 3 * (10 * INPUT + 100 * OUTPUT)
BEFORE = REST + 43_000 * WRITE_5M + 20_000 * READ
SIZES = [(0, 20_000), *((19_000 + 1_000 * n, 1_000) for n in range(1, 10))]
BUSY = [call(n, 20 * n, 10, read, written, 0, 100, session="t") for n, (read, written) in enumerate(SIZES)]
LONG = [call(n, 20 * n, 10, read, 0, written, 100, session="u") for n, (read, written) in enumerate(SIZES)]


def saving(found: WhatIf, change: str, agents: str = "") -> Saving:
    return next(one for one in found.savings if (one.change, one.agents) == (change, agents))


def model(found: WhatIf) -> OtherModel:
    (one,) = found.models
    return one


def test_a_longer_lifetime_costs_at_every_write_and_ends_the_miss() -> None:
    found = what_if(GAP)
    one = saving(found, "longer-lifetime", "main")
    assert found.recorded_usd == pytest.approx(BEFORE) and found.error_usd == 0
    assert one.usd == pytest.approx(BEFORE - (REST + 22_000 * WRITE_1H + 41_000 * READ))
    assert found.together_usd == one.usd == one.best_usd
    assert (one.calls, one.conversations, one.sessions) == (3, 1, {"s"})


def test_one_lifetime_is_chosen_for_all_conversations_of_a_kind() -> None:
    found = what_if([*GAP, *BUSY])
    one, own = saving(found, "longer-lifetime", "main"), saving(what_if(GAP), "longer-lifetime", "main")
    assert one.usd == pytest.approx(own.usd - 29_000 * (WRITE_1H - WRITE_5M)) and one.usd < 0
    assert one.best_usd == pytest.approx(own.usd), "only where it pays"
    assert found.together_usd == 0
    found = what_if([*GAP, *(replace(row, lane="a") for row in BUSY)])
    assert found.together_usd == pytest.approx(own.usd), "sub-agents have a setting of their own"


def test_a_shorter_lifetime_saves_where_nothing_pauses() -> None:
    found = what_if(LONG)
    assert found.together_usd == pytest.approx(29_000 * (WRITE_1H - WRITE_5M))
    assert saving(found, "shorter-lifetime", "main").usd == found.together_usd


def test_a_miss_nobody_can_explain_happens_again() -> None:
    found = what_if([*GAP[:2], call(2, 120, 10, 0, 22_000, 0, 100)], ["longer-lifetime"])
    ((_, sums),) = found.programs
    assert (sums.n_misses, sums.n_reads) == (1, 0)
    assert sums.error_usd == pytest.approx(-21_000 * (WRITE_5M - READ))
    assert saving(found, "longer-lifetime", "main").usd == pytest.approx(-43_000 * (WRITE_1H - WRITE_5M))


def test_a_read_that_outlives_the_rule_is_believed() -> None:
    found = what_if([*GAP[:2], call(2, 2_000, 10, 21_000, 1_000, 0, 100)])
    ((_, sums),) = found.programs
    assert (sums.n_misses, sums.n_reads) == (0, 1)
    assert sums.error_usd == pytest.approx(21_000 * (WRITE_5M - READ))


def test_a_prompt_that_changed_is_written_anew_whatever_the_lifetime() -> None:
    compacted = [*GAP[:2], Remark("compaction", "s/2", "the user compacted"), call(2, 460, 10, 0, 22_000, 0, 100)]
    one = saving(what_if(compacted), "longer-lifetime", "main")
    assert one.usd == pytest.approx(-43_000 * (WRITE_1H - WRITE_5M))


def test_a_call_without_an_end_is_readable_once_its_response_began() -> None:
    cold, slow = call(0, 0, 0, 0, 20_000, 0, 100), call(1, 30, 0, 0, 21_000, 0, 100)  # sent before the first began
    calls = [
        replace(one, first_byte_at=START + began, ended_at=None)
        for one, began in [(cold, 60), (slow, 70), (call(2, 90, 0, 21_000, 1_000, 0, 100), 95)]
    ]
    assert [one.miss and one.miss.cause for one in analyzed_calls(calls)] == ["first_write", "cold_fan_out", None]
    found = what_if(calls)
    assert [sums.n_misses for _, sums in found.programs] == [0]
    assert saving(found, "leader-first").usd == pytest.approx(20_000 * (WRITE_5M - READ))


def test_a_compaction_before_a_long_pause_is_paid_for() -> None:
    turns = [
        (0, 0, 10_000),
        (20, 10_000, 100_000),
        (60, 110_000, 10_000),
        (90_000, 0, 121_000),
        (90_060, 121_000, 1_000),
    ]
    one = saving(what_if([call(n, at, 0, *counts, 0, 100) for n, (at, *counts) in enumerate(turns)]), "compact-first")
    removed = 120_100 - 10_000 - SUMMARY_TOKENS - TAIL_TOKENS
    assert one.calls == 1
    assert one.usd == pytest.approx(removed * (WRITE_5M + READ) - 120_100 * READ - SUMMARY_TOKENS * OUTPUT)


ROUTED = [(0, 20_000), (19_968, 10_000), (29_952, 10_000), (19_968, 21_000), (40_960, 1_000)]
"""(read, fresh): the fourth call reads what the first had left."""


def test_a_routing_key_ends_the_misses_of_other_servers_where_the_provider_takes_one() -> None:
    gpt = [call(n, 20 * n, fresh, read, 0, 0, 100, model="gpt-4.1") for n, (read, fresh) in enumerate(ROUTED)]
    (cost,) = (one.miss.cost_usd for one in analyzed_calls(gpt) if one.miss and one.miss.is_loss)
    assert cost and saving(what_if(gpt), "routing-key").usd == pytest.approx(cost, rel=0.01)
    grok = [replace(one, model="grok-4.7", provider="xai") for one in gpt]
    assert what_if(grok).savings == ()


def test_prices_of_another_model_with_the_same_tokenizer_have_no_spread() -> None:
    one = model(what_if(GAP, [], [model_named(SONNET)]))  # 3 / 15 dollars instead of 5 / 25
    assert one.after_usd == pytest.approx(0.6 * BEFORE) and one.low_usd == one.after_usd == one.high_usd


def test_prices_of_another_tokenizer_spread() -> None:
    one = model(what_if(GAP, [], [model_named("claude-opus-4-7")]))
    assert one.after_usd == pytest.approx(1.3 * BEFORE, rel=0.01)
    assert one.low_usd == pytest.approx(0.8 * one.after_usd, rel=0.01)
    assert one.high_usd == pytest.approx(1.2 * one.after_usd, rel=0.01)


def test_one_model_for_all_reads_across_what_was_a_change_of_models() -> None:
    changed = [GAP[0], call(1, 60, 10, 0, 21_000, 0, 100, model=SONNET)]
    one = model(what_if(changed, [], [model_named(OPUS)]))
    assert one.after_usd == pytest.approx(2 * (10 * INPUT + 100 * OUTPUT) + 21_000 * WRITE_5M + 20_000 * READ)


def test_what_is_not_replayed_is_counted_and_said() -> None:
    found = what_if([*GAP, call(3, 500), call(4, 600, 1, 2, 3, 0, 5, model="nobody's")])
    assert (found.calls, found.calls_with_price) == (5, 3)
    assert found.why_not == (("the bill is unknown", 1), ("no price for nobody's", 1))
    found = what_if([Remark("sum", "s/main", "between two scrapes"), *GAP])
    assert (found.calls, found.calls_with_price, found.why_not) == (3, 0, (("a row that adds up several calls", 3),))


def test_a_change_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"'magic' is no change: use one of longer-lifetime, .*routing-key"):
        what_if(GAP, ["magic"])


@settings(max_examples=n_examples(60, 1_000), deadline=None)
@given(st.sampled_from([(OPUS,), (OPUS, SONNET), ("gpt-4.1",)]).flatmap(conversations))
def test_sums_add_up_whatever_was_billed(records: list[ModelCall]) -> None:
    found = what_if(records)
    usd = sum(one.list_cost_usd or 0.0 for one in analyzed_calls(records))
    assert found.recorded_usd == pytest.approx(usd, abs=1e-9)
    assert -1e-9 <= found.together_usd <= found.recorded_usd + 1e-9
    for one in found.savings:
        assert one.usd <= min(one.best_usd, found.recorded_usd) + 1e-9
        alone = what_if(records, [one.change])
        assert [other.usd for other in alone.savings] == pytest.approx(
            [other.usd for other in found.savings if other.change == one.change]
        )
        if one.change in CHANGES[3:]:
            assert alone.together_usd == pytest.approx(max(one.usd, 0.0))


def test_a_real_session(shared: Path) -> None:
    records: list[Record] = list(records_in([str(shared / "data" / "pi" / "before-compaction.jsonl")], Faults()))
    found = what_if(records, ["longer-lifetime"])
    assert found.calls_with_price == 471
    # its one expired prefix (call 252, 151,828 tokens) would be read; all other writes would cost 3.75 dollars a million
    # more
    assert saving(found, "longer-lifetime", "main").usd < 0 == found.together_usd
