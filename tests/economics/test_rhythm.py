"""What is learned of a session: from a prior to its own habits, in constant memory."""

from __future__ import annotations

import pytest

from contextkit.economics.rhythm import SEEN_GAPS, SEEN_GROWTHS, Prior, Rhythm, growths_of
from contextkit.errors import UsageError


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
    one, other = Rhythm().see_all(turns), Rhythm().see_all(reversed(turns))
    assert one.outlook(300) == other.outlook(300)
    shares = [one.longer_than(seconds) for seconds in (0, 1, 9, 10, 45, 270, 300, 570, 3_000, 50_000, 1e6)]
    assert shares == sorted(shares, reverse=True)


def test_what_the_outlook_says_of_a_lifetime() -> None:
    outlook = Rhythm().outlook(300)
    assert outlook.idle_seconds == 270
    assert outlook.idle > outlook.cold > outlook.far > 0
    assert outlook.growth_tokens == pytest.approx(sum(share * tokens for share, tokens in SEEN_GROWTHS))


def test_a_rewrite_is_no_growth() -> None:
    rhythm = Rhythm(Prior(growths=growths_of([1_000.0])))
    rhythm.see(10.0, -90_000.0)
    assert rhythm.growth_tokens < 1_000


def test_a_prior_of_past_sessions() -> None:
    prior = Prior.of([[(20.0, 900.0)] * 30, [(400.0, 30_000.0)] * 10])
    assert prior.remaining_turns == 20
    assert dict(prior.gaps)[300.0] == 0.25
    assert Rhythm(prior).growth_tokens == pytest.approx(0.75 * 900 + 0.25 * 30_000)
    with pytest.raises(UsageError, match="no session has a second call"):
        Prior.of([[]])
