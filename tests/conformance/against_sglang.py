"""The radix tree against SGLang's own two, one random stream of operations after another.

    CONTEXTKIT_PEERS=SITE_PACKAGES python -m tests.conformance.against_sglang --streams 2000 [--core rust]

SITE_PACKAGES is made as `tests/benchmarks/peer_sglang.py` says. Every stream is a conformance scenario: one config
(page, policy, its parameters, EAGLE's pairs, switched off), and insertions, lookups, locks and evictions on prompts
that share beginnings, in several namespaces. Both trees are asked for everything after every operation: what was there
already, what matched, which KV slots went and in what order, total, evictable and protected tokens, evictable leaves
and the shape of the tree. At the end all locks are given back and leaves go one by one to the last, so that the whole
order of eviction is compared. A stream on which the two differ is printed as a scenario whose `expect` is what SGLang
said, cut after the first difference."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import random
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.peer_sglang import CACHE, open_peer, rust_core
from tests.conformance.scenario import token_ids
from tests.conformance.sglang import SglangReplay, settings

Op = dict[str, Any]
VERSION = "0.5.23"
_BOTH: dict[str, dict[str, tuple[int, ...]]] = {
    "lru": {},
    "lfu": {},
    "fifo": {},
    "mru": {},
    "filo": {},
    "priority": {},
    "slru": {"protected_threshold": (1, 2, 3)},
}
POLICIES = {"python": _BOTH, "rust": _BOTH | {"tlru": {"threshold": (4, 8, 16, 40), "next_prompt_estimate": (0, 2, 4)}}}
"""Core → its policies, their parameters, and values of them to try."""
PAGES = (1, 2, 4, 16)
SPACES: list[Op] = [{}] * 6 + [
    {"extra_key": "k"},
    {"extra_key": "l"},
    {"extra_key": ""},
    {"salt": "a"},
    {"salt": ""},
    {"extra_key": "k", "salt": "a"},
]
"""What a prompt's namespace may be; most have none."""


def _paths(tree: Any) -> list[list[int]]:
    """The engine's tree as sorted paths of node lengths, one for each node."""
    paths: list[list[int]] = []
    waiting: list[tuple[Any, list[int]]] = [(tree.root_node, [])]
    while waiting:
        node, path = waiting.pop()
        for child in node.children.values():
            paths.append([*path, len(child.key)])
            waiting.append((child, paths[-1]))
    return sorted(paths)


FIGURES: dict[str, Callable[[Any], Any]] = {
    "total": lambda tree: tree.total_size(),
    "evictable": lambda tree: tree.evictable_size(),
    "protected": lambda tree: tree.protected_size(),
    "tree": _paths,
    "evictable_leaves": lambda tree: len(tree.evictable_leaves),
}
"""Figure of a scenario → how the engine's tree says it."""


class Slots:
    """Stands where the engine's pool of KV slots stands, and keeps what comes back, in order."""

    device = "cpu"

    def __init__(self) -> None:
        self.freed: list[list[int]] = []

    def free_segment(self, slots: Any, *, start_pos: int) -> None:
        self.freed.append(slots.tolist())


class Engine:
    """SGLang's `RadixCache`, on a clock that ticks whenever it is read."""

    def __init__(self, config: Op) -> None:
        self.radix = importlib.import_module(f"{CACHE}.radix_cache")
        self.given = importlib.import_module(f"{CACHE}.base_prefix_cache")
        ticks = itertools.count(1)
        vars(self.radix)["time"] = SimpleNamespace(monotonic=lambda: next(ticks), perf_counter=time.perf_counter)
        self.pool, self.n_slots = Slots(), 0
        self.nodes: dict[str, Any] = {}
        now = settings(config)
        params = importlib.import_module(f"{CACHE}.cache_init_params").CacheInitParams(
            disable=now["disable"],
            req_to_token_pool=None,
            token_to_kv_pool_allocator=self.pool,
            page_size=now["page_size"],
            is_eagle=now["eagle"],
            eviction_policy=now["policy"],
            eviction_policy_config=now["policy_config"],
        )
        self.tree = self.radix.RadixCache(params)

    def run(self, op: Op) -> Op:
        """What the engine answers, and how it stands then."""
        answered: Op = getattr(self, op["op"])(op)
        return answered | {name: figure(self.tree) for name, figure in FIGURES.items()}

    def insert(self, op: Op) -> Op:
        key = self._key(op)
        slots = importlib.import_module("torch").arange(self.n_slots, self.n_slots + len(key.token_ids))
        self.n_slots += len(key.token_ids)
        given = {"priority": op.get("priority"), "inserted_len": op.get("inserted_len", 0)}
        return {"already_cached": self.tree.insert(self.given.InsertParams(key=key, value=slots, **given)).prefix_len}

    def match(self, op: Op) -> Op:
        found = self.tree.match_prefix(self.given.MatchPrefixParams(key=self._key(op)))
        self.nodes[op["as"]] = found.last_device_node
        return {"matched": found.device_prefix_len}

    def lock(self, op: Op) -> Op:
        self.tree.inc_lock_ref(self.nodes[op["node"]])
        return {}

    def unlock(self, op: Op) -> Op:
        self.tree.dec_lock_ref(self.nodes[op["node"]])
        return {}

    def evict(self, op: Op) -> Op:
        self.pool.freed.clear()
        n_tokens = self.tree.evict(self.given.EvictParams(num_tokens=op["num_tokens"])).num_tokens_evicted
        return {"evicted_tokens": n_tokens, "evicted_slots": list(self.pool.freed)}

    def reset(self, op: Op) -> Op:
        self.tree.reset()
        return {}

    def _key(self, op: Op) -> Any:
        tokens = array("q", token_ids(op["tokens"]))
        return self.radix.RadixKey(tokens, op.get("extra_key"), cache_salt=op.get("salt"))


