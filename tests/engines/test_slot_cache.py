"""What a user sees of llama.cpp's slots: what is read, what is approximate, and when a slot is free."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.engines.llamacpp import SlotCache
from contextkit.engines.llamacpp_server import HostShape, Model, SlotEnd, SlotShape, slot_shape
from contextkit.engines.token_ids import Adapter, Item, TokenIds
from contextkit.errors import UsageError


def call(cache: SlotCache, prompt: Sequence[int], generated: Sequence[int] = (), **options: Any) -> Lease:
    lease = cache.begin(TokenIds(prompt, **options), 0.0)
    cache.publish(lease, 0.0)
    cache.generate(lease, generated)
    cache.end(lease, len(generated), 0.0)
    return lease


def test_a_prefix_counts_token_by_token_and_the_last_one_is_computed() -> None:
    cache = SlotCache(slot_shape(1))
    call(cache, range(21))
    assert call(cache, [*range(15), *[900] * 6]).usage.fresh == 6
    call(cache, range(30))
    assert cache.lookup(TokenIds(range(30)), 0.0) == Hit(29, 0, 28, "hit", None)


def test_a_turned_chunk_is_approximate_and_billed_as_fresh() -> None:
    cache = SlotCache(slot_shape(1, n_cache_reuse=8))
    call(cache, range(40))
    lease = call(cache, [*range(10), *range(20, 40), 7])
    assert (lease.hit.read_tokens, lease.hit.approximate_tokens, lease.usage.read, lease.usage.fresh) == (
        10,
        20,
        10,
        21,
    )
    assert cache.stats()["approximate_tokens"] == 20 and cache.stats()["read_tokens"] == 10


def test_a_slot_serves_others_when_it_is_free() -> None:
    cache = SlotCache(slot_shape(1))
    lease = cache.begin(TokenIds(range(10)), 0.0)
    cache.publish(lease, 0.0)
    turned_away = cache.begin(TokenIds(range(10)), 0.0)
    assert turned_away.hit.reason == "no_room" and turned_away.usage.fresh == 10
    cache.end(turned_away, 3, 0.0)
    cache.end(lease, 3, 0.0)
    assert cache.lookup(TokenIds(range(10)), 0.0).read_tokens == 9


def test_reasons() -> None:
    cache = SlotCache(slot_shape(2))
    assert cache.lookup(TokenIds(range(9)), 0.0).reason == "first_write"
    cache.begin(TokenIds(range(9)), 0.0)
    assert cache.lookup(TokenIds(range(9)), 0.0).reason == "not_yet_visible"
    assert cache.lookup(TokenIds(range(50, 59)), 0.0).reason == "first_write"


def test_generated_tokens_are_read_but_for_the_last_and_only_if_named() -> None:
    cache = SlotCache(slot_shape(1))
    call(cache, range(20), [500, 501, 502, 503])
    assert cache.lookup(TokenIds([*range(20), 500, 501, 502, 503, 600]), 0.0).read_tokens == 23
    lease = cache.begin(TokenIds(range(20)), 0.0)
    cache.end(lease, 4, 0.0)
    assert cache.lookup(TokenIds([*range(20), 500, 501, 502, 503, 600]), 0.0).read_tokens == 20


@pytest.mark.parametrize(
    ("other", "read"),
    [
        ({}, 4),
        ({"salt": "a"}, 4),
        ({"is_read_skipped": True}, 0),
        ({"adapter": Adapter("x", "p")}, 0),
        ({"items": (Item(1, 2, "cat"),)}, 1),
    ],
)
def test_what_ends_a_prefix(other: dict[str, Any], read: int) -> None:
    cache = SlotCache(slot_shape(1))
    call(cache, [1, 0, 0, 4, 5])
    assert cache.lookup(TokenIds([1, 0, 0, 4, 5], **other), 0.0).read_tokens == read


def test_an_empty_prompt_reads_nothing() -> None:
    cache = SlotCache(slot_shape(1))
    call(cache, range(5))
    assert call(cache, []).usage.prompt == 0


def test_a_lease_ends_once() -> None:
    cache = SlotCache(slot_shape(1))
    lease = call(cache, [1, 2])
    for after in (lambda: cache.end(lease, 0, 0.0), lambda: cache.generate(lease, [1])):
        with pytest.raises(UsageError, match="this lease has ended"):
            after()


ids = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=14)
steps = st.lists(st.tuples(st.sampled_from(["begin", "end"]), ids, st.integers(0, 5)), max_size=30)
shapes = st.builds(
    SlotShape,
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    n_cache_reuse=st.sampled_from([0, 2]),
    host=st.builds(HostShape, st.sampled_from([0, 20, None]), st.just(1)),
    model=st.builds(Model, st.sampled_from(["full", "window", "recurrent"]), st.just(4), st.just(6), st.just(3)),
    end=st.builds(SlotEnd, st.sampled_from([None, 10])),
)


def stepped(cache: SlotCache, leases: list[Lease], step: Any) -> object:
    name, tokens, number = step
    if name == "begin":
        before = pickle.dumps(cache)
        looked, quoted = cache.lookup(TokenIds(tokens), 0.0), cache.quote(TokenIds(tokens), 0.0)
        assert pickle.dumps(cache) == before
        leases.append(cache.begin(TokenIds(tokens), 0.0, user_starts=[number]))
        assert (leases[-1].hit, leases[-1].usage) == (looked, quoted) and quoted.prompt == len(tokens)
        return leases[-1]
    if not leases:
        return None
    lease = leases.pop(number % len(leases))
    cache.generate(lease, tokens[:number])
    return cache.end(lease, len(tokens), 0.0)


@settings(deadline=None)
@given(shapes, steps)
def test_a_look_is_true_and_changes_nothing(shape: SlotShape, stream: list[Any]) -> None:
    cache, leases = SlotCache(shape), list[Lease]()
    for step in stream:
        stepped(cache, leases, step)
        assert cache.stats()["running"] == len(leases)
