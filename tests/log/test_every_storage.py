"""What holds for a log wherever it is kept: in a JSONL file, in SQLite and in Postgres."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from contextkit import AnthropicMessages, Context, tool
from contextkit.canonical import canonical, parse
from contextkit.errors import HeadChanged, LogCorrupt, NotSerialisable, StorageError, UsageError
from contextkit.log.entry import Entry
from contextkit.log.log import Log
from contextkit.log.postgres import PostgresStorage
from contextkit.log.sqlite import SQLiteStorage, parse_url
from contextkit.log.storage import JSONLStorage, Storage

ROOT = Path(__file__).resolve().parents[2]
BODIES = [
    {"content": [{"type": "text", "text": "né ☂ \0\u2028"}]},
    {"n": 10**30, "f": 1e-7, "z": -0.0},
    {"b": 1, "a": ',"body":'},
    {},
    {"a": []},
]
TIMES = [0.0, -0.0, 1790000000.25, 5e-324, 1.7976931348623157e308]


@dataclass(frozen=True)
class Place:
    """Where a log can be kept; the same name is the same log."""

    storage: Callable[[str], Storage]
    spelled: Callable[[str], str]
    """What another process is given to open it."""

    def log(self, name: str = "log") -> Log:
        return Log(self.storage(name), clock=lambda: 1790000000.25)


@pytest.fixture(params=["jsonl", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "jsonl":
        return Place(lambda name: JSONLStorage(tmp_path / name), lambda name: str(tmp_path / name))
    if request.param == "sqlite":
        file = tmp_path / "logs.db"
        return Place(lambda name: SQLiteStorage(file, name), lambda name: f"sqlite:///{file}?session={name}")
    postgres, prefix = request.getfixturevalue("postgres"), request.getfixturevalue("fresh")()
    spelled = f"{postgres.dsn}&session={prefix.replace(' ', '%20')}-"
    return Place(lambda name: PostgresStorage(postgres.dsn, f"{prefix}-{name}"), lambda name: spelled + name)


def filled(log: Log, n: int = 4) -> Log:
    for number in range(n):
        log.append("user", {"n": number})
    return log


OPEN = """
import sys
from contextkit.log.log import Log
from contextkit.log.registry import open_storage, scheme_of
from contextkit.log.storage import JSONLStorage
def opened(name):
    return Log(open_storage(name) if scheme_of(name) else JSONLStorage(name), clock=lambda: 1.5)
