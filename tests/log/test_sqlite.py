"""Many sessions in one SQLite file: locks, crashes, damage, conversations with their ledgers and sub-agents."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from contextkit import AnthropicMessages, Budget, Context, Ledger
from contextkit.errors import BudgetExceeded, LogCorrupt, LogLocked, StorageError, UsageError
from contextkit.log.log import Log
from contextkit.log.registry import STORAGES, open_storage, scheme_of
from contextkit.log.sqlite import SQLiteStorage, parse_url
from contextkit.log.storage import JSONLStorage, MemoryStorage

ROOT = Path(__file__).resolve().parents[2]
PROVIDER = AnthropicMessages("claude-sonnet-5-5", max_tokens=64)
REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5-5",
    "content": [{"type": "text", "text": "ok"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "logs.db"


def url(file: Path, session: str = "a") -> str:
    return f"sqlite:///{file}?session={session}"


def change(file: Path, statement: str, *values: object) -> None:
    database = sqlite3.connect(file)
    with database:
        database.execute(statement, values)
    database.close()


# The registry
# ----------------------------------------------------------------------------------------------------------------------


def test_a_place_chooses_its_storage(tmp_path: Path, file: Path) -> None:
    for place, kind in ((tmp_path / "folder", JSONLStorage), (url(file), SQLiteStorage)):
        storage = open_storage(place)
        assert type(storage) is kind
        storage.close()
    with pytest.raises(UsageError, match="no storage is registered for mysql: URLs"):
        open_storage("mysql://host/db?session=a")
    STORAGES["nowhere"] = lambda place: MemoryStorage()
    try:
        with Context.open("nowhere://x", PROVIDER) as context:
            context.user("Hello")
    finally:
        del STORAGES["nowhere"]
    assert [scheme_of(place) for place in ("a/b", r"C:\runs", "c:/runs", 5)] == ["", "", "", ""]


@pytest.mark.parametrize("place", ["sqlite:///x.db", "sqlite:x.db?session=a", "sqlite:///x.db?session=a&b=c"])
def test_a_url_that_names_no_session_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="session"):
        open_storage(place)


def test_a_path_may_hold_what_a_url_escapes(tmp_path: Path) -> None:
    assert parse_url("sqlite:////a%20b/c%3Fd.db?session=x%2Fy") == (Path("/a b/c?d.db"), "x/y")
    place = tmp_path / "a b%#?.db"
    with Log(SQLiteStorage(place, "é")) as log:
        log.append("user", {})
    assert place.is_file() and len(SQLiteStorage.read(place, "é")) == 1
    if os.name != "nt":
        assert place.stat().st_mode & 0o777 == 0o600


# One writer, and others
# ----------------------------------------------------------------------------------------------------------------------


def test_a_session_has_one_writer_and_a_file_has_many(file: Path) -> None:
    with Log(SQLiteStorage(file, "a")) as one, Log(SQLiteStorage(file, "b")) as other:
        one.append("user", {"n": 1})
        other.append("user", {"n": 2})
        with pytest.raises(LogLocked, match=rf"session 'a' of .* is being written by this process \({os.getpid()}\)"):
            SQLiteStorage(file, "a")
        assert [entry.body for entry in SQLiteStorage.read(file, "a")] == [b'{"n":1}']
    SQLiteStorage(file, "a").close()


OTHER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("select count(*) from entry").fetchone()
database.close()
"""


def test_what_another_program_does_with_the_file_loses_nothing(file: Path) -> None:
    """It may not think itself the last to close the file: opening a session must keep the locks of those that are open."""
    with Context.open(url(file), PROVIDER) as context:
        context.user("before")
        with Context.open(url(file, "b"), PROVIDER) as second:
            second.user("hello")
        subprocess.run([sys.executable, "-c", OTHER, file], check=True)
        context.user("after")
        assert SQLiteStorage.read(file, "a") == list(context.log)
        assert file.with_name(f"{file.name}-wal").exists()


