"""`BlockCache` against vLLM's own KV-cache manager, in one run: `python -m tests.benchmarks.peer_vllm
SHARED_DATA_FOLDER [SITE_PACKAGES]`.

SITE_PACKAGES (or the variable CONTEXTKIT_PEERS) is where vLLM's sources lie; nothing of it is imported elsewhere, or
kept here:

    pip install --no-deps --target PEERS vllm==0.33.0

Both sides replay the first requests of a Mooncake trace, spelt out in 16-token blocks, one after the other, each on a
fresh pool: hash, look up, allocate, free. Rounds alternate and the fastest counts, in CPU time of this one process,
which neighbours disturb least. Hits must agree request by request, the queue of free blocks block by block.

vLLM's hasher, lookup, block pool, coordinator, managers and `Request` are the installed files, unchanged. What they
import but do not call on this path (configuration, multi-modal inputs, metrics of the GPU, torch where it is not
installed) is hollow. The engine's scheduler, statistics and events are left out, which errs on the careful side. The
keys differ in kind: vLLM's default is SHA-256 over a pickle, ours is Python's own 64-bit hash; so the part without
hashing is printed too."""

from __future__ import annotations

import gc
import gzip
import importlib
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import distributions
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import orjson

from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm import BlockCache
from contextkit.engines.vllm_engine import BlockEngine, Shape

SIZE = 16
POOLS = {"room for all": 300_000, "1M tokens": 62_501}
N_REQUESTS = 250


def mooncake(folder: Path) -> list[list[int]]:
    with gzip.open(folder / "mooncake" / "synthetic_trace.jsonl.gz") as lines:
        return [orjson.loads(line)["hash_ids"] for line in lines]


def spelt_out(trace: list[list[int]]) -> list[list[int]]:
    """512 tokens for every block id, the same for the same id."""
    words: dict[int, list[int]] = {}
    for block in {block for ids in trace for block in ids}:
        draw = random.Random(block)
        words[block] = [draw.randrange(150_000) for _ in range(512)]
    return [[token for block in ids for token in words[block]] for ids in trace]


ROUNDS = 5
TARGET = 3.0
ENTRY = "vllm/v1/core/kv_cache_manager.py"
OWN = (
    "vllm.v1.core",
    "vllm.v1.request",
    "vllm.v1.utils",
    "vllm.v1.kv_cache_interface",
    "vllm.v1.kv_cache_spec_registry",
    "vllm.v1.kv_cache_layout",
    "vllm.v1.hisparse.block_pool",
    "vllm.v1.metrics.stats",
    "vllm.v1.metrics.cache_hit_source",
    "vllm.v1.structured_output.request",
    "vllm.utils.math_utils",
    "vllm.utils.hashing",
    "vllm.envs",
    "vllm.logger",
    "vllm.logging_utils",
)
"""Modules that are vLLM's own, with all below them; and `vllm.utils` itself. The rest of vLLM is hollow."""
ABSENT = ("torch", "cbor2", "uvloop", "msgspec", "zmq", "numpy", "psutil")
"""Third parties that are hollow where nobody installed them."""


class _HollowType(type):
    """A class whose every attribute is another one: enough for annotations, defaults and bases."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _hollow(name)


called: list[str] = []
"""Hollow things that were called; never while the clock runs."""


def _call(self: object, *_: object, **__: object) -> None:
    called.append(type(self).__name__)


def _hollow(name: str) -> type:
    return _HollowType(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls), "__init__": _call})


class _HollowModule(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _hollow(name)
        setattr(self, name, value)
        return value


class _HollowLoader(Loader):
    def __init__(self, site: Path) -> None:
        self._site = site

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _HollowModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = [str(self._site.joinpath(*module.__name__.split(".")))]


@dataclass(frozen=True)
class _Hollow(MetaPathFinder):
    """Finds a hollow module wherever `is_asked` says so."""

    site: Path
    is_asked: Callable[[str], bool]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, _HollowLoader(self.site), is_package=True) if self.is_asked(fullname) else None


def _is_own(name: str) -> bool:
    return name == "vllm.utils" or any(name == own or name.startswith(f"{own}.") for own in OWN)


def load(site: Path) -> SimpleNamespace:
    """vLLM's modules from `site`, which comes last on the path, so that what we have ourselves stays ours."""
    sys.path.append(str(site))
    sys.meta_path.insert(0, _Hollow(site, lambda name: name.split(".")[0] == "vllm" and not _is_own(name)))
    sys.meta_path.append(_Hollow(site, lambda name: name.split(".")[0] in ABSENT))
    names = (
        "v1.core.kv_cache_manager",
        "v1.core.kv_cache_utils",
        "v1.kv_cache_interface",
        "v1.request",
        "utils.hashing",
    )
    found = {name.split(".")[-1]: importlib.import_module(f"vllm.{name}") for name in names}
    for module in found.values():
        assert module.__file__ and Path(module.__file__).is_relative_to(site), module
    return SimpleNamespace(**found)


@dataclass(frozen=True)
class Side:
    """One of the two, on a fresh pool."""

    run: Callable[[list[int]], int]
    """A whole request; gives the tokens hit."""
    hashes: Callable[[list[int]], object]
    """Its keys only."""
    free_queue: Callable[[], list[int]]
    """The free blocks, the next to be taken first."""


