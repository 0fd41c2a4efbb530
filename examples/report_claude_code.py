"""Why a session of Claude Code read less from the cache than it could have: one line a call that missed.

    python examples/report_claude_code.py ~/.claude/projects

Without a path it reads a made-up session of two calls.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.misses import analyzed_calls


def made_up(folder: str) -> str:
    """Two replies eight minutes apart: the cache forgets after five."""
    path = Path(folder) / "session.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, minute, read, written in ((1, 0, 0, 42_000), (2, 8, 0, 43_000)):
            usage = {
                "input_tokens": 4,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "output_tokens": 90,
            }
            message = {
                "model": "claude-opus-4-5",
                "id": f"msg_{number}",
                "role": "assistant",
                "content": [],
                "usage": usage,
            }
            line = {"type": "assistant", "timestamp": f"2026-04-09T01:{minute:02}:00Z", "sessionId": "made up"}
            file.write(json.dumps({**line, "requestId": f"req_{number}", "message": message}) + "\n")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    for call in analyzed_calls(records_in(sys.argv[1:] or [made_up(folder)], faults)):
        if call.miss and call.miss.lost_tokens:
            cost = "unknown" if call.miss.cost_usd is None else f"${call.miss.cost_usd:.2f}"
            print(f"{call.call.id}  {call.miss.cause}  {call.miss.lost_tokens:,} tokens  {cost}  {call.miss.where}")
    for fault in faults.kept:
        print(fault)
