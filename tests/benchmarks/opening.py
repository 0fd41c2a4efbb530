"""CPU of opening a long log and of its first request, beside `orjson.loads` over the same lines, in one process.

    python -m tests.benchmarks.opening [--entries 50000]

The least of several turns counts: on a shared machine CPU time rises with what runs beside. Two logs: results of forty
lines of code, and calls with nested arguments. The ledger is empty.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from contextkit import AnthropicMessages, Context, tool
from contextkit.canonical import canonical
from contextkit.log.entry import Entry, Kind
from contextkit.log.storage import JSONLStorage, digest_of, write_line

MODEL = "claude-sonnet-5-5"
PAGE = "".join(f"{n:4} | def function_{n}(value: int) -> str:\n" for n in range(40))


@tool
def look(path: str) -> str:
    """Look at a file."""
    return path


def plain(step: int, index: int) -> dict[str, Any]:
    return {"path": f"src/file_{step}_{index}.py"}


def nested(step: int, index: int) -> dict[str, Any]:
    edits = [{"line": n, "old": f"value_{n} = {step}", "new": f"value_{n} = 0", "reason": "renamed"} for n in range(12)]
    return {**plain(step, index), "edits": edits, "options": {"dry_run": False, "depth": 3}}


LOGS: dict[str, Callable[[int, int], dict[str, Any]]] = {"long results": plain, "nested arguments": nested}


def opened(folder: Path) -> Context:
    provider = AnthropicMessages(MODEL, max_tokens=1024)
    return Context.open(folder, provider, system="You are careful. " * 40, tools=[look], clock=lambda: 50_000.0)


def fill(folder: Path, n_entries: int, arguments: Callable[[int, int], dict[str, Any]]) -> None:
    """Write a log of steps with one or two calls each, without waiting for the disk."""
    with opened(folder) as context:
        context.user("Go on.")
    entries = list(JSONLStorage.read(folder / "log.jsonl"))
    last, n = entries[-1], len(entries)
    file = (folder / "log.jsonl").open("ab")

    def add(kind: Kind, body: dict[str, Any]) -> None:
        nonlocal last, n
        frozen, at = canonical(body), 1000.0 + n * 0.37
        entry = Entry(n, kind, frozen, at, digest_of(last.digest, kind, at, frozen))
        file.write(write_line(entry, last.digest))
        last, n = entry, n + 1

    step = 0
    while n < n_entries:
        step += 1
        calls = [
            {"id": f"toolu_{step}_{index}", "name": "look", "arguments": arguments(step, index)}
            for index in range(1 + step % 2)
        ]
        text = f"Step {step}: I look at the next file and think about it for a while."
        blocks: list[Any] = [{"type": "text", "text": text}]
        blocks += [{"type": "tool_use", "id": call["id"], "name": "look", "input": call["arguments"]} for call in calls]
        native = {"wire": "anthropic_messages", "model": MODEL, "body": blocks}
        add("assistant", {"after": n - 1, "native": native, "text": text, "calls": calls, "stop": "calls"})
        for call in calls:
            content = [{"type": "text", "text": PAGE}]
            add("result", {"call_id": call["id"], "name": "look", "content": content, "is_error": False})
    file.close()


def measure(folder: Path, turns: int = 5) -> tuple[float, float, float]:
    """CPU seconds of `orjson.loads` over the lines, of opening, and of the first request."""
    best = [float("inf")] * 3
    for _ in range(turns):
        gc.collect()
        times = [time.process_time()]
        with (folder / "log.jsonl").open("rb", buffering=1 << 18) as file:
            for line in file:
                orjson.loads(line)
        times.append(time.process_time())
        context = opened(folder)
        times.append(time.process_time())
        context.request()
        times.append(time.process_time())
        context.close()
        del context
        best = [min(old, times[n + 1] - times[n]) for n, old in enumerate(best)]
    return best[0], best[1], best[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    n_entries = parser.parse_args().entries
    for name, arguments in LOGS.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made) / "log"
            fill(folder, n_entries, arguments)
            loads, opening, request = measure(folder)
        shares = f"opening {opening:.2f} s ({opening / loads:.1f} x), first request {request:.2f} s ({request / loads:.1f} x)"
        print(f"{name}: orjson.loads {loads:.2f} s, {shares}")


if __name__ == "__main__":
    main()
