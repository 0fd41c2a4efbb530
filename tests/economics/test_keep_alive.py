"""When pings, warm-ups and longer lifetimes pay, against sums worked out by hand and against the reference cache."""

from __future__ import annotations

from itertools import accumulate

import pytest

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.economics.bill import cold_usage
from contextkit.economics.fanout import prewarm
from contextkit.economics.keep_alive import interval_seconds, keep_alive, most_pings, ping_usage
from contextkit.economics.lifetime import Turn, break_even_share, lifetimes
from contextkit.models import model_named
from contextkit.prices import cost_usd

OPUS, SOL, OLD = (model_named(name) for name in ("claude-opus-4-5", "claude-opus-5-5", "gpt-4.1"))


def opus(usage: Usage) -> float | None:
    return cost_usd("anthropic", OPUS.name, usage)


def unpriced(usage: Usage) -> float | None:
    return None


@pytest.mark.parametrize(("gap", "pings"), [(0, 0), (299, 0), (300, 1), (569, 1), (570, 2), (839, 2), (840, 3)])
def test_pings_until_the_gap_is_over(gap: float, pings: int) -> None:
    one = keep_alive(gap, 100_000, 300, OPUS, opus)
    assert one.pings == pings
    assert one.pings_usd == pytest.approx(pings * (0.05 + 25e-6))
    assert one.lost_usd == pytest.approx(0.575 if pings else 0)


@pytest.mark.parametrize("gap", [299, 300, 569, 570, 1_400])
def test_so_many_pings_do_keep_it_and_one_less_does_not(gap: float) -> None:
    prompt = Prompt((b"", b"", b""), (0, 0), [b"a"], [100_000], [0], (Breakpoint(0, 300),), 1)
    needed = keep_alive(gap, 100_000, 300, OPUS).pings
    for pings in {needed, max(0, needed - 1)}:
        cache = BreakpointCache(OPUS.min_tokens)
        cache.publish(cache.begin(prompt, 0.0), 0.0)
        for at in range(1, pings + 1):
            cache.begin(prompt, at * interval_seconds(300))
        assert (cache.lookup(prompt, gap).read_tokens > 0) is (pings == needed)


def test_the_most_pings_a_miss_is_worth() -> None:
    assert most_pings(100_000, 300, OPUS, opus) == 11  # (6.25 - 0.50) / 0.50, a token less for the output
    assert most_pings(100_000, 3600, OPUS, opus) == 18  # (10 - 0.50) / 0.50, likewise
    sol = most_pings(100_000, 300, SOL, lambda usage: cost_usd("anthropic", SOL.name, usage))
    assert sol == 23  # reads at a twentieth of the price: (5 - 0.20) / 0.20 and the output
    assert most_pings(100_000, 300, OPUS, unpriced) == 0


def test_without_a_price_only_the_count_is_known() -> None:
    one = keep_alive(400, 100_000, 300, OPUS)
    assert (one.pings, one.pings_usd, one.lost_usd, one.saved_usd) == (1, None, None, None)


def test_a_short_lifetime_leaves_time_between_pings() -> None:
    assert interval_seconds(40) == 20
    assert interval_seconds(300) == 270


def test_what_a_cold_prefix_is_billed() -> None:
    assert cold_usage(9, OPUS) == Usage(0, 0, 9, 0, 0)
    assert cold_usage(9, OPUS, 3600) == Usage(0, 0, 0, 9, 0)
    assert cold_usage(9, OLD) == Usage(9, 0, 0, 0, 0)
    assert ping_usage(9, 2) == Usage(2, 9, 0, 0, 1)


def test_a_warm_up_pays_from_the_second_sibling_on() -> None:
    saved = [prewarm(100_000, n, OPUS, opus).saved_usd for n in (1, 2, 3)]
    assert saved == [pytest.approx(-0.05), pytest.approx(2 * 0.575 - 0.625), pytest.approx(3 * 0.575 - 0.625)]
    assert prewarm(100_000, 2, OPUS, unpriced).saved_usd is None


def turns(*gaps: float) -> list[Turn]:
    sizes = [0, *accumulate([20_000, *[1_000] * len(gaps)])]
    return [Turn(gap, sizes[n], sizes[n + 1] - sizes[n]) for n, gap in enumerate((float("inf"), *gaps))]


def test_a_busy_lane_takes_the_short_lifetime_and_a_slow_one_the_long() -> None:
    assert [one.ttl_seconds for one in lifetimes(turns(20, 20, 20), OPUS, opus)] == [300, 3600]
    slow = lifetimes(turns(400, 400, 400), OPUS, opus)
    assert [(one.ttl_seconds, one.n_expired) for one in slow] == [(3600, 1), (300, 4)]
    assert slow[0].cost_usd == pytest.approx((23_000 * 10 + 63_000 * 0.5) / 1e6)
    assert slow[1].cost_usd == pytest.approx((20_000 + 21_000 + 22_000 + 23_000) * 6.25 / 1e6)


def test_where_no_price_is_known_the_shorter_comes_first() -> None:
    assert [(one.ttl_seconds, one.cost_usd) for one in lifetimes(turns(20), OPUS, unpriced)] == [
        (300, None),
        (3600, None),
    ]


def test_the_share_of_long_gaps_from_which_the_long_lifetime_pays() -> None:
    share = break_even_share(100_000, 2_000, OPUS, opus)
    assert share == pytest.approx(2_000 * 3.75 / (100_000 * 5.75))
    assert break_even_share(100_000, 2_000, model_named("kimi-k2.7-code"), opus) is None
    assert break_even_share(100_000, 2_000, OPUS, unpriced) is None
