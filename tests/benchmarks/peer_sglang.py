"""The radix tree against SGLang's own, in one run: `CONTEXTKIT_PEERS=SITE_PACKAGES python -m
tests.benchmarks.peer_sglang TRACE`.

SITE_PACKAGES is the folder of an environment apart, of the same Python, made for this and nothing else:

    pip install --no-deps sglang==0.5.23 && pip install torch==2.13.0      # the CPU build will do

TRACE is Mooncake's `synthetic_trace.jsonl.gz`, its 512-token blocks spelt out as tokens. Each tree gets every prompt in
the form it likes and does what a request makes it do: look up all but the last token, lock that path, forget what there
is no room for, insert, unlock. Ours inserts behind the locked path without comparing it again; what that gains is told
by the row that compares it twice. The Python tree is SGLang's file as it was published; what it imports and never calls
here (GPU kernels, metrics, memory pools) is left empty. The Rust core is driven by its binding alone, without the
adapter the engine wraps around it, which favours it. Equal hits of every request and equal totals of what was evicted
are asserted. Time is the processor's, and building the prompts is not in it: once each is built just before it is
served, so that its tokens are in the processor's cache, once all are built beforehand and come from memory."""

from __future__ import annotations

import gc
import gzip
import importlib
import json
import os
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from contextkit.engines.sglang import RadixCache, RadixShape
from contextkit.engines.sglang_tree import Match, RadixTree
from contextkit.engines.token_ids import N_BYTES, TokenIds, view

PEERS = "CONTEXTKIT_PEERS"
PAGE, BLOCK, N_RUNS = 16, 512, 3
POOLS: dict[str, int | None] = {"unlimited": None, "10M tokens": 10_000_000, "3M tokens": 3_000_000}
TARGETS = {"SGLang Python": 5.0, "SGLang Rust": 3.0}
CACHE = "sglang.srt.mem_cache"
EMPTY = {
    "sglang.kernels",
    "sglang.kernels.ops",
    "sglang.kernels.ops.kvcache",
    "sglang.kernels.ops.kvcache.mla_buffer",
    "sglang.srt.disaggregation.kv_events",
    "sglang.srt.environ",
    f"{CACHE}.allocator",
    f"{CACHE}.cpp_utils.native_hash",
    f"{CACHE}.memory_pool",
    "sglang.srt.observability.metrics_collector",
    "sglang.srt.runtime_context",
    "sglang.srt.utils",
    "sglang.srt.utils.common",
}
"""What the tree's files import besides one another: left empty, since a lookup, an insertion or an eviction calls none
of it."""


class Tree(Protocol):
    """A tree in the run."""

    typecode: str

    @property
    def n_evicted(self) -> int:
        """Tokens forgotten so far."""

    def request(self, ids: array[int]) -> int:
        """Serve one prompt; gives the tokens read."""


class Ours:
    """`RadixTree` as `RadixCache` uses it: the insertion goes on behind the path that was looked up and locked."""

    typecode = "i"

    def __init__(self, n_tokens: int | None) -> None:
        self.tree, self.n_tokens, self.n_evicted = RadixTree(PAGE), n_tokens, 0

    def request(self, ids: array[int]) -> int:
        tree, tokens = self.tree, view(ids)
        match = tree.match(tokens, n_tokens=len(ids) - 1)
        tree.lock(match.node)
        short = _short(self.n_tokens, tree.total, len(ids), match.length)
        if short > 0:
            self.n_evicted += sum(map(len, tree.evict(short)))
        self.keep(match, tokens)
        tree.unlock(match.node)
        return match.length

    def keep(self, match: Match, tokens: memoryview) -> None:
        self.tree.extend(match, tokens[match.length * N_BYTES :])


class OursTwice(Ours):
    """`RadixTree`, every insertion compared from the front once more, as the other trees do it."""

    def keep(self, match: Match, tokens: memoryview) -> None:
        self.tree.insert(tokens)


