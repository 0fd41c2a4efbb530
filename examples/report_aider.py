"""What aider says its messages cost, from its analytics log.

    aider --analytics-log analytics.jsonl
    python examples/report_aider.py analytics.jsonl

Without a path it reads a made-up log of two messages. What was read from a cache is in none.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.summary import summarise


def message(number: int, cost: float) -> dict[str, object]:
    """The event of a message that was answered."""
    counts = {"prompt_tokens": 9_000, "completion_tokens": 80, "total_tokens": 9_080, "cost": cost}
    said = {"main_model": "anthropic/claude-sonnet-4-5", **counts}
    return {"event": "message_send", "properties": said, "user_id": "u", "time": 1_767_225_600 + number}


def made_up(folder: str) -> str:
    """Two messages."""
    path = Path(folder) / "analytics.jsonl"
    path.write_text("".join(json.dumps(message(n, 0.01 * n)) + "\n" for n in (1, 2)), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    records = list(records_in(sys.argv[1:] or [made_up(folder)], faults))
    cost = sum(record.billed_usd or 0 for record in records if isinstance(record, ModelCall))
    summary = summarise(records)
    print(f"{summary.calls} calls, ${cost:.2f} by the log: {summary}")
    for fault in faults.kept:
        print(fault)