class RustEngine:
    """SGLang's Rust core, by its binding, in the steps the engine takes; its tree's shape and leaves it does not tell."""

    def __init__(self, config: Op) -> None:
        now, self.rust = settings(config), rust_core()
        tuned = now["policy_config"]
        budget = max(0, tuned.get("threshold", 0) - tuned.get("next_prompt_estimate", 0))
        params = self.rust.TreeCoreInitParamsBinding(
            eviction_policy=now["policy"],
            page_size=now["page_size"],
            device="cpu",
            tlru_tail_budget=budget,
            slru_protected_threshold=tuned.get("protected_threshold", 2),
        )
        self.page, self.n_extra = now["page_size"], int(now["eagle"])
        core = self.rust.RustBigramUnifiedTreeCoreBinding if now["eagle"] else self.rust.RustUnifiedTreeCoreBinding
        self.tree, self.n_slots = core(params, [0]), 0
        self.nodes: dict[str, Any] = {}
        self.locks: dict[str, list[Any]] = {}

    def run(self, op: Op) -> Op:
        """What the core answers, and how it stands then."""
        answered: Op = getattr(self, op["op"])(op)
        return answered | {"evictable": self.tree.full_evictable_size(), "protected": self.tree.full_protected_size()}

    def insert(self, op: Op) -> Op:
        given, n_units = self._given(op)
        slots = importlib.import_module("torch").arange(self.n_slots, self.n_slots + n_units)
        self.n_slots += len(op["tokens"])
        if not n_units:
            return {"already_cached": 0}
        rest = {"priority": op.get("priority", 0), "inserted_len": op.get("inserted_len", 0)}
        return {
            "already_cached": self.tree.insert(self.rust.InsertParamsBinding(value=slots, **given, **rest)).prefix_len
        }

    def match(self, op: Op) -> Op:
        given, n_units = self._given(op)
        found = self.tree.match_prefix(self.rust.MatchParamsBinding(**given)) if n_units else None
        self.nodes[op["as"]] = found and found.last_device_node_id
        return {"matched": found.device_prefix_len if found else 0}

    def lock(self, op: Op) -> Op:
        if (node := self.nodes[op["node"]]) is not None:
            self.locks.setdefault(op["node"], []).append(self.tree.inc_lock_ref(node, []))
        return {}

    def unlock(self, op: Op) -> Op:
        if (node := self.nodes[op["node"]]) is not None:
            lock = self.locks[op["node"]].pop()
            params = self.rust.DecLockRefParamsBinding(lock.node_id, component_lock_uuids=lock.component_lock_uuids)
            self.tree.dec_lock_ref(node, params, False)
        return {}

    def evict(self, op: Op) -> Op:
        n_gone, slots = 0, []
        self.tree.evict_device_start(0, op["num_tokens"])
        while n_gone < op["num_tokens"]:
            step = self.tree.evict_device_next_node(0, {0: n_gone})
            if step.node_id is None:
                break
            leaf = self.tree.evict_device_leaf(step.node_id)
            n_gone += leaf.tracker.get(0, 0)
            slots += [part.tolist() for parts in leaf.new_device_frees.values() for part in parts]
        self.tree.evict_device_end(0)
        return {"evicted_tokens": n_gone, "evicted_slots": slots}

    def reset(self, op: Op) -> Op:
        self.tree.reset()
        self.locks.clear()
        return {}

    def _given(self, op: Op) -> tuple[Op, int]:
        """The key in whole pages with its namespace, and how many slots it takes."""
        n_units = max(0, len(op["tokens"]) - self.n_extra) // self.page * self.page
        key = array("q", op["tokens"][: n_units + self.n_extra])
        return {"key": key, "extra_key": op.get("extra_key"), "cache_salt": op.get("salt") or None}, n_units


CORES: dict[str, Callable[[Op], Any]] = {"python": Engine, "rust": RustEngine}


