"""All that a conversation does, in any order and in any storage, killed at any moment, on a disk or a network that fails:
nothing acknowledged is lost, nothing is billed twice, and nothing hangs."""

from __future__ import annotations

import random
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anthropic
import pytest

from contextkit import Context, Log
from contextkit.canonical import parse
from contextkit.log.postgres.connection import MARGIN_SECONDS
from contextkit.log.registry import ListedSessions
from contextkit.server import LocalServer
from tests.crash.session_writer import name_of, opened, work
from tests.log.postgres_server import Postgres, new_server, require
from tests.log.wire import SILENCES, Wire, wired

WAIT_SECONDS = 0.3
LATE_SECONDS = 1.0
"""A busy machine may wake a thread up so much later than it is due."""


class Run:
    """One writer: where it keeps its conversation, and what happens to it beside its death."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.chance = folder, seed, random.Random(seed)
        self.mode = ("kill", "faults", "dies")[seed % 3]

    @property
    def place(self) -> str:
        """Where the conversation is kept."""
        return str(self.folder)

    @property
    def writers_place(self) -> str:
        """The same, for the writer."""
        return self.place

    def strike(self, said: list[dict[str, Any]]) -> None:
        """Called while the writer works; returns when it has said a few lines more, and is to die."""
        n, deadline = len(said) + self.chance.randrange(40), time.monotonic() + 3
        while len(said) < n and time.monotonic() < deadline:
            time.sleep(0.001)

    def settle(self) -> None:
        """Called when the writer is dead."""


class SQLiteRun(Run):
    @property
    def place(self) -> str:
        return f"sqlite:///{self.folder / 'agents.db'}?session=main"


class PostgresRun(Run):
    """The network is cut, reset or silent, the server stopped or killed; or the writer alone dies."""

    FAULTS = ("stop", "reset", "silent", "crash", "cut", "none", "silent", "silent")

    def __init__(self, folder: Path, seed: int, server: Postgres, wire: Wire) -> None:
        super().__init__(folder, seed)
        self.server, self.wire, self.mode = server, wire, self.FAULTS[seed % len(self.FAULTS)]

    @property
    def place(self) -> str:
        return f"{self.server.dsn}&{self._named()}"

    @property
    def writers_place(self) -> str:
        return f"{self.server.through(self.wire)}&{self._named()}&wait_seconds={WAIT_SECONDS}&application_name=writer"

    def strike(self, said: list[dict[str, Any]]) -> None:
        super().strike(said)
        if self.mode == "cut":
            self.wire.cuts = 1
        elif self.mode == "reset":
            self.wire.reset()
        elif self.mode == "silent":
            self.wire.be_silent(where := self.chance.choice(SILENCES))
            if where == "connect":
                self.wire.reset()
            time.sleep(self.chance.uniform(0, WAIT_SECONDS + MARGIN_SECONDS + LATE_SECONDS))
            self.wire.flow()
        elif self.mode != "none":
            self.server.stop(signal.SIGINT if self.mode == "stop" else signal.SIGKILL)
            time.sleep(self.chance.uniform(0, 0.2))
            self.server.start()
        super().strike(said)

    def settle(self) -> None:
        self.wire.cuts = 0
        self.wire.flow()
        self.wire.reset()
        import psycopg

        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            while connection.execute("select 1 from pg_stat_activity where application_name = 'writer'").fetchall():
                time.sleep(0.01)  # a statement the server has received goes on without who sent it

    def _named(self) -> str:
        return f"session={quote(self.folder.name)}"


PROCESSES = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
"""A writer is forked from a process that has imported what it needs."""


def killed_writer(run: Run, url: str) -> list[dict[str, Any]]:
    """What a writer said before it was killed."""
    PROCESSES.set_forkserver_preload(["tests.crash.session_writer"])
    pipe, writers_pipe = PROCESSES.Pipe(duplex=False)
    told = (writers_pipe, str(run.folder), run.writers_place, url, f"run{run.seed}", run.mode)
    writer = PROCESSES.Process(target=work, args=told)
    writer.start()
    writers_pipe.close()
    said: list[dict[str, Any]] = [pipe.recv()]

    def read() -> None:  # all the time: a full pipe would stop the writer
        with suppress(EOFError):
            while True:
                said.append(pipe.recv())

    reader = threading.Thread(target=read)
    reader.start()
    run.strike(said)
    writer.kill()
    writer.join()
    reader.join()
    pipe.close()
    run.settle()
    assert not [row["trouble"] for row in said if "trouble" in row]
    return said


def texts(context: Context) -> Counter[str]:
    """What the user and the writer's model said, each text with how often it stands in the log.

    The local provider repeats itself.
    """
    bodies = [parse(entry.body) for entry in context.log if entry.kind in ("user", "assistant")]
    found = (body["text"] if "text" in body else body["content"][0]["text"] for body in bodies)
    return Counter(text for text in found if not text.startswith("You said"))


def entries_of(context: Context, name: str) -> list[Any]:
    """The entries of a sub-agent's log."""
    if isinstance(context.log.storage, ListedSessions):
        return context.log.storage.read_beside(name)
    with Log.open(name) as log:
        return list(log)


