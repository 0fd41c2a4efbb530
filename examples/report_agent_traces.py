"""How much of each prompt of an LMCache agent trace was in the prompt before it.

    python examples/report_agent_traces.py trace.jsonl.gz

Without a path it reads a made-up session of three calls. No bill is in such a trace: the shares are of its text.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall


def made_up(folder: str) -> str:
    """Three calls, each going on from the one before."""
    path = Path(folder) / "trace.jsonl"
    text, rows = "You mind a greenhouse.", []
    for number, more in enumerate(("Which bed is dry?", "The third.", "Water it.")):
        text += f"\n\n{more}"
        rows.append(
            {
                "timestamp": 1_775_696_615_000_000 + number * 1_000_000,
                "input": text,
                "output": "ok",
                "session_id": "made up",
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    calls = [
        record for record in records_in(sys.argv[1:] or [made_up(folder)], faults) if isinstance(record, ModelCall)
    ]
    expected = [call.predicted for call in calls if call.predicted]
    read, sent = sum(usage.read or 0 for usage in expected), sum(usage.prompt or 0 for usage in expected)
    print(f"{len(calls)} calls: {read:,} of {sent:,} tokens stand in the prompt before ({read / max(sent, 1):.1%})")
    for fault in faults.kept:
        print(fault)