class OursWhole:
    """`RadixCache`: the tree, the bill and the counters of a request that begins, publishes and ends."""

    typecode = "i"

    def __init__(self, n_tokens: int | None) -> None:
        self.cache = RadixCache(RadixShape(n_tokens, PAGE))

    @property
    def n_evicted(self) -> int:
        return self.cache.stats().get("tokens_evicted", 0)

    def request(self, ids: array[int]) -> int:
        lease = self.cache.begin(TokenIds(ids), 0.0)
        self.cache.publish(lease, 0.0)
        self.cache.end(lease, 1, 0.0)
        return lease.hit.read_tokens


class Slots:
    """Stands where the engine's pool of KV slots stands, and counts what comes back."""

    device = "cpu"

    def __init__(self) -> None:
        self.n_freed = 0

    def free_segment(self, slots: Any, *, start_pos: int) -> None:
        self.n_freed += len(slots)


class SglangPython:
    """SGLang's `RadixCache`."""

    typecode = "q"

    def __init__(self, n_tokens: int | None) -> None:
        self.radix, self.given = (
            importlib.import_module(f"{CACHE}.radix_cache"),
            importlib.import_module(f"{CACHE}.base_prefix_cache"),
        )
        self.pool, self.n_tokens, self.slots = Slots(), n_tokens, _slots()
        self.tree = self.radix.RadixCache.create_simulated(mock_allocator=self.pool, page_size=PAGE)

    @property
    def n_evicted(self) -> int:
        return self.pool.n_freed

    def request(self, ids: array[int]) -> int:
        tree, radix, given = self.tree, self.radix, self.given
        match = tree.match_prefix(given.MatchPrefixParams(key=radix.RadixKey(ids, limit=len(ids) - 1)))
        tree.inc_lock_ref(match.last_device_node)
        short = _short(self.n_tokens, tree.evictable_size() + tree.protected_size(), len(ids), match.device_prefix_len)
        if short > 0:
            tree.evict(given.EvictParams(num_tokens=short))
        tree.insert(given.InsertParams(key=radix.RadixKey(ids), value=self.slots[: len(ids)]))
        tree.dec_lock_ref(match.last_device_node)
        return int(match.device_prefix_len)