def check(run: Run, said: list[dict[str, Any]], bills: dict[str, Any], counted: Counter[str]) -> None:
    """Open the conversation, and hold what is there against what was acknowledged and what the provider billed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        context = opened(str(run.folder), run.place)
    counted["set aside"] += len(caught)
    logs: dict[str, list[Any]] = {name_of(context.log.storage): list(context.log)}
    for row in said:
        if "entry" in row:
            name, sequence, digest = row["entry"]
            if name not in logs:
                logs[name] = entries_of(context, name)
            assert logs[name][sequence].digest.hex() == digest, "an acknowledged entry is lost"
            counted["entries"] += 1
    ids = Counter(row.id for row in context.ledger)
    assert max(ids.values(), default=0) <= 1, f"billed twice: {ids.most_common(3)}"
    for row in context.ledger:
        assert row.usage == bills[row.id], "another bill than the provider's"
    for row in said:
        if "bill" in row:
            assert ids[row["bill"]] == 1, "an acknowledged bill is lost"
            counted["bills"] += 1
    found = texts(context)
    assert max(found.values(), default=0) <= 1, f"kept twice: {found.most_common(3)}"
    gone = [row["gone"] for row in said if "gone" in row]
    assert not [text for text in gone if text in found], "what was said to have failed is there"
    counted["given up"] += len(gone)
    counted["raised"] += sum("raised" in row for row in said)
    late = [row["took"] for row in said if row.get("took", 0) > WAIT_SECONDS + MARGIN_SECONDS + LATE_SECONDS]
    assert not late, f"appends that took {late} seconds"
    context.close()


def goes_on(run: Run, client: anthropic.Anthropic, counted: Counter[str]) -> None:
    """Whatever was open is answered, and the provider takes the next request; those of the sub-agents too."""
    with opened(str(run.folder), run.place) as context:
        asks_on(context, client)
        for lane in context.agents:
            with context.agent(lane) as agent:
                asks_on(agent, client)
                counted["sub-agents"] += 1


def asks_on(context: Context, client: anthropic.Anthropic) -> None:
    context.interrupt("the process died")
    context.user(f"Go on {len(context.log)}.")
    n = len(context.ledger)
    context.receive(context.request().send(client))
    assert len(context.ledger) == n + 1
    context.interrupt("enough")


@contextmanager
def runs_in(storage: str) -> Iterator[Callable[[Path, int], Run]]:
    """What makes the runs of one storage."""
    if storage != "postgres":
        yield Run if storage == "jsonl" else SQLiteRun
        return
    from contextkit.log.postgres import create

    with new_server(None, "fsync=on") as server, wired(server.connect) as wire:
        create(server.start().dsn)
        yield lambda folder, seed: PostgresRun(folder, seed, server, wire)


@pytest.mark.filterwarnings("ignore:.*set aside in")  # of sub-agents, which are opened last
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("storage", ["jsonl", "sqlite", "postgres"])
def test_killed_at_random_moments_nothing_acknowledged_is_lost_or_repeated(
    storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if storage == "postgres":
        require()
    n_runs = 200 if request.config.getoption("--full") else 3  # each mode of `Run` once
    counted: Counter[str] = Counter()
    said: list[dict[str, Any]] = []
    with ExitStack() as held:
        server = held.enter_context(LocalServer())
        client = held.enter_context(anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0))
        run_of = held.enter_context(runs_in(storage))
        for seed in range(n_runs):
            folder = tmp_path / str(seed // 5)  # five to a folder: recovery must not harm the next one either
            said = said if folder.exists() else []
            folder.mkdir(exist_ok=True)
            run = run_of(folder, seed)
            said = [*said, *killed_writer(run, server.url)]
            check(run, said, {row.id: row.usage for row in server.ledger}, counted)
            goes_on(run, client, counted)
            if seed in (seed // 5 * 5 + 4, n_runs - 1):
                check(run, said, {row.id: row.usage for row in server.ledger}, counted)
    print(
        f"{n_runs} interleavings in {storage}: {dict(counted)}; nothing acknowledged is lost, nothing is billed or kept twice"
    )
    assert counted["entries"] > n_runs and counted["bills"] > n_runs