def theirs(vllm: SimpleNamespace, n_blocks: int) -> Side:
    interface, sha256 = vllm.kv_cache_interface, vllm.hashing.sha256
    spec = interface.FullAttentionSpec(
        block_size=SIZE, num_kv_heads=8, head_size=128, dtype=importlib.import_module("torch").bfloat16
    )
    config = interface.KVCacheConfig(n_blocks, [], [interface.KVCacheGroupSpec(["layer"], spec)])
    manager = vllm.kv_cache_manager.KVCacheManager(config, 10_000_000, scheduler_block_size=SIZE, hash_block_size=SIZE)
    vllm.kv_cache_utils.init_none_hash(sha256)
    hasher, numbers = vllm.kv_cache_utils.get_request_block_hasher(SIZE, sha256), count()
    sampling = SimpleNamespace(max_tokens=1, extra_args=None, structured_outputs=None, skip_reading_prefix_cache=None)

    def request(tokens: list[int]) -> Any:
        return vllm.request.Request(str(next(numbers)), tokens, sampling, None, block_hasher=hasher)

    def run(tokens: list[int]) -> int:
        asked = request(tokens)
        blocks, n_hit, _ = manager.get_computed_blocks(asked)
        assert manager.allocate_slots(asked, len(tokens) - n_hit, n_hit, blocks) is not None
        manager.free(asked)
        return int(n_hit)

    return Side(
        run, request, lambda: [block.block_id for block in manager.block_pool.free_block_queue.get_all_free_blocks()]
    )


def ours(n_blocks: int) -> Side:
    cache, engine = BlockCache(Shape(n_blocks)), BlockEngine(Shape(n_blocks))

    def run(tokens: list[int]) -> int:
        lease = cache.begin(TokenIds(tokens), 0.0)
        cache.end(lease, 0, 0.0)
        return lease.hit.read_tokens

    return Side(
        run,
        lambda tokens: engine.request(TokenIds(tokens)),
        lambda: list(cache._engine.pool.queue),
    )


@dataclass(frozen=True)
class Round:
    """One replay of the trace on one side."""

    seconds: float
    """CPU time of all of it."""
    hashing: float
    """For the keys alone, measured apart."""
    hits: list[int]
    """Tokens hit by each request."""
    free_queue: list[int]
    """How it ended."""


def clocked(step: Callable[[list[int]], Any], prompts: list[list[int]]) -> tuple[float, list[Any]]:
    """With what is there already frozen, as the engine does after its start: the collector shall not walk the pools."""
    called.clear()
    gc.collect()
    gc.freeze()
    start = time.process_time()
    results = [step(tokens) for tokens in prompts]
    seconds = time.process_time() - start
    gc.unfreeze()
    assert not called, f"hollow, but called: {set(called)}"
    return seconds, results


def replay(side: Side, prompts: list[list[int]]) -> Round:
    hashing, _ = clocked(lambda tokens: side.hashes(tokens) and None, prompts)
    seconds, hits = clocked(side.run, prompts)
    return Round(seconds, hashing, hits, side.free_queue())


def compare(vllm: SimpleNamespace, name: str, n_blocks: int, prompts: list[list[int]]) -> float:
    """Prints both speeds; gives how many times ours is theirs."""
    makers: tuple[Callable[[], Side], ...] = (lambda: theirs(vllm, n_blocks), lambda: ours(n_blocks))
    rounds = [[replay(make(), prompts) for make in makers] for _ in range(ROUNDS)]
    assert all(their.hits == our.hits for their, our in rounds), "hits differ"
    assert all(their.free_queue == our.free_queue for their, our in rounds), "free queues differ"
    n, hits = sum(-(-len(tokens) // SIZE) for tokens in prompts), sum(rounds[0][0].hits)
    their_time, our_time = (min(one.seconds for one in side) for side in zip(*rounds, strict=True))
    their_keys, our_keys = (min(one.hashing for one in side) for side in zip(*rounds, strict=True))
    ratio, rest = their_time / our_time, (their_time - their_keys) / (our_time - our_keys)
    print(f"  {name}: {n_blocks:,} blocks in the pool, hit {hits / SIZE / n:.3f}; hits and free queue equal")
    print(
        f"    whole path   block_cache {n / our_time:11,.0f} blocks/s   vLLM {n / their_time:9,.0f}   ratio {ratio:.2f}"
    )
    print(
        f"    keys alone   block_cache {n / our_keys:11,.0f} blocks/s   vLLM {n / their_keys:9,.0f}   ratio {their_keys / our_keys:.2f}"
    )
    print(
        f"    all but keys block_cache {n / (our_time - our_keys):11,.0f} blocks/s   vLLM {n / (their_time - their_keys):9,.0f}",
        end="",
    )
    print(f"   ratio {rest:.2f} (by difference)")
    return float(ratio)


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(
            "say where the shared data lie: python -m tests.benchmarks.peer_vllm SHARED_DATA_FOLDER [SITE_PACKAGES]"
        )
    given = arguments[1] if len(arguments) > 1 else os.environ.get("CONTEXTKIT_PEERS", "")
    site = Path(given).resolve()
    if not given or not (site / ENTRY).is_file():
        where = f"no {ENTRY} in {given}" if given else "CONTEXTKIT_PEERS is not set"
        print(f"skipped, {where}: pip install --no-deps --target PEERS vllm==0.33.0, and pass PEERS")
        return
    version = next((found.version for found in distributions(name="vllm", path=[str(site)])), "of unknown version")
    vllm, prompts = load(site), spelt_out(mooncake(Path(arguments[0]))[:N_REQUESTS])
    python = sys.version.split()[0]
    print(
        f"vLLM {version}, Python {python}, {len(prompts)} requests, sha256, best of {ROUNDS} rounds in turn, CPU time"
    )
    ratios = [compare(vllm, name, n_blocks, prompts) for name, n_blocks in POOLS.items()]
    print(f"lowest ratio {min(ratios):.2f}, target {TARGET:.0f}: {'met' if min(ratios) >= TARGET else 'MISSED'}")


if __name__ == "__main__":
    main()
