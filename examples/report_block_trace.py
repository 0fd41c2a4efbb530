"""How much of a block trace an unbounded cache would have read.

    python examples/report_block_trace.py trace.jsonl.gz

Without a path it reads a made-up Mooncake trace of two requests. What was billed is in no block trace; `contextkit
simulate` asks caches.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.engines.compare import compare
from contextkit.engines.trace_engines import Setting
from contextkit.importers.block_trace import BlockTraces


def made_up(folder: str) -> str:
    """The second request shares the first block of the first."""
    path = Path(folder) / "trace.jsonl"
    rows = [(0, 1000, [0, 1]), (3000, 1500, [0, 2, 3])]
    lines = [{"timestamp": at, "input_length": n, "output_length": 6, "hash_ids": ids} for at, n, ids in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    [outcome] = compare(BlockTraces().read(sys.argv[1] if sys.argv[1:] else made_up(folder)), [Setting()]).outcomes
    print(
        f"{outcome.counts.requests} requests, {outcome.counts.blocks} blocks, {outcome.counts.hit_rate:.4f} of them read"
    )
