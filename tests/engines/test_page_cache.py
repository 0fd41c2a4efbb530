"""transformers' pages: when they become readable, what an answer leaves behind, what goes and when."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.usage import Usage
from contextkit.engines.token_ids import Adapter, TokenIds
from contextkit.engines.transformers import PageCache, PageShape
from contextkit.errors import UsageError
from tests.engines.naive_pages import Asked, NaivePages


def call(cache: PageCache, tokens: Sequence[int], generated: Sequence[int] = (500, 501), **options: Any) -> Lease:
    lease = cache.begin(TokenIds(tokens, **options), 0.0)
    cache.publish(lease, 0.0)
    cache.generate(lease, generated)
    cache.end(lease, len(generated), 0.0)
    return lease


def read(cache: PageCache, tokens: Sequence[int], **options: Any) -> int:
    return cache.lookup(TokenIds(tokens, **options), 0.0).read_tokens


def pages(n_pages: int | None = None, margin: float = 0.0, n_batch_tokens: int = 8192) -> PageCache:
    return PageCache(PageShape(n_pages, 16, margin, n_batch_tokens))


def test_it_is_a_prefix_cache_with_the_defaults_of_the_engine() -> None:
    cache: PrefixCache[TokenIds] = PageCache()
    assert PageShape() == PageShape(n_pages=None, page=256, safety_margin=0.15, n_batch_tokens=8192)
    assert cache.quote(TokenIds(range(50)), 0.0) == Usage(50, 0, 0, 0, 0)
    assert cache.lookup(TokenIds(range(256)), 0.0).reason == "below_minimum"
    assert cache.lookup(TokenIds(range(257)), 0.0).reason == "first_write"


def test_the_last_token_is_always_computed() -> None:
    cache = pages()
    call(cache, range(48))
    assert [read(cache, range(n)) for n in (16, 17, 47, 48, 49, 100)] == [0, 16, 32, 32, 48, 48]
    hit = cache.lookup(TokenIds(range(49)), 0.0)
    assert (hit.segment, hit.reason, hit.expires_at) == (2, "hit", None)


def test_a_prompt_is_readable_once_it_was_computed() -> None:
    cache = pages()
    lease = cache.begin(TokenIds(range(50)), 0.0)
    assert cache.lookup(TokenIds(range(50)), 0.0).reason == "not_yet_visible"
    cache.publish(lease, 0.0)
    assert read(cache, range(50)) == 48


@pytest.mark.parametrize(("output", "expected"), [(1, 0), (2, 48), (14, 48), (15, 48), (16, 64), (17, 64)])
def test_what_the_last_pass_fills_is_not_kept(output: int, expected: int) -> None:
    """Fifty tokens and `output`: the pass that gives the last one computes the token before it."""
    cache = pages()
    call(cache, range(50), range(50, 50 + output))
    assert read(cache, range(80)) == expected


def test_a_cancelled_request_keeps_what_it_computed() -> None:
    cache = pages()
    lease = cache.begin(TokenIds(range(50)), 0.0)
    cache.publish(lease, 0.0)
    cache.end(lease, 0, 0.0)
    unpublished = cache.begin(TokenIds(range(100, 150)), 0.0)
    cache.end(unpublished, 0, 0.0)
    assert (read(cache, range(50)), read(cache, range(100, 150))) == (48, 0)
    assert cache.stats()["blocks_held"] == 0


def test_an_answer_of_one_token_keeps_what_earlier_passes_over_a_long_prompt_filled() -> None:
    cache = pages(n_batch_tokens=40)
    call(cache, range(100), [500])
    assert read(cache, range(100)) == 80


def test_a_copy_is_freed_at_once() -> None:
    cache = pages()
    call(cache, range(48))
    second = cache.begin(TokenIds(range(48)), 0.0)
    assert (second.usage.read, cache.stats()["blocks_cached"] + cache.stats()["blocks_held"]) == (32, 4)
    cache.publish(second, 0.0)
    assert cache.stats()["blocks_held"] == 3 and not cache.stats()["blocks_cached"]
    cache.end(second, 1, 0.0)
    assert read(cache, range(49)) == 48


def test_where_pages_are_short_all_go_that_no_request_holds() -> None:
    cache = pages(n_pages=6)
    call(cache, range(32))
    call(cache, range(100, 132))
    holding = cache.begin(TokenIds(range(33)), 0.0)
    cache.publish(holding, 0.0)
    call(cache, range(200, 233))
    assert [read(cache, range(start, start + 33)) for start in (0, 100, 200)] == [32, 0, 32]
    assert cache.stats()["blocks_evicted"] == 2
    cache.end(holding, 2, 0.0)


def test_below_the_margin_all_go_before_a_prompt_is_looked_up() -> None:
    full, within = pages(n_pages=10, margin=0.5), pages(n_pages=10, margin=0.4)
    for cache in (full, within):
        call(cache, range(96))
    assert (read(full, range(97)), read(within, range(97))) == (0, 96)
    assert full.begin(TokenIds(range(97)), 0.0).usage.read == 0 and full.stats()["blocks_evicted"] == 6


def test_the_margin_is_looked_at_before_every_pass() -> None:
    """The second answer goes below it while it runs: what it holds stays, what it does not hold goes."""
    cache = pages(n_pages=10, margin=0.5)
    call(cache, range(32))
    call(cache, range(100, 164), [1])
    assert read(cache, range(33)) == 32
    call(cache, range(100, 164), [1, 2])
    assert (read(cache, range(33)), read(cache, range(100, 165))) == (0, 64)


def test_who_finds_no_room_is_told_and_leaves_nothing() -> None:
    cache = pages(n_pages=4)
    first = cache.begin(TokenIds(range(50)), 0.0)
    late = cache.begin(TokenIds(range(500, 532)), 0.0)
    assert (late.hit.reason, late.usage) == ("no_room", Usage(32, 0, 0, 0, 0))
    cache.publish(late, 0.0)
    cache.generate(late, range(100))
    assert cache.end(late, 100, 0.0).output == 100 and read(cache, range(500, 533)) == 0
    cache.publish(first, 0.0)
    cache.generate(first, range(50, 100))
    cache.end(first, 50, 0.0)
    assert read(cache, range(101)) == 64 and cache.stats()["blocks_held"] == 0


def test_generated_tokens_nobody_named_are_never_hit_but_take_room() -> None:
    cache = pages()
    lease = cache.begin(TokenIds(range(20)), 0.0)
    cache.publish(lease, 0.0)
    assert cache.end(lease, 30, 0.0).output == 30
    assert cache.stats()["blocks_cached"] == 3 and read(cache, range(60)) == 16


@pytest.mark.parametrize("other", [{}, {"salt": "b"}, {"salt": "a", "adapter": Adapter("x", "p")}])
def test_salts_and_adapters_never_share(other: dict[str, Any]) -> None:
    cache = pages()
    call(cache, range(40), salt="a")
    assert read(cache, range(40), salt="a") == 32 and read(cache, range(40), **other) == 0
    assert read(cache, range(40), salt="a", is_read_skipped=True) == 0


def test_overlapping_requests_share_once_the_first_was_computed() -> None:
    """A begins, B begins, B ends, A ends; then C goes on with both."""
    cache = pages(n_pages=20)
    first = cache.begin(TokenIds(range(50)), 0.0)
    cache.publish(first, 0.0)
    cache.generate(first, range(50, 60))
    second = cache.begin(TokenIds([*range(50), *range(70, 90)]), 0.0)
    assert second.usage.read == 48 and cache.stats()["blocks_held"] == 4 + 2
    cache.publish(second, 0.0)
    cache.generate(second, [1, 2])
    cache.end(second, 2, 0.0)
    assert read(cache, [*range(50), *range(70, 90)]) == 64
    cache.generate(first, range(60, 66))
    cache.end(first, 16, 0.0)
    assert read(cache, range(66)) == 64
    assert cache.stats() | {"blocks_cached": 5, "blocks_held": 0, "running": 0} == cache.stats()


def test_requests_that_begin_together_do_not_see_each_other() -> None:
    cache = pages()
    first, second = (cache.begin(TokenIds(range(50)), 0.0) for _ in range(2))
    assert second.usage.read == 0 and cache.stats()["blocks_held"] == 8
    for lease in (first, second):
        cache.publish(lease, 0.0)
    assert cache.stats()["blocks_held"] == 5
    for lease in (second, first):
        cache.end(lease, 2, 0.0)
    assert read(cache, range(50)) == 48


def test_what_another_request_holds_outlives_an_answer_of_one_token() -> None:
    cache = pages()
    first = cache.begin(TokenIds(range(50)), 0.0)
    cache.publish(first, 0.0)
    second = cache.begin(TokenIds(range(50)), 0.0)
    cache.end(first, 1, 0.0)
    cache.end(second, 1, 0.0)
    assert read(cache, range(50)) == 48 == second.usage.read


def test_a_lease_ends_once() -> None:
    cache = pages()
    lease = call(cache, range(20))
    for after in (
        lambda: cache.end(lease, 0, 0.0),
        lambda: cache.publish(lease, 0.0),
        lambda: cache.generate(lease, [1]),
    ):
        with pytest.raises(UsageError, match="this lease has ended"):
            after()


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        (PageShape(0), "0 pages of 256 tokens hold nothing"),
        (PageShape(page=0), "pages of 0 tokens hold nothing"),
        (PageShape(n_batch_tokens=0), "hold nothing"),
        (PageShape(safety_margin=15), "safety_margin is 15"),
    ],
)
def test_a_shape_no_engine_has(shape: PageShape, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        PageCache(shape)


def test_looking_changes_nothing_and_a_reset_forgets_everything() -> None:
    cache = pages(n_pages=10, margin=0.5)
    call(cache, range(96))
    cache.begin(TokenIds(range(100, 116)), 0.0)
    before = pickle.dumps(cache)
    for n in (1, 16, 97, 120):
        cache.lookup(TokenIds(range(n)), 0.0)
        cache.quote(TokenIds([*range(n), 99]), 0.0)
    assert pickle.dumps(cache) == before
    cache.reset()
    assert set(cache.stats().values()) == {0} and read(cache, range(97)) == 0


# Streams of overlapping requests
# ----------------------------------------------------------------------------------------------------------------------

IDS = st.lists(st.sampled_from([1, 2]), min_size=1, max_size=14)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "publish", "generate", "end"]), IDS, st.integers(0, 5), st.sampled_from([None, "a"])
    ),
    max_size=60,
)
SHAPES = st.builds(
    PageShape,
    st.integers(1, 16),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([0.0, 0.15, 0.5]),
    st.sampled_from([1, 3, 50]),
)


@settings(deadline=None)
@given(SHAPES, STEPS)
def test_a_stream_reads_what_loops_over_lists_read(shape: PageShape, stream: list[Any]) -> None:
    assert shape.n_pages
    cache = PageCache(shape)
    naive = NaivePages(shape.n_pages, shape.page, shape.safety_margin, shape.n_batch_tokens)
    running: list[tuple[Lease, Asked]] = []
    for name, ids, number, salt in stream:
        if name == "begin":
            foreseen = read(cache, ids, salt=salt)
            lease = cache.begin(TokenIds(ids, salt=salt), 0.0)
            expected, asked = naive.begin(ids, salt)
            assert lease.hit.read_tokens == expected == (0 if asked.is_refused else foreseen)
            assert (lease.hit.reason == "no_room") is asked.is_refused
            running.append((lease, asked))
        elif running:
            lease, asked = running[number % len(running)]
            if name == "publish":
                cache.publish(lease, 0.0)
                naive.publish(asked)
            elif name == "generate":
                cache.generate(lease, ids)
                naive.generate(asked, ids)
            else:
                output = len(asked.tokens) - asked.n_prompt
                running.remove((lease, asked))
                cache.end(lease, output, 0.0)
                naive.end(asked, output)
        stats, n_held = cache.stats(), sum(page.users > 0 for page in naive.pages)
        assert (stats["blocks_held"], stats["blocks_cached"]) == (n_held, len(naive.pages) - n_held)


@settings(deadline=None)
@given(SHAPES, STEPS)
def test_no_read_beyond_what_was_sent_and_room_is_never_exceeded(shape: PageShape, stream: list[Any]) -> None:
    cache = PageCache(shape)
    running: list[Lease] = []
    sent: dict[int, tuple[str | None, list[int]]] = {}
    for name, ids, number, salt in stream:
        if name == "begin":
            lease = cache.begin(TokenIds(ids, salt=salt), 0.0)
            known = max((common(other, ids) for its_salt, other in sent.values() if its_salt == salt), default=0)
            assert lease.hit.read_tokens <= min(known, max(0, len(ids) - 1)) // shape.page * shape.page
            assert lease.usage.prompt == len(ids)
            sent[lease.writes[0]] = (salt, list(ids))
            running.append(lease)
        elif running:
            lease = running[number % len(running)]
            if name == "publish":
                cache.publish(lease, 0.0)
            else:
                cache.generate(lease, ids)
                sent[lease.writes[0]][1].extend(ids)
            if name == "end":
                running.remove(lease)
                cache.end(lease, len(ids) + number, 0.0)
                sent[lease.writes[0]][1].extend([0] * number)
        stats = cache.stats()
        assert stats["blocks_held"] >= 0 and stats["blocks_held"] + stats["blocks_cached"] <= (shape.n_pages or 0)
        assert stats["running"] == len(running)
    for lease in running:
        cache.end(lease, 0, 0.0)
    assert cache.stats()["blocks_held"] == 0


@given(st.lists(IDS, max_size=12), IDS, st.sampled_from([1, 2, 4]))
def test_without_an_end_of_room_the_longest_prefix_ever_sent_is_read(
    before: list[list[int]], prompt: list[int], page: int
) -> None:
    cache = PageCache(PageShape(page=page))
    for tokens in before:
        call(cache, tokens)
    known = max((common(tokens[: len(tokens) // page * page], prompt) for tokens in before), default=0)
    assert read(cache, prompt) == min(known, max(0, len(prompt) - 1)) // page * page


def common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((n for n, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
