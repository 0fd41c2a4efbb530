"""The classes hosted rules are made of: against second opinions, then mistakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.hosted.hosted_cache import Routed, head_of
from contextkit.cache.hosted.unit_cache import UnitCache
from contextkit.cache.implicit_cache import ImplicitCache
from contextkit.cache.prompt import Breakpoint
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.errors import UsageError
from contextkit.models import model_named
from tests.cache.hosted_prompts import bill, call, marked, talk
from tests.scale import n_examples

STREAMS = {False: 30, True: 10_000}
PATHS = ["a", "ab", "abc", "abcd", "abd", "abde", "b", "ba", "abcdefgh", "abcdxy", "xyz"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "answered", "wait", "begin"]),
        st.sampled_from(PATHS),
        st.sampled_from([1, 100, 299, 300]),
    ),
    min_size=3,
    max_size=30,
)


class Units:
    """Paths with expiries: those sent, and those that are units."""

    def __init__(self, interval: int | None) -> None:
        self.interval, self.sent, self.units = interval, {}, {}

    def common(self, path: str, now: float) -> str:
        live = [path[:n] for n in range(1, len(path) + 1) if self.sent.get(path[:n], now) > now]
        return max(live, key=len, default="")

    def begin(self, path: str, now: float) -> tuple[int, list[str]]:
        common = self.common(path, now)
        unit = max(
            (path[:n] for n in range(1, len(path) + 1) if self.units.get(path[:n], now) > now), key=len, default=""
        )
        cut = 100 * len(common) // self.interval * self.interval if self.interval else 0
        if unit:
            self.units[unit] = max(self.units[unit], now + 300)
        for n in range(1, len(common) + 1):
            self.sent[path[:n]] = max(self.sent[path[:n]], now + 300)
        return max(100 * len(unit), cut), [new for new in (common, path) if len(new) > len(unit)]

    def publish(self, path: str, units: list[str], at: float) -> None:
        for n in range(1, len(path) + 1):
            self.sent[path[:n]] = max(self.sent.get(path[:n], 0.0), at + 300)
        for unit in units:
            self.units[unit] = max(self.units.get(unit, 0.0), at + 300)


def test_units_equal_paths_that_are_compared(pytestconfig: pytest.Config) -> None:
    @settings(max_examples=STREAMS[pytestconfig.getoption("--full")], deadline=None, database=None)
    @given(STEPS, st.sampled_from([None, 150, 250]))
    def stream(steps: list[tuple[str, str, int]], interval: int | None) -> None:
        cache, naive, now = UnitCache(300, interval_tokens=interval), Units(interval), 0.0
        for what, path, seconds in steps:
            prompt = talk(*((letter, 100) for letter in path))
            if what == "wait":
                now += seconds
            elif what == "answered":
                cache.answered(prompt, now)
                naive.publish(path, [path], now)
            else:
                seen = cache.lookup(prompt, now)
                lease = cache.begin(prompt, now)
                read, units = naive.begin(path, now)
                assert (seen.read_tokens, lease.hit.read_tokens, lease.usage.read) == (read, read, read)
                assert (seen.reason == "hit") is (read > 0) and lease.usage.prompt == prompt.n_tokens
                if what == "call":
                    cache.publish(lease, now)
                    naive.publish(path, units, now)

    stream()


@settings(max_examples=n_examples(30, 1_000), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(PATHS), st.sampled_from([300, 3600]), st.sampled_from([0, 200, 400])),
        min_size=2,
        max_size=20,
    )
)
def test_billed_writes_add_up_and_are_read_as_if_they_were_free(steps: list[tuple[str, int, int]]) -> None:
    billed, free = ImplicitCache(128, 128, 300, bills_writes=True), ImplicitCache(128, 128, 300)
    now = 0.0
    for path, ttl, wait in steps:
        now += wait
        plain = talk(*((letter, 90) for letter in path))
        usage = call(billed, plain, now)
        assert usage.prompt == plain.n_tokens and usage.read == call(free, plain, now).read
        assert ((usage.read or 0) + (usage.write_5m or 0)) % 128 == 0 and (usage.fresh or 0) < 128 + 128
        asked = billed.quote(replace(plain, breakpoints=(Breakpoint(0, ttl),)), now)
        assert asked == Usage(
            plain.n_tokens - (asked.read or 0), asked.read, 0, 0, 0
        )  # all of it is there: nothing is written again


# --- servers
# ---------------------------------------------------------------------------------------------------------------------


def routed(**options: Any) -> Routed[Any]:
    return Routed(lambda: ImplicitCache(0, 1, 3600), head_of, 4, **options)


def test_one_key_has_one_home_and_many_keys_have_many() -> None:
    cache = routed()
    homes = [cache.server_of(talk((f"head {number}", 100)), 0.0) for number in range(100)]
    assert set(homes) == {0, 1, 2, 3}
    assert homes == [cache.server_of(talk((f"head {number}", 100), ("tail", 5)), 9.0) for number in range(100)]


def test_a_rush_spreads_over_servers_and_comes_home() -> None:
    cache = routed(per_minute=2)
    prompt = talk(("head", 100))
    assert [call(cache, prompt, float(second)).read for second in range(9)] == [0, 100, 0, 100, 0, 100, 0, 100, 100]
    assert cache.server_of(prompt, 100.0) == cache.server_of(prompt, 0.0)


def test_looking_changes_no_route() -> None:
    cache = routed(per_minute=1, sticky_seconds=60)
    prompt = talk(("head", 100))
    before = cache.server_of(prompt, 0.0)
    assert (cache.lookup(prompt, 0.0).read_tokens, cache.quote(prompt, 0.0).fresh) == (0, 100)
    assert cache.server_of(prompt, 0.0) == before


def test_no_server_is_refused() -> None:
    with pytest.raises(UsageError, match="n_servers"):
        Routed(lambda: ImplicitCache(0, 1, 1), head_of, 0)


def test_all_servers_are_counted_together() -> None:
    cache = routed(per_minute=1)
    for _ in range(4):
        call(cache, talk(("head", 100)))
    assert [cache.stats()[name] for name in ("requests", "fresh_tokens", "servers")] == [4, 400, 4]
    cache.reset()
    assert cache.stats()["requests"] == 0


# --- the model table
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "read", "write"),
    [
        ("gemini-2.5-pro", 2100, 0),
        ("gemini-4-argon", 2100, 0),
        ("anthropic.claude-opus-4-7", 2100, 2100),
        ("amazon.nova-pro-v1:0", 2100, 2100),
    ],
)
def test_the_reference_cache_of_a_hosted_model_follows_its_row(name: str, read: int, write: int) -> None:
    cache = reference_cache(model_named(name))
    assert call(cache, marked(21, 20)).write_5m == write
    assert call(cache, marked(21, 20)).read == read


@pytest.mark.parametrize(
    ("kind", "bills"),
    [
        ("billed", [(232, 0, 768, 0), (232, 768, 0, 0), (232, 768, 0, 0)]),
        ("units", [(1000, 0, 0, 0), (232, 768, 0, 0), (100, 900, 0, 0)]),
    ],
)
def test_a_registered_row_may_ask_for_the_other_kinds(kind: str, bills: list[tuple[int, ...]]) -> None:
    row = replace(
        model_named("gpt-5"), name="hosted", cache=kind, min_tokens=256, granularity_tokens=256, default_ttl_seconds=300
    )
    cache = reference_cache(row)
    assert [bill(call(cache, talk(("head", 900), (f"ask {number}", 100)))) for number in range(3)] == bills
