"""SGLang scenarios on `RadixTree`.

A scenario's config may have any of `CONFIG`; an operation what `_OPS` names: insert (tokens, extra_key, salt, priority,
inserted_len, as), match (tokens, extra_key, salt, as), lock and unlock (node), evict (num_tokens), reset, state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from contextkit.engines.sglang_tree import Node, RadixTree, Space, rules_of
from contextkit.engines.token_ids import pack
from contextkit.errors import UsageError
from tests.conformance.scenario import token_ids

Op = dict[str, Any]

CONFIG: dict[str, Any] = {
    "page_size": 1,
    "policy": "lru",
    "policy_config": {},
    "disable": False,
    "eagle": False,
    "engine_version": None,
    "core": "python",
}
"""Field of a scenario's config → what holds where it is left out."""
OTHER_NAMES = {
    "page": "page_size",
    "eviction_policy": "policy",
    "eviction_policy_config": "policy_config",
    "is_eagle": "eagle",
    "disabled": "disable",
    "version": "engine_version",
}
"""The engine's own names for some of them."""


def build(config: Op, version: str) -> SglangReplay:
    return SglangReplay(config, version)


def _space(op: Op) -> Space:
    return op.get("extra_key"), op.get("salt", op.get("cache_salt")) or None


def settings(config: Op) -> Op:
    """The whole config; raises `UsageError` for a field there is not."""
    named = {OTHER_NAMES.get(name, name): value for name, value in config.items()}
    if unknown := sorted(named.keys() - CONFIG.keys()):
        raise UsageError(
            f"config has {', '.join(unknown)}, which is none of {', '.join(CONFIG)}: leave it out or teach the adapter"
        )
    return CONFIG | {name: value for name, value in named.items() if value is not None}


def one_of(rows: Mapping[str, Any], name: str, what: str) -> Any:
    """The row; raises `UsageError` where there is none of that name."""
    if name not in rows:
        raise UsageError(f"there is no {what} {name!r}: choose one of {', '.join(map(str, rows)) or 'none so far'}")
    return rows[name]


def needed(op: Op, name: str) -> Any:
    """What the operation has under this name; raises `UsageError` where it has nothing."""
    if name not in op:
        raise UsageError(f"{op['op']} needs {name!r}")
    return op[name]


class SglangReplay:
    """One tree and its nodes by name."""

    def __init__(self, config: Op, version: str) -> None:
        self.config, self.version = config, version
        self.nodes: dict[str, Node] = {}

    @cached_property
    def settings(self) -> Op:
        return settings(self.config)

    @cached_property
    def tree(self) -> RadixTree:
        """Made at the first operation, so that a config no engine takes fails that operation and not the run."""
        now = self.settings
        rules = rules_of(
            now["engine_version"] or self.version, "rust" if now["policy"].lower() == "tlru" else now["core"]
        )
        return RadixTree(now["page_size"], now["policy"], rules, is_eagle=now["eagle"], parameters=now["policy_config"])

    def run(self, op: Op) -> Op:
        answered: Op = one_of(_OPS, op["op"], "operation")(self, op)
        return answered

    def ask(self, name: str, op: Op) -> Any:
        return one_of(_STATE, name, "figure")(self.tree, op["expect"][name])

    def insert(self, op: Op) -> Op:
        tokens = pack(token_ids(needed(op, "tokens")))
        if self.settings["disable"]:
            return {"already_cached": 0}
        found = self.tree.insert(tokens, _space(op), op.get("priority") or 0, op.get("inserted_len") or 0)
        self.nodes[op.get("as", "")] = found.node
        return {"already_cached": found.length}

    def match(self, op: Op) -> Op:
        tokens = pack(token_ids(needed(op, "tokens")))
        found = self.tree.match(b"" if self.settings["disable"] else tokens, _space(op))
        self.nodes[op.get("as", "")] = found.node
        return {"matched": found.length}

    def lock(self, op: Op) -> Op:
        self.tree.lock(one_of(self.nodes, op.get("node", ""), "node"))
        return {}

    def unlock(self, op: Op) -> Op:
        self.tree.unlock(one_of(self.nodes, op.get("node", ""), "node"))
        return {}

    def evict(self, op: Op) -> Op:
        gone = self.tree.evict(needed(op, "num_tokens"))
        return {"evicted_tokens": sum(map(len, gone)), "evicted_slots": [list(slots) for slots in gone]}

    def reset(self, op: Op) -> Op:
        self.tree.reset()
        self.nodes.clear()
        return {}

    def state(self, op: Op) -> Op:
        return {}


_OPS: dict[str, Callable[[SglangReplay, Op], Op]] = {
    name: getattr(SglangReplay, name) for name in ("insert", "match", "lock", "unlock", "evict", "reset", "state")
}


def _leaves(tree: RadixTree, expected: Any) -> int | list[int]:
    """How many leaves may go, or, where a list is expected, how long each is."""
    free = [node for node in tree.nodes() if not node.children and not node.n_locks]
    return sorted(tree.length(node) for node in free) if isinstance(expected, list) else len(free)


_STATE: dict[str, Callable[[RadixTree, Any], Any]] = {
    "total": lambda tree, _: tree.total,
    "evictable": lambda tree, _: tree.evictable,
    "protected": lambda tree, _: tree.protected,
    "tree": lambda tree, _: tree.lengths(),
    "evictable_leaves": _leaves,
}
