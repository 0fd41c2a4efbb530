"""Random streams for vLLM's KV-cache manager: a configuration, and operations in the order a scheduler may issue them.

Each operation is done by the real manager at once, since what it answers decides what may come next; what it answered,
and its state after that, is what the scenario expects."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.conformance.real_vllm import STATE, Op, RealVllm
from tests.conformance.scenario import Scenario

Config = dict[str, Any]


def _window(draw: random.Random, size: int) -> Config:
    return {"type": "sliding_window", "block_size": size, "window": draw.randint(1, 4 * size)}


def _full(size: int) -> Config:
    return {"type": "full", "block_size": size}


def _chunk(draw: random.Random, size: int) -> Config:
    return {"type": "chunked_local", "block_size": size, "chunk": size * draw.randint(1, 4)}


def _some_windows(draw: random.Random, size: int) -> list[Config]:
    first = _window(draw, size)
    return [first, *draw.choice([[], [first], [_window(draw, size)], [first, _window(draw, size)]])]


def _uneven(draw: random.Random, size: int) -> list[Config]:
    """Groups whose blocks are of different sizes, each dividing the largest."""
    coarse = size * draw.choice([2, 3, 4])
    return draw.choice(
        [
            [_full(coarse), _window(draw, size)],
            [_full(size), _window(draw, coarse)],
            [_full(coarse), _window(draw, size), _window(draw, coarse)],
            [_full(coarse), _full(size)],
            [_full(coarse), _full(size), _window(draw, size)],
        ]
    )


def _mamba(draw: random.Random, size: int) -> Config:
    return {"type": "mamba", "block_size": size, "speculative": draw.choice([0, 0, 0, 1, 2])}


def _partial(draw: random.Random, size: int) -> list[Config]:
    """Recurrent blocks longer than a key: hits end inside blocks."""
    coarse, state = size * draw.choice([2, 3, 4]), _mamba(draw, size)
    state["block_size"] = coarse
    return draw.choice(
        [
            [_full(coarse), state],
            [_full(size), state],
            [_full(coarse), state, state],
            [_full(coarse), state, _window(draw, size)],
            [_full(coarse), state, _window(draw, coarse)],
        ]
    )


def _perhaps_window(draw: random.Random, size: int) -> list[Config]:
    return draw.choice([[], [], [_window(draw, size)]])


GROUPS: dict[str, Callable[[random.Random, int], list[Config]]] = {
    "full": lambda draw, size: [_full(size)],
    "window": lambda draw, size: [_window(draw, size)],
    "chunk": lambda draw, size: [_chunk(draw, size)],
    "full+window": lambda draw, size: (
        draw.choice([[_full(size)], [_full(size), _full(size)]]) + _some_windows(draw, size)
    ),
    "windows": lambda draw, size: [_window(draw, size), _window(draw, size)],
    "full+chunk": lambda draw, size: [_full(size), _chunk(draw, size)],
    "uneven": _uneven,
    "mamba": lambda draw, size: [_mamba(draw, size)],
    "full+mamba": lambda draw, size: [
        _full(size),
        *[_mamba(draw, size)] * draw.randint(1, 2),
        *_perhaps_window(draw, size),
    ],
    "partial": _partial,
}
"""Kind of stream → the groups of one."""
KINDS = tuple(GROUPS)
_MIXED_WITH_EAGLE = {"full", "window", "full+window", "windows", "uneven", "full+mamba", "partial"}
_THINNED = {"window", "full+window", "windows", "mamba", "full+mamba"}
_EXTERNAL = {"full", "window", "full+window", "windows", "full+chunk", "uneven", "full+mamba"}
"""Kinds of stream in which a connector may bring tokens."""


def _config(draw: random.Random, kind: str) -> Config:
    size = draw.choice([1, 2, 2, 3, 4, 4, 16])
    groups = GROUPS[kind](draw, size)
    largest = max(group["block_size"] for group in groups)
    room = draw.choice([draw.randint(2, 14), draw.randint(10, 50)])
    config: Config = {"block_size": size, "num_blocks": 1 + len(groups) * room, "groups": groups}
    if kind == "partial":
        config["hash_block_size"] = size
    if draw.random() < 0.05 and not any(group["type"] == "mamba" for group in groups):
        config["enable_caching"] = False
    if kind in _MIXED_WITH_EAGLE and draw.random() < 0.25:
        config["use_eagle"] = True
        if len(groups) > 1 and draw.random() < 0.4:
            draw.choice(groups)["is_eagle"] = True
    if kind in _THINNED and draw.random() < 0.4:
        config["retention_interval"] = draw.choice([0, 0, largest, 2 * largest, 4 * largest])
    config["brings"] = kind in _EXTERNAL and draw.random() < 0.25
    return config


@dataclass
class Life:
    """What the scheduler knows of one request."""

    n_tokens: int
    n_prompt: int
    computed: int = 0
    is_running: bool = False


@dataclass
class Stream:
    """One random stream: draws an operation, has the real manager do it, writes down what it answered."""

    draw: random.Random
    kind: str
    real: RealVllm
    unit: int
    """Tokens of the largest block."""
    brings: bool
    """Whether a connector brings tokens."""
    drafts: int
    """Drafted tokens that need room behind the last one."""
    state_size: int | None
    """Tokens in a recurrent group's block."""
    junction: int = 0
    lives: dict[str, Life] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    n_begun: int = 0

    def do(self, op: Op) -> Op:
        answered = self.real.run(op)
        state = {name: self.real.ask(name, op) for name in STATE}
        self.ops.append({**op, "expect": {**answered, **state}})
        return answered

    def tokens(self) -> list[Any]:
        """Prompts share beginnings: each of six stems leaves the others at its own place."""
        stem, n = self.draw.randrange(6), self.draw.randint(1, self.draw.choice([3, 6, 9]) * self.unit)
        fork = min(n, self.unit * (stem % 3) + self.draw.choice([0, 0, 1]))
        return [
            part
            for part in (["rep", 0, fork], ["range", 100 * stem, 100 * stem + n - fork])
            if part[1] != part[2] or part[0] == "rep"
        ]

    def marks(self) -> Op:
        offset, length = self.draw.randrange(2 * self.unit), self.draw.randint(1, 2 * self.unit)
        images = [
            {"offset": offset, "length": length, "hash": "a"},
            {"offset": offset + length, "length": 2, "hash": "b"},
        ]
        return self.draw.choice(
            [
                {},
                {},
                {},
                {},
                {},
                {},
                {"cache_salt": self.draw.choice("st")},
                {"prompt_logprobs": 1},
                {"mm": images[: self.draw.randint(1, 2)]},
                {"lora": {"name": "a", "path": self.draw.choice(["/1", "/2"])}},
            ]
        )

    def begin(self) -> None:
        self.round()
        name, tokens = str(self.n_begun), self.tokens()
        self.n_begun += 1
        self.do({"op": "request", "id": name, "tokens": tokens, **self.marks()})
        self.lives[name] = Life(*[self.real.requests[name].num_tokens] * 2)
        self.start(name)

    def start(self, name: str) -> None:
        life = self.lives[name]
        if self.draw.random() < 0.03:
            return
        found = int(self.do({"op": "lookup", "id": name})["cached_tokens"])
        external = self.external(life, found)
        self.junction = int(self.real.requests[name].shared_prefix_boundary)
        more = self.split(life, found + external, self.chunk(life.n_tokens - found - external))
        op = {"op": "allocate", "id": name, "new_tokens": more, "use_lookup": True}
        if external:
            op["external_tokens"] = external
        self.allocate(op, found + external)

    def external(self, life: Life, found: int) -> int:
        """Tokens a connector brings: whole blocks, all but one token at most."""
        units = (life.n_tokens - 1 - found) // self.unit
        return self.draw.randint(1, units) * self.unit if units > 0 and self.brings and self.draw.random() < 0.4 else 0

    def chunk(self, left: int) -> int:
        return left if self.draw.random() < 0.6 else self.draw.randint(1, left)

    def split(self, life: Life, start: int, n_new: int) -> int:
        """Where the scheduler ends a chunk of a prompt with recurrent groups: at a block's end, at the last key, at a
        junction."""
        prefill_end = max(life.n_prompt, life.n_tokens - 1)
        if self.state_size is None or start >= prefill_end:
            return n_new
        size, end, junction = self.state_size, start + n_new, self.junction
        if end < prefill_end:
            end = end // size * size if end // size * size > start else min(start // size * size + size, prefill_end)
        last, drops = self.checkpoint(life.n_tokens, size), self.checkpoint(life.n_prompt, self.real.hash_size)
        is_partial = getattr(self.real.manager.coordinator, "enable_partial_hash_hits", False)
        stops = [(start // size + 1) * size if start % size else 0, last]
        stops += [drops] if is_partial and last < drops < life.n_prompt else []
        stops += [start + (junction - start) // size * size] if start < junction < end else []
        return min((stop for stop in stops if start < stop < end), default=end) - start

    def checkpoint(self, n_tokens: int, unit: int) -> int:
        is_eagle = bool(self.real.manager.coordinator.drop_eagle_group_ids)
        return max((n_tokens if is_eagle else n_tokens - 1) // unit * unit - unit * is_eagle, 0)

    def round(self) -> None:
        """Recurrent groups are told where a step ends; several requests may be scheduled in one."""
        if self.state_size is not None and self.draw.random() < 0.7:
            self.do({"op": "step"})

    def allocate(self, op: Op, found: int = 0) -> None:
        life = self.lives[op["id"]]
        if self.drafts and life.computed + found + op["new_tokens"] >= life.n_tokens:
            op["lookahead_tokens"] = self.drafts
        if self.do(op)["ok"]:
            life.is_running = True
            life.computed += found + op["new_tokens"]
            self.do({"op": "advance", "id": op["id"], "computed": life.computed})
        elif self.draw.random() < 0.5:
            self.preempt()

    def grow(self) -> None:
        self.round()
        name = self.any()
        if name is None:
            return
        life = self.lives[name]
        if not life.is_running:
            self.start(name)
            return
        if life.computed >= life.n_tokens:
            n = self.draw.choice([1, 1, 1, self.unit])
            self.do({"op": "append", "id": name, "tokens": [["rep", self.draw.randrange(2), n]]})
            life.n_tokens += n
        self.junction = int(self.real.requests[name].shared_prefix_boundary)
        more = self.split(life, life.computed, self.chunk(life.n_tokens - life.computed))
        self.allocate({"op": "allocate", "id": name, "new_tokens": more})

    def any(self, is_running: bool = False) -> str | None:
        names = [name for name, life in self.lives.items() if life.is_running or not is_running]
        return self.draw.choice(names) if names else None

    def free(self) -> None:
        name = self.any()
        if name is not None:
            self.do({"op": "free", "id": name})
            del self.lives[name]

    def preempt(self) -> None:
        name = self.any(is_running=True)
        if name is not None:
            self.do({"op": "preempt", "id": name})
            life = self.lives[name]
            life.computed, life.is_running = 0, False

    def slide(self) -> None:
        name = self.any(is_running=True)
        if name is not None:
            self.do({"op": "remove_skipped", "id": name, "processed": self.lives[name].computed})

    def forget(self) -> None:
        n_blocks = self.real.manager.block_pool.num_gpu_blocks
        self.do(
            {
                "op": "evict_blocks",
                "block_ids": [self.draw.randrange(1, n_blocks) for _ in range(self.draw.randint(1, 3))],
            }
        )

    def hide(self) -> None:
        """Hide keys, look, and show them again."""
        name = self.any()
        if name is None or not self.real.manager.enable_caching:
            return
        groups = range(self.real.manager.num_kv_cache_groups)
        rows = [(name, block, group) for group in groups for block in range(len(self.real.keys(name, group)))]
        self.do({"op": "evict", "keys": self.draw.sample(rows, min(len(rows), 3))})
        if not self.lives[name].is_running:
            self.do({"op": "lookup", "id": name})
        self.do({"op": "restore"})

    def look(self) -> None:
        name = self.any()
        if name is not None:
            for group in range(self.real.manager.num_kv_cache_groups):
                self.do({"op": "cached_index", "id": name, "group": group})

    def clear(self) -> None:
        self.do({"op": "reset"})

    def compare(self) -> None:
        names = [self.any(), self.any()]
        if names[0] is not None:
            self.do({"op": "hash_equal", "ids": names})


_MOVES = {
    "begin": 6,
    "grow": 8,
    "free": 4,
    "preempt": 1,
    "slide": 1,
    "forget": 1,
    "hide": 1,
    "look": 1,
    "clear": 0.5,
    "compare": 0.3,
}


def stream(vllm: SimpleNamespace, seed: int, kind: str) -> Scenario:
    """One stream, with what the engine answered."""
    draw = random.Random(f"{kind} {seed}")
    config = _config(draw, kind)
    sizes = [group["block_size"] for group in config["groups"] if group["type"] == "mamba"]
    brings, drafts = config.pop("brings"), draw.choice([0, 0, 0, 1, 3])
    largest = max(group["block_size"] for group in config["groups"])
    made = Stream(draw, kind, RealVllm(vllm, config), largest, brings, drafts, max(sizes, default=None))
    try:
        for _ in range(draw.randint(15, 60)):
            getattr(made, draw.choices(list(_MOVES), list(_MOVES.values()))[0])()
    except ValueError as error:
        if "free blocks from the pool" not in str(error):
            raise
        config["note"] = (
            "ended where the engine itself stopped with an error: it had counted on more blocks than there were"
        )
    return Scenario("against_vllm", "vllm-v1", "0.33.0", f"{kind}-{seed}", config, made.ops)
