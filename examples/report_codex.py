"""What sessions of Codex read from the cache, in one line.

    python examples/report_codex.py ~/.codex/sessions

Without a path it reads a made-up session of two calls.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def made_up(folder: str) -> str:
    """Two calls; the second event is written twice, as Codex does now and then."""
    path = Path(folder) / "rollout.jsonl"
    head = {"type": "session_meta", "payload": {"id": "made up", "cwd": "~/greenhouse", "model_provider": "openai"}}
    turn = {"type": "turn_context", "payload": {"model": "gpt-5.3-codex", "effort": "medium"}}
    with path.open("w", encoding="utf-8") as file:
        for row in (head, turn, count(14_475, 2_432, 216), count(29_275, 16_768, 300), count(29_275, 16_768, 300)):
            file.write(json.dumps({"timestamp": "2026-07-03T18:15:19Z", **row}) + "\n")
    return str(path)


def count(prompt: int, cached: int, output: int) -> dict[str, object]:
    """The totals so far."""
    total = {"input_tokens": prompt, "cached_input_tokens": cached, "output_tokens": output}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": total}}}


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
