"""Agents at work: conversations of one call after the other, four at a time, with tools, a system text, and markers
that move.

Takes a seed, gives turns. Text is drawn from words: two runs say the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

WORDS = (
    "the",
    "of",
    "file",
    "error",
    "return",
    "value",
    "function",
    "test",
    "import",
    "class",
    "path",
    "line",
    "prefix",
    "cache",
    "token",
    "module",
    "index",
    "build",
    "request",
    "reply",
    "assert",
    "raise",
    "None",
    "self",
    "list",
    "dict",
    "print",
    "open",
    "read",
    "write",
    "close",
    "loop",
    "while",
    "await",
    "async",
    "yield",
    "from",
    "with",
    "as",
    "if",
    "else",
    "not",
    "and",
    "or",
)
START, SEED = 1_767_225_600.0, 20_261_121  # 2026-01-01
MODEL = "claude-sonnet-4-5-20250929"
TURNS, AT_ONCE = 40, 4
Json = dict[str, Any]


class Words:
    """Text as tools give it: numbered lines of code, with quotes."""

    def __init__(self, seed: int = SEED) -> None:
        self.random, self.clock = random.Random(seed), START
        self.text = "".join(self._row(number) for number in range(60_000))

    def _row(self, number: int) -> str:
        words = self.random.choices(WORDS, k=self.random.randint(2, 11))
        return f'{number % 2000:6}\u2192{"    " * self.random.randrange(4)}{" ".join(words[:-1])} "{words[-1]}"\n'

    def some(self, least: int, most: int) -> str:
        n = self.random.randint(least, most)
        at = self.random.randrange(len(self.text) - n)
        return self.text[at : at + n]

    def output(self) -> str:
        """What a tool gave: mostly short, seldom very long."""
        return self.some(*(2 * [int(min(60_000, 100 + self.random.paretovariate(1.1) * 500))]))

    def id(self, n: int = 32) -> str:
        return f"{self.random.getrandbits(4 * n):0{n}x}"


@dataclass
class Turn:
    """One call of a conversation."""

    session: str
    number: int
    at: float
    took: float
    body: Json
    reply: list[Json]
    """Blocks of the response."""
    usage: Json
    id: str
    result: Json = field(default_factory=dict)
    """What was put to it last."""


def turns(words: Words) -> Iterator[Turn]:
    """Calls of conversations without end, several at a time."""
    running: list[Iterator[Turn]] = []
    while True:
        while len(running) < AT_ONCE:
            running.append(_conversation(words))
        chosen = words.random.randrange(AT_ONCE)
        turn = next(running[chosen], None)
        if turn is None:
            del running[chosen]
        else:
            yield turn


def _conversation(words: Words) -> Iterator[Turn]:
    session, size, cached = words.id(), 7_000, 0
    tools = [
        {
            "name": f"tool_{n}",
            "description": words.some(200, 900),
            "input_schema": {
                "type": "object",
                "properties": {
                    name: {"type": "string", "description": words.some(20, 90)} for name in ("path", "pattern", "limit")
                },
            },
        }
        for n in range(12)
    ]
    system = [{"type": "text", "text": words.some(6000, 9000)}]
    said: list[Json] = [{"role": "user", "content": [{"type": "text", "text": words.some(80, 900)}]}]
    for number in range(TURNS):
        words.clock += words.random.expovariate(1 / 20)
        at = words.clock
        grown = sum(len(json.dumps(one)) for one in said[-2:]) // 4
        size += grown
        marked = [
            *said[:-1],
            {**said[-1], "content": [{**said[-1]["content"][0], "cache_control": {"type": "ephemeral"}}]},
        ]
        body = {
            "model": MODEL,
            "max_tokens": 8192,
            "system": system,
            "tools": tools,
            "messages": marked,
            "stream": False,
        }
        usage = {
            "input_tokens": 4,
            "cache_creation_input_tokens": size - cached,
            "cache_read_input_tokens": cached,
            "output_tokens": 300,
        }
        call = {
            "type": "tool_use",
            "id": "toolu_" + words.id(24),
            "name": "tool_3",
            "input": {"path": words.some(10, 40)},
        }
        reply = [{"type": "text", "text": words.some(40, 600)}, call]
        yield Turn(
            session, number, at, 2 + words.random.random() * 9, body, reply, usage, "msg_01" + words.id(22), said[-1]
        )
        cached = size
        said.append({"role": "assistant", "content": reply})
        said.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": words.output()}]}
        )


def when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def spaced(value: Any) -> bytes:
    return json.dumps(value).encode()


def by_line(path: Path, n_bytes: int, lines: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        while file.tell() < n_bytes:
            file.write(next(lines) + b"\n")
