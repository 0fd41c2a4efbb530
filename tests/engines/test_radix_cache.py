"""What a user sees of SGLang's cache: what is read, when, by whom, and what a full pool forgets."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.prefix_cache import Lease
from contextkit.engines.sglang import RadixCache, RadixShape
from contextkit.engines.token_ids import Adapter, Item, TokenIds
from contextkit.errors import UsageError
from tests.engines.naive_radix import NaiveRadix


def call(cache: RadixCache, prompt: TokenIds | Sequence[int], generated: Sequence[int] = (), **options: Any) -> Lease:
    prompt = prompt if isinstance(prompt, TokenIds) else TokenIds(prompt)
    lease = cache.begin(prompt, 0.0, **options)
    cache.publish(lease, 0.0)
    cache.generate(lease, generated)
    cache.end(lease, len(generated), 0.0)
    return lease


def read(cache: RadixCache, tokens: Sequence[int], **options: Any) -> int:
    return cache.lookup(TokenIds(tokens, **options), 0.0).read_tokens


def test_the_last_token_is_always_computed() -> None:
    cache = RadixCache(RadixShape(page=16))
    call(cache, range(48))
    assert [read(cache, range(n)) for n in (47, 48, 49, 100)] == [32, 32, 48, 48]
    assert cache.quote(TokenIds(range(49)), 0.0).fresh == 1


def test_what_was_generated_is_read_but_for_its_last_token() -> None:
    cache = RadixCache()
    call(cache, range(20), [500, 501, 502, 503])
    assert read(cache, [*range(20), 500, 501, 502, 503, 600]) == 23


def test_generated_tokens_nobody_named_are_never_hit_but_take_room() -> None:
    cache = RadixCache()
    lease = cache.begin(TokenIds(range(20)), 0.0)
    cache.publish(lease, 0.0)
    assert cache.end(lease, 5, 0.0).output == 5
    assert read(cache, [*range(20), 500]) == 20 and cache.stats()["tokens_cached"] == 24


def test_a_prompt_is_readable_once_it_was_computed() -> None:
    cache = RadixCache()
    lease = cache.begin(TokenIds([1, 2, 3]), 0.0)
    assert cache.lookup(TokenIds([1, 2, 3]), 0.0).reason == "not_yet_visible"
    cache.publish(lease, 0.0)
    assert cache.lookup(TokenIds([1, 2, 3]), 0.0).reason == "hit"
    assert cache.lookup(TokenIds([9, 2, 3]), 0.0).reason == "first_write"
    assert cache.lookup(TokenIds([1]), 0.0).reason == "below_minimum"


@pytest.mark.parametrize(
    "other", [{"salt": "b"}, {}, {"adapter": Adapter("x", "p")}, {"salt": "a", "adapter": Adapter("x", "p")}]
)
def test_salts_and_adapters_never_share(other: dict[str, Any]) -> None:
    cache = RadixCache()
    call(cache, TokenIds([1, 2, 3, 4], salt="a"))
    assert read(cache, [1, 2, 3, 4], salt="a") == 3 and read(cache, [1, 2, 3, 4], **other) == 0


def test_another_image_in_the_same_place_ends_the_prefix() -> None:
    cache = RadixCache()
    call(cache, TokenIds([1, 0, 0, 0, 5, 6], items=(Item(1, 3, "cat"),)))
    assert read(cache, [1, 0, 0, 0, 5, 6], items=(Item(1, 3, "cat"),)) == 5
    assert read(cache, [1, 0, 0, 0, 5, 6], items=(Item(1, 3, "dog"),)) == 1


def test_reading_can_be_skipped_and_still_writes() -> None:
    cache = RadixCache()
    assert call(cache, [1, 2, 3]).usage.fresh == 3
    assert call(cache, TokenIds([1, 2, 3, 4], is_read_skipped=True)).usage.read == 0
    assert read(cache, [1, 2, 3, 4, 5]) == 4


def test_without_caching_nothing_is_kept() -> None:
    cache = RadixCache(RadixShape(is_caching=False))
    call(cache, [1, 2, 3])
    assert read(cache, [1, 2, 3]) == 0 and cache.stats()["tokens_cached"] == cache.stats()["tokens_held"] == 0


def test_a_full_pool_forgets_the_least_recently_used_and_never_what_is_in_use() -> None:
    cache = RadixCache(RadixShape(n_tokens=10))
    call(cache, [1, 2, 3, 4])
    call(cache, [5, 6, 7, 8])
    call(cache, [1, 2, 3, 4])
    call(cache, [9, 9, 9, 9])
    assert [read(cache, [n, n + 1, n + 2, n + 3, 0]) for n in (1, 5)] == [4, 0]
    held = cache.begin(TokenIds([1, 2, 3, 4, 0]), 0.0)
    turned_away = cache.begin(TokenIds(range(100, 106)), 0.0)
    assert turned_away.hit.reason == "no_room" and turned_away.usage.fresh == 6
    cache.end(held, 1, 0.0)
    cache.end(turned_away, 1, 0.0)
    assert read(cache, range(100, 106)) == 0 and read(cache, [1, 2, 3, 4, 0, 0]) == 5


def test_the_priority_policy_forgets_outputs_before_prompts_and_low_before_high() -> None:
    cache = RadixCache(RadixShape(n_tokens=12, policy="priority"))
    call(cache, [1, 2, 3], [4, 5, 6], priority=1)
    call(cache, [7, 8, 9], priority=1)  # nothing generated behind it: not raised above 1
    call(cache, range(20, 26), priority=5)
    assert read(cache, [1, 2, 3, 4, 5, 0]) == 3 and read(cache, [7, 8, 9, 0]) == 3
    call(cache, range(30, 33), priority=5)
    assert read(cache, [1, 2, 3, 4, 5, 0]) == 3 and read(cache, [7, 8, 9, 0]) == 0


def test_a_lease_ends_once() -> None:
    cache = RadixCache()
    lease = call(cache, [1, 2])
    for after in (
        lambda: cache.end(lease, 0, 0.0),
        lambda: cache.publish(lease, 0.0),
        lambda: cache.generate(lease, [1]),
    ):
        with pytest.raises(UsageError, match="this lease has ended"):
            after()


ids = st.lists(st.sampled_from([1, 2]), min_size=1, max_size=12)


class NaiveServer:
    """One request at a time, step by step: what must be free is made free before each step, on a naive tree."""

    def __init__(self, n_slots: int, page: int) -> None:
        self.n_slots, self.page, self.held, self.n_evicted = n_slots, page, 0, 0
        self.tree = NaiveRadix(page, "lru", is_old=False, is_eagle=False)

    def make_free(self, n: int) -> None:
        used = self.held + self.tree.total(is_locked=True) + self.tree.total(is_locked=False)
        if used + n > self.n_slots:
            self.n_evicted += sum(map(len, self.tree.evict(used + n - self.n_slots)))

    def keep(self, tokens: list[int]) -> None:
        self.tree.insert(tokens, (None, None), 0, 0)
        self.held = -(-len(tokens) // self.page) * self.page - len(tokens) // self.page * self.page

    def serve(self, prompt: list[int], generated: list[int]) -> int:
        read, run = self.tree.match(prompt[:-1], (None, None))
        self.tree.lock(run, 1)
        self.make_free(len(prompt) - read + (self.page if self.page > 1 else 0))
        self.keep(prompt)
        _, kept = self.tree.match(prompt, (None, None))
        self.tree.lock(kept, 1)
        self.tree.lock(run, -1)
        tokens = list(prompt)
        for token in generated[:-1]:
            self.make_free(self.page)
            self.held += self.page if len(tokens) % self.page == 0 else 0
            tokens.append(token)
        self.keep(tokens)
        self.tree.lock(kept, -1)
        self.held = 0
        return read


@pytest.mark.parametrize("page", [1, 2, 4])
def test_what_is_made_free_before_each_step(page: int) -> None:
    draw = Random(page)
    for n_slots in range(28, 48, page):
        cache, naive = RadixCache(RadixShape(n_slots, page)), NaiveServer(n_slots, page)
        for _ in range(60):
            prompt, generated = (draw.choices([1, 2], k=draw.randint(least, 12)) for least in (1, 0))
            generated = generated[: draw.choice([1, 9])]
            assert call(cache, prompt, generated).hit.read_tokens == naive.serve(prompt, generated)
            assert cache.stats()["tokens_evicted"] == naive.n_evicted
        assert naive.n_evicted


@pytest.mark.parametrize(("n_running", "n_read"), [(1, 8), (2, 4)])
def test_a_generated_token_asks_for_a_page_for_each_request_under_way(n_running: int, n_read: int) -> None:
    cache = RadixCache(RadixShape(n_tokens=12 + 4 * n_running, page=4))
    call(cache, range(4))
    call(cache, range(8))
    running = [cache.begin(TokenIds([100 + n, 200]), 0.0) for n in range(n_running)]
    cache.generate(running[0], [300, 301])
    assert read(cache, range(9)) == n_read


steps = st.lists(
    st.tuples(st.sampled_from(["begin", "publish", "end"]), ids, st.integers(0, 5), st.sampled_from([None, "a"])),
    max_size=40,
)
shapes = st.builds(
    RadixShape,
    st.sampled_from([None, 16, 30]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["lru", "lfu", "fifo", "mru", "filo", "priority"]),
    st.sampled_from(["0.5.9", "0.5.23"]),
)


def stepped(cache: RadixCache, leases: list[Lease], step: Any) -> object:
    """One step of a stream; `ids` stand for a prompt, or choose a lease."""
    name, tokens, number, salt = step
    if name == "begin":
        leases.append(cache.begin(TokenIds(array("i", tokens), salt=salt), 0.0, priority=number))
        return leases[-1]
    if not leases:
        return None
    lease = leases[number % len(leases)]
    if name == "publish":
        return cache.publish(lease, 0.0)
    leases.remove(lease)
    cache.generate(lease, tokens[:number])
    return cache.end(lease, len(tokens), 0.0)


@settings(deadline=None)
@given(shapes, steps)
def test_no_read_beyond_what_was_sent_and_room_is_never_exceeded(shape: RadixShape, stream: list[Any]) -> None:
    cache, leases = RadixCache(shape), []
    sent: dict[int, tuple[str | None, list[int]]] = {}
    for name, tokens, number, salt in stream:
        ending = leases[number % len(leases)] if leases and name == "end" else None
        lease = stepped(cache, leases, (name, tokens, number, salt))
        if ending:
            sent[ending.writes[0]][1].extend(tokens[:number])
        if isinstance(lease, Lease):
            known = max((_common(other, tokens) for its_salt, other in sent.values() if its_salt == salt), default=0)
            assert lease.hit.read_tokens <= min(known, len(tokens) - 1) // shape.page * shape.page
            assert lease.usage.prompt == len(tokens)
            sent[lease.writes[0]] = (salt, list(tokens))
        stats = cache.stats()
        assert stats["tokens_cached"] + stats["tokens_held"] <= (shape.n_tokens or 10**9)
        assert stats["tokens_held"] >= 0 and stats["running"] == len(leases)
    for lease in leases:
        cache.end(lease, 0, 0.0)
    assert cache.stats()["tokens_locked"] == cache.stats()["tokens_held"] == 0


@given(st.lists(ids, max_size=12), ids, st.sampled_from([1, 2, 4]))
def test_an_unlimited_cache_reads_the_longest_prefix_ever_sent(
    before: list[list[int]], prompt: list[int], page: int
) -> None:
    cache = RadixCache(RadixShape(page=page))
    for tokens in before:
        call(cache, tokens)
    known = max((_common(tokens[: len(tokens) // page * page], prompt) for tokens in before), default=0)
    assert read(cache, prompt) == min(known, len(prompt) - 1) // page * page


def _common(one: list[int], other: list[int]) -> int:
    return next((n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))


def test_looking_changes_nothing() -> None:
    cache = RadixCache(RadixShape(n_tokens=20))
    call(cache, range(10))
    before = [(node.size, node.accessed, node.n_hits) for node in cache._tree.nodes()]
    for n in range(1, 15):
        cache.lookup(TokenIds(range(n)), 0.0)
        cache.quote(TokenIds([*range(n), 99]), 0.0)
    assert [(node.size, node.accessed, node.n_hits) for node in cache._tree.nodes()] == before


def test_reset_forgets_everything() -> None:
    cache = RadixCache()
    call(cache, [1, 2, 3])
    cache.reset()
    assert cache.lookup(TokenIds([1, 2, 3]), 0.0).reason == "first_write"
    assert set(cache.stats().values()) == {0}
