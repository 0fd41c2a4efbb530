"""SGLang scenarios on `RadixTree`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contextkit.cache.packed import pack
from contextkit.cache.radix.policies import Node, Space, rules_of
from contextkit.cache.radix.tree import RadixTree
from tests.conformance.scenario import token_ids

Op = dict[str, Any]


def build(config: Op, version: str) -> SglangReplay:
    return SglangReplay(config, config.get("engine_version", version))


def _space(op: Op) -> Space:
    return op.get("extra_key"), op.get("salt", op.get("cache_salt"))


class SglangReplay:
    """One tree and its nodes by name."""

    def __init__(self, config: Op, version: str) -> None:
        self.is_disabled = config.get("disable", False)
        rules, is_eagle = rules_of(version), config.get("eagle", False)
        self.tree = RadixTree(config.get("page_size", 1), config.get("policy", "lru"), rules, is_eagle=is_eagle)
        self.nodes: dict[str, Node] = {}

    def run(self, op: Op) -> Op:
        return _OPS[op["op"]](self, op)

    def ask(self, name: str, op: Op) -> Any:
        return _STATE[name](self.tree)

    def insert(self, op: Op) -> Op:
        if self.is_disabled:
            return {"already_cached": 0}
        tokens = pack(token_ids(op["tokens"]))
        return {"already_cached": self.tree.insert(tokens, _space(op), op.get("priority", 0), op.get("inserted_len", 0)).length}

    def match(self, op: Op) -> Op:
        found = self.tree.match(b"" if self.is_disabled else pack(token_ids(op["tokens"])), _space(op))
        self.nodes[op.get("as", "")] = found.node
        return {"matched": found.length}

    def lock(self, op: Op) -> Op:
        self.tree.lock(self.nodes[op["node"]])
        return {}

    def unlock(self, op: Op) -> Op:
        self.tree.unlock(self.nodes[op["node"]])
        return {}

    def evict(self, op: Op) -> Op:
        gone = self.tree.evict(op["num_tokens"])
        return {"evicted_tokens": sum(map(len, gone)), "evicted_slots": [list(slots) for slots in gone]}

    def reset(self, op: Op) -> Op:
        self.tree.reset()
        return {}

    def state(self, op: Op) -> Op:
        return {}


_OPS: dict[str, Callable[[SglangReplay, Op], Op]] = {
    name: getattr(SglangReplay, name) for name in ("insert", "match", "lock", "unlock", "evict", "reset", "state")
}

_STATE: dict[str, Callable[[RadixTree], Any]] = {
    "total": lambda tree: tree.total,
    "evictable": lambda tree: tree.evictable,
    "protected": lambda tree: tree.protected,
    "tree": lambda tree: tree.lengths(),
    "evictable_leaves": lambda tree: sum(not node.children and not node.n_locks for node in tree.nodes()),
}
