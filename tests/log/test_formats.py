"""What a newer contextkit wrote is named as such: nobody is told to restore or cut a file that is whole."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit import AnthropicMessages, Context
from contextkit.canonical import canonical
from contextkit.cli.lock import lock_text, read_lock
from contextkit.errors import ContextKitError, NewerFormat
from contextkit.ledger.calls import Chain, Remark, encode
from contextkit.ledger.ledger import Ledger
from contextkit.lint.baseline import read_baseline, write_baseline
from contextkit.log.entry import Entry
from contextkit.log.log import Log
from contextkit.log.sqlite import CallLines, SQLiteStorage
from contextkit.log.storage import GENESIS, JSONLStorage, digest_of, write_line
from contextkit.memory.search.index import Index
from contextkit.proxy.journal import Journal


def entry(kind: str, body: bytes) -> Entry:
    """A whole entry, the first of its log, of a kind that need not exist."""
    return Entry(0, kind, body, 5.0, digest_of(GENESIS, kind, 5.0, body))  # type: ignore[arg-type]


def open_context(place: object) -> None:
    Context.open(place, AnthropicMessages("claude-opus-5", max_tokens=9)).close()  # type: ignore[arg-type]


def newer_kind(folder: Path) -> Callable[[], object]:
    path = folder / "log.jsonl"
    path.write_bytes(write_line(entry("hologram", b"{}"), GENESIS))
    return lambda: list(JSONLStorage.read(path))


def newer_field(folder: Path) -> Callable[[], object]:
    path = folder / "log.jsonl"
    path.write_bytes(write_line(entry("user", b"{}"), GENESIS).replace(b',"body":', b',"weight":1,"body":'))
    return lambda: Log.open(path)


def newer_bodies(folder: Path) -> Callable[[], object]:
    opened = canonical({"version": 2, "templates": {}, "system": [], "tools": []})
    (folder / "log.jsonl").write_bytes(write_line(entry("opened", opened), GENESIS))
    return lambda: open_context(folder)


def newer_ledger(folder: Path) -> Callable[[], object]:
    path = folder / "ledger.jsonl"
    path.write_bytes(b'{"contextkit_ledger":3}\n')
    return lambda: Ledger.open(path)


def newer_recording(folder: Path) -> Callable[[], object]:
    path = folder / "recorded.jsonl"
    path.write_bytes(b'{"contextkit_ledger":3}\n')
    return lambda: Journal(path)


def newer_row(folder: Path) -> Callable[[], object]:
    path = folder / "ledger.jsonl"
    row = encode(Remark("title", "s", "a")).replace(b'"about"', b'"of"')
    path.write_bytes(b'{"contextkit_ledger":2}\n' + Chain().add(row)[0])
    return lambda: Ledger.read(path)


def newer_sqlite(folder: Path) -> Callable[[], object]:
    SQLiteStorage(folder / "runs.db", "s").close()
    raise_version(folder / "runs.db")
    return lambda: SQLiteStorage(folder / "runs.db", "s")


def newer_sqlite_to_read(folder: Path) -> Callable[[], object]:
    newer_sqlite(folder)
    return lambda: SQLiteStorage.read(folder / "runs.db", "s")


def newer_sqlite_kind(folder: Path) -> Callable[[], object]:
    with Log(SQLiteStorage(folder / "runs.db", "s")) as log:
        one = entry("hologram", b"{}")
        log.storage.append(one, GENESIS)
    return lambda: SQLiteStorage.read(folder / "runs.db", "s")


def newer_sqlite_row(folder: Path) -> Callable[[], object]:
    storage = SQLiteStorage(folder / "runs.db", "s")
    lines = CallLines(folder / "runs.db", "s")
    lines.append(Chain().add(encode(Remark("title", "s", "a")).replace(b'"about"', b'"of"'))[0])
    lines.close()
    return lambda: Ledger.beside(storage)


def newer_index(folder: Path) -> Callable[[], object]:
    Index(folder / "search.db").close()
    raise_version(folder / "search.db")
    return lambda: Index(folder / "search.db")


def newer_baseline(folder: Path) -> Callable[[], object]:
    path = folder / "baseline.json"
    write_baseline(str(path), [], lambda file: [])
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "version": 2, "rows": []}), "utf-8")
    return lambda: read_baseline(str(path))


def newer_lock(folder: Path) -> Callable[[], object]:
    text = lock_text({}).replace("version = 1", "version = 2")
    return lambda: read_lock(text, "prompt.lock")


def raise_version(file: Path) -> None:
    database = sqlite3.connect(file)
    (version,) = database.execute("pragma user_version").fetchone()
    database.execute(f"pragma user_version = {version + 1}")
    database.close()


FORMATS = [
    newer_kind,
    newer_field,
    newer_bodies,
    newer_ledger,
    newer_recording,
    newer_row,
    newer_sqlite,
    newer_sqlite_to_read,
    newer_sqlite_kind,
    newer_sqlite_row,
    newer_index,
    newer_baseline,
    newer_lock,
]


@pytest.mark.parametrize("made", FORMATS, ids=[made.__name__ for made in FORMATS])
def test_a_newer_format_asks_for_an_upgrade_and_is_left_alone(
    tmp_path: Path, made: Callable[[Path], Callable[[], object]]
) -> None:
    read = made(tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.iterdir() if path.suffix in (".jsonl", ".json")}
    with pytest.raises(ContextKitError, match="upgrade contextkit") as caught:
        read()
    assert "restore" not in str(caught.value) and "cut it" not in str(caught.value)
    assert {path: path.read_bytes() for path in files} == files
    if "version" not in str(caught.value) and "format" not in str(caught.value):
        assert isinstance(caught.value, NewerFormat)


def test_a_lock_file_with_lines_that_are_not_known_is_opened(tmp_path: Path) -> None:
    """Of a newer version; an append writes the note anew."""
    path = tmp_path / "log.jsonl"
    lock = path.with_name("log.jsonl.lock")
    lock.write_bytes(b"12\nlater 3 ab")
    path.touch()
    with Log.open(path) as log:
        assert lock.read_bytes().endswith(b"\nlater 3 ab")
        log.append("user", {})
    assert b"later" not in lock.read_bytes()
