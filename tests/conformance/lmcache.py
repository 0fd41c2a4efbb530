"""LMCache scenarios on a `TierStore` and on `TokenChunks`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

from contextkit.engines.tier import Chunk, Tier, TierStore, TokenChunks
from contextkit.engines.token_ids import TokenIds
from tests.conformance.scenario import token_ids

Op = dict[str, Any]
FORGETFUL = {"lfu"}
"""Policies that forget a key as soon as they name it for eviction; the others name it again."""


def build(config: dict[str, Any], version: str) -> LmcacheReplay:
    return LmcacheReplay(config)


class LmcacheReplay:
    """One tier with the policy of the scenario, its chunks by the scenario's keys (numbers or words)."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.store = TierStore(Tier("host", policy=config.get("policy", "LRU").lower()))
        self.chunking = TokenChunks(config.get("chunk_size", 256), config.get("save_unfull_chunk", False))
        self.pinned: set[bytes] = set()
        self.names: dict[bytes, Any] = {}

    def run(self, op: Op) -> Op:
        return _OPS[op["op"]](self, op)

    def ask(self, name: str, op: Op) -> Any:
        return _STATE[name](self)

    def put(self, op: Op) -> Op:
        chunk = Chunk(self._key(op), b"", 256)
        self.store.put([chunk], ())
        if op.get("pinned", False):
            self.pinned.add(chunk.key)
        return {}

    def hit(self, op: Op) -> Op:
        self.store.hit(self._key(op))
        return {}

    def pin(self, op: Op) -> Op:
        self.pinned.add(self._key(op))
        return {}

    def unpin(self, op: Op) -> Op:
        self.pinned.discard(self._key(op))
        return {}

    def remove(self, op: Op) -> Op:
        """By somebody outside, pinned or not."""
        key = self._key(op)
        is_there = key in self.store
        self._gone([key])
        return {"ok": is_there, "removed": is_there}

    def evict_candidates(self, op: Op) -> Op:
        found = self.store.evictable(op.get("n", 1), self.pinned)
        if self.store.tier.policy in FORGETFUL:
            self._gone(found)
        return {"keys": [self.names[key] for key in found]}

    def evict(self, op: Op) -> Op:
        """Candidates that go at once, as a backend that needs room takes them."""
        found = self.store.evictable(op.get("n", 1), self.pinned)
        self._gone(found)
        return {"keys": [self.names[key] for key in found]}

    def chunk(self, op: Op) -> Op:
        tokens = op["tokens"]
        chunks = self.chunking.chunks(TokenIds(range(tokens) if isinstance(tokens, int) else token_ids(tokens)))
        ends = list(accumulate(chunk.n_tokens for chunk in chunks))
        return {
            "num_chunks": len(chunks),
            "last_end": ends[-1] if ends else 0,
            "ends": ends,
            "starts": [0, *ends][: len(ends)],
        }

    def state(self, op: Op) -> Op:
        return {}

    def _key(self, op: Op) -> bytes:
        key = repr(op["key"]).encode()
        self.names[key] = op["key"]
        return key

    def _gone(self, keys: list[bytes]) -> None:
        self.store.drop(keys)
        self.pinned.difference_update(keys)


_OPS: dict[str, Callable[[LmcacheReplay, Op], Op]] = {
    name: getattr(LmcacheReplay, name)
    for name in ("put", "hit", "pin", "unpin", "remove", "evict_candidates", "evict", "chunk", "state")
}

_STATE: dict[str, Callable[[LmcacheReplay], Any]] = {
    "num_keys": lambda self: len(self.store),
    "keys": lambda self: sorted(self.names[key] for key in self.names if key in self.store),
}
