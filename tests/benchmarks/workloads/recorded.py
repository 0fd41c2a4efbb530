"""Shape of a recorded coding session: `python -m tests.benchmarks.workloads.recorded DATA` prints the tables below.

DATA is a folder of Claude Code transcripts (`*.jsonl.gz`). Only sizes, shares and gaps are taken from them; the coding
workload draws its 300 calls from these tables with a fixed seed, so it needs no recording to run.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

N_QUANTILES = 20


def records(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                try:
                    yield path.name, json.loads(line)
                except ValueError:  # a line that was torn when it was recorded
                    continue


def text_size(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(part.get("text") or "") for part in content or [] if isinstance(part, dict))


def quantiles(values: list[float]) -> list[int]:
    ordered = sorted(values)
    return [round(ordered[min(len(ordered) - 1, i * len(ordered) // N_QUANTILES)]) for i in range(N_QUANTILES)] + [
        round(ordered[-1])
    ]


def main() -> None:
    calls: dict[str, tuple[str, Any]] = {}
    results: dict[str, list[float]] = defaultdict(list)
    arguments: dict[str, list[float]] = defaultdict(list)
    mix: Counter[str] = Counter()
    user_gaps: list[float] = []
    tool_gaps: list[float] = []
    calls_per_turn: list[float] = []
    read_paths: dict[str, set[str]] = defaultdict(set)
    n_reads = 0
    n_rereads = 0
    last_at: dict[str, datetime] = {}
    since_user: Counter[str] = Counter()
    seen: set[str] = set()
    for name, record in records(Path(sys.argv[1])):
        if record.get("isSidechain") or record.get("type") not in {"user", "assistant"} or record.get("uuid") in seen:
            continue
        seen.add(record.get("uuid", ""))
        at = datetime.fromisoformat(record["timestamp"])
        content = record["message"].get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        gap = (at - last_at[name]).total_seconds() if name in last_at else None
        last_at[name] = at
        for block in blocks:
            if block.get("type") == "tool_use":
                calls[block["id"]] = (block["name"], block["input"])
                mix[block["name"]] += 1
                since_user[name] += 1
                arguments[block["name"]].append(len(json.dumps(block["input"])))
                if block["name"] == "Read":
                    n_reads += 1
                    path = str(block["input"].get("file_path"))
                    n_rereads += path in read_paths[name]
                    read_paths[name].add(path)
            elif block.get("type") == "tool_result" and block.get("tool_use_id") in calls:
                results[calls[block["tool_use_id"]][0]].append(text_size(block.get("content")))
                if gap is not None:
                    tool_gaps.append(gap)
            elif block.get("type") == "text" and record["type"] == "user" and not record.get("isMeta"):
                if gap is not None:
                    user_gaps.append(gap)
                if since_user[name]:
                    calls_per_turn.append(since_user[name])
                since_user[name] = 0
    for tool, count in mix.most_common(8):
        print(tool, count, "results", quantiles(results[tool] or [0]), "arguments", quantiles(arguments[tool]))
    print("reads", n_reads, "of a path read before", n_rereads)
    print("user gaps", quantiles(user_gaps))
    print("tool gaps", quantiles(tool_gaps))
    print("calls a turn", quantiles(calls_per_turn))


if __name__ == "__main__":
    main()
