"""LMCache scenarios on a `TierStore` and on `TokenChunks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contextkit.cache.block.ids import TokenIds
from contextkit.cache.tiered.chunking import Chunk, TokenChunks
from contextkit.cache.tiered.tier import Tier, TierStore

Op = dict[str, Any]


def build(config: dict[str, Any], version: str) -> LmcacheReplay:
    return LmcacheReplay(config)


class LmcacheReplay:
    """One tier with the policy of the scenario, and its chunks by number."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.store = TierStore(Tier("host", policy=config.get("policy", "LRU").lower()))
        self.chunking = TokenChunks(1, config.get("chunk_size", 256), config.get("save_unfull_chunk", False))
        self.pinned: set[bytes] = set()

    def run(self, op: Op) -> Op:
        return _OPS[op["op"]](self, op)

    def ask(self, name: str, op: Op) -> Any:
        raise KeyError(f"{op['op']} answers no {name}")

    def put(self, op: Op) -> Op:
        chunk = Chunk(_key(op["key"]), b"", 256, 256)
        self.store.put([chunk], self.pinned, 0.0)
        self.pinned.update({chunk.key} if op["pinned"] else ())
        return {}

    def hit(self, op: Op) -> Op:
        self.store.hit(_key(op["key"]), 0.0)
        return {}

    def evict_candidates(self, op: Op) -> Op:
        return {"keys": [int(key) for key in self.store.evictable(op["n"], self.pinned, 0.0)]}

    def chunk(self, op: Op) -> Op:
        chunks = self.chunking.chunks(TokenIds(range(op["tokens"])))
        return {"num_chunks": len(chunks), "last_end": sum(chunk.n_tokens for chunk in chunks)}


def _key(number: int) -> bytes:
    return str(number).encode()


_OPS: dict[str, Callable[[LmcacheReplay, Op], Op]] = {
    name: getattr(LmcacheReplay, name) for name in ("put", "hit", "evict_candidates", "chunk")
}
