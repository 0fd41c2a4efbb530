"""Five minutes, an hour, or pings: against the same sum drawn out gap by gap."""

from __future__ import annotations

import pytest

from contextkit.cache.usage import Usage
from contextkit.economics.keep_alive import interval_seconds, ping_usage
from contextkit.economics.lifetime import upkeeps
from contextkit.economics.rhythm import Prior, Rhythm
from contextkit.errors import UsageError
from contextkit.models import model_named
from contextkit.prices import cost_usd

OPUS, SONNET = model_named("claude-opus-4-5"), model_named("claude-sonnet-5-5")


def opus(usage: Usage) -> float | None:
    return cost_usd("anthropic", OPUS.name, usage)


def sonnet(usage: Usage) -> float | None:
    return cost_usd("anthropic", SONNET.name, usage)


GAPS = (30.0,) * 80 + (400.0,) * 12 + (1_000.0,) * 5 + (5_000.0, 5_000.0, 20_000.0)
PRIOR = Prior.of([[(gap, 0.0) for gap in GAPS]] * 10)


def test_every_way_costs_what_its_gaps_cost() -> None:
    rhythm = Rhythm(PRIOR)
    goes_on = rhythm.remaining_turns / (1 + rhythm.remaining_turns)
    for way in upkeeps(
        50_000, rhythm, OPUS, opus, margin_seconds=0.0
    ):  # so that pings fall on known lengths, as far as the first two
        write = 6.25 if way.ttl_seconds == 300 else 10.0
        if way.pings > 1:
            continue
        total = 0.0
        for gap in (*GAPS, float("inf")):
            weight = goes_on / len(GAPS) if gap < float("inf") else 1 - goes_on
            pings = min(way.pings, int(gap > interval_seconds(way.ttl_seconds, 0.0)))
            total += weight * pings * (opus(ping_usage(50_000)) or 0.0)
            if gap < float("inf"):
                total += weight * 50_000 * (0.5 if gap <= way.kept_seconds else write) / 1e6
        assert way.cost_usd == pytest.approx(total, rel=1e-6)


def test_pings_beat_the_hour_where_reads_are_cheap_and_the_hour_wins_where_long_gaps_are_common() -> None:
    few = Rhythm(Prior(gaps=((0.0, 1.0), (60.0, 0.05), (300.0, 0.02), (600.0, 0.002), (3600.0, 0.001))))
    assert upkeeps(100_000, few, SONNET, sonnet)[0].ttl_seconds == 300
    many = Rhythm(Prior(gaps=((0.0, 1.0), (60.0, 0.9), (300.0, 0.6), (3000.0, 0.5), (3600.0, 0.01))))
    assert upkeeps(100_000, many, OPUS, opus)[0].ttl_seconds == 3600


def test_nobody_pings_where_nobody_pauses() -> None:
    never = Rhythm(Prior(gaps=((0.0, 1.0), (60.0, 1e-9), (300.0, 1e-10), (3600.0, 1e-12))))
    assert [(way.ttl_seconds, way.pings) for way in upkeeps(20_000, never, OPUS, opus)] == [(300, 0), (3600, 0)]


def test_without_a_price_nothing_is_said() -> None:
    with pytest.raises(UsageError, match="no price"):
        upkeeps(20_000, Rhythm(), OPUS, lambda usage: None)
