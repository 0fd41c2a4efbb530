"""vLLM scenarios on `BlockEngine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contextkit.engines.token_ids import Adapter, Item, TokenIds
from contextkit.engines.vllm_engine import BlockEngine, Lookup, Request, Shape
from contextkit.engines.vllm_groups import Group, Search, find
from contextkit.engines.vllm_keys import rules_of
from tests.conformance.scenario import token_ids

Op = dict[str, Any]
REACH = {
    "full": (),
    "sliding_window": ("window", "sliding_window"),
    "chunked_local": ("chunk", "attention_chunk_size"),
    "mamba": (),
}
"""Kind of group → what its reach may be called in a config."""


def build(config: dict[str, Any], version: str) -> VllmReplay:
    return VllmReplay(config, version)


def _group(row: dict[str, Any], size: int) -> Group:
    reach = next((row[name] for name in REACH[row["type"]] if name in row), 0)
    return Group(row["type"], row.get("block_size", size), reach, row.get("speculative", 0))


def _shape(config: dict[str, Any], version: str) -> Shape:
    rows = config.get("groups", [{"type": "full"}])
    return Shape(
        n_blocks=config.get("num_blocks", 1024),
        groups=tuple(_group(row, config.get("block_size", 16)) for row in rows),
        rules=rules_of(config.get("engine_version", version)),
        is_caching=config.get("enable_caching", True),
        is_eagle=config.get("use_eagle", False),
        retention=config.get("retention_interval"),
        key_size=config.get("hash_block_size"),
        eagle_groups=tuple(number for number, row in enumerate(rows) if row.get("is_eagle")),
    )


def _named(op: Op, *names: str) -> int:
    """A number that goes by several names; 0 where it is not there."""
    return int(next((op[name] for name in names if name in op), 0))


def _prompt(op: Op) -> TokenIds:
    lora = op.get("lora")
    return TokenIds(
        tokens=token_ids(op["tokens"]),
        adapter=Adapter(lora["name"], lora.get("path", "")) if lora else None,
        items=tuple(Item(row["offset"], row["length"], row["hash"]) for row in op.get("mm", [])),
        salt=op.get("cache_salt", op.get("salt")),
        is_read_skipped=op.get("prompt_logprobs") is not None or op.get("skip_reading_prefix_cache", False),
    )


class VllmReplay:
    """One engine and its requests by name."""

    def __init__(self, config: dict[str, Any], version: str) -> None:
        self.engine = BlockEngine(_shape(config, version))
        self.requests: dict[str, Request] = {}
        self.found: dict[str, Lookup] = {}
        self.hidden: list[tuple[int, int]] = []

    def run(self, op: Op) -> Op:
        return _OPS[op["op"]](self, op)

    def ask(self, name: str, op: Op) -> Any:
        return _STATE[name](self)

    def request(self, op: Op) -> Op:
        request = self.requests[op["id"]] = self.engine.request(_prompt(op))
        return {"num_block_hashes": len(request.keys)}

    def lookup(self, op: Op) -> Op:
        found = self.found[op["id"]] = self.engine.lookup(self.requests[op["id"]])
        return {"cached_tokens": found.tokens, "block_ids": list(found.blocks)}

    def allocate(self, op: Op) -> Op:
        found = self.found.pop(op["id"], None) if op.get("use_lookup") else None
        given = self.engine.allocate(
            self.requests[op["id"]],
            op["new_tokens"],
            found,
            n_external=_named(op, "external_tokens", "num_external_computed_tokens"),
            n_drafted=_named(op, "lookahead_tokens", "num_lookahead_tokens"),
            is_caching_delayed=bool(_named(op, "delay_caching", "delay_cache_blocks")),
        )
        if given is None:
            return {"ok": False, "new_block_ids": None, "evicted_blocks": []}
        return {"ok": True, "new_block_ids": list(given.new), "evicted_blocks": given.evicted}

    def advance(self, op: Op) -> Op:
        self.engine.advance(self.requests[op["id"]], op["computed"])
        return {}

    def append(self, op: Op) -> Op:
        request = self.requests[op["id"]]
        self.engine.append(request, token_ids(op["tokens"]))
        return {"num_block_hashes": len(request.keys)}

    def free(self, op: Op) -> Op:
        self.engine.free(self.requests[op["id"]])
        return {}

    def preempt(self, op: Op) -> Op:
        self.engine.preempt(self.requests[op["id"]])
        return {}

    def reset(self, op: Op) -> Op:
        return {"ok": self.engine.reset()}

    def step(self, op: Op) -> Op:
        self.engine.begin_step()
        return {}

    def cache(self, op: Op) -> Op:
        self.engine.cache(self.requests[op["id"]], op["tokens"])
        return {}

    def evict(self, op: Op) -> Op:
        """Hide keys, each named by request, block and group, until `restore`."""
        for name, block, group in op["keys"]:
            keys = self.engine.group_keys(self.requests[name], group)
            if served := self.engine.pool.index.hide(keys, block):
                self.hidden.append((keys[block], served))
        return {}

    def restore(self, op: Op) -> Op:
        for key, block in self.hidden:
            self.engine.pool.index.show(key, block)
        self.hidden.clear()
        return {}

    def evict_blocks(self, op: Op) -> Op:
        self.engine.evict_blocks(op.get("block_ids") or op.get("blocks") or op.get("ids") or [])
        return {}

    def remove_skipped(self, op: Op) -> Op:
        self.engine.remove_skipped(self.requests[op["id"]], _named(op, "processed", "computed"))
        return {}

    def cached_index(self, op: Op) -> Op:
        keys = self.engine.group_keys(self.requests[op["id"]], op.get("group", 0))
        return {"cached": [index for index, block in enumerate(self.engine.pool.index.serving(keys)) if block]}

    def hash_equal(self, op: Op) -> Op:
        """Whether two requests' keys agree: all of them, or those at one block."""
        named = [value for value in op.values() if isinstance(value, str) and value in self.requests]
        one, other = (self.requests[name].keys for name in (op.get("ids") or named))
        block = op.get("block", op.get("index"))
        are_equal = one == other if block is None else one[block] == other[block]
        return {"equal": are_equal, "ok": are_equal, "n_equal": sum(x == y for x, y in zip(one, other, strict=False))}

    def state(self, op: Op) -> Op:
        return {}

    def bitmap(self, op: Op) -> Op:
        """A lookup in a group where exactly these blocks are cached."""
        group = self.engine.shape.groups[0]
        cached = {index: index + 1 for index, is_cached in enumerate(op["cached"]) if is_cached}
        n_tokens = len(op["cached"]) * group.size + op.get("tail_tokens", 0)
        return {"hit_blocks": len(find(group, range(len(op["cached"])), cached, Search(n_tokens, group.size))[0])}

    def usage(self) -> float:
        usable = self.engine.pool.n_blocks - 1
        return 1 - self.engine.pool.queue.n / usable


