"""Thousands of damaged recordings, with fixed seeds: no command ends in a traceback, and no destroyed counter is a zero."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner

from contextkit.cli.main import cli
from contextkit.errors import ContextKitError
from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from tests.importers.test_damage import SAMPLES, sample
from tests.mutations import NO_COUNTS, damage, dumped, mutate, places

N_FILES = 5_000
"""Damaged files of the long version, over all samples together."""
N_FILES_REDUCED = 60
MOST_BYTES = 120_000
"""Of a given log the first lines up to this size are damaged."""
GIVEN = (
    "agent-logs/claude-code/9265dc4e-fa94-4c08-9932-fca495724501.jsonl.gz",
    "agent-logs/claude-code/acdd84ab-e724-42c8-925d-420b2a4f1861.jsonl.gz",
    "agent-logs/codex/019f0675-387a-79c2-9e8d-ceb8a30657c9.jsonl.gz",
    "agent-logs/copilot-cli/487fbe81-e917-46ad-a7c6-bf31cba53339.jsonl.gz",
    "agent-logs/recorded-pairs.jsonl.gz",
    "agent-traces/taubench/4e8f1c2ec7c1fedefd38e7945416f65c.jsonl.gz",
    "claude-code-blocks/trace_0002.json.gz",
    "mooncake/synthetic_trace.jsonl.gz",
    "pi/before-compaction.jsonl",
    "tau-bench/gpt-4o-airline.json.gz",
    "cases/damaged/tb_12_log.eval",
    "cases/damaged/tb_30_exports.jsonl",
)
"""Logs beside the checkout that are damaged further."""
REPORTS = (
    ("report", "--json"),
    ("report", "--misses", "--verbose"),
    ("report", "--csv"),
    ("report", "--markdown", "--by", "session"),
)
OTHERS = (("whatif",), ("validate",), ("whatif", "--json"), ("validate", "--json"))


NAMES = [*SAMPLES, *GIVEN]


@pytest.mark.parametrize("name", NAMES)
def test_no_damaged_recording_ends_in_a_traceback(name: str, tmp_path: Path, n_files: int) -> None:
    if name in GIVEN and not _given(name).exists():
        pytest.skip("shared data is not beside this checkout")
    n_files = max(1, round(n_files / len(NAMES)))
    failures = []
    for number in range(n_files):
        draw = Random(f"{name} {number}")
        path = tmp_path / "hurt.log"
        path.write_bytes(packed(draw, damaged(draw, whole(name, tmp_path))))
        for command, *options in (draw.choice(REPORTS), draw.choice(OTHERS)):
            failures += [f"{name} {number} {command}: {said}" for said in ran(command, str(path), *options)]
    print(f"{name}: {n_files:,} damaged files, {len(failures):,} tracebacks")
    assert not failures, "\n".join(failures[:20])


def ran(*arguments: str) -> list[str]:
    """Runs a command in this process; gives what is wrong with the way it ended."""
    ended = CliRunner().invoke(cli, arguments)
    error = ended.exception
    if error is None or (isinstance(error, SystemExit) and ended.exit_code in (0, 1, 2)):
        return []
    trace, frames = ended.exc_info[2] if ended.exc_info else None, []
    while trace:
        frames.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return [f"{type(error).__name__}: {str(error)[:120]} ({' '.join(frames[-4:])})"]


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in ("sqlite", "ledger")])
def test_a_destroyed_counter_is_unknown_or_reported(name: str, tmp_path: Path, n_files: int) -> None:
    data = whole(name, tmp_path)
    lines = objects(data)
    before = counted(data, tmp_path)
    counters = [
        (number, n)
        for number, line in enumerate(lines)
        for n, (_, key, item) in enumerate(places(line))
        if type(item) is int and item > 0 and not is_time(key, item)
    ]
    if not counters:
        pytest.skip("no JSON with counters")
    n_files = max(1, round(n_files / len(NAMES)))
    for number in range(n_files):
        draw = Random(f"counter {name} {number}")
        line, place = draw.choice(counters)
        hurt = [json.loads(json.dumps(one)) for one in lines]
        container, key, item = list(places(hurt[line]))[place]
        container[key] = deepcopy(draw.choice(NO_COUNTS))
        after = counted(b"\n".join(map(dumped, hurt)) + b"\n", tmp_path)
        is_changed = (after.known, after.calls) != (before.known, before.calls)
        is_told = after.n_faults > before.n_faults or bool(after.kinds - before.kinds)
        assert not is_changed or is_told, (
            f"{name} {number}: {key!r} {item} -> {container[key]!r} in line {line + 1}: {before} {after}"
        )
    print(f"{name}: {n_files:,} destroyed counters, 0 silent zeros")


def is_time(key: object, item: int) -> bool:
    """Whether a number stands for a time or a duration, which no bill is made of."""
    return item > 1_500_000_000 or any(word in str(key).lower() for word in ("time", "ms", "created", "latency"))


@pytest.fixture
def n_files(request: pytest.FixtureRequest) -> int:
    return N_FILES if request.config.getoption("--full") else N_FILES_REDUCED


# Recordings
# -----------------------------------------------------------------------------------------------------------


def _given(name: str) -> Path:
    return Path(__file__).resolve().parents[3] / "shared" / "data" / name


@cache
def _start_of(name: str) -> bytes:
    data = _given(name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    if len(data) <= MOST_BYTES or data.startswith(b"PK"):
        return data
    return data[: data.rfind(b"\n", 0, MOST_BYTES) + 1] or data[:MOST_BYTES]


def whole(name: str, tmp_path: Path) -> bytes:
    """A recording as it should be."""
    return _start_of(name) if name in GIVEN else sample(name, tmp_path)


def objects(data: bytes) -> list[Any]:
    """The values of a file that is JSON, or lines of JSON; empty for another."""
    for texts in ([data], data.splitlines()):
        try:
            return [json.loads(text) for text in texts if text.strip()]
        except ValueError:
            continue
    return []


class Counted:
    """What was read of a file."""

    def __init__(self, calls: list[ModelCall], faults: Faults) -> None:
        usages = [call.usage for call in calls if call.usage]
        counts = [count for one in usages for count in (one.fresh, one.read, one.write_5m, one.write_1h, one.output)]
        self.calls, self.kinds, self.n_faults = len(calls), set(faults.counts), len(faults)
        self.known = sum(count for count in counts if count is not None)
        self.n_unknown = counts.count(None) + 5 * sum(call.usage is None for call in calls)

    def __repr__(self) -> str:
        return f"{self.calls} calls, {self.known} tokens, {self.n_unknown} unknown, {self.n_faults} faults;"


def counted(data: bytes, tmp_path: Path) -> Counted:
    """Reads a file; one that is refused as a whole is one fault more."""
    path, faults = tmp_path / "counted.log", Faults()
    path.write_bytes(data)
    calls = list[ModelCall]()
    try:
        calls += [record for record in records_at(str(path), faults)[1] if isinstance(record, ModelCall)]
    except ContextKitError as error:
        faults.add(str(path), 0, str(error))
    return Counted(calls, faults)


# Damage
# -----------------------------------------------------------------------------------------------------------


def damaged(draw: Random, data: bytes) -> bytes:
    """A recording with one to three things wrong."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        if data.startswith(b"SQLite format 3\0"):
            data = draw.choice((damage, hurt_rows))(draw, data)
        elif data.startswith(b"PK"):
            data = draw.choice((damage, hurt_member, hurt_directory))(draw, data)
        else:
            data = draw.choice((damage, hurt_lines, hurt_values, hurt_values, hurt_values))(draw, data)
    return data


