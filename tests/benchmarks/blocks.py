"""Block caches against the clock: `python -m tests.benchmarks.blocks SHARED_DATA_FOLDER`, where Mooncake and Claude
Code traces lie.

Token path: a Mooncake trace spelt out in 16-token blocks, against vLLM's way restated in Python (same hits, same
evictions, checked). Id path: both traces as they are, against an OrderedDict; the Claude Code figure includes reading
the files."""

from __future__ import annotations

import gc
import gzip
import random
import sys
import time
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import orjson

from contextkit.engines.block_runs import Runs
from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm import BlockCache
from contextkit.engines.vllm_engine import BlockEngine, Shape
from tests.benchmarks.vllm_restated import Vllm

SIZE = 16
POOLS = {"room for all": 300_000, "1M tokens": 62_501}
N_REQUESTS = 250


def mooncake(folder: Path) -> list[list[int]]:
    with gzip.open(folder / "mooncake" / "synthetic_trace.jsonl.gz") as lines:
        return [orjson.loads(line)["hash_ids"] for line in lines]


def _nested(requests: list[dict[str, Any]]) -> Iterator[list[int]]:
    for request in requests:
        if "hash_ids" in request:
            yield request["hash_ids"]
        yield from _nested(request.get("requests", []))


def claude_code(folder: Path) -> Iterator[list[list[int]]]:
    for path in sorted((folder / "claude-code-blocks").glob("*.json.gz")):
        yield list(_nested(orjson.loads(gzip.decompress(path.read_bytes()))["requests"]))


def spelt_out(trace: list[list[int]]) -> list[list[int]]:
    """512 tokens for every block id, the same for the same id."""
    words: dict[int, list[int]] = {}
    for block in {block for ids in trace for block in ids}:
        draw = random.Random(block)
        words[block] = [draw.randrange(150_000) for _ in range(512)]
    return [[token for block in ids for token in words[block]] for ids in trace]


def fastest(run: Callable[[], int], n: int = 3) -> tuple[float, int]:
    times, result = [], 0
    for _ in range(n):
        gc.collect()
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return min(times), result


def vllm(n_blocks: int) -> Callable[[list[int]], int]:
    return Vllm(n_blocks, SIZE).run


def block_engine(n_blocks: int) -> Callable[[list[int]], int]:
    engine = BlockEngine(Shape(n_blocks))

    def run(tokens: list[int]) -> int:
        request = engine.request(TokenIds(tokens))
        found = engine.lookup(request)
        engine.allocate(request, len(tokens) - found.tokens, found)
        engine.free(request)
        return found.tokens

    return run


def block_cache(n_blocks: int) -> Callable[[list[int]], int]:
    cache = BlockCache(Shape(n_blocks))

    def run(tokens: list[int]) -> int:
        lease = cache.begin(TokenIds(tokens), 0.0)
        cache.end(lease, 0, 0.0)
        return lease.hit.read_tokens

    return run


def timed(
    make: Callable[[int], Callable[[list[int]], int]], prompts: list[list[int]], n_blocks: int
) -> tuple[float, list[int]]:
    """Fastest of three replays, each on a fresh pool whose making is not timed; the tokens hit by each request."""
    times: list[float] = []
    for _ in range(3):
        run = make(n_blocks)
        gc.collect()
        start = time.perf_counter()
        hits = [run(tokens) for tokens in prompts]
        times.append(time.perf_counter() - start)
    return min(times), hits


def token_path(trace: list[list[int]]) -> None:
    prompts = spelt_out(trace[:N_REQUESTS])
    n = sum(-(-len(tokens) // SIZE) for tokens in prompts)
    print(f"token path: {len(prompts)} requests, {n:,} blocks of {SIZE} tokens")
    for name, n_blocks in POOLS.items():
        plain, expected = timed(vllm, prompts, n_blocks)
        for make in (block_engine, block_cache):
            ours, hits = timed(make, prompts, n_blocks)
            assert hits == expected
            speeds = f"{n / ours:12,.0f} blocks/s   restated vLLM {n / plain:10,.0f}   ratio {plain / ours:.2f}"
            print(f"  {name:12} hit {sum(hits) / SIZE / n:.3f}  {make.__name__:12} {speeds}")


def ordered_dict(trace: Sequence[list[int]], capacity: float) -> int:
    queue: OrderedDict[int, None] = OrderedDict()
    total = 0
    for ids in trace:
        total += next((index for index, block in enumerate(ids) if block not in queue), len(ids))
        for block in reversed(ids):
            queue[block] = None
            queue.move_to_end(block)
        while len(queue) > capacity:
            queue.popitem(last=False)
    return total


def id_path(trace: list[list[int]]) -> None:
    n = sum(map(len, trace))
    for capacity in (None, 50_000, 30_000, 10_000, 1_000):
        ours, hits = fastest(lambda capacity=capacity: sum(map(Runs(capacity or inf).admit, trace)), 5)  # type: ignore[misc]
        plain, expected = fastest(lambda capacity=capacity: ordered_dict(trace, capacity or float("inf")))  # type: ignore[misc]
        assert hits == expected
        label = capacity or "unbounded"
        print(
            f"  Mooncake {label:>9}: {hits / n:.4f}  {n / ours / 1e6:5.1f} M blocks/s   OrderedDict {n / plain / 1e6:4.1f}"
        )


def conversations(folder: Path, capacity: int | None) -> None:
    start, walking, n, hits = time.perf_counter(), 0.0, 0, 0
    for trace in claude_code(folder):
        admit, begun = Runs(capacity or inf).admit, time.perf_counter()
        hits += sum(map(admit, trace))
        walking += time.perf_counter() - begun
        n += sum(map(len, trace))
    total = time.perf_counter() - start
    label = capacity or "unbounded"
    print(
        f"  Claude Code {label:>9}: {hits / n:.4f} of {n:,}  {n / walking / 1e6:5.1f} M blocks/s   {total:.2f} s with reading"
    )


def memory(name: str, traces: list[list[list[int]]]) -> None:
    """Bytes a resident block takes, its id included."""
    gc.collect()
    tracemalloc.start()
    caches = []
    for trace in traces:
        fresh = orjson.loads(orjson.dumps(trace))
        caches.append(Runs(inf))
        for ids in fresh:
            caches[-1].admit(ids)
        del fresh, ids
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n = sum(cache.n for cache in caches)
    print(f"  memory, {name}: {held / n:.1f} bytes a resident block ({n:,} blocks)")


def main() -> None:
    folder = Path(sys.argv[1])
    trace = mooncake(folder)
    print("id path")
    id_path(trace)
    for capacity in (None, 2_000, 500):
        conversations(folder, capacity)
    memory("Mooncake", [trace])
    memory("Claude Code, 40 conversations", [one for one, _ in zip(claude_code(folder), range(40), strict=False)])
    token_path(trace)


if __name__ == "__main__":
    main()