_OPS: dict[str, Callable[[VllmReplay, Op], Op]] = {
    name: getattr(VllmReplay, name)
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
        "bitmap",
    )
}


class _Figures(dict[str, Any]):
    """Figures of which only the expected ones are compared."""

    def __eq__(self, expected: object) -> bool:
        return isinstance(expected, dict) and all(self.get(name) == value for name, value in expected.items())

    __hash__ = None

    def __ne__(self, expected: object) -> bool:
        return not self == expected


_STATE: dict[str, Callable[[VllmReplay], Any]] = {
    "free_queue": lambda self: list(self.engine.pool.queue),
    "num_free": lambda self: self.engine.pool.queue.n,
    "cached_keys": lambda self: self.engine.pool.index.n,
    "hashed_blocks": lambda self: [block for block, key in enumerate(self.engine.pool.index.keys) if key],
    "ref_cnt": lambda self: _Figures(
        {str(block): self.engine.pool.users(block) for block in range(self.engine.pool.n_blocks)}
    ),
    "usage": lambda self: self.usage(),
    "stats": lambda self: _Figures(self.engine.counters),
    "tables": lambda self: _Figures({name: request.tables for name, request in self.requests.items()}),
    "num_block_hashes": lambda self: {name: len(request.keys) for name, request in self.requests.items()},
}
