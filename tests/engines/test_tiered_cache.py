"""Tiers of memory: what engines do, then figures counted by others, sharing, cost and snapshots."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest

from contextkit.cache.prefix_cache import PrefixCache
from contextkit.engines.block_runs import TraceCache
from contextkit.engines.tier import BlockChunks, Reuse, Tier, TierStore, TokenChunks
from contextkit.engines.tiered import TieredCache
from contextkit.engines.token_ids import Adapter, BlockIds, Item, TokenIds
from contextkit.errors import StorageError, UsageError

GPU = Tier("gpu", capacity_tokens=1024)
HOST = Tier("host", capacity_tokens=8192, bytes_per_second=1000.0)
CHUNKS = TokenChunks(bytes_per_token=1)


def ids(start: int, n: int) -> TokenIds:
    return TokenIds(range(start, start + n))


def call(cache: TieredCache[TokenIds], prompt: TokenIds, at: float = 0.0) -> int:
    lease = cache.begin(prompt, at)
    cache.publish(lease, at)
    cache.end(lease, 5, at)
    return lease.hit.read_tokens


def reads(cache: TieredCache[TokenIds], prompt: TokenIds) -> dict[str, int]:
    """Tier → tokens a lookup would move out of it."""
    return {load.tier: load.n_bytes for load in cache.loads(prompt, 0.0)}


def test_it_is_a_prefix_cache() -> None:
    cache: PrefixCache[TokenIds] = TieredCache(CHUNKS, [GPU])
    assert cache.lookup(ids(0, 300), 0.0).reason == "first_write"
    assert cache.lookup(ids(0, 200), 0.0).reason == "below_minimum"


# --- what engines do
# -------------------------------------------------------------------------------------------------------------


def test_only_full_chunks_are_kept_unless_asked() -> None:
    full, partial = TieredCache(CHUNKS, [GPU]), TieredCache(TokenChunks(1, saves_partial=True), [GPU])
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
    cache = TieredCache(CHUNKS, [GPU, disk, HOST])
    call(cache, ids(0, 1024))
    call(cache, ids(9000, 1024))
    assert cache.stats()["tokens_disk"] == 1024
    other = TieredCache(CHUNKS, [GPU, disk, HOST])
    other._stores[2].from_rows(cache._stores[2].to_rows())
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


def test_mooncake_frees_a_share_at_once_and_spares_what_was_just_read() -> None:
    store = Tier("store", capacity_tokens=256 * 100, full_at=0.9, freed_share=0.05, lease_seconds=10.0)
    cache = TieredCache(CHUNKS, [store])
    for number in range(90):
        call(cache, ids(1000 * number, 257), at=float(number))
    assert cache.stats()["tokens_store"] == 90 * 256
    call(cache, ids(0, 257), at=95.0)
    call(cache, ids(1000, 257), at=81.0)
    call(cache, ids(900_000, 257), at=96.0)
    assert cache.stats()["tokens_store"] == 85 * 256
    assert cache.lookup(ids(0, 257), 96.0).read_tokens == cache.lookup(ids(1000, 257), 96.0).read_tokens == 256
    assert [cache.lookup(ids(1000 * number, 257), 96.0).read_tokens for number in (2, 7, 8)] == [0, 0, 256]
    lapsed = TieredCache(CHUNKS, [Tier("store", capacity_tokens=256, lease_seconds=10.0)])
    call(lapsed, ids(0, 257), at=0.0)
    call(lapsed, ids(0, 257), at=1.0)
    call(lapsed, ids(500, 257), at=10.9)
    assert lapsed.lookup(ids(0, 257), 10.9).read_tokens == 256  # leased until 11: nothing could go
    call(lapsed, ids(500, 257), at=11.0)
    assert lapsed.lookup(ids(0, 257), 11.0).read_tokens == 0


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
    cache = TieredCache(TokenChunks(1, is_isolating=False), [GPU])
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
    assert (other.stats()["read_bytes_remote"], one.stats()["read_bytes_remote"]) == (512, 0)


def test_two_models_share_no_chunk() -> None:
    remote = TierStore(Tier("remote"))
    one, other = (TieredCache(TokenChunks(1, namespace=name), [GPU], [remote]) for name in (b"a", b"b"))
    call(one, ids(0, 600))
    assert call(other, ids(0, 600)) == 0 and remote.n_tokens == 1024


def test_a_restarted_instance_finds_the_shared_tier_as_it_was() -> None:
    remote = TierStore(Tier("remote"))
    cache = TieredCache(CHUNKS, [GPU], [remote])
    call(cache, ids(0, 600))
    cache.restart()
    assert reads(cache, ids(0, 600)) == {"gpu": 0, "remote": 512} and cache.stats()["requests"] == 0
    cache.reset()
    assert cache.lookup(ids(0, 600), 0.0).read_tokens == 0


# --- bytes and seconds
# -----------------------------------------------------------------------------------------------------------


def test_bytes_and_seconds_are_those_of_the_formula_sheet() -> None:
    """Llama-3.1-8B: 2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072 bytes a token; 4,096 tokens over 25 GB/s."""
    cache = TieredCache(
        TokenChunks(2 * 32 * 8 * 128 * 2), [Tier("gpu", capacity_tokens=4096), Tier("host", bytes_per_second=25e9)]
    )
    call(cache, ids(0, 4097))
    call(cache, ids(50_000, 4097))
    gpu, host = cache.loads(ids(0, 4097), 0.0)
    assert (gpu.n_bytes, host.n_bytes, round(host.seconds, 6)) == (0, 536_870_912, 0.021475)
    call(cache, ids(0, 4097))
    (_, into_gpu), (out_of_host, into_host) = cache.moved()
    assert [load.n_bytes // host.n_bytes for load in (into_gpu, out_of_host, into_host)] == [3, 1, 2]
    assert into_gpu.seconds == 0.0


def test_capacity_may_be_in_bytes() -> None:
    cache = TieredCache(TokenChunks(100), [Tier("gpu", capacity_bytes=256 * 100 * 3)])
    call(cache, ids(0, 2000))
    assert cache.stats()["tokens_gpu"] == 768


# --- re-use at another place
# -----------------------------------------------------------------------------------------------------

BLEND = TokenChunks(1, saves_partial=True, separator=(7, 7), reuse=Reuse(0.15, 256))


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
        cache = TieredCache(TokenChunks(1, separator=(7, 7), reuse=reuse), [Tier("gpu")])
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
    cache = TieredCache(BlockChunks(1), [Tier("gpu", capacity_tokens=blocks and 512 * blocks, policy="tail_first")])
    read = sum(replayed(cache, row) for row in mooncake)
    assert round(read / 512 / sum(map(len, mooncake)), 4) == rate


def replayed(cache: TieredCache[BlockIds], row: Sequence[int]) -> int:
    lease = cache.begin(BlockIds(512, row), 0.0)
    cache.publish(lease, 0.0)
    return lease.hit.read_tokens


def test_one_tier_equals_the_cache_of_runs_request_by_request(mooncake: list[list[int]]) -> None:
    cache = TieredCache(BlockChunks(1), [Tier("gpu", capacity_tokens=512 * 300, policy="tail_first")])
    runs = TraceCache(300)
    for row in mooncake[:600]:
        assert replayed(cache, row) == 512 * runs.admit(row)


def test_two_tiers_that_hold_all_between_them_read_as_one(mooncake: list[list[int]]) -> None:
    """Nothing is lost while the tiers below have room for it, whatever the first one forgets."""
    whole = TieredCache(BlockChunks(1), [Tier("gpu")])
    small = TieredCache(BlockChunks(1), [Tier("gpu", capacity_tokens=512 * 50), Tier("host")])
    for row in mooncake[:300]:
        assert replayed(small, row) == replayed(whole, row)
    assert small.stats()["read_bytes_host"] > 0


# --- snapshots and mistakes
# ------------------------------------------------------------------------------------------------------


def test_a_snapshot_restores_everything_in_another_cache() -> None:
    tiers = [GPU, Tier("host", policy="lfu", lease_seconds=3.0)]
    cache, other = TieredCache(CHUNKS, tiers), TieredCache(CHUNKS, tiers)
    for start in (0, 0, 300, 0, 9000):
        call(cache, ids(start, 600))
    lease = cache.begin(ids(70_000, 300), 4.0)
    other.restore(cache.snapshot())
    assert other.snapshot() == cache.snapshot() and other.stats() == cache.stats()
    assert other.lookup(ids(70_000, 300), 5.0).reason == "not_yet_visible"
    other.publish(lease, 5.0)
    assert other.lookup(ids(70_000, 300), 5.0).read_tokens == 256


@pytest.mark.parametrize(
    "state", [b"{}", b"no", b'{"kind":"tiered_cache","version":1,"tiers":{"gpu":[]},"in_flight":{},"counters":{}}']
)
def test_what_is_no_snapshot_of_these_tiers_changes_nothing(state: bytes) -> None:
    cache = TieredCache(CHUNKS, [GPU, HOST])
    call(cache, ids(0, 300))
    with pytest.raises(StorageError, match="snapshot"):
        cache.restore(state)
    assert cache.lookup(ids(0, 300), 0.0).read_tokens == 256


@pytest.mark.parametrize(
    ("tiers", "told"),
    [
        ([], "one or more"),
        ([GPU, GPU], "name of its own"),
        ([Tier("gpu", write="selective")], "'through'"),
        ([Tier("gpu", policy="random")], "lru, lfu"),
        ([GPU, Tier("host", write="never")], "on_eviction"),  # type: ignore[arg-type]
        ([Tier("gpu", capacity_tokens=0)], "capacity_tokens"),
        ([Tier("gpu", bytes_per_second=-inf)], "bytes_per_second"),
        ([Tier("gpu", freed_share=1.0)], "shares"),
    ],
)
def test_tiers_that_cannot_be_are_refused(tiers: list[Tier], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        TieredCache(CHUNKS, tiers)