def hurt_values(draw: Random, data: bytes) -> bytes:
    """Values of another kind in a line of JSON, or in the JSON that the file is; else numbers in a text."""
    for is_line in (False, True):
        lines = data.split(b"\n") if is_line else [data]
        at = draw.randrange(len(lines))
        try:
            value = json.loads(lines[at])
        except (ValueError, RecursionError):
            continue
        for _ in range(draw.choice((1, 1, 3))):
            mutate(draw, value)
        lines[at] = dumped(value)
        return b"\n".join(lines)
    words = data.split(b" " if b" " in data else b",")
    words[draw.randrange(len(words))] = draw.choice(
        (b"", b"NaN", b"-1", b"1e400", b"7" * 400, b"9" * 5_000, b"x", b"0")
    )
    return (b" " if b" " in data else b",").join(words)


def hurt_lines(draw: Random, data: bytes) -> bytes:
    """Lines that are gone, twice there, in another order, joined, or cut."""
    lines = data.splitlines(keepends=True) or [b"\n"]
    at, kind = draw.randrange(len(lines)), draw.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(draw.randrange(len(lines) + 1), lines[at])
    elif kind == 2:
        draw.shuffle(lines)
    elif kind == 3:
        lines[at] = lines[at].rstrip(b"\n")
    else:
        lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)] + b"\n"
    return b"".join(lines)


