"""What runs of mini-swe-agent read from the cache, in one line.

    python examples/report_swe_agents.py "runs/*/*.traj.json"

Without a path it reads a made-up run of two calls.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def reply(number: int, read: int, written: int) -> dict[str, object]:
    """A message that keeps the response it came in."""
    usage: dict[str, object] = {"prompt_tokens": 9_500, "completion_tokens": 80, "cache_creation_input_tokens": written}
    usage |= {"cache_read_input_tokens": read, "total_tokens": 9_580, "prompt_tokens_details": {"cached_tokens": read}}
    response = {"id": f"chatcmpl-{number}", "object": "chat.completion", "model": "claude-sonnet-4-5", "usage": usage}
    at = 1_767_225_600 + number * 20
    return {"role": "assistant", "content": "ls", "extra": {"response": response, "cost": 0.02, "timestamp": at}}


def made_up(folder: str) -> str:
    """The second call reads what the first wrote."""
    path = Path(folder) / "ferns-1.traj.json"
    stats = {"instance_cost": 0.04, "api_calls": 2}
    info = {"model_stats": stats, "config": {"model": {"model_name": "anthropic/claude-sonnet-4-5"}}}
    messages = [{"role": "user", "content": "Water the ferns."}, reply(1, 0, 9_000), reply(2, 9_000, 400)]
    run = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    path.write_text(json.dumps(run, indent=2), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
