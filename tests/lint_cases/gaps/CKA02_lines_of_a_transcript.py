"""Lines of a transcript."""

import json
from pathlib import Path

FOLDER = Path.home() / ".claude" / "projects"


def output_of(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sum(line["message"]["usage"]["output_tokens"] for line in lines if "message" in line)  # expect: CKA02


def reads_of_all():
    total = 0
    for path in FOLDER.glob("**/*.jsonl"):
        for text in path.open():
            total += json.loads(text).get("message", {}).get("usage", {}).get("cache_read_input_tokens", 0)  # expect: CKA02
    return total