def hurt_member(draw: Random, data: bytes) -> bytes:
    """An archive one of whose files is damaged, or has grown without end."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except (ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, RuntimeError):
        return damage(draw, data)
    if not members:
        return data
    name = draw.choice(list(members))
    members[name] = draw.choice((hurt_values, damage))(draw, members[name])
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", draw.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA))) as made:
        for member, content in members.items():
            made.writestr(member, content)
    return held.getvalue()


def hurt_directory(draw: Random, data: bytes) -> bytes:
    """An archive whose directory says wrong sizes, places, methods or checksums."""
    start, hurt = data.rfind(b"PK\1\2"), bytearray(data)
    marks = (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6")
    found = [at for mark in marks for at in range(len(data)) if data.startswith(mark, at)] or [max(start, 0)]
    at = draw.choice(found) + draw.randrange(4, 46)
    if at + 4 <= len(hurt):
        width, value = draw.choice((("<H", 0xFFFF), ("<I", 0xFFFFFFFF), ("<H", 99), ("<I", 0), ("<I", 0x7FFFFFFF)))
        struct.pack_into(width, hurt, at, value)
    return bytes(hurt)


def hurt_rows(draw: Random, data: bytes) -> bytes:
    """A database with another value in a cell, or damage inside the JSON of one."""
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.deserialize(data)
            for sql in _changes(draw, database):
                database.execute(*sql)
            database.commit()
            return bytes(database.serialize())
        except (sqlite3.Error, OverflowError, UnicodeDecodeError):  # a message of SQLite that quotes damaged bytes
            return damage(draw, data)


def _changes(draw: Random, database: sqlite3.Connection) -> Iterator[tuple[str, tuple[Any, ...]]]:
    database.text_factory = bytes
    tables = [
        name.decode("utf-8", "replace")
        for (name,) in database.execute("select name from sqlite_master where type = 'table'")
    ]
    if not tables:
        return
    table = draw.choice(tables)
    columns = [row[1].decode() for row in database.execute(f'pragma table_info("{table}")')]
    rows = database.execute(f'select rowid, * from "{table}"').fetchall()
    if not rows:
        return
    number, *cells = draw.choice(rows)
    place = draw.randrange(len(cells))
    value: Any = draw.choice((None, -1, 1e300, 2**63 - 1, "x", b"\xff\xfe", "", "{", float("inf")))
    if isinstance(cells[place], bytes) and cells[place][:1] == b"{" and draw.random() < 0.8:
        value = hurt_values(draw, cells[place]).decode("utf-8", "replace")
    if draw.random() < 0.1:
        yield f'delete from "{table}" where rowid = ?', (number,)
    else:
        yield f'update "{table}" set "{columns[place]}" = ? where rowid = ?', (value, number)


def packed(draw: Random, data: bytes) -> bytes:
    """A tenth of the files as gzip or zstd, some of them broken inside."""
    kind = draw.randrange(30)
    if kind > 3:
        return data
    made = gzip.compress(data) if kind < 2 else zstandard.ZstdCompressor().compress(data)
    return damage(draw, made) if kind % 2 else made