def test_writers_of_many_sessions_wait_for_each_other(file: Path) -> None:
    logs = [Log(SQLiteStorage(file, f"s{n}")) for n in range(6)]

    def fill(log: Log) -> None:
        for n in range(15):
            log.append("user", {"n": n})

    threads = [threading.Thread(target=fill, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in logs:
        log.close()
    assert [len(SQLiteStorage.read(file, f"s{n}")) for n in range(6)] == [15] * 6


def test_a_log_that_is_dropped_unclosed_is_not_locked_for_good(file: Path) -> None:
    Log(SQLiteStorage(file, "a")).append("user", {})
    with Log(SQLiteStorage(file, "a")) as log:
        assert len(log) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_does_not_write(file: Path) -> None:
    with Log(SQLiteStorage(file, "a")) as log:
        log.append("user", {})
        child = os.fork()
        if child == 0:
            try:
                log.append("user", {})
            except LogLocked:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        log.append("user", {})


# Crashes
# ----------------------------------------------------------------------------------------------------------------------

WRITER = """
import sys
from contextkit.log.log import Log
from contextkit.log.sqlite import SQLiteStorage
log = Log(SQLiteStorage(sys.argv[1], "a"))
n = len(log)
while True:
    log.append("user", {"n": n, "text": "x" * 2000})
    n += 1
    print(n, flush=True)
"""


def test_what_append_returned_for_survives_a_kill(file: Path, request: pytest.FixtureRequest) -> None:
    n_known = 0
    for _ in range(50 if request.config.getoption("--full") else 2):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, env=environment
        ) as writer:
            assert writer.stdout is not None
            for _ in range(7):
                n_known = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
        with Log(SQLiteStorage(file, "a")) as log:
            assert len(log) >= n_known
            n_known = len(log)


class Broken:
    """A connection whose nth statement fails, before or after it was carried out."""

    def __init__(self, inner: sqlite3.Connection, word: str, error: BaseException, *, is_after: bool) -> None:
        self.inner, self.word, self.error, self.is_after = inner, word, error, is_after

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        if not statement.startswith(self.word):
            return self.inner.execute(statement, *values)  # type: ignore[arg-type]
        if self.is_after:
            self.inner.execute(statement, *values)  # type: ignore[arg-type]
        raise self.error

    @property
    def in_transaction(self) -> bool:
        return self.inner.in_transaction


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("word", ["begin", "insert", "commit"])
@pytest.mark.parametrize("error", [sqlite3.OperationalError("database or disk is full"), KeyboardInterrupt()])
def test_an_append_that_raises_left_nothing(file: Path, word: str, is_after: bool, error: BaseException) -> None:
    with Log(SQLiteStorage(file, "a")) as log:
        log.append("user", {"n": 0})
        storage = log.storage
        assert isinstance(storage, SQLiteStorage)
        connection = storage._connection
        storage._connection = Broken(connection, word, error, is_after=is_after)  # type: ignore[assignment]
        with pytest.raises((StorageError, KeyboardInterrupt)):
            log.append("user", {"n": 1})
        storage._connection = connection
        log.append("user", {"n": 2})
    assert [entry.body for entry in SQLiteStorage.read(file, "a")] == [b'{"n":0}', b'{"n":2}']


def test_a_file_that_was_replaced_is_not_written(file: Path) -> None:
    with Log(SQLiteStorage(file, "a")) as log:
        log.append("user", {})
        file.rename(file.with_name("moved.db"))
        with pytest.raises(StorageError, match="deleted, moved or replaced"):
            log.append("user", {})


# Damage
# ----------------------------------------------------------------------------------------------------------------------

CHANGES = [
    ("update entry set body = cast('{\"n\":7}' as blob) where sequence = 1", "entry 1: its digest"),
    ("update entry set at = '1.50' where sequence = 1", "entry 1"),
    ("update entry set at = 2.5 where sequence = 1", "entry 1"),
    ("update entry set kind = 'notice' where sequence = 1", "entry 1: its digest"),
    ("update entry set prev = zeroblob(16) where sequence = 1", "entry 1"),
    ("update entry set digest = zeroblob(16) where sequence = 2", "entry 2"),
    ("update entry set digest = 'text' where sequence = 2", "entry 2"),
    ("update entry set body = 'text' where sequence = 2", "entry 2"),
    ("delete from entry where sequence = 1", "entry 2: it does not follow entry 0"),
    ("delete from entry where sequence = 0", "entry 1"),
    ("update entry set sequence = 9 where sequence = 3", "entry 9"),
]


@pytest.mark.parametrize(("statement", "where"), CHANGES)
def test_a_changed_row_raises_with_file_and_row(file: Path, statement: str, where: str) -> None:
    with Log(SQLiteStorage(file, "a")) as log, Log(SQLiteStorage(file, "b")) as other:
        for n in range(4):
            log.append("user", {"n": n})
        other.append("user", {})
    change(file, f"{statement} and session = 'a'")
    with pytest.raises(LogCorrupt, match=rf"logs\.db, session 'a', {where}"):
        SQLiteStorage(file, "a")
    with Log(SQLiteStorage(file, "b")) as other:
        assert len(other) == 1


def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path) -> None:
    text, foreign = tmp_path / "text.db", tmp_path / "foreign.db"
    text.write_bytes(b"not a database at all" * 100)
    change(foreign, "create table entry (a)")
    before = text.read_bytes()
    with pytest.raises(LogCorrupt, match="no SQLite file"):
        SQLiteStorage(text, "a")
    with pytest.raises(StorageError, match="of another program"):
        SQLiteStorage(foreign, "a")
    assert text.read_bytes() == before
    with pytest.raises(StorageError):
        SQLiteStorage.read(tmp_path / "missing.db", "a")


