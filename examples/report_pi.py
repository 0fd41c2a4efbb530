"""What a session of the coding agent pi read from the cache, in one line, and why it missed.

    python examples/report_pi.py ~/.pi/agent/sessions

Without a path it reads a made-up session of two calls, the second after a pause.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def made_up(folder: str) -> str:
    """Two calls nine minutes apart: what the first wrote for five minutes is gone."""
    path = Path(folder) / "session.jsonl"
    head = {"type": "session", "id": "made up", "timestamp": "2025-12-08T22:40:00.000Z", "cwd": "~/greenhouse"}
    with path.open("w", encoding="utf-8") as file:
        for row in (head, said("user", 41), reply(41, 0, 41_000), said("user", 50), reply(50, 0, 42_000)):
            file.write(json.dumps(row) + "\n")
    return str(path)


def said(role: str, minute: int) -> dict[str, object]:
    """Something the user said."""
    return {
        "type": "message",
        "timestamp": f"2025-12-08T22:{minute}:00.000Z",
        "message": {"role": role, "content": "Water the ferns."},
    }


def reply(minute: int, read: int, written: int) -> dict[str, object]:
    """A reply with its bill."""
    usage = {"input": 1, "output": 90, "cacheRead": read, "cacheWrite": written}
    message = {
        "role": "assistant",
        "provider": "anthropic",
        "model": "claude-opus-4-5",
        "usage": usage,
        "stopReason": "stop",
    }
    message |= {"content": [{"type": "text", "text": "Done."}], "timestamp": 1_765_233_600_000 + minute * 60_000}
    return {"type": "message", "timestamp": f"2025-12-08T22:{minute}:09.000Z", "message": message}


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for miss in summary.losses:
        print(f"call {miss.index + 1}: {miss.cause}, {miss.where}")