class Stream:
    """A random config and random operations, each drawn knowing which locks are held."""

    def __init__(self, rng: random.Random, policy: str, core: str) -> None:
        self.rng = rng
        page = rng.choice(PAGES)
        self.config: Op = {"policy": policy, "page_size": page, "eagle": rng.random() < 0.15, "core": core}
        self.config |= {"disable": core == "python" and rng.random() < 0.02}
        if parameters := POLICIES[core][policy]:
            self.config["policy_config"] = {name: rng.choice(values) for name, values in parameters.items()}
        self.unit = page if rng.random() < 0.8 else max(1, page // 2)
        self.trunks = [rng.choices(range(3), k=8) for _ in range(2)]
        self.locked: list[str] = []
        self.n_named = 0

    def ops(self) -> Iterator[Op]:
        """The stream, then all locks given back and one leaf forgotten after the other."""
        for _ in range(self.rng.randint(10, 60)):
            yield from self.rng.choices(*zip(*DRAWS, strict=True))[0](self)
        yield from ({"op": "unlock", "node": name} for name in self.locked)
        yield from ({"op": "evict", "num_tokens": 1} for _ in range(80))

    def prompt(self) -> Op:
        """Beginnings are shared: a run of `unit` equal tokens is one letter of a trunk."""
        letters = self.rng.choice(self.trunks)[: self.rng.randint(0, 8)] + self.rng.choices(
            range(3), k=self.rng.randint(0, 2)
        )
        tokens = [letter for letter in letters for _ in range(self.unit)] + self.rng.choices(
            range(3), k=self.rng.randint(0, 2)
        )
        return {"tokens": tokens} | self.rng.choice(SPACES)

    def insert(self) -> Iterator[Op]:
        op = {"op": "insert", **self.prompt()}
        yield op | self.rng.choice(
            [
                {},
                {},
                {"priority": self.rng.randint(-1, 3)},
                {"inserted_len": self.rng.randint(0, len(op["tokens"]) + 2)},
            ]
        )

    def match(self) -> Iterator[Op]:
        self.n_named += 1
        yield {"op": "match", **self.prompt(), "as": f"n{self.n_named}"}

    def lock(self) -> Iterator[Op]:
        """What a lookup just found, or once more what is locked already."""
        if not self.locked or self.rng.random() < 0.7:
            yield from self.match()
            self.locked.append(f"n{self.n_named}")
        else:
            self.locked.append(self.rng.choice(self.locked))
        yield {"op": "lock", "node": self.locked[-1]}

    def unlock(self) -> Iterator[Op]:
        if self.locked:
            yield {"op": "unlock", "node": self.locked.pop(self.rng.randrange(len(self.locked)))}

    def evict(self) -> Iterator[Op]:
        yield {"op": "evict", "num_tokens": self.rng.choice([0, 1, self.rng.randint(1, 4 * self.unit), 10_000])}

    def reset(self) -> Iterator[Op]:
        self.locked.clear()
        yield {"op": "reset"}


DRAWS: list[tuple[Callable[[Stream], Iterator[Op]], int]] = [
    (Stream.insert, 40),
    (Stream.match, 20),
    (Stream.lock, 12),
    (Stream.unlock, 12),
    (Stream.evict, 15),
    (Stream.reset, 1),
]
"""Operation, and how often it is drawn."""


def replay(stream: Stream, counts: Counter[str]) -> list[Op] | None:
    """Both trees through the stream; the operations so far where the two differ, with what the engine said, else None."""
    engine, ours = CORES[stream.config["core"]](stream.config), SglangReplay(stream.config, VERSION)
    done: list[Op] = []
    for op in stream.ops():
        done.append(op | {"expect": engine.run(op)})
        counts[op["op"]] += 1
        answered = ours.run(op)
        got = {name: answered[name] if name in answered else ours.ask(name, done[-1]) for name in done[-1]["expect"]}
        if got != done[-1]["expect"]:
            differing = {name: value for name, value in got.items() if value != done[-1]["expect"][name]}
            print(f"operation {len(done) - 1}: ours says {differing}", file=sys.stderr)
            return done
    return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the radix tree with SGLang's own, stream by stream.")
    parser.add_argument("--streams", type=int, default=2000, help="streams in all, the policies taking turns")
    parser.add_argument("--core", choices=CORES, default="python", help="SGLang's Python tree or its Rust core")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    open_peer()
    counts: Counter[str] = Counter()
    began = time.perf_counter()
    for number, policy in zip(range(options.streams), itertools.cycle(POLICIES[options.core]), strict=False):
        name = f"seed {options.seed}, stream {number}"
        stream = Stream(random.Random(f"{options.seed} {number}"), policy, options.core)
        if difference := replay(stream, counts):
            scenario = {"name": name, "config": stream.config, "ops": difference}
            print(json.dumps({"engine": "sglang-radix", "engine_version": VERSION, "scenarios": [scenario]}))
            return 1
    told = ", ".join(f"{n} {name}" for name, n in counts.items())
    what = f"{options.core} core, {options.streams} streams, {len(POLICIES[options.core])} policies, pages {PAGES}"
    print(f"{what}: {told}: all equal ({time.perf_counter() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
