"""Writes `contextkit/report/example.jsonl`, the recording that `contextkit report --example` reads.

A scripted coding agent talks to the local provider with Anthropic's client, and makes mistakes that real agents make:
a user comes back after the cache's lifetime, the system prompt has a clock, a tool leaves the list.
Texts are made up; what is billed is what the reference cache says of the requests. Run it to write the file again:

    python docs/figures/example_session.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import anthropic

from contextkit.cli.report import written
from contextkit.ledger.calls import Record
from contextkit.server import LocalServer

OUT = Path(__file__).resolve().parents[2] / "contextkit" / "report" / "example.jsonl"
MODEL = "claude-sonnet-5-5"
START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC).timestamp()
CACHED = {"type": "ephemeral"}
WORDS = (
    "invoice order customer refund ledger retry queue worker schema table index column amount currency event handler "
    "request response status error timeout client server test fixture module package import function class method "
    "value field row query cache session token header body parse check write read open close send receive"
).split()


def text(chance: Random, n_words: int) -> str:
    """Made-up lines of about so many words."""
    words = [chance.choice(WORDS) for _ in range(n_words)]
    return "\n".join(" ".join(words[i : i + 12]) for i in range(0, n_words, 12))


def tool(name: str, chance: Random) -> dict[str, Any]:
    """A tool definition."""
    fields = {chance.choice(WORDS): {"type": "string", "description": text(chance, 12)} for _ in range(3)}
    schema = {"type": "object", "properties": {"path": {"type": "string"}, **fields}, "required": ["path"]}
    return {"name": name, "description": text(chance, 60), "input_schema": schema}


def scripts(chance: Random) -> Iterator[dict[str, Any]]:
    """What the model answers: a sentence and a call."""
    for number in range(1_000):
        call = {"type": "call", "name": "read_file", "arguments": {"path": f"src/part_{number}.py"}}
        yield {"parts": [{"type": "text", "text": text(chance, 20)}, call]}


class Agent:
    """A loop as many are written: it keeps a list of messages and marks the last one."""

    def __init__(self, client: anthropic.Anthropic, server: LocalServer, seed: int, system: str) -> None:
        self.client, self.server, self.chance, self.system = client, server, Random(seed), system
        names = "read_file write_file edit_file run_tests search list_folder run_command fetch ask_user plan".split()
        self.tools = [tool(name, self.chance) for name in names]
        self.messages: list[dict[str, Any]] = []

    def user(self, n_words: int = 60) -> None:
        """The user asks for something."""
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text(self.chance, n_words)}]})

    def call(self, seconds: float = 15, n_words: int = 700) -> None:
        """One model call, and the result of the tool that it asks for."""
        self.server.clock.advance(seconds)
        marked = [*self.messages[:-1], {**self.messages[-1], "content": _marked(self.messages[-1]["content"])}]
        reply = self.client.messages.create(
            model=MODEL,
            max_tokens=2_000,
            system=[{"type": "text", "text": self.system.format(now=self.clock()), "cache_control": CACHED}],
            tools=self.tools,
            messages=marked,
        )
        self.messages.append({"role": "assistant", "content": [part.model_dump() for part in reply.content]})
        results = [
            {"type": "tool_result", "tool_use_id": part.id, "content": text(self.chance, n_words)}
            for part in reply.content
            if part.type == "tool_use"
        ]
        self.messages.append({"role": "user", "content": results})

    def clock(self) -> str:
        """The time as the program writes it into its prompt."""
        return datetime.fromtimestamp(self.server.clock.now(), UTC).strftime("%Y-%m-%d %H:%M")


def _marked(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*content[:-1], {**content[-1], "cache_control": CACHED}]


def fixing_a_bug(client: anthropic.Anthropic, server: LocalServer, rules: str) -> Iterator[None]:
    """The user is away for nine minutes, longer than the cache lives."""
    agent = Agent(client, server, 1, rules)
    for n_calls, pause in ((9, 15), (6, 540), (5, 40)):
        agent.user()
        agent.call(pause)
        for _ in range(n_calls):
            agent.call()
    yield


def conversations(chance: Random, server: LocalServer) -> Iterator[str]:
    """Hold one conversation after the other; yields the name of each that has ended."""
    rules = text(chance, 1_500)
    with anthropic.Anthropic(base_url=server.url, api_key="none") as client:
        agent = Agent(client, server, 1, rules)
        for pause, n_calls in ((15, 9), (540, 6), (40, 5)):  # nine minutes: longer than the cache lives
            agent.user()
            for number in range(n_calls + 1):
                agent.call(15 if number else pause)
        yield "invoices"
        agent = Agent(client, server, 2, "It is {now}.\n" + rules)
        agent.user()
        for _ in range(12):
            agent.call(18)
        yield "clock"
        agent = Agent(client, server, 3, rules)
        agent.user()
        for number in range(12):
            if number == 8:
                del agent.tools[3]
            agent.call(12)
        yield "tools"


def main(out: Path = OUT) -> None:
    """Hold the conversations and write what was billed."""
    chance, records, n_rows = Random(7), list[Record](), 0
    with LocalServer(list(scripts(chance)), now=START) as server:
        for name in conversations(chance, server):
            rows = server.ledger.calls[n_rows:]
            n_rows += len(rows)
            records += [replace(row, session=name) for row in rows]
    out.unlink(missing_ok=True)
    written(records, str(out))


if __name__ == "__main__":
    main()
