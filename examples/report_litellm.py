"""What LiteLLM's spend logs say providers read from their prompt caches, in one line.

    python examples/report_litellm.py spend_logs.csv

Without a path it reads three made-up rows, one of them answered by LiteLLM's own response cache.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def row(number: int, prompt: int, read: int, written: int, cache_hit: str = "False") -> dict[str, object]:
    """A row of `LiteLLM_SpendLogs`, the columns a report looks at."""
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": 90,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    return {
        "request_id": f"chatcmpl-{number}",
        "call_type": "acompletion",
        "session_id": "made up",
        "model": "claude-sonnet-4-5",
        "custom_llm_provider": "anthropic",
        "startTime": f"2026-04-09T01:0{number}:00Z",
        "endTime": f"2026-04-09T01:0{number}:04Z",
        "prompt_tokens": prompt,
        "completion_tokens": 90,
        "cache_hit": cache_hit,
        "metadata": {"usage_object": usage},
    }


def made_up(folder: str) -> str:
    """Three calls, one a line."""
    path = Path(folder) / "spend_logs.jsonl"
    rows = (row(1, 4_003, 0, 4_000), row(2, 4_400, 4_000, 390), row(3, 4_400, 4_000, 390, cache_hit="True"))
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
