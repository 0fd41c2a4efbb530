"""What an evaluation with Inspect read from the cache, in one line.

    python examples/report_inspect.py logs

Without a path it reads a made-up log of two calls.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def call(second: int, read: int, written: int) -> dict[str, object]:
    """An event of a sample: the model was called."""
    usage = {"input_tokens": 12, "output_tokens": 80, "total_tokens": 92 + read + written}
    usage |= {"input_tokens_cache_read": read, "input_tokens_cache_write": written}
    times = {"timestamp": f"2026-01-01T00:00:{second}+00:00", "completed": f"2026-01-01T00:00:{second + 3}+00:00"}
    return {"event": "model", "model": "anthropic/claude-sonnet-4-5", **times, "output": {"usage": usage}}


def made_up(folder: str) -> str:
    """The second call reads what the first wrote."""
    path = Path(folder) / "log.json"
    sample = {"id": 1, "epoch": 1, "events": [call(10, 0, 9_000), call(20, 9_000, 400)]}
    log = {"version": 2, "status": "success", "eval": {"eval_id": "made up", "task": "ferns"}, "samples": [sample]}
    path.write_text(json.dumps(log, indent=2), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
