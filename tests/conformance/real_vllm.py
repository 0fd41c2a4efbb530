"""vLLM's own KV-cache manager behind the operations of a scenario: what the engine answers is what a scenario expects.

The manager, its pool, coordinator and `Request` are the installed files, unchanged, loaded as the peer benchmark loads
them. A lookup does what the scheduler does around it: it keeps the junction it was told, and records the statistics.
"""

from __future__ import annotations

import ast
import bisect
import importlib
from collections.abc import Callable
from math import gcd, lcm
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.peer_vllm import load
from tests.conformance.scenario import token_ids

Op = dict[str, Any]
_DIMENSIONS = {"num_kv_heads": 1, "head_size": 1}
_COUNTERS = ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits")


def load_with_images(site: Path) -> SimpleNamespace:
    """vLLM's modules, and the one function its hasher calls of a module that wants torch: cut out of its file, as it
    stands there."""
    vllm = load(site)
    tree = ast.parse((site / "vllm" / "multimodal" / "utils.py").read_text(encoding="utf-8"))
    tree.body = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "get_mm_features_in_window"
    ]
    names: dict[str, Any] = {"bisect": bisect}
    exec(compile(tree, "vllm/multimodal/utils.py", "exec"), names)  # the annotations stay unread, as in this file
    vllm.kv_cache_utils.get_mm_features_in_window = names["get_mm_features_in_window"]
    return vllm


def _spec(vllm: SimpleNamespace, row: dict[str, Any], size: int) -> Any:
    interface, dtype, size = (
        vllm.kv_cache_interface,
        importlib.import_module("torch").float32,
        row.get("block_size", size),
    )
    makers: dict[str, Callable[[], Any]] = {
        "full": lambda: interface.FullAttentionSpec(block_size=size, dtype=dtype, **_DIMENSIONS),
        "sliding_window": lambda: interface.SlidingWindowSpec(
            block_size=size, dtype=dtype, sliding_window=row["window"], **_DIMENSIONS
        ),
        "chunked_local": lambda: interface.ChunkedLocalAttentionSpec(
            block_size=size, dtype=dtype, attention_chunk_size=row["chunk"], **_DIMENSIONS
        ),
        "mamba": lambda: interface.MambaSpec(
            block_size=size,
            shapes=((1, 1),),
            dtypes=(dtype,),
            mamba_cache_mode="align",
            num_speculative_blocks=row.get("speculative", 0),
        ),
    }
    return makers[row["type"]]()


class _Seen:
    """A metrics collector that notes which blocks lose their key to a new use."""

    def __init__(self) -> None:
        self.evicted: list[int] = []

    def on_block_evicted(self, block: Any) -> None:
        if block.block_hash is not None:
            self.evicted.append(block.block_id)

    def on_block_allocated(self, block: Any) -> None: ...

    def on_block_accessed(self, block: Any) -> None: ...

    def reset(self) -> None: ...


