"""What logged request and response bodies read from the cache, and where each miss begins.

    python examples/report_raw_pairs.py calls.jsonl

Without a path it reads two made-up calls, the second of which says its rules in other words.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.misses import analyzed_calls


def call(number: int, rules: str, read: int, written: int) -> str:
    """One line of the log."""
    said = [
        {"role": "user", "content": "Plan a trip"},
        {"role": "assistant", "content": "Where to?"},
        {"role": "user", "content": "Rome"},
    ]
    body = {"model": "claude-sonnet-5-5", "max_tokens": 512, "system": rules, "messages": said[: 1 + 2 * number]}
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": 9,
    }
    response = {"id": f"msg_{number}", "stop_reason": "end_turn", "usage": usage}
    return json.dumps({"at": 1_790_000_000 + 30 * number, "request": body, "response": response})


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "calls.jsonl"
    lines = call(0, "You book trains. Be kind.", 0, 9_000), call(1, "You book trains. Be brief.", 0, 9_400)
    path.write_text("\n".join(lines), encoding="utf-8")
    faults = Faults()
    for row in analyzed_calls(records_in(sys.argv[1:] or [str(path)], faults)):
        if row.miss:
            print(f"{row.call.id}: {row.miss.cause}, {row.miss.where}, {row.miss.lost_tokens:,} tokens")
    for fault in faults.kept:
        print(fault)
