"""What chats of Qwen Code read from the cache, in one line.

    python examples/report_qwen_code.py ~/.qwen/projects

Without a path it reads a made-up chat of two calls.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def line(number: int, kind: str, **more: object) -> dict[str, object]:
    """A line of a chat."""
    message = {"role": "model" if kind == "assistant" else "user", "parts": [{"text": "Ferns."}]}
    at = f"2026-05-01T08:00:{number}0.000Z"
    own = {"uuid": f"u{number}", "parentUuid": None, "sessionId": "made up", "timestamp": at, "cwd": "~/greenhouse"}
    return {**own, "type": kind, "message": message, **more}


def bill(cached: int) -> dict[str, int]:
    """The counters of a reply."""
    counts = {"promptTokenCount": 14_000, "candidatesTokenCount": 60, "totalTokenCount": 14_060}
    return {**counts, "cachedContentTokenCount": cached}


def made_up(folder: str) -> str:
    """The second call reads most of the first's prompt."""
    path = Path(folder) / "chat.jsonl"
    rows = (
        line(1, "user"),
        line(2, "assistant", model="qwen3-coder-plus", usageMetadata=bill(0)),
        line(3, "tool_result"),
        line(4, "assistant", model="qwen3-coder-plus", usageMetadata=bill(13_824)),
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
