"""What an evaluation with OpenHands read from the cache, in one line.

    python examples/report_openhands.py output.jsonl

Without a path it reads a made-up instance of two calls.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def call(number: int, read: int, written: int) -> dict[str, object]:
    """What the metrics list of one call."""
    counts = {"prompt_tokens": 9_500, "completion_tokens": 80, "cache_read_tokens": read, "cache_write_tokens": written}
    return {"model": "claude-sonnet-4-5", **counts, "response_id": f"resp-{number}"}


def made_up(folder: str) -> str:
    """The second call reads what the first wrote."""
    path = Path(folder) / "output.jsonl"
    costs = [{"model": "claude-sonnet-4-5", "cost": 0.02, "timestamp": 1_767_225_600.0 + 20 * n} for n in (1, 2)]
    metrics = {"accumulated_cost": 0.04, "costs": costs, "token_usages": [call(1, 0, 9_000), call(2, 9_000, 400)]}
    path.write_text(json.dumps({"instance_id": "ferns-1", "metrics": metrics}) + "\n", "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
