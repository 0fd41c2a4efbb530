"""A sum over the lines of a session file."""

import json


def output_of(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sum(line["message"]["usage"]["output_tokens"] for line in lines if "message" in line)  # expect: CKA02


def reads_of(lines):
    total = 0
    for line in lines:
        total += line.get("message", {}).get("usage", {}).get("cache_read_input_tokens", 0)  # expect: CKA02
    return total


def reads_once(lines):
    calls = {(line["requestId"], line["message"]["id"]): line["message"]["usage"] for line in lines if "requestId" in line}
    return sum(usage["cache_read_input_tokens"] for usage in calls.values())


def output_of_ledger(rows):
    return sum(row["usage"]["output_tokens"] for row in rows)


def once_each(lines):
    total, seen = 0, set()
    for line in lines:
        if line["message"]["id"] not in seen:
            total += line["message"]["usage"]["output_tokens"]
            seen.add(line["message"]["id"])
    return total


def cached_of(path):
    n_read = 0
    for text in path.open():
        line = json.loads(text)
        if line["type"] == "assistant":
            n_read += line["message"]["usage"]["cache_read_input_tokens"]  # expect: CKA02
    return n_read
