"""Tiers of memory: what engines do, then figures counted by others, and sharing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import pytest

from contextkit.cache.prefix_cache import PrefixCache
from contextkit.engines.block_runs import Runs
from contextkit.engines.tier import BlockChunks, Reuse, Tier, TierStore, TokenChunks
from contextkit.engines.tiered import TieredCache
from contextkit.engines.token_ids import Adapter, BlockIds, Item, TokenIds
from contextkit.errors import UsageError

GPU = Tier("gpu", capacity_tokens=1024)
HOST = Tier("host", capacity_tokens=8192)
CHUNKS = TokenChunks()


def ids(start: int, n: int) -> TokenIds:
    return TokenIds(range(start, start + n))


def call(cache: TieredCache[TokenIds], prompt: TokenIds, at: float = 0.0) -> int:
    lease = cache.begin(prompt, at)
    cache.publish(lease, at)
    cache.end(lease, 5, at)
    return lease.hit.read_tokens


def reads(cache: TieredCache[TokenIds], prompt: TokenIds) -> dict[str, int]:
    """Tier → tokens a lookup would move out of it."""
    other = deepcopy(cache)
    other.begin(prompt, 0.0)
    before, after = cache.stats(), other.stats()
    names = [name for name in after if name.startswith("read_tokens_")]
    return {name.removeprefix("read_tokens_"): after[name] - before[name] for name in names}


def test_it_is_a_prefix_cache() -> None:
    cache: PrefixCache[TokenIds] = TieredCache(CHUNKS, [GPU])
    assert cache.lookup(ids(0, 300), 0.0).reason == "first_write"
    assert cache.lookup(ids(0, 200), 0.0).reason == "below_minimum"


# --- what engines do
# -------------------------------------------------------------------------------------------------------------


def test_only_full_chunks_are_kept_unless_asked() -> None:
    full, partial = TieredCache(CHUNKS, [GPU]), TieredCache(TokenChunks(saves_partial=True), [GPU])
    assert (call(full, ids(0, 600)), call(full, ids(0, 600))) == (0, 512)
    assert (call(partial, ids(0, 600)), call(partial, ids(0, 600)), call(partial, ids(0, 700))) == (0, 599, 512)


def test_a_hit_on_the_whole_prompt_leaves_one_token_to_compute() -> None:
    cache = TieredCache(CHUNKS, [GPU])
    assert (call(cache, ids(0, 512)), call(cache, ids(0, 512)), call(cache, ids(0, 513))) == (0, 511, 512)


def test_what_is_sent_is_readable_once_its_response_begins() -> None:
    cache = TieredCache(CHUNKS, [GPU])
    lease = cache.begin(ids(0, 600), 0.0)
    assert cache.lookup(ids(0, 600), 1.0).reason == "not_yet_visible"
    cache.publish(lease, 2.0)
    assert cache.lookup(ids(0, 600), 2.0).read_tokens == 512


def test_a_lookup_goes_on_below_where_the_tier_above_stops() -> None:
    cache = TieredCache(CHUNKS, [Tier("gpu", capacity_tokens=768), HOST])
    call(cache, ids(0, 768))
    call(cache, ids(9000, 256))  # pushes the head of the first prompt, stored first, out of the first tier
    assert reads(cache, ids(0, 800)) == {
        "gpu": 0,
        "host": 768,
    }  # what the first tier holds behind its gap is read below


def test_what_is_read_below_rises() -> None:
    cache = TieredCache(CHUNKS, [GPU, HOST])
    call(cache, ids(0, 600))
    call(cache, ids(9000, 1024))
    assert reads(cache, ids(0, 600)) == {"gpu": 0, "host": 512}
    call(cache, ids(0, 600))
    assert reads(cache, ids(0, 600)) == {"gpu": 512, "host": 0}


def test_a_tier_can_be_left_out_of_rising() -> None:
    disk = Tier("disk", is_promoted_to=False, write="on_eviction")
    host = TierStore(HOST)
    cache = TieredCache(CHUNKS, [GPU, disk], [host])
    call(cache, ids(0, 1024))
    call(cache, ids(9000, 1024))
    assert cache.stats()["tokens_disk"] == 1024
    other = TieredCache(CHUNKS, [GPU, disk], [host])
    assert call(other, ids(0, 1100)) == 1024
    assert (other.stats()["tokens_gpu"], other.stats()["tokens_disk"]) == (1024, 0)


@pytest.mark.parametrize(
    ("write", "after_one", "after_two"), [("through", 512, 512), ("selective", 0, 512), ("on_eviction", 0, 0)]
)
def test_when_the_tier_below_gets_a_chunk(write: str, after_one: int, after_two: int) -> None:
    cache = TieredCache(CHUNKS, [GPU, Tier("host", write=write)])  # type: ignore[arg-type]
    found = []
    for _ in range(2):
        call(cache, ids(0, 600))
        found.append(cache.stats()["tokens_host"])
    call(cache, ids(9000, 1024))
    assert found == [after_one, after_two] and cache.stats()["tokens_host"] == (1536 if write == "through" else 512)


def test_too_little_is_not_worth_fetching() -> None:
    cache = TieredCache(CHUNKS, [GPU, Tier("remote", min_read_tokens=500)])
    for start, n in ((0, 600), (2000, 300), (9000, 1024)):
        call(cache, ids(start, n))
    assert (cache.lookup(ids(0, 600), 0.0).read_tokens, cache.lookup(ids(2000, 300), 0.0).read_tokens) == (512, 0)


def test_a_request_larger_than_all_the_room_leaves_its_head() -> None:
    cache = TieredCache(CHUNKS, [GPU])
    call(cache, ids(9000, 512))
    call(cache, ids(0, 3000))
    assert cache.lookup(ids(0, 3000), 0.0).read_tokens == 1024


def test_what_was_read_is_renewed_tail_first() -> None:
    cache = TieredCache(CHUNKS, [GPU])
    call(cache, ids(0, 1024))
    call(cache, ids(0, 1025))
    call(cache, ids(9000, 256))
    assert cache.lookup(ids(0, 1025), 0.0).read_tokens == 768


# --- keys
# ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        TokenIds(range(300), adapter=Adapter("a", "p")),
        TokenIds(range(300), salt="s"),
        TokenIds(range(300), items=(Item(3, 9, "cat"),)),
    ],
)
def test_what_differs_is_not_shared(other: TokenIds) -> None:
    cache = TieredCache(CHUNKS, [GPU])
    call(cache, ids(0, 300))
    assert cache.lookup(other, 0.0).read_tokens == 0
    call(cache, other)
    assert cache.lookup(other, 0.0).read_tokens == 256


def test_lmcache_forgets_the_adapter_in_its_keys_but_not_the_picture() -> None:
    cache = TieredCache(TokenChunks(is_isolating=False), [GPU])
    call(cache, ids(0, 300))
    assert cache.lookup(TokenIds(range(300), adapter=Adapter("a", "p")), 0.0).read_tokens == 256
    assert cache.lookup(TokenIds(range(300), items=(Item(3, 9, "cat"),)), 0.0).read_tokens == 0


def test_a_prompt_that_reads_nothing_still_writes() -> None:
    cache = TieredCache(CHUNKS, [GPU])
    call(cache, ids(0, 300))
    assert cache.lookup(TokenIds(range(300), is_read_skipped=True), 0.0).read_tokens == 0
    call(cache, TokenIds(range(5000, 5300), is_read_skipped=True))
    assert cache.lookup(ids(5000, 300), 0.0).read_tokens == 256


# --- sharing
# ---------------------------------------------------------------------------------------------------------------------


def test_instances_share_what_lies_below_and_nothing_else() -> None:
    remote = TierStore(Tier("remote"))
    one, other = (TieredCache(CHUNKS, [GPU, HOST], [remote]) for _ in range(2))
    call(one, ids(0, 600))
    assert reads(other, ids(0, 600)) == {"gpu": 0, "host": 0, "remote": 512}
    assert call(other, ids(0, 600)) == 512
    assert (other.stats()["read_tokens_remote"], one.stats()["read_tokens_remote"]) == (512, 0)


def test_two_models_share_no_chunk() -> None:
    remote = TierStore(Tier("remote"))
    one, other = (TieredCache(TokenChunks(namespace=name), [GPU], [remote]) for name in (b"a", b"b"))
    call(one, ids(0, 600))
    assert call(other, ids(0, 600)) == 0 and remote.n_tokens == 1024


# --- re-use at another place
# -----------------------------------------------------------------------------------------------------

BLEND = TokenChunks(saves_partial=True, separator=(7, 7), reuse=Reuse(0.15, 256))


def document(number: int, n: int) -> list[int]:
    return [*range(1000 * number, 1000 * number + n - 2), 7, 7]


def test_a_chunk_behind_another_beginning_is_approximate_and_no_hit() -> None:
    cache = TieredCache(BLEND, [Tier("gpu")])
    call(cache, TokenIds([*document(1, 400), *document(2, 300), 5]))
    hit = cache.lookup(TokenIds([*document(2, 300), *document(1, 400), 6]), 0.0)
    assert (hit.read_tokens, hit.approximate_tokens, hit.reason) == (
        0,
        255 + 340,
        "first_write",
    )  # 45 and 60 are computed again
    after = cache.lookup(TokenIds([*document(1, 400), *document(3, 300), *document(2, 300), 6]), 0.0)
    assert (after.read_tokens, after.approximate_tokens) == (400, 255)
    assert cache.quote(TokenIds([*document(2, 300), *document(1, 400), 6]), 0.0).fresh == 701


def test_short_chunks_are_not_re_used_and_all_recomputed_is_nothing_saved() -> None:
    for reuse, kept in ((Reuse(0.15, 256), 0), (Reuse(1.0, 10), 0), (Reuse(0.0, 10), 100)):
        cache = TieredCache(TokenChunks(separator=(7, 7), reuse=reuse), [Tier("gpu")])
        call(cache, TokenIds([*document(1, 50), *document(2, 100)]))
        assert cache.lookup(TokenIds([*document(2, 100), 5]), 0.0).approximate_tokens == kept


def test_nothing_behind_an_approximate_chunk_becomes_exact() -> None:
    cache = TieredCache(BLEND, [Tier("gpu")])
    call(cache, TokenIds([*document(1, 400), *document(2, 300)]))
    mixed = TokenIds([*document(2, 300), *document(3, 300), 5])
    for _ in range(3):
        assert call(cache, mixed) == 0
    hit = cache.lookup(mixed, 0.0)
    assert hit.approximate_tokens == 255 + 255  # document 3 may be re-used too by now
    assert reads(cache, mixed) == {"gpu": 600}


# --- figures counted by others
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mooncake(shared: Path) -> list[list[int]]:
    with gzip.open(shared / "data" / "mooncake" / "synthetic_trace.jsonl.gz") as lines:
        return [json.loads(line)["hash_ids"] for line in lines]


@pytest.mark.parametrize(("blocks", "rate"), [(None, 0.6396), (3_000, 0.1906)])
def test_one_tier_gives_the_rates_of_an_lru_on_mooncakes_trace(
    mooncake: list[list[int]], blocks: int | None, rate: float
) -> None:
    """Prefix blocks over all blocks, counted on the same trace by another program."""
    cache = TieredCache(BlockChunks(), [Tier("gpu", capacity_tokens=blocks and 512 * blocks, policy="tail_first")])
    read = sum(replayed(cache, row) for row in mooncake)
    assert round(read / 512 / sum(map(len, mooncake)), 4) == rate


def replayed(cache: TieredCache[BlockIds], row: Sequence[int]) -> int:
    lease = cache.begin(BlockIds(512, row), 0.0)
    cache.publish(lease, 0.0)
    return lease.hit.read_tokens


def test_one_tier_equals_the_cache_of_runs_request_by_request(mooncake: list[list[int]]) -> None:
    cache = TieredCache(BlockChunks(), [Tier("gpu", capacity_tokens=512 * 300, policy="tail_first")])
    runs = Runs(300)
    for row in mooncake[:600]:
        assert replayed(cache, row) == 512 * runs.admit(row)


def test_two_tiers_that_hold_all_between_them_read_as_one(mooncake: list[list[int]]) -> None:
    """Nothing is lost while the tiers below have room for it, whatever the first one forgets."""
    whole = TieredCache(BlockChunks(), [Tier("gpu")])
    small = TieredCache(BlockChunks(), [Tier("gpu", capacity_tokens=512 * 50), Tier("host")])
    for row in mooncake[:300]:
        assert replayed(small, row) == replayed(whole, row)
    assert small.stats()["read_tokens_host"] > 0


# --- mistakes
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tiers", "told"),
    [
        ([], "one or more"),
        ([GPU, GPU], "name of its own"),
        ([Tier("gpu", write="selective")], "'through'"),
        ([Tier("gpu", policy="random")], "lru, lfu"),
        ([GPU, Tier("host", write="never")], "on_eviction"),  # type: ignore[arg-type]
        ([Tier("gpu", capacity_tokens=0)], "capacity_tokens"),
    ],
)
def test_tiers_that_cannot_be_are_refused(tiers: list[Tier], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        TieredCache(CHUNKS, tiers)