"""
WRITE = """
log.append("opened", {"tags": sorted({"b", "a"}), "z": 1, "a": {"y": 1.0, "x": 10**20}})
log.append("user", {name: hash for name, hash in zip("qwertz", range(6))})
"""
OTHER_PROCESS = f"""{OPEN}
from contextkit import AnthropicMessages, Context
log = opened(sys.argv[1])
{WRITE}
log = opened(sys.argv[2])
print(b"|".join(entry.body for entry in log).hex(), log.digest.hex())
context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), log=opened(sys.argv[3]))
print(context.request().body.hex())
"""


def python(code: str, *arguments: str) -> list[str]:
    """The words another process prints, under another hash seed and encoding."""
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "latin-1"}
    return (
        subprocess.run(
            [sys.executable, "-c", code, *arguments], env=environment, cwd=ROOT, check=True, capture_output=True
        )
        .stdout.decode()
        .split()
    )


def test_a_reopened_log_has_the_same_entries(place: Place) -> None:
    with place.log() as log:
        for body, at in zip(BODIES, TIMES, strict=True):
            log.append("user", body, at=at)
    with place.log() as again:
        assert list(again) == list(log) and [entry.body for entry in again] == [canonical(body) for body in BODIES]
        assert [str(entry.at) for entry in again] == [str(at) for at in TIMES]
        assert again.append("notice", {"text": "more"}).sequence == 5
    assert [entry.kind for entry in place.storage("log").load()] == ["user"] * 5 + ["notice"]


def test_a_body_without_a_json_form_changes_nothing(place: Place) -> None:
    with filled(place.log()) as log:
        with pytest.raises(NotSerialisable, match=r"\$\.a\[0\]"):
            log.append("user", {"a": [{1, 2}]})
        with pytest.raises(NotSerialisable):
            log.append("user", {}, at=float("nan"))
        with pytest.raises(UsageError, match="kind 'question'"):
            log.append("question", {})  # type: ignore[arg-type]
    with place.log() as again:
        assert len(again) == 4 and again.digest == log.digest


def test_threads_append_one_chain(place: Place) -> None:
    with place.log() as log:
        threads = [threading.Thread(target=filled, args=(log, 10)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with place.log() as again:
        assert [entry.sequence for entry in again] == list(range(40))


def test_a_closed_log_can_be_read_but_not_written(place: Place) -> None:
    log = filled(place.log())
    log.close()
    log.close()
    with pytest.raises(StorageError, match="open the log again"):
        log.append("user", {})
    assert len(log) == 4


def test_a_fork_shares_entries_keeps_only_its_own_and_goes_on(place: Place) -> None:
    with filled(place.log()) as parent, parent.fork(2, place.storage("child")) as child:
        child.append("user", {"own": True})
        parent.append("user", {"n": "behind the fork"})
        early = child.fork(1, place.storage("early"))  # an entry the child itself has from its parent
        late = child.fork(4, place.storage("late"))
        early.close()
        late.append("user", {"late": True})
        late.close()
    for name, expected in {
        "child": [0, 1, 2, None, None],
        "early": [0, 1, None],
        "late": [0, 1, 2, None, None, None, None],
    }.items():
        with place.log(name) as again:
            assert [parse(entry.body).get("n") for entry in again] == expected
            again.append("user", {})
    with place.log("child") as again:
        assert list(again)[:5] == list(child) and again[2] is not parent[2] and again[2] == parent[2]


def test_a_fork_of_memory_carries_everything(place: Place) -> None:
    parent = filled(Log())
    parent.fork(2, place.storage("child")).close()
    with place.log("child") as child:
        assert child[:3] == parent[:3] and child[3].kind == "opened"


def test_a_fork_to_memory_needs_no_storage(place: Place) -> None:
    with filled(place.log()) as parent:
        child = parent.fork(1)
    assert child[:2] == parent[:2] and child.append("user", {}).sequence == 3


def test_a_fork_needs_an_entry_of_this_log_and_an_empty_place(place: Place) -> None:
    with filled(place.log()) as log, filled(place.log("other")):
        pass
    with place.log() as log:
        with pytest.raises(UsageError, match="cannot fork at entry"):
            log.fork(4, place.storage("new"))
        with pytest.raises(UsageError, match="it holds 4 entries already"):
            log.fork(1, place.storage("other"))


def test_a_fork_from_one_kind_of_place_to_another_carries_everything(place: Place, tmp_path: Path) -> None:
    with filled(place.log()) as parent, parent.fork(2, tmp_path / "elsewhere.jsonl") as there:
        there.append("user", {"n": "there"})
        there.fork(4, place.storage("back")).close()
    with place.log("back") as back:
        assert [parse(entry.body).get("n") for entry in back] == [0, 1, 2, None, "there", None]


def test_a_lost_parent_is_named(place: Place) -> None:
    with filled(place.log()) as parent:
        parent.fork(2, place.storage("child")).close()
    lose(place, "log")
    with pytest.raises(LogCorrupt, match="its parent"):
        place.log("child")


def lose(place: Place, name: str) -> None:
    """Take a log away, as somebody does who does not know that forks begin in it."""
    spelled = place.spelled(name)
    if spelled.startswith("sqlite:"):
        file, session = parse_url(spelled)
        with sqlite3.connect(file) as database:
            database.execute("delete from entry where session = ?", (session,))
        database.close()
        return
    if not spelled.startswith("postgresql:"):
        Path(spelled).unlink()
        return
    storage = PostgresStorage.at(spelled)
    with storage._server.connection() as connection:
        connection.execute("delete from entry where session = %s", (storage.session,))


@tool
def search(query: str) -> str:
    """Search."""
    return query


def test_another_process_writes_and_reads_the_same_bytes_and_sends_the_same_request(place: Place) -> None:
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=1024)
    context = Context(provider, system="Be terse. ☂", tools=[search], log=place.log())
    context.user(["Grüße 👩‍👩‍👧", {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}])
    call = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "é", "b": 10**20, "a": 1e-7}}
    ended = {"stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 3}}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [call]}
    context.receive({**said, **ended})
    context.result(context.calls[0], {"set": {"b", "a", "ü"}, "none": None})
    expected = context.request().body
    context.close()
    with Log(place.storage("ours"), clock=lambda: 1.5) as ours:
        exec(WRITE, {"log": ours})
        told = [b"|".join(entry.body for entry in ours).hex(), ours.digest.hex()]
    spelled = [place.spelled(name) for name in ("theirs", "ours", "log")]
    assert python(OTHER_PROCESS, *spelled) == [*told, expected.hex()]
    with place.log("theirs") as theirs:
        assert list(theirs) == list(ours)
    with place.log() as log, pytest.raises(HeadChanged):
        Context(provider, system="Be wordy.", log=log)


class Failing:
    """A storage whose next append raises where that is asked for."""

    def __init__(self, storage: Storage) -> None:
        self.storage, self.path, self.fails = storage, storage.path, False
        self.load, self.inherit, self.close = storage.load, storage.inherit, storage.close

    def append(self, entry: Entry, prev: bytes) -> None:
        fails, self.fails = self.fails, False
        if fails:
            raise StorageError("nobody knows")
        self.storage.append(entry, prev)


def test_what_is_appended_again_after_it_raised_is_the_same_entry(place: Place) -> None:
    times = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    storage = Failing(place.storage("log"))
    with Log(storage, clock=lambda: next(times)) as log:
        storage.fails = True
        with pytest.raises(StorageError, match="nobody knows"):
            log.append("user", {"n": 0})
        assert log.append("user", {"n": 0}).at == 1.0
        assert log.append("user", {"n": 0}).at == 3.0, "one that did not raise is an entry of its own"
        storage.fails = True
        with pytest.raises(StorageError, match="nobody knows"):
            log.append("user", {"n": 1})
        assert log.append("user", {"n": 2}).at == 5.0
        assert log.append("user", {"n": 3}, at=6.0).at == 6.0
    assert [entry.at for entry in place.log()] == [1.0, 3.0, 5.0, 6.0]
