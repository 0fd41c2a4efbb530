"""What OpenRouter's generation records say was read from the cache, and which host answered.

    curl "https://openrouter.ai/api/v1/generation?id=$ID" -H "Authorization: Bearer $KEY" >> generations.jsonl
    python examples/report_openrouter.py generations.jsonl

Without a path it reads two made-up records: the second went to another host, where nothing was cached.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.misses import analyzed_calls


def record(number: int, host: str, cached: int) -> str:
    """One generation."""
    data = {
        "id": f"gen-{number}",
        "model": "openai/gpt-4o",
        "provider_name": host,
        "created_at": f"2026-09-21T14:13:2{number}Z",
        "native_tokens_prompt": 12_000,
        "native_tokens_cached": cached,
        "native_tokens_completion": 25,
        "session_id": "trip",
    }
    return json.dumps({"data": data})


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "generations.jsonl"
    path.write_text("\n".join((record(0, "OpenAI", 11_000), record(1, "Azure", 0))), encoding="utf-8")
    faults = Faults()
    for row in analyzed_calls(records_in(sys.argv[1:] or [str(path)], faults)):
        cause = f", {row.miss.cause}: {row.miss.where}" if row.miss else ""
        print(f"{row.call.id}: read {row.usage.read if row.usage else '?'} tokens{cause}")
    for fault in faults.kept:
        print(fault)
