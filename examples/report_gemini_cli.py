"""What sessions of the Gemini CLI read from the cache, in one line.

    python examples/report_gemini_cli.py ~/.gemini/tmp

Without a path it reads a made-up session of two calls.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def reply(number: int, cached: int) -> dict[str, object]:
    """A reply with its bill."""
    tokens = {"input": 11_300, "output": 60, "cached": cached, "thoughts": 40, "tool": 0, "total": 11_400}
    at = f"2026-01-10T02:08:{number}0.000Z"
    return {"id": f"g{number}", "timestamp": at, "type": "gemini", "model": "gemini-2.5-flash", "tokens": tokens}


def made_up(folder: str) -> str:
    """The second call reads most of the first's prompt."""
    path = Path(folder) / "session.json"
    head = {"sessionId": "made up", "projectHash": "7e89", "startTime": "2026-01-10T02:08:00.000Z"}
    path.write_text(json.dumps({**head, "messages": [reply(1, 0), reply(2, 10_900)]}, indent=2), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
