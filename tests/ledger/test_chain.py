"""A ledger whose rows were taken out, doubled, moved or exchanged: noticed when it is opened, told and counted when it is
reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.errors import LogCorrupt, NewerFormat, StorageError, UnreadableLog
from contextkit.ledger.calls import Chain, ModelCall, Remark, encode
from contextkit.ledger.ledger import Ledger
from contextkit.log.sqlite import CallLines, SQLiteStorage
from contextkit.proxy.journal import Journal
from tests.cli.conftest import Run, run

__all__ = ["run"]


def row(number: int) -> ModelCall:
    usage = Usage(10**number, 0, 0, 0, 5)
    return ModelCall(
        f"msg_{number}", "s", "main", 1.0, None, None, "anthropic", "claude-opus-5", None, usage, None, None
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of six rows, of which each has ten times the tokens of the one before."""
    with Ledger.open(tmp_path / "ledger.jsonl") as ledger:
        for number in range(6):
            ledger.append(row(number))
    return tmp_path / "ledger.jsonl"


def older(lines: list[bytes]) -> list[bytes]:
    """The same rows as version 1 wrote them: a sum, and no place."""
    rows = [re.sub(rb',"sequence":\d+,"prev":.*', b"", line.rstrip(b"\n")) for line in lines[1:]]
    sums = [sha256(one).hexdigest()[:16].encode() for one in rows]
    return [b'{"contextkit_ledger":1}\n', *(b'%b,"sum":"%b"}\n' % pair for pair in zip(rows, sums, strict=True))]


def calld(line: bytes) -> bytes:
    """The row with other tokens, and the sum of what it says now."""
    covered = line.replace(b'"fresh":100,', b'"fresh":900,').rpartition(b',"sum"')[0]
    return b'%b,"sum":"%b"}\n' % (covered, sha256(covered).hexdigest()[:16].encode())


Edit = Callable[[list[bytes]], list[bytes]]
EDITS: dict[str, tuple[Edit, list[str], str]] = {
    "taken out": (lambda rows: rows[:2] + rows[3:], ["4: 1 row before it is missing"], "111011"),
    "first taken out": (lambda rows: rows[2:], ["2: 2 rows before it are missing"], "111100"),
    "taken out twice": (
        lambda rows: [rows[0], rows[2], rows[4], rows[5]],
        ["3: 1 row before it is missing", "4: 1 row before it is missing"],
        "110101",
    ),
    "doubled": (lambda rows: rows[:3] + rows[2:], ["5: it is a copy of a row before it"], "111111"),
    "doubled at the end": (lambda rows: [*rows, rows[1]], ["8: it is a copy of a row before it"], "111111"),
    "all doubled": (
        lambda rows: rows + rows,
        [f"{8 + n}: it is a copy of a row before it" for n in range(6)],
        "111111",
    ),
    "swapped": (
        lambda rows: [*rows[:1], rows[2], rows[1], *rows[3:]],
        ["3: 1 row before it is missing", "4: rows that were written after it stand before it"],
        "111111",
    ),
    "edited": (
        lambda rows: [*rows[:2], rows[2].replace(b'"fresh":100,', b'"fresh":900,'), *rows[3:]],
        ["4: "],
        "111011",
    ),
    "edited, with the sum of it": (
        lambda rows: [*rows[:2], calld(rows[2]), *rows[3:]],
        ["5: the row before it is another than when it was written"],
        "111911",
    ),
    "its place taken out": (
        lambda rows: [*rows[:2], re.sub(rb',"sequence".*', b"}", rows[2]), *rows[3:]],
        ["4: its place among the rows was taken out", "5: the row before it is another"],
        "111011",
    ),
    "edited, and the next taken out": (
        lambda rows: [*rows[:2], rows[2].replace(b'"fresh":100,', b'"fresh":900,'), *rows[4:]],
        ["4: ", "5: 1 row before it is missing"],
        "110011",
    ),
}
"""What is done to the rows → the lines that are told, and the tokens that are counted, the last row's digit first."""


@pytest.mark.parametrize(("edit", "told", "counted"), EDITS.values(), ids=EDITS)
def test_rows_that_are_not_as_they_were_written_are_noticed_and_the_others_counted(
    path: Path, edit: Edit, told: list[str], counted: str, run: Run
) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *edit(lines[1:])]))
    for read in (Ledger.open, Ledger.read):
        with pytest.raises(LogCorrupt, match=rf"ledger\.jsonl line {told[0]}.*restore the file from a copy"):
            read(path)
    found: list[str] = []
    ledger = Ledger.read(path, on_corrupt=lambda error: found.append(str(error)))
    assert len(found) == len(told)
    assert all(f"ledger.jsonl line {one}" in text for one, text in zip(told, found, strict=True))
    assert sum(call.usage.fresh or 0 for call in ledger if call.usage) == int(counted)
    report = run("report", path, "--json", "--verbose")
    assert report.code == 0
    figures = json.loads(report.out)
    assert figures["n_faults"] == len(told) and figures["total"]["usage"]["fresh"] == int(counted)


@pytest.mark.parametrize("edit", ["taken out", "doubled", "swapped", "edited", "edited, with the sum of it"])
def test_the_ledger_of_a_sqlite_session_notices_the_same(tmp_path: Path, edit: str, run: Run) -> None:
    import sqlite3

    storage = SQLiteStorage(tmp_path / "runs.db", "s")
    with Ledger.beside(storage) as ledger:
        for number in range(6):
            ledger.append(row(number))
    with sqlite3.connect(tmp_path / "runs.db") as database:
        lines = [bytes(line) for (line,) in database.execute("select line from call order by number")]
        database.execute("delete from call")
        database.executemany(
            "insert into call (session, line) values ('s', ?)", [(one,) for one in EDITS[edit][0](lines)]
        )
    database.close()
    with pytest.raises(LogCorrupt, match=r"session 's': the ledger line \d+: "):
        Ledger.beside(storage)
    storage.close()
    figures = json.loads(run("report", tmp_path / "runs.db", "--json").out)
    assert figures["n_faults"] == len(EDITS[edit][1])
    assert figures["total"]["usage"]["fresh"] == int(EDITS[edit][2])


