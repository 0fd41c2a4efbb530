"""Memory of `BlockCache` for a resident block: `python -m tests.benchmarks.block_memory [BLOCKS]`.

Fills a pool with 16-token blocks, some prompts going on with what others began, until nothing is free, then goes on for
as long again, so that evictions have taken their toll. The tokens are the caller's and are counted as such: they are
gone when memory is read. Prints bytes by tracemalloc (what Python asked for) for the pool's blocks, all of which are
resident by then."""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from collections.abc import Callable

from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm import BlockCache
from contextkit.engines.vllm_engine import Shape
from contextkit.engines.vllm_groups import Group

SIZE = 16
TARGET = 60.0
PROMPT = 200
"""Blocks of a prompt."""
SHAPES: dict[str, Callable[[int], Shape]] = {
    "full attention": Shape,
    "full attention and a window": lambda n: Shape(n, (Group("full", SIZE), Group("sliding_window", SIZE, 1024))),
}


def fill(cache: BlockCache, n_blocks: int) -> None:
    """As many new blocks as the pool has, twice; every third prompt goes on with half of the one before it."""
    draw, n_new = random.Random(7), 0
    before: list[int] = []
    while n_new < 2 * n_blocks:
        kept = before[: len(before) // 2] if draw.random() < 1 / 3 else []
        tokens = kept + [draw.randrange(150_000) for _ in range(PROMPT * SIZE - len(kept))]
        lease = cache.begin(TokenIds(tokens), 0.0)
        n_new += ((lease.usage.fresh or 0) + SIZE - 1) // SIZE
        cache.end(lease, 0, 0.0)
        before = tokens


def measure(shape: Shape) -> tuple[float, int]:
    """Bytes a resident block, and how many of them are resident."""
    gc.collect()
    tracemalloc.start()
    cache = BlockCache(shape)
    fill(cache, shape.n_blocks)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    resident = cache.stats()["blocks_cached"]
    return held / resident, resident


def main() -> None:
    n_blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 250_001
    for name, make in SHAPES.items():
        held, resident = measure(make(n_blocks))
        print(f"{name:28} {resident:9,} of {n_blocks:,} blocks resident, {held:6.1f} bytes each")
        if name == "full attention":
            print(f"{'':28} target under {TARGET:.0f}: {'met' if held < TARGET else 'MISSED'}")


if __name__ == "__main__":
    main()
