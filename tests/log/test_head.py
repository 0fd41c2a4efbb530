"""The last entry whose append returned is noted beside the log: a log that ends before it has lost lines."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from contextkit.errors import LogCorrupt
from contextkit.log.log import Log
from contextkit.log.sqlite import SQLiteStorage
from contextkit.log.storage import JSONLStorage
from tests.crash.faults import Disk, Plan, of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed log of five entries."""
    with Log.open(tmp_path / "log.jsonl", clock=lambda: 5.0) as log:
        for number in range(5):
            log.append("user", {"number": number})
    return tmp_path / "log.jsonl"


@pytest.mark.parametrize("n_lost", [1, 2, 5])
def test_whole_last_lines_that_are_missing_are_noticed_on_every_road(path: Path, n_lost: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    cut = b"".join(lines[: 5 - n_lost])
    path.write_bytes(cut)
    what = "its last entry is missing" if n_lost == 1 else f"its last {n_lost} entries are missing"
    roads = (
        Log.open,
        lambda path: list(JSONLStorage.read(path)),
        lambda path: next(JSONLStorage.read_backwards(path), 0),
    )
    for road in roads:
        with pytest.raises(LogCorrupt, match=rf"log\.jsonl: {what} \(it had 5.*delete .*log\.jsonl\.lock to go on"):
            road(path)
    assert path.read_bytes() == cut
    path.with_name("log.jsonl.lock").unlink()  # as the message says
    with Log.open(path) as log:
        assert len(log) == 5 - n_lost
        log.append("user", {})


def test_a_line_that_was_acknowledged_and_is_cut_in_the_middle_is_lost_too(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])
    for _ in range(2):
        with pytest.raises(LogCorrupt, match="its last entry is missing"):
            Log.open(path)
    assert not path.with_name("log.jsonl.torn").exists()


def test_a_last_line_that_is_another_is_noticed(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    other = path.with_name("other.jsonl")
    other.write_bytes(b"".join(lines[:4]))
    with Log.open(other, clock=lambda: 5.0) as log:
        log.append("user", {"number": 9})
    path.write_bytes(other.read_bytes())
    with pytest.raises(LogCorrupt, match="entry 4, its last, is not the one that was written"):
        Log.open(path)


def test_who_takes_a_log_away_begins_anew(path: Path) -> None:
    path.unlink()
    with Log.open(path) as log:
        assert len(log) == 0
        log.append("user", {})
    with Log.open(path) as log:
        assert len(log) == 1


@pytest.mark.parametrize(
    "left", [b"", b"12", b"12\nhead 4 ", "half", b"12\nhead 99 " + b"0" * 32 + b" 00000000", b"\0" * 60]
)
def test_a_lock_file_of_an_older_version_or_a_torn_one_says_nothing(path: Path, left: bytes | str) -> None:
    """An older version leaves a pid; of a write that the power cut, a part may be there."""
    lock = path.with_name("log.jsonl.lock")
    note = lock.read_bytes()
    lock.write_bytes(left if isinstance(left, bytes) else note[: len(note) // 2])
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    with Log.open(path) as log:
        assert len(log) == 3
        log.append("user", {})
    assert b"\nhead 3 " in lock.read_bytes()


def test_a_head_that_lags_behind_is_no_fault(path: Path) -> None:
    """The process may die between the append and the note; an older version appends without one."""
    lock = path.with_name("log.jsonl.lock")
    early = lock.read_bytes()
    with Log.open(path) as log:
        log.append("user", {"number": 5})
    lock.write_bytes(early)
    with Log.open(path) as log:
        assert len(log) == 6


def test_an_append_whose_note_fails_is_kept(path: Path) -> None:
    with Disk().installed() as disk, Log.open(path) as log:
        with disk.failing(of("log.jsonl.lock", "write", fault=errno.ENOSPC)):
            log.append("user", {"number": 5})
        with disk.failing(of("log.jsonl.lock", "write", fault="short")):
            log.append("user", {"number": 6})
    assert disk.n_faults == 2
    with Log.open(path) as log:
        assert len(log) == 7


def test_an_append_that_is_interrupted_at_its_note_leaves_the_log_as_it_was(path: Path) -> None:
    with Disk().installed() as disk, Log.open(path) as log:
        once = of("log.jsonl.lock", "write", fault="interrupt")
        plan: Plan = lambda operation, name: None if disk.n_faults else once(operation, name)  # noqa: E731
        with disk.failing(plan), pytest.raises(KeyboardInterrupt):
            log.append("user", {"number": 5})
    for n_before in (5, 6):
        with Log.open(path) as log:
            assert len(log) == n_before
            log.append("user", {"number": n_before})


def test_a_fork_has_a_head_of_its_own_and_needs_of_its_parent_what_it_shares(path: Path) -> None:
    child = path.with_name("child.jsonl")
    with Log.open(path) as log, log.fork(2, child) as fork:
        fork.append("user", {"in": "the fork"})
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:3]))
    assert len(list(JSONLStorage.read(child))) == 5
    path.write_bytes(b"".join(whole[:2]))
    with pytest.raises(LogCorrupt, match=r"log\.jsonl: its last 3 entries are missing"):
        Log.open(child)
    path.write_bytes(b"".join(whole))
    child.write_bytes(child.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(LogCorrupt, match=r"child\.jsonl: its last entry is missing \(it had 5"):
        Log.open(child)


def test_rows_deleted_at_the_end_of_a_sqlite_session_are_noticed(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"

    def delete(statement: str) -> None:
        database = sqlite3.connect(file)
        with database:
            database.execute(statement)
        database.close()

    with Log(SQLiteStorage(file, "s")) as log:
        for number in range(4):
            log.append("user", {"number": number})
        with log.fork(1, SQLiteStorage(file, "child")) as child:
            child.append("user", {})
    delete("delete from entry where session = 's' and sequence = 3")
    for road in (lambda: Log(SQLiteStorage(file, "s")), lambda: SQLiteStorage.read(file, "s")):
        with pytest.raises(
            LogCorrupt, match=r"session 's': it ended with entry 3, and 3 entries are there.*last_entry"
        ):
            road()
    assert len(SQLiteStorage.read(file, "child")) == 4, "it needs what it shares"
    delete("delete from last_entry where session = 's'")  # as the message says
    with Log(SQLiteStorage(file, "s")) as log:
        log.append("user", {})
    delete("delete from entry where session = 's'")
    with Log(SQLiteStorage(file, "s")) as log:
        assert len(log) == 0, "a session that was taken away begins anew"
        log.append("user", {})
    assert len(SQLiteStorage.read(file, "s")) == 1


def test_a_sqlite_file_of_an_older_version_is_read_and_continued(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with Log(SQLiteStorage(file, "s")) as log:
        for number in range(3):
            log.append("user", {"number": number})
    database = sqlite3.connect(file)
    database.executescript("drop table last_entry; pragma user_version = 0")
    database.close()
    assert len(SQLiteStorage.read(file, "s")) == 3
    with Log(SQLiteStorage(file, "s")) as log:
        assert len(log) == 3
    database = sqlite3.connect(file)
    assert database.execute("select session, sequence from last_entry").fetchall() == [("s", 2)]
    assert database.execute("pragma user_version").fetchone() == (1,)
    database.close()
