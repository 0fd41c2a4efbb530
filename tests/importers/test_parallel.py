"""Transcripts read by several processes give the records and the faults of reading one file after the other."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contextkit.errors import UnreadableLog
from contextkit.importers.parallel import reading
from contextkit.importers.registry import files_at, remarked_records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Record

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or (os.cpu_count() or 1) < 2 or shutil.which("ps") is None,
    reason="needs Linux, two processors, and ps to see the processes",
)
FIXTURES = Path(__file__).parent / "fixtures"


def one_by_one(files: list[str], faults: Faults) -> Iterator[Record | str]:
    for file in files:
        try:
            yield from remarked_records_at(file, faults)
        except UnreadableLog as error:
            yield str(error)


def together(files: list[str], faults: Faults) -> Iterator[Record | str]:
    before = children()
    with reading(files, faults, least_bytes=0) as read:
        assert len(children() - before) >= 2  # they are at work
        for file in files:
            try:
                yield from read(file)
            except UnreadableLog as error:
                yield str(error)


def assert_same(files: list[str]) -> list[Record | str]:
    faults, others, before = Faults(), Faults(), children()
    expected, found = list(one_by_one(files, faults)), list(together(files, others))
    assert found == expected
    assert (others.kept, others.counts) == (faults.kept, faults.counts)
    assert (others.n_files, len(others.seen)) == (faults.n_files, len(faults.seen))
    assert children() == before
    return found


def checked(files: list[str]) -> int:
    """How many files nobody can read, of files whose records are the same, read in a process of its own: threads that
    other tests left in this one keep it from forking.
    """
    script = "import sys; from tests.importers.test_parallel import assert_same; found = assert_same(sys.argv[1:]); "
    script += "assert len(found) > 50; print(sum(isinstance(record, str) for record in found))"
    root = Path(__file__).resolve().parents[2]
    return int(subprocess.run([sys.executable, "-c", script, *files], cwd=root, capture_output=True, check=True).stdout)


def children() -> set[int]:
    """The processes that this one has started; those of other tests may be among them."""
    listed = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid="], stdout=subprocess.PIPE, text=True)
    rows = [line.split() for line in listed.communicate()[0].splitlines()]
    return {int(pid) for pid, parent in rows if int(parent) == os.getpid()} - {listed.pid}


@pytest.fixture
def transcripts(shared: Path, tmp_path: Path) -> list[Path]:
    """Twelve of the real sessions, unpacked."""
    packed = sorted((shared / "data" / "agent-logs" / "claude-code").glob("*.gz"))[:12]
    for file in packed:
        (tmp_path / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    return sorted(tmp_path.glob("*.jsonl"))


def test_calls_of_files_that_are_read_at_the_same_time_are_counted_in_the_first(transcripts: list[Path]) -> None:
    for file in transcripts:
        shutil.copy(file, file.with_name(f"{file.stem}-resumed.jsonl"))
        whole = file.read_bytes()
        cut = file.with_name(f"{file.stem}-begun.jsonl")
        cut.write_bytes(whole[: whole.find(b"\n", len(whole) // 2) + 1])
    files = sorted(str(file) for file in transcripts[0].parent.glob("*.jsonl"))
    assert len(files) == 36
    assert checked(files) == 0


def test_other_formats_and_what_nobody_can_read_are_met_in_their_places(
    transcripts: list[Path], tmp_path: Path
) -> None:
    text, empty, folder = tmp_path / "notes.txt", tmp_path / "0-empty.jsonl", tmp_path / "0-folder"
    text.write_text("words\n")
    empty.write_bytes(b"")
    folder.mkdir()
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(transcripts[0].read_bytes()[:200_000] + b"\n{}\nnot a line\n" * 9)
    others = files_at([str(FIXTURES / "codex"), str(FIXTURES / "otel"), str(FIXTURES / "claude_code")])
    missing = str(tmp_path / "missing.jsonl")
    files = [str(text), *map(str, transcripts[:3]), str(empty), *others, missing, str(folder), str(damaged)]
    assert checked(files) == 4


def test_reading_that_is_left_early_leaves_no_process(transcripts: list[Path]) -> None:
    files = [str(file) for file in transcripts]
    before = children()
    with reading(files, Faults(), least_bytes=0) as read:
        next(iter(read(files[0])))
    assert children() == before


def test_little_is_read_in_this_process(transcripts: list[Path]) -> None:
    files = [str(file) for file in transcripts[:2]]
    before = children()
    with reading(files, Faults()) as read:
        assert children() == before
        assert list(read(files[0])) == list(remarked_records_at(files[0], Faults()))
