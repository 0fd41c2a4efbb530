"""100 MB of captured requests through the request detector: how long it takes, whatever is wrong with them.

`python -m tests.benchmarks.lint_requests [megabytes]` prints one line a recording. Bodies grow from 20 to 400 KB,
several conversations at a time, as SDKs write them (compact) and as hand-written loops do (blanks after commas, escaped
letters)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from contextkit.ledger.calls import Bodies, Exchange
from contextkit.lint.catalogue import hazards
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.detect import Detector

WORDS = [
    "the",
    "file",
    "reads",
    "each",
    "line",
    "and",
    "keeps",
    "what",
    "it",
    "finds",
    "in",
    "a",
    "table",
    "of",
    "rows",
    "größer",
    "検索",
]
LARGEST = 400_000
MEGABYTE = 1_000_000
LIMIT_SECONDS = 10.0

Spell = Callable[[Any], bytes]
SPELLINGS: dict[str, Spell] = {
    "as SDKs write": lambda body: json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(),
    "as json.dumps writes": lambda body: json.dumps(body).encode(),
}


def text(random: Random, size: int) -> str:
    return " ".join(random.choices(WORDS, k=size // 6))


def tools(random: Random) -> list[Any]:
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": text(random, 60)}},
        "required": ["path"],
    }
    return [{"name": f"tool_{i}", "description": text(random, 400), "input_schema": schema} for i in range(20)]


def turns(random: Random) -> Iterator[dict[str, Any]]:
    """Messages of a coding agent: a call, its result, now and then somebody speaks."""
    yield {"role": "user", "content": [{"type": "text", "text": text(random, 4000)}]}
    for number in range(10_000):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "tool_3", "input": {"path": f"src/{number}.py"}}
        yield {"role": "assistant", "content": [{"type": "text", "text": text(random, 200)}, call]}
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{number}",
            "content": text(random, random.randrange(200, 6000)),
        }
        yield {"role": "user", "content": [result]}


def conversation(random: Random, spell: Spell, session: str, *, has_clock: bool) -> Iterator[Exchange]:
    """Calls of one agent until its body is as large as they get; a clock in its system text breaks every one of them."""
    head: dict[str, Any] = {"model": "claude-sonnet-4-6", "max_tokens": 4096, "tools": tools(random)}
    system, messages, size = text(random, 8000), list[Any](), 0
    for number, message in enumerate(turns(random)):
        messages.append(message)
        if message["role"] == "assistant":
            continue
        clock = f" It is {number // 60:02}:{number % 60:02}." if has_clock else ""
        marked = [
            *messages[:-1],
            {**message, "content": [{**message["content"][0], "cache_control": {"type": "ephemeral"}}]},
        ]
        said = [{"type": "text", "text": system + clock}]
        raw = spell({**head, "messages": marked, "system": said})
        at = 1_760_000_000.0 + 20 * number
        name, sent = f"{session}-{number}", Bodies(raw)
        yield Exchange(
            name, session, "main", at, at + 1, at + 5, "anthropic", "claude-sonnet-4-6", sent, None, None, None
        )
        size = len(raw)
        if size > LARGEST:
            return


def recording(n_bytes: int, spell: Spell, *, has_clock: bool = False, is_named: bool = True) -> list[Exchange]:
    """About `n_bytes` of bodies: three conversations at a time, taking turns."""
    random, found, total, number = Random(7), list[Exchange](), 0, 0
    while total < n_bytes:
        under_way = [
            conversation(random, spell, f"session-{number + i}" if is_named else "", has_clock=has_clock)
            for i in range(3)
        ]
        number += 3
        while under_way and total < n_bytes:
            for one in list(under_way):
                exchange = next(one, None)
                if exchange is None:
                    under_way.remove(one)
                    continue
                found.append(exchange)
                total += len(exchange.prompt.request) if isinstance(exchange.prompt, Bodies) else 0
    return found


def measured(exchanges: list[Exchange], hazards: list[Hazard]) -> tuple[float, int]:
    """Seconds, and how many findings."""
    detector, started = Detector(hazards), time.perf_counter()
    found = sum(1 for exchange in exchanges for _ in detector.feed(exchange)) + sum(1 for _ in detector.finish())
    return time.perf_counter() - started, found


def main(megabytes: int) -> None:
    """Every recording once, with the whole catalogue."""
    rows = list(hazards())
    for spelling, spell in SPELLINGS.items():
        for has_clock in (False, True):
            for is_named in (True, False):
                exchanges = recording(megabytes * MEGABYTE, spell, has_clock=has_clock, is_named=is_named)
                seconds, found = measured(exchanges, rows)
                what = f"{'a break at every call' if has_clock else 'no break'}, sessions {'recorded' if is_named else 'unknown'}"
                print(f"{megabytes} MB, {len(exchanges)} calls {spelling}, {what}: {seconds:.2f} s, {found} findings")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