def test_the_chain_can_be_checked_without_contextkit(path: Path) -> None:
    last = "0" * 16
    for number, line in enumerate(path.read_bytes().splitlines()[1:]):
        fields = json.loads(line)
        assert (fields["sequence"], fields["prev"]) == (number, last)
        last = sha256(line.rpartition(b',"sum":"')[0]).hexdigest()[:16]
        assert fields["sum"] == last


WRITER = """
import sys
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.calls import Remark
from contextkit.proxy.journal import Journal
name, kind = sys.argv[2:]
if kind == "ledger":
    with Ledger.open(sys.argv[1]) as ledger:
        for number in range(200):
            ledger.remark(Remark("title", name, f"{number}"))
else:
    journal = Journal(sys.argv[1])
    for number in range(0, 200, 2):
        journal.write(Remark("title", name, f"{number}"), Remark("title", name, f"{number + 1}"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows one process writes a ledger")
def test_processes_that_append_to_one_ledger_make_one_chain(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, f"w{n}", ("ledger", "journal")[n % 2]]) for n in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    ledger = Ledger.read(path)
    assert len(ledger) == 6 and len(ledger.remarks) == 800
    for n in range(4):
        assert [int(remark.text) for remark in ledger.remarks if remark.about == f"w{n}"] == list(range(200))


@pytest.mark.parametrize("opens", [Ledger.open, Journal])
def test_a_ledger_of_version_1_is_continued_and_named_to_older_readers(
    path: Path, opens: Callable[[Path], Ledger | Journal]
) -> None:
    was = older(path.read_bytes().splitlines(keepends=True))
    path.write_bytes(b"".join(was))
    assert len(Ledger.read(path)) == 6 and path.read_bytes() == b"".join(was), "reading changes nothing"
    for number in (6, 7):
        opened = opens(path)
        opened.write(row(number)) if isinstance(opened, Journal) else opened.append(row(number))
        opened.close()
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[0] == b'{"contextkit_ledger":2}\n' and lines[1:7] == was[1:]
    assert [json.loads(line).get("sequence") for line in lines[1:]] == [None] * 6 + [6, 7]
    assert [call.id for call in Ledger.read(path)] == [f"msg_{n}" for n in range(8)]
    for edit, told in (
        (lines[:3] + lines[4:], "line 7: 1 row before it is missing"),
        (lines[:3] + lines[2:], "line 9: more rows stand before it than when it was written"),
    ):
        path.write_bytes(b"".join(edit))
        with pytest.raises(LogCorrupt, match=told):
            Ledger.open(path)


def test_rows_that_an_older_version_still_writes_are_counted(path: Path) -> None:
    """It had the file open when this version raised the number in the first line."""
    with Ledger.open(path) as ledger:
        late = b"".join(older([b"", Chain().add(encode(row(6)))[0]])[1:])
        with path.open("ab") as file:
            file.write(late)
        ledger.append(row(7))
    assert [call.id for call in Ledger.read(path)] == [f"msg_{n}" for n in range(8)]
    path.write_bytes(path.read_bytes().replace(late, b""))
    with pytest.raises(LogCorrupt, match="line 8: 1 row before it is missing"):
        Ledger.read(path)


def test_a_newer_header_and_a_row_that_says_more_than_is_known_ask_for_an_upgrade(path: Path, run: Run) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'{"contextkit_ledger":2}', b'{"contextkit_ledger":3}'))
    for read in (Ledger.open, Ledger.read, Journal):
        with pytest.raises(UnreadableLog, match=r"line 1: ledger format 3, this contextkit reads up to 2: upgrade"):
            read(path)
    newer = Chain(6, whole.rpartition(b',"sum":"')[2][:16])
    line, _ = newer.add(encode(row(6)).replace(b'"prompt":null', b'"prompt":{"kind":"hologram"}'))
    path.write_bytes(whole + line)
    with pytest.raises(NewerFormat, match=r"line 8: a newer contextkit wrote it.*: upgrade contextkit$"):
        Ledger.open(path)
    assert path.read_bytes() == whole + line
    report = run("report", path, "--json")
    assert json.loads(report.out)["total"]["calls"] == 6 and "a newer contextkit wrote it" in report.err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody cut a file that is open")
def test_rows_that_are_cut_off_while_the_ledger_is_open_are_noticed(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.remark(Remark("title", "s", "a"))
        size = path.stat().st_size
        os.truncate(path, size // 2)
        with pytest.raises(StorageError, match="rows were cut off while it was open; nothing was recorded"):
            ledger.append(row(6))
        assert path.stat().st_size == size // 2


def test_two_ledgers_of_one_sqlite_session_do_not_both_record(tmp_path: Path) -> None:
    storage = SQLiteStorage(tmp_path / "runs.db", "s")
    with Ledger.beside(storage) as one, Ledger.beside(storage) as other:
        one.append(row(0))
        with pytest.raises(StorageError, match="somebody else changed its ledger: nothing was recorded"):
            other.append(row(1))
    storage.close()
    lines = CallLines(tmp_path / "runs.db", "s")
    assert len(lines.lines()) == 1
    lines.close()