# Conversations
# ----------------------------------------------------------------------------------------------------------------------


def test_a_conversation_keeps_log_ledger_agents_and_budget_in_one_file(file: Path) -> None:
    budget = Budget(tokens=50_000)
    with Context.open(url(file), PROVIDER, system="Be brief.", budget=budget) as context:
        context.user("Hello")
        request = context.request()
        context.receive({**REPLY, "usage": {**REPLY["usage"], "input_tokens": 4_000}}, request)  # type: ignore[dict-item]
        agent = context.spawn("a task")
        lane = agent.lane
        agent.receive({**REPLY, "id": "msg_2"}, agent.request())
        branch = context.fork(folder=url(file, "branch"))
        branch.user("another way")
        branch.close()
    with Context.open(url(file), PROVIDER, system="Be brief.", budget=Budget(tokens=4_020)) as again:
        assert [call.id for call in again.ledger] == ["msg_1", "msg_2"]
        assert again.agents == [lane] and [state.status for state in again.agent_states] == ["finished"]
        assert again.agent(lane).last_text == "ok"
        again.user("More")
        with pytest.raises(BudgetExceeded, match="4,015 tokens are spent"):
            again.request()
    with Context.open(url(file, "branch"), PROVIDER) as branch:
        assert [entry.kind for entry in branch.log] == ["opened", "user", "assistant", "opened", "user"]
        assert not len(branch.ledger)


def test_a_ledger_without_its_log_is_not_continued(file: Path) -> None:
    with Context.open(url(file), PROVIDER) as context:
        context.user("Hello")
        context.receive(REPLY, context.request())
    change(file, "delete from entry")
    with pytest.raises(
        StorageError, match=r"session 'a' of .* is missing or empty, but the ledger beside it records 1 call"
    ):
        Context.open(url(file), PROVIDER)
    change(file, "update call set line = substr(line, 2)")
    with pytest.raises(LogCorrupt, match=r"logs\.db, session 'a': the ledger line 2"):
        Context.open(url(file), PROVIDER)


def test_a_ledger_given_is_used(file: Path) -> None:
    ledger = Ledger()
    with Context.open(url(file), PROVIDER, ledger=ledger) as context:
        context.user("Hello")
        context.receive(REPLY, context.request())
    assert len(ledger) == 1
