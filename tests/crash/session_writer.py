"""Holds a conversation with everything in it, on a disk or a network that may fail, until it is killed.

Says what is safe once it is.

Sends dicts: `entry` (name of the log, sequence, digest) and `bill` (id) of what returned, `gone` (text) of what
raised and was given up, `raised` for each act that raised, `took` (seconds) for each append to Postgres."""

from __future__ import annotations

import errno
import json
import random
import time
import traceback
import urllib.request
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from contextkit import AnthropicMessages, Context, Phase, Phases, tool
from contextkit.errors import ConcurrentAppend, MemoryRefused, StorageError
from contextkit.ledger.ledger import Ledger
from contextkit.log.entry import Entry
from contextkit.log.postgres import PostgresStorage
from contextkit.log.registry import STORAGES
from contextkit.log.storage import Storage
from contextkit.memory import FileMemory, Memory, Offload
from contextkit.providers.request import Request
from tests.crash.faults import Disk, limit_files

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


def opened(folder: str, place: str) -> Context:
    """The conversation kept at `place`, its files in `folder`."""
    memory = Memory(FileMemory(f"{folder}/memory"), offload=Offload(above_tokens=500, preview_tokens=50))
    more = {"ledger": Ledger.open(f"{folder}/ledger.jsonl")} if place.startswith("postgres") else {}
    return Context.open(place, provider(), system="Read on.", tools=[fetch, note], memory=memory, phases=PHASES, **more)


def name_of(storage: Storage) -> str:
    """What a log is called: its file, or its session."""
    return str(getattr(storage, "session", storage.path))


def billed(url: str, request: Request) -> dict[str, Any]:
    """The local provider's reply, which it has billed."""
    headers = {"content-type": "application/json", "x-api-key": "any", "anthropic-version": "2023-06-01"}
    sent = urllib.request.Request(f"{url}/v1/messages", request.body, {**headers, **request.headers})
    with urllib.request.urlopen(sent) as response:
        reply: dict[str, Any] = json.load(response)
    return reply


def reply(name: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """What the writer's model says in place of the local provider, which repeats what it is told."""
    content = [{"type": "text", "text": f"I am {name}."}, *calls]
    return {"content": content, "stop_reason": "tool_use" if calls else "end_turn"}


class Timed(PostgresStorage):
    """Says how long each append took."""

    tell: Callable[[dict[str, Any]], None]

    def append(self, entry: Entry, prev: bytes) -> None:
        begin = time.monotonic()
        try:
            super().append(entry, prev)
        finally:
            Timed.tell({"took": time.monotonic() - begin})


class Session:
    """One process's part of the conversation."""

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        open_: Callable[[], Context],
        url: str,
        run: str,
        fail: Callable[[], None],
    ) -> None:
        self.send, self.open, self.context = send, open_, open_()
        self.url, self.run, self.fail, self.chance = url, run, fail, random.Random(run)
        self.n = 0
        self.is_overtaken, self.is_doubted = False, False
        """Whether the log must be opened again; whether what was given up last may be kept."""

    def tell(self, **fields: Any) -> None:
        self.send(fields)

    def safe(self, context: Context, entry: Entry) -> None:
        self.tell(entry=[name_of(context.log.storage), entry.sequence, entry.digest.hex()])

    def tried(self, act: Callable[[], T]) -> T | None:
        """What `act` returns, at the first to third try; None where it was given up."""
        for _ in range(self.chance.choice([1, 2, 3])):
            self.fail()
            try:
                return act()
            except (OSError, StorageError, MemoryRefused) as fault:
                self.tell(raised=str(fault))
                self.is_doubted = "may be kept or not" in str(fault)
                if isinstance(fault, ConcurrentAppend):
                    self.is_overtaken = True
                    break
        return None

    def name(self) -> str:
        self.n += 1
        return f"{self.run}-{self.n}"

    def user(self) -> bool:
        text = f"user {self.name()}."
        entry = self.tried(lambda: self.context.user(text))
        if entry is not None:
            self.safe(self.context, entry)
        elif not (self.is_doubted or self.is_overtaken):
            self.tell(gone=text)
        return entry is not None

    def turn(self, context: Context, calls: list[dict[str, Any]]) -> None:
        """Ask, and receive a reply."""
        request = self.tried(context.request)
        if request is None:
            return
        name = self.name()
        response = {**billed(self.url, request), **reply(name, calls)}
        entry = self.tried(lambda: context.receive(response, request))
        if entry is not None:
            self.safe(context, entry)
            self.tell(bill=response["id"])

    def answer(self) -> None:
        for call in self.context.calls:
            value = self.tried(call.run)  # which writes that the call was begun
            if value is None:
                continue
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

    def reopen(self) -> None:
        """Begin with what is there, as an overtaken writer must."""
        self.context.close()
        context = self.tried(self.open)
        if context is not None:
            self.context, self.is_overtaken = context, False

    def step(self) -> None:
        if self.is_overtaken:
            self.reopen()
            return
        self.answer()
        act = self.chance.choice(["turn"] * 5 + ["compact", "shrink", "enter", "spawn"])
        if act == "turn" and not self.context.calls:
            if self.user():
                self.turn(self.context, [self.call() for _ in range(self.chance.choice([0, 1, 2, 3]))])
        elif act != "turn" and not self.context.calls:
            getattr(self, act)()


def work(pipe: Connection, *told: str) -> None:
    """`write`, and send what it says through a pipe."""
    warnings.simplefilter("ignore")
    try:
        write(pipe.send, *told)
    except BaseException:
        pipe.send({"trouble": traceback.format_exc()})
        raise


def write(send: Callable[[dict[str, Any]], None], folder: str, place: str, url: str, run: str, mode: str) -> None:
    """Go on until killed."""
    disk, faults = Disk(), random.Random(f"{run} faults")
    left = random.Random(f"{run} left").randrange(60)

    def strikes() -> bool:
        """Now and then a fault, or none and then nothing but faults."""
        nonlocal left
        left -= 1
        return left <= 0 if mode == "dies" else faults.random() < 0.2

    def plan(operation: str, name: str) -> int | str | None:
        """The lock's file takes the note of what was not undone."""
        is_fine = not strikes()
        if name.endswith(".lock") or is_fine:
            return None
        return faults.choice([errno.ENOSPC, errno.EIO, "short" if operation == "write" else errno.EIO])

    def fail() -> None:
        """SQLite writes by itself: what its journal takes before it fails differs."""
        journal = Path(folder, "agents.db-wal")
        size = journal.stat().st_size if journal.exists() else 0
        limit = faults.choice([0, size // 2, size, size + faults.randrange(20_000)])
        limit_files(limit if strikes() else None)

    STORAGES["postgresql"], Timed.tell = Timed.at, send
    fails = place.startswith("sqlite:") and mode != "kill"
    with disk.installed():
        session = Session(send, lambda: opened(folder, place), url, run, fail if fails else lambda: None)
        session.tell(begun=run)
        disk.plan = plan if "://" not in place and mode != "kill" else disk.plan
        while True:
            session.step()