class SglangRust:
    """SGLang's Rust core, by its binding."""

    typecode = "q"

    def __init__(self, n_tokens: int | None) -> None:
        self.rust, self.n_tokens, self.n_evicted, self.slots = rust_core(), n_tokens, 0, _slots()
        self.tree = self.rust.RustUnifiedTreeCoreBinding(
            self.rust.TreeCoreInitParamsBinding(eviction_policy="lru", page_size=PAGE, device="cpu"), [0]
        )

    def request(self, ids: array[int]) -> int:
        tree, rust = self.tree, self.rust
        match = tree.match_prefix(rust.MatchParamsBinding(key=ids[: (len(ids) - 1) // PAGE * PAGE]))
        node, length = match.last_device_node_id, match.device_prefix_len
        lock = tree.inc_lock_ref(node, [])
        short = _short(self.n_tokens, tree.full_evictable_size() + tree.full_protected_size(), len(ids), length)
        if short > 0:
            self._evict(short)
        whole = len(ids) // PAGE * PAGE
        tree.insert(rust.InsertParamsBinding(key=ids[:whole], value=self.slots[:whole]))
        tree.dec_lock_ref(
            node, rust.DecLockRefParamsBinding(lock.node_id, component_lock_uuids=lock.component_lock_uuids), False
        )
        return int(length)

    def _evict(self, n_tokens: int) -> None:
        """The steps the engine takes, in its order."""
        gone = 0
        self.tree.evict_device_start(0, n_tokens)
        while gone < n_tokens:
            step = self.tree.evict_device_next_node(0, {0: gone})
            gone += step.tracker.get(0, 0)
            if step.node_id is not None:
                gone += self.tree.evict_device_leaf(step.node_id).tracker.get(0, 0)
            elif not step.made_progress:
                break
        self.tree.evict_device_end(0)
        self.n_evicted += gone


def _short(n_tokens: int | None, used: int, n_prompt: int, n_read: int) -> int:
    """Slots that are missing for the prompt's pages."""
    return 0 if n_tokens is None else used + -(-n_prompt // PAGE) * PAGE - n_read - n_tokens


def _slots() -> Any:
    """Numbers of KV slots for the longest prompt; the trees keep copies of parts of it."""
    return importlib.import_module("torch").arange(1 << 18)


class Hollow(ModuleType):
    """A module in which every name is an empty class."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class HollowFinder:
    """Finds the modules of `EMPTY`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name in EMPTY else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Hollow(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def open_peer() -> None:
    """Make SGLang's cache importable without its `__init__`, which wants a GPU's worth of packages.

    Says where there is none.
    """
    site = Path(os.environ.get(PEERS) or "?")
    if not (site / "sglang" / "srt" / "mem_cache" / "radix_cache.py").is_file():
        sys.exit(
            f"no SGLang to compare with: set {PEERS} to a site-packages folder that has it (see tests/benchmarks/peer_sglang.py)"
        )
    sys.path.append(str(site))
    package = ModuleType("sglang")
    package.__path__ = [str(site / "sglang")]
    sys.modules["sglang"] = package
    sys.meta_path.insert(0, HollowFinder())
    importlib.import_module("torch").set_num_threads(1)


def rust_core() -> Any:
    """The extension as it lies in the wheel, without the loader that would build it."""
    name = f"{CACHE}.rust_tree_core.mem_cache"
    if name not in sys.modules:
        folder = Path(sys.modules["sglang"].__path__[0]) / "srt" / "mem_cache" / "rust_tree_core"
        file = next(folder.glob("mem_cache.*.so"), None)
        spec = spec_from_file_location(name, file) if file else None
        if spec is None or spec.loader is None:
            sys.exit(f"no Rust core in {folder}: install the wheel of sglang 0.5.23 for this Python and this system")
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _prompts(rows: list[dict[str, Any]], typecode: str) -> Iterator[array[int]]:
    for row in rows:
        blocks = b"".join(array(typecode, [block]).tobytes() * BLOCK for block in row["hash_ids"])
        yield array(typecode, blocks)[: row["input_length"]]


TREES: dict[str, Callable[[int | None], Tree]] = {
    "ours": Ours,
    "ours, comparing twice": OursTwice,
    "ours, as a cache": OursWhole,
    "SGLang Python": SglangPython,
    "SGLang Rust": SglangRust,
}


def _run(tree: Tree, prompts: Iterable[array[int]]) -> tuple[float, tuple[list[int], int]]:
    """Million tokens a second, the tokens each request read, and how many were forgotten."""
    seconds, n_tokens, hits = 0.0, 0, []
    gc.collect()
    for ids in prompts:
        start = time.process_time()
        hits.append(tree.request(ids))
        seconds += time.process_time() - start
        n_tokens += len(ids)
    return n_tokens / seconds / 1e6, (hits, tree.n_evicted)


def _pool(name: str, fed: str, prompts_of: Callable[[str], Iterable[array[int]]]) -> None:
    """Every tree in turn, `N_RUNS` times over; the fastest run of each counts."""
    speeds: dict[str, float] = {}
    seen: dict[str, tuple[list[int], int]] = {}
    for _ in range(N_RUNS):
        for each, make in TREES.items():
            tree = make(POOLS[name])
            speed, seen[each] = _run(tree, prompts_of(tree.typecode))
            speeds[each] = max(speed, speeds.get(each, 0.0))
    for each, what in seen.items():
        assert what == seen["ours"], f"{name}: {each} reads {sum(what[0])} and forgets {what[1]}"
    hits, n_evicted = seen["ours"]
    print(f"page {PAGE}, {name}, prompts {fed}: every tree reads {sum(hits)} tokens and forgets {n_evicted}")
    for each, speed in speeds.items():
        target = f", target {TARGETS[each]:g}" if each in TARGETS else ""
        print(f"  {each:21} {speed:6.0f} Mtok/s   ours is x{speeds['ours'] / speed:.2f}{target}")


def main(trace: str) -> None:
    """Print the table; says what is missing where there is nothing to compare with."""
    open_peer()
    with gzip.open(trace, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    kept = {typecode: list(_prompts(rows, typecode)) for typecode in "iq"}
    for name in POOLS:
        _pool(name, "just built", lambda typecode: _prompts(rows, typecode))
        _pool(name, "from memory", kept.__getitem__)


if __name__ == "__main__":
    main(
        sys.argv[1]
        if sys.argv[1:]
        else sys.exit("say where the trace is: python -m tests.benchmarks.peer_sglang TRACE")
    )
