"""Holds a conversation with everything in it, on a disk that may fail, until it is killed.

Says what is safe once it is.

Lines of JSON: `entry` (path of the log, sequence, digest) and `bill` (id) of what returned, `gone` (text) of what
raised and was given up, `raised` for each act that raised."""

from __future__ import annotations

import errno
import json
import random
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from contextkit import AnthropicMessages, Context, Phase, Phases, tool
from contextkit.errors import MemoryRefused, StorageError
from contextkit.log.entry import Entry
from contextkit.memory import FileMemory, Memory, Offload
from tests.crash.faults import Disk

SIZES = [20, 900, 5_000, 60_000]
PHASES = Phases(
    {"read": Phase(allow=["fetch", "read_*"]), "write": Phase(allow=["note", "read_*"], by_hand=True)}, start="read"
)
T = TypeVar("T")


@tool
def fetch(n: int) -> str:
    """Get a page."""
    return f"call {n}: é \r\n" * (SIZES[n % len(SIZES)] // 10) + f"the end of {n}"


@tool
def note(n: int) -> str:
    """Write a note."""
    return f"noted {n}"


def provider() -> AnthropicMessages:
    return AnthropicMessages("claude-opus-5", max_tokens=1024)


def opened(folder: str) -> Context:
    memory = Memory(FileMemory(f"{folder}/memory"), offload=Offload(above_tokens=500, preview_tokens=50))
    return Context.open(folder, provider(), system="Read on.", tools=[fetch, note], memory=memory, phases=PHASES)


def reply(name: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    said = {"id": name, "type": "message", "role": "assistant", "model": "claude-opus-5", "usage": usage}
    return {
        **said,
        "content": [{"type": "text", "text": f"I am {name}."}, *calls],
        "stop_reason": "tool_use" if calls else "end_turn",
    }


class Session:
    """One process's part of the conversation."""

    def __init__(self, context: Context, run: str, disk: Disk, chance: random.Random) -> None:
        self.context, self.run, self.disk, self.chance = context, run, disk, chance
        self.n = 0

    def tell(self, **fields: Any) -> None:
        print(json.dumps(fields), flush=True)

    def safe(self, context: Context, entry: Entry) -> None:
        path = context.log.storage.path
        self.tell(entry=[None if path is None else str(path), entry.sequence, entry.digest.hex()])

    def tried(self, act: Callable[[], T]) -> T | None:
        """What `act` returns, at the first to third try; None where it was given up."""
        for _ in range(self.chance.choice([1, 2, 3])):
            try:
                return act()
            except (OSError, StorageError, MemoryRefused) as fault:
                self.tell(raised=str(fault))
        return None

    def name(self) -> str:
        self.n += 1
        return f"{self.run}-{self.n}"

    def user(self) -> None:
        text = f"user {self.name()}."
        entry = self.tried(lambda: self.context.user(text))
        self.tell(gone=text) if entry is None else self.safe(self.context, entry)

    def turn(self, context: Context, calls: list[dict[str, Any]]) -> None:
        """Ask, and receive a reply."""
        request = self.tried(context.request)
        if request is None:
            return
        name = self.name()
        response = reply(f"msg_{name}", calls)
        entry = self.tried(lambda: context.receive(response, request))
        if entry is not None:
            self.safe(context, entry)
            self.tell(bill=response["id"])

    def answer(self) -> None:
        for call in self.context.calls:
            value = call.run()
            entry = self.tried(lambda call=call, value=value: self.context.result(call, value))  # type: ignore[misc]
            if entry is not None:
                self.safe(self.context, entry)

    def call(self) -> dict[str, Any]:
        tool_name, number = self.chance.choice(["fetch", "fetch", "note"]), self.chance.randrange(1_000)
        return {"type": "tool_use", "id": f"toolu_{self.name()}", "name": tool_name, "input": {"n": number}}

    def compact(self) -> None:
        entry = self.tried(lambda: self.context.compact(f"So far, up to {self.n}."))
        if entry is not None:
            self.safe(self.context, entry)

    def shrink(self) -> None:
        entry = self.tried(lambda: self.context.compact_results(before=len(self.context.log) - 1, above_tokens=100))
        if entry is not None:
            self.safe(self.context, entry)

    def enter(self) -> None:
        entry = self.tried(lambda: self.context.enter(self.chance.choice(["read", "write"])))
        if entry is not None:
            self.safe(self.context, entry)

    def spawn(self) -> None:
        agent = self.tried(lambda: self.context.spawn(f"Task {self.name()}."))
        if agent is None:
            return
        with agent:
            self.turn(agent, [])
            entry = self.tried(lambda: agent.user("More."))
            if entry is not None:
                self.safe(agent, entry)
                self.turn(agent, [])

    def step(self) -> None:
        self.answer()
        act = self.chance.choice(["turn"] * 5 + ["compact", "shrink", "enter", "spawn"])
        if act == "turn" and not self.context.calls:
            self.user()
            self.turn(self.context, [self.call() for _ in range(self.chance.choice([0, 1, 2, 3]))])
        elif act != "turn" and not self.context.calls:
            getattr(self, act)()


def work(folder: str, run: str, mode: str) -> None:
    chance, disk = random.Random(run), Disk()
    faults = random.Random(f"{run} faults")
    left = random.Random(f"{run} left").randrange(60)

    def plan(operation: str, name: str) -> int | str | None:
        """Now and then a fault, or none and then nothing but faults.

        The lock's file takes the note of what was not undone.
        """
        nonlocal left
        left -= 1
        if name.endswith(".lock") or (left > 0 if mode == "dies" else faults.random() > 0.2):
            return None
        return faults.choice([errno.ENOSPC, errno.EIO, "short" if operation == "write" else errno.EIO])

    with disk.installed(), opened(folder) as context:
        session = Session(context, run, disk, chance)
        session.tell(begun=run)
        disk.plan = plan if mode != "kill" else disk.plan
        while True:
            session.step()


if __name__ == "__main__":
    work(*sys.argv[1:])
