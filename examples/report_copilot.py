"""What sessions of the Copilot CLI read from the cache, in one line.

    python examples/report_copilot.py ~/.copilot/session-state

Without a path it reads a made-up session: its log says one sum for both calls.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def event(kind: str, second: int, **data: object) -> dict[str, object]:
    """An event of the log."""
    return {"type": kind, "id": f"{kind} {second}", "timestamp": f"2026-07-05T03:51:{second}.000Z", "data": data}


def made_up(folder: str) -> str:
    """Two calls, and the sum of both when the session ends."""
    path = Path(folder) / "events.jsonl"
    usage = {"inputTokens": 31_500, "outputTokens": 135, "cacheReadTokens": 15_200, "cacheWriteTokens": 0}
    rows = (
        event("session.start", 10, sessionId="made up", copilotVersion="1.0.68"),
        event("user.message", 11, content="Water the ferns."),
        event("assistant.message", 15, model="gpt-5.4-mini", apiCallId="a", outputTokens=45),
        event("assistant.message", 19, model="gpt-5.4-mini", apiCallId="b", outputTokens=90),
        event("session.shutdown", 20, modelMetrics={"gpt-5.4-mini": {"requests": {"count": 2}, "usage": usage}}),
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