class RealVllm:
    """One real manager and its requests by name; satisfies `Replayed`."""

    def __init__(self, vllm: SimpleNamespace, config: dict[str, Any]) -> None:
        self.vllm, self.seen = vllm, _Seen()
        interface, rows = vllm.kv_cache_interface, config.get("groups", [{"type": "full"}])
        specs = [_spec(vllm, row, config["block_size"]) for row in rows]
        groups = [
            interface.KVCacheGroupSpec([f"layer{number}"], spec, is_eagle_group=row.get("is_eagle", False))
            for number, (spec, row) in enumerate(zip(specs, rows, strict=True))
        ]
        retention = config.get("retention_interval")
        cache = interface.KVCacheConfig(
            config.get("num_blocks", 1024), [], groups, prefix_cache_retention_interval=retention
        )
        self.hash_size = config.get("hash_block_size", gcd(*(spec.block_size for spec in specs)))
        self.manager = vllm.kv_cache_manager.KVCacheManager(
            cache,
            max_model_len=1_000_000,
            scheduler_block_size=lcm(*(spec.block_size for spec in specs)),
            hash_block_size=self.hash_size,
            enable_caching=config.get("enable_caching", True),
            use_eagle=config.get("use_eagle", False),
            log_stats=True,
            metrics_collector=self.seen,
        )
        vllm.kv_cache_utils.init_none_hash(vllm.hashing.sha256)
        self.hasher = vllm.kv_cache_utils.get_request_block_hasher(self.hash_size, vllm.hashing.sha256)
        self.requests: dict[str, Any] = {}
        self.found: dict[str, tuple[Any, int]] = {}
        self.hidden: dict[Any, Any] = {}

    def run(self, op: Op) -> Op:
        return _OPS[op["op"]](self, op)

    def ask(self, name: str, op: Op) -> Any:
        return _STATE[name](self)

    def request(self, op: Op) -> Op:
        is_skipped = True if op.get("prompt_logprobs") is not None or op.get("skip_reading_prefix_cache") else None
        sampling = SimpleNamespace(
            max_tokens=1, extra_args=None, structured_outputs=None, skip_reading_prefix_cache=is_skipped
        )
        lora = op.get("lora")
        request = self.requests[op["id"]] = self.vllm.request.Request(
            op["id"],
            token_ids(op["tokens"]),
            sampling,
            None,
            mm_features=[
                SimpleNamespace(
                    identifier=row["hash"], mm_position=SimpleNamespace(offset=row["offset"], length=row["length"])
                )
                for row in op.get("mm", [])
            ],
            lora_request=SimpleNamespace(lora_name=lora["name"], lora_path=lora.get("path", ""), adapter_id=0)
            if lora
            else None,
            cache_salt=op.get("cache_salt"),
            block_hasher=self.hasher if self.manager.enable_caching else None,
        )
        return {"num_block_hashes": len(request.block_hashes)}

    def lookup(self, op: Op) -> Op:
        request = self.requests[op["id"]]
        blocks, n, request.shared_prefix_boundary = self.manager.get_computed_blocks(request)
        self.manager.record_prefix_cache_stats(request, n)
        self.found[op["id"]] = blocks, n
        return {"cached_tokens": n, "block_ids": _ids(blocks.blocks)}

    def allocate(self, op: Op) -> Op:
        request = self.requests[op["id"]]
        blocks, n = self.found.pop(op["id"], (None, 0)) if op.get("use_lookup") else (None, 0)
        self.seen.evicted.clear()
        given = self.manager.allocate_slots(
            request,
            op["new_tokens"],
            n,
            blocks,
            num_lookahead_tokens=op.get("lookahead_tokens", 0),
            num_external_computed_tokens=op.get("external_tokens", 0),
            delay_cache_blocks=op.get("delay_caching", False),
        )
        if given is None:
            return {"ok": False, "new_block_ids": None, "evicted_blocks": []}
        request.status = self.vllm.request.RequestStatus.RUNNING
        return {"ok": True, "new_block_ids": _ids(given.blocks), "evicted_blocks": self.seen.evicted[:]}

    def advance(self, op: Op) -> Op:
        self.requests[op["id"]].num_computed_tokens = op["computed"]
        return {}

    def append(self, op: Op) -> Op:
        request = self.requests[op["id"]]
        request.append_output_token_ids(token_ids(op["tokens"]))
        return {"num_block_hashes": len(request.block_hashes)}

    def free(self, op: Op) -> Op:
        self.manager.free(self.requests[op["id"]])
        return {}

    def preempt(self, op: Op) -> Op:
        request = self.requests[op["id"]]
        self.manager.free(request)
        request.num_computed_tokens, request.status = 0, self.vllm.request.RequestStatus.PREEMPTED
        request.num_preemptions += 1
        return {}

    def reset(self, op: Op) -> Op:
        return {"ok": self.manager.reset_prefix_cache()}

    def step(self, op: Op) -> Op:
        """The scheduler's round: copies of the last one have run, their ends are given back."""
        _, retained = self.manager.take_kv_cache_block_copies()
        self.manager.block_pool.free_blocks(retained)
        self.manager.new_step_starts()
        return {}

    def cache(self, op: Op) -> Op:
        self.manager.cache_blocks(self.requests[op["id"]], op["tokens"])
        return {}

    def keys(self, name: str, group: int) -> list[Any]:
        utils, size = self.vllm.kv_cache_utils, self.manager.coordinator.single_type_managers[group].block_size
        hashes = utils.resolve_block_hashes(self.requests[name].block_hashes, self.hash_size, size)
        return [utils.make_block_hash_with_group_id(key, group) for key in hashes]

    def evict(self, op: Op) -> Op:
        cached = self.manager.block_pool.cached_block_hash_to_block._cache
        for name, block, group in op["keys"]:
            key = self.keys(name, group)[block]
            if key in cached:
                self.hidden[key] = cached.pop(key)
        return {}

    def restore(self, op: Op) -> Op:
        self.manager.block_pool.cached_block_hash_to_block._cache.update(self.hidden)
        self.hidden.clear()
        return {}

    def evict_blocks(self, op: Op) -> Op:
        for block in op["block_ids"]:
            self.manager.evict_blocks({block})
        return {}

    def remove_skipped(self, op: Op) -> Op:
        self.manager.remove_skipped_blocks(op["id"], op["processed"])
        return {}

    def cached_index(self, op: Op) -> Op:
        cached = self.manager.block_pool.cached_block_hash_to_block._cache
        return {"cached": [index for index, key in enumerate(self.keys(op["id"], op.get("group", 0))) if key in cached]}

    def hash_equal(self, op: Op) -> Op:
        one, other = (self.requests[name].block_hashes for name in op["ids"])
        return {"equal": one == other, "n_equal": sum(x == y for x, y in zip(one, other, strict=False))}

    def state(self, op: Op) -> Op:
        return {}


def _ids(groups: Any) -> list[list[int]]:
    return [[block.block_id for block in blocks] for blocks in groups]


_OPS: dict[str, Callable[[RealVllm, Op], Op]] = {
    name: getattr(RealVllm, name)
    for name in (
        "request",
        "lookup",
        "allocate",
        "advance",
        "append",
        "free",
        "preempt",
        "reset",
        "step",
        "cache",
        "evict",
        "restore",
        "evict_blocks",
        "remove_skipped",
        "cached_index",
        "hash_equal",
        "state",
    )
}

_STATE: dict[str, Callable[[RealVllm], Any]] = {
    "free_queue": lambda self: _ids([self.manager.block_pool.free_block_queue.get_all_free_blocks()])[0],
    "num_free": lambda self: self.manager.block_pool.get_num_free_blocks(),
    "cached_keys": lambda self: len(self.manager.block_pool.cached_block_hash_to_block),
    "hashed_blocks": lambda self: [
        block.block_id for block in self.manager.block_pool.blocks if block.block_hash is not None
    ],
    "ref_cnt": lambda self: {
        str(block.block_id): block.ref_cnt for block in self.manager.block_pool.blocks if block.block_id
    },
    "usage": lambda self: self.manager.usage,
    "stats": lambda self: {name: getattr(self.manager.prefix_cache_stats, name) for name in _COUNTERS},
    "tables": lambda self: {name: list(self.manager.get_block_ids(name)) for name in self.requests},
}
"""What may be asked of the state; all of it is compared after each operation."""
STATE = tuple(_STATE)
