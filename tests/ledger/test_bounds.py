"""What a long recording keeps is bounded, and so is a count of tokens."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import pytest

from contextkit.cache.usage import Usage
from contextkit.errors import LogCorrupt
from contextkit.ledger import summary as summary_module
from contextkit.ledger.calls import ModelCall, Record, Remark, decode, encode
from contextkit.ledger.misses import Miss, analyzed_calls
from contextkit.ledger.summary import Tally, dearest, summarise

MODELS = (
    ("anthropic", "claude-sonnet-4-5"),
    ("openai", "gpt-5.1"),
    ("google", "gemini-2.5-pro"),
    ("", "a-model-of-ours"),
)
START = 1_780_000_000.0


def a_ledger(n_sessions: int = 12) -> list[Record]:
    """Sessions that take turns: sub-agents, models of every kind, misses, unknown bills, recorded costs, placeholder
    outputs, remarks of every kind.
    """
    draw, records, sizes = random.Random(7), list[Record](), defaultdict[tuple[str, str], int](int)
    for n in range(n_sessions):
        records.append(Remark("project", f"s{n}", f"project {n % 3}"))
        records.append(Remark("agent", f"s{n}/sub", "scout"))
    records.append(Remark("sum", "s3/main", "an interval of counters"))
    records.append(Remark("sum", "s2/main", "an interval of counters of a model with price tiers"))
    for number in range(60 * n_sessions):
        session, lane = f"s{draw.randrange(n_sessions)}", draw.choice(("main", "main", "sub"))
        provider, model = MODELS[(int(session[1:]) + (draw.random() < 0.05)) % len(MODELS)]
        at, read = START + number * 40.0 * draw.random() * 20, sizes[session, lane]
        grown = draw.randrange(300, 9000)
        sizes[session, lane] = read + grown
        read, grown = (0, read + grown) if draw.random() < 0.1 else (read, grown)
        writes = (grown, 0) if provider == "anthropic" else (None, None)
        fresh = 4 if provider == "anthropic" else grown
        usage = (
            Usage(fresh, read, *writes, output=None if draw.random() < 0.02 else 300) if draw.random() < 0.95 else None
        )
        if usage and session == "s2":
            usage = replace(usage, fresh=190_000)
        if usage and number % 7 == 0:
            usage = usage.with_partial_output()
        billed_usd = (0.0, 0.0125, 0.5)[number % 3] if number % 11 < 2 else None
        estimate = 450 if number % 14 == 0 else None
        if draw.random() < 0.05:
            records.append(Remark(draw.choice(("verdict", "compaction", "setting")), f"c{number}", "system_changed"))
        call = ModelCall(f"c{number}", session, lane, at, at + 1, at + 9, provider, model, None, usage, None, None)
        records.append(replace(call, billed_usd=billed_usd, output_estimate=estimate))
    return records


def test_a_count_that_no_call_has_is_a_damaged_line() -> None:
    whole, line = (
        encode(ModelCall("a", "s", "main", START, None, None, "", "m", None, Usage(fresh, 0, 0, 0, 1), None, None))
        for fresh in (10**15, 10**25)
    )
    again = decode(whole)
    assert isinstance(again, ModelCall)
    assert again.usage is not None
    assert again.usage.fresh == 10**15
    with pytest.raises(LogCorrupt, match="no natural number"):
        decode(line)
    with pytest.raises(LogCorrupt, match="not JSON"):
        decode(line[:-4])


def test_a_long_recording_keeps_a_bounded_number_of_rates_and_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    records = a_ledger(6)
    exact = summarise(records)
    monkeypatch.setattr(summary_module, "MOST_RATES", 32)
    monkeypatch.setattr(summary_module, "MOST_MISSES", 10)
    tally = Tally()
    for call in analyzed_calls(records):
        tally.add(call)
    bounded = tally.summary()
    assert bounded.total == exact.total
    assert 32 <= len(bounded.hit_rates) <= 64
    together = -(-len(exact.hit_rates) // len(bounded.hit_rates))
    together = 1 << (together - 1).bit_length()
    first = [rate for rate in exact.hit_rates[:together] if rate is not None]
    assert bounded.hit_rates[0] is not None
    assert abs(bounded.hit_rates[0] - sum(first) / len(first)) < 0.1
    assert bounded.misses == tuple(dearest(exact.misses, 10))
    assert [miss.index for miss in bounded.misses] == sorted(miss.index for miss in bounded.misses)


def test_the_dearest_misses_keep_their_order() -> None:
    def misses() -> Iterator[Miss]:
        for index, cost in enumerate((0.5, None, 2.0, 1.0)):
            yield Miss(str(index), index, "main", START, "unknown", "unexplained", 9, 0, 9, cost, "", False)

    assert [miss.index for miss in dearest([*misses()], 2)] == [2, 3]
