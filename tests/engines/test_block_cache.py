"""vLLM behind the protocol every cache has: when things become readable, what a turn leaves behind, what is billed."""

from __future__ import annotations

import pickle

import pytest

from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.usage import Usage
from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm import BlockCache
from contextkit.engines.vllm_engine import Shape
from contextkit.errors import UsageError


def prompt(n: int, first: int = 0) -> TokenIds:
    return TokenIds(range(first, first + n))


@pytest.fixture
def cache() -> BlockCache:
    return BlockCache(Shape(100))


def test_it_is_a_prefix_cache(cache: BlockCache) -> None:
    used: PrefixCache[TokenIds] = cache
    assert used.quote(prompt(50), 0.0) == Usage(50, 0, 0, 0, 0)
    assert used.lookup(prompt(50), 0.0).reason == "first_write"


def test_a_prompt_is_readable_as_soon_as_it_begins(cache: BlockCache) -> None:
    cache.begin(prompt(50), 0.0)
    hit = cache.lookup(prompt(50), 0.0)
    assert (hit.read_tokens, hit.segment, hit.reason, hit.expires_at) == (48, 2, "hit", None)


def test_an_identical_prompt_of_whole_blocks_computes_its_last_block_again(cache: BlockCache) -> None:
    cache.end(cache.begin(prompt(48), 0.0), 0, 1.0)
    assert cache.begin(prompt(48), 2.0).usage == Usage(16, 32, 0, 0, 0)


def test_a_turn_leaves_its_prompt_and_all_it_generated_but_the_last_token(cache: BlockCache) -> None:
    for output, expected in ((14, 48), (15, 64)):
        cache.reset()
        lease = cache.begin(prompt(50), 0.0)
        cache.generate(lease, list(range(50, 50 + output)))
        assert cache.end(lease, output, 1.0).output == output
        assert cache.lookup(prompt(80), 2.0).read_tokens == expected


def test_what_was_generated_but_not_named_takes_room_and_is_never_hit() -> None:
    cache = BlockCache(Shape(9))
    cache.end(cache.begin(prompt(64), 0.0), 0, 1.0)
    cache.end(cache.begin(prompt(16, 1000), 2.0), 49, 3.0)
    assert cache.stats()["output_tokens"] == 49
    assert cache.lookup(prompt(80), 4.0).read_tokens == 64
    cache.end(cache.begin(prompt(16, 2000), 5.0), 49, 6.0)
    assert cache.lookup(prompt(80), 7.0).read_tokens == 0


def test_looking_up_and_asking_for_a_quote_change_nothing(cache: BlockCache) -> None:
    cache.begin(prompt(50), 0.0)
    before = pickle.dumps(cache)
    cache.lookup(prompt(50), 1.0)
    cache.quote(prompt(90), 1.0)
    assert pickle.dumps(cache) == before


def test_a_running_request_is_never_evicted_and_who_finds_no_room_is_told() -> None:
    cache = BlockCache(Shape(5))
    first = cache.begin(prompt(60), 0.0)
    late = cache.begin(prompt(32, 500), 1.0)
    assert (late.hit.reason, late.usage) == ("no_room", Usage(32, 0, 0, 0, 0))
    cache.end(late, 4, 2.0)
    assert cache.lookup(prompt(60), 3.0).read_tokens == 48
    cache.end(first, 0, 4.0)
    assert cache.begin(prompt(32, 500), 5.0).hit.reason == "first_write"
    assert cache.stats()["miss_no_room"] == 1


def test_the_end_of_a_prompt_goes_before_its_beginning() -> None:
    cache = BlockCache(Shape(5))
    cache.end(cache.begin(prompt(64), 0.0), 0, 1.0)
    cache.end(cache.begin(prompt(16, 500), 2.0), 0, 3.0)
    assert cache.lookup(prompt(65), 4.0).read_tokens == 48
    assert cache.stats()["blocks_evicted"] == 1


def test_a_prompt_that_wants_its_own_log_probabilities_reads_nothing_and_still_writes(cache: BlockCache) -> None:
    cache.begin(prompt(50), 0.0)
    own = TokenIds(range(50), is_read_skipped=True)
    assert cache.lookup(own, 1.0).read_tokens == cache.begin(own, 1.0).usage.read == 0
    assert cache.stats()["blocks_cached"] == 6


def test_a_lease_ends_once(cache: BlockCache) -> None:
    lease = cache.begin(prompt(50), 0.0)
    cache.publish(lease, 0.5)
    cache.end(lease, 1, 1.0)
    with pytest.raises(UsageError):
        cache.end(lease, 1, 2.0)
