"""What is learned of a session: from a prior to its own habits, in constant memory."""

from __future__ import annotations

import pytest

from contextkit.economics.rhythm import SEEN_GAPS, Prior, Rhythm


def test_it_starts_at_the_prior_and_ends_at_the_session() -> None:
    rhythm = Rhythm()
    assert [rhythm.longer_than(seconds) for seconds, _ in SEEN_GAPS] == pytest.approx([share for _, share in SEEN_GAPS])
    assert sum(share for share, _ in rhythm.growths) == pytest.approx(1)
    for turn in range(2_000):
        rhythm.see(400.0 if turn % 4 == 0 else 12.0, 700.0)
    assert rhythm.longer_than(300) == pytest.approx(0.25, abs=0.01)
    assert rhythm.longer_than(3600) < 0.001
    assert rhythm.growth_tokens == pytest.approx(700, rel=0.02)


def test_the_order_does_not_matter_and_longer_gaps_are_rarer() -> None:
    turns = [(3.0, 100.0), (250.0, 9_000.0), (8_000.0, 20.0), (31.0, 0.0)]
    one, other = Rhythm(), Rhythm()
    for turn, last in zip(turns, reversed(turns), strict=True):
        one.see(*turn)
        other.see(*last)
    assert one.growth_tokens == pytest.approx(other.growth_tokens) and one.longer_than(300) == other.longer_than(300)
    shares = [one.longer_than(seconds) for seconds in (0, 1, 9, 10, 45, 270, 300, 570, 3_000, 50_000, 1e6)]
    assert shares == sorted(shares, reverse=True)


def test_a_rewrite_is_no_growth() -> None:
    rhythm = Rhythm(Prior(growths=((0.0, 0.0), (1.0, 1_000.0), (0.0, 4_000.0), (0.0, 16_000.0), (0.0, 64_000.0))))
    rhythm.see(10.0, -90_000.0)
    assert rhythm.growth_tokens < 1_000
