"""A log on disk: what a crash, a flipped byte, a second writer or a full disk may and may not do to it."""

from __future__ import annotations

import errno
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextkit.canonical import canonical
from contextkit.errors import LogCorrupt, LogLocked
from contextkit.log.log import Log
from contextkit.log.storage import JSONLStorage
from tests.crash.faults import Disk, Plan, of
from tests.scale import cases, n_examples

TRAP = {"sequence": 3, "body": ',"body":'}
BODIES = [{"content": [{"type": "text", "text": "né ☂"}]}, {"n": 10**30, "f": 1e-7}, {"k": TRAP}, {}, {"a": [1, None]}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed log of five entries, none of which is noted as acknowledged."""
    with Log.open(tmp_path / "log.jsonl", clock=lambda: 1790000000.25) as log:
        for body in BODIES:
            log.append("user", body)
    (tmp_path / "log.jsonl.lock").unlink()
    return tmp_path / "log.jsonl"


def python(code: str, *arguments: object) -> str:
    """What a second process prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_line_is_json_with_the_frozen_body_last(path: Path) -> None:
    for line, body in zip(path.read_bytes().splitlines(), BODIES, strict=True):
        assert list(json.loads(line)) == ["sequence", "kind", "at", "prev", "digest", "body"]
        assert line.endswith(b',"body":' + canonical(body) + b"}")


@pytest.mark.filterwarnings("ignore:.*unfinished line")
def test_a_file_cut_anywhere_in_its_last_two_lines_loses_only_what_was_not_complete(path: Path) -> None:
    whole = path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 0x0A]
    near = {end + by for end in ends[-3:] for by in (-1, 0, 1) if ends[-3] <= end + by < len(whole)}
    for size in cases(sorted({*range(ends[-3], len(whole), 5), *near}), range(ends[-3], len(whole))):
        path.write_bytes(whole[:size])
        n_whole = sum(end <= size for end in ends)
        assert sum(1 for _ in JSONLStorage.read(path)) == n_whole, size
        assert path.read_bytes() == whole[:size], "reading repairs nothing"
        aside = Path(f"{path}.torn")
        aside.unlink(missing_ok=True)
        storage = JSONLStorage(path)
        assert [entry.sequence for entry in storage.load()] == list(range(n_whole)), size
        rest = whole[ends[n_whole - 1] : size]
        assert (storage.torn or b"") == rest == (aside.read_bytes() if aside.exists() else b"")
        storage.close()
        assert path.read_bytes() == whole[: ends[n_whole - 1]]


def test_a_torn_line_is_reported_and_the_log_goes_on(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.warns(
        UserWarning, match=r"log\.jsonl ended in an unfinished line: \d+ bytes set aside in .*log\.jsonl\.torn"
    ):
        log = Log.open(path)
    assert log.append("user", {"again": True}).sequence == 4
    log.close()
    assert len(list(JSONLStorage.read(path))) == 5


@pytest.mark.parametrize(
    "tail", [b'{"sequence":5,"kind"' + bytes(64) + b"}\n", bytes(4_096), bytes(700) + b'"}}\n', b'{"seq' + bytes(9)]
)
def test_blocks_that_never_reached_the_disk_are_torn_although_a_line_may_end(path: Path, tail: bytes) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with pytest.warns(UserWarning, match="set aside"), Log.open(path) as log:
        assert len(log) == 5
    assert path.read_bytes() == whole


@pytest.mark.parametrize("n_lines", [1, 5])
def test_every_byte_of_the_last_line_is_covered(path: Path, n_lines: int) -> None:
    """Its newline too: a whole line is never taken for an unfinished one."""
    lines = path.read_bytes().splitlines(keepends=True)[:n_lines]
    whole = b"".join(lines)
    for place in range(len(whole) - len(lines[-1]), len(whole)):
        masks = (0x01, 0x04, 0x20, 0x80, whole[place], whole[place] ^ ord("\n"))
        for mask in cases([masks[place % len(masks)]], masks):
            if mask:
                path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
                with pytest.raises(LogCorrupt, match=f"line {n_lines}: "):
                    list(JSONLStorage.read(path))
    with pytest.raises(LogCorrupt):
        Log.open(path)
    assert not path.with_name("log.jsonl.torn").exists()


GARBAGE = [
    *(b"hello", b"{}", b'{"type":"session"}', b'{"sequence"', b"\xff\xfe{\x00", b"[]", b" ", b'["sequence":0'),
    b"\x89PNG\r\n\x00\x00\x00\x00",
]


@pytest.mark.parametrize("is_alone", [True, False])
def test_garbage_is_no_unfinished_line(path: Path, is_alone: bool) -> None:
    before, line = (b"", 1) if is_alone else (path.read_bytes(), 6)
    said = f"log.jsonl, line {line}: not a line of a contextkit log; restore it from a copy"
    for garbage in (one + end for one in GARBAGE for end in (b"", b"\n")):
        if garbage == b'{"sequence"':
            continue  # which is what a crash leaves
        path.write_bytes(before + garbage)
        with pytest.raises(LogCorrupt, match=said):
            Log.open(path)
        assert path.read_bytes() == before + garbage
        assert not path.with_name("log.jsonl.torn").exists()


FSYNC_AND_TRUNCATE: dict[str, list[Plan]] = {
    "fsync": [of("log.jsonl", "fsync", fault=errno.EIO)],
    "fsync and ftruncate": [of("log.jsonl", "fsync", "ftruncate", fault=errno.EIO)],
    "a part written, and ftruncate": [
        lambda operation, name: (
            {"write": "short", "ftruncate": errno.EIO}.get(operation) if name == "log.jsonl" else None
        )
    ],
    "twice": [of("log.jsonl", "fsync", "ftruncate", fault=errno.EIO), of("log.jsonl", "ftruncate", fault=errno.EROFS)],
}


@pytest.mark.parametrize("plans", FSYNC_AND_TRUNCATE.values(), ids=FSYNC_AND_TRUNCATE)
@pytest.mark.parametrize("n_before", [0, 5])
@pytest.mark.filterwarnings("ignore:.*set aside")
def test_an_append_that_raised_is_not_there_when_the_log_is_opened_again(
    path: Path, plans: list[Plan], n_before: int
) -> None:
    if not n_before:
        path.unlink()
    with Disk().installed() as disk:
        log = Log.open(path)
        for plan in plans:
            with disk.failing(plan), pytest.raises(OSError):  # noqa: PT011 - whichever the system says
                log.append("user", {"lost": True})
        assert len(log) == n_before
        log.close()  # and the process ends
        assert len(list(JSONLStorage.read(path))) == n_before, "nor does a reader see it"
        for _ in range(2):
            with Log.open(path) as again:
                assert len(again) == n_before
        with Log.open(path) as again:
            again.append("user", {"kept": True})
        assert len(list(JSONLStorage.read(path))) == n_before + 1


@pytest.mark.parametrize("plans", FSYNC_AND_TRUNCATE.values(), ids=FSYNC_AND_TRUNCATE)
def test_an_append_that_raised_and_is_tried_again_is_there_once(path: Path, plans: list[Plan]) -> None:
    with Disk().installed() as disk, Log.open(path) as log:
        for plan in plans:
            with disk.failing(plan), pytest.raises(OSError):  # noqa: PT011 - whichever the system says
                log.append("user", {"again": True})
        log.append("user", {"again": True})
        log.append("user", {"and": "on"})
    with Log.open(path) as log:
        assert [entry.body for entry in log[5:]] == [b'{"again":true}', b'{"and":"on"}']
    assert not path.with_name("log.jsonl.torn").exists()


def test_the_note_of_a_failed_append_takes_away_nothing_that_was_acknowledged(path: Path) -> None:
    """It names the end of the file and the digest there: whatever stands behind another entry stays."""
    lock = path.with_name("log.jsonl.lock")
    with Disk().installed() as disk, Log.open(path) as log:
        with disk.failing(FSYNC_AND_TRUNCATE["fsync and ftruncate"][0]), pytest.raises(OSError, match="Input/output"):
            log.append("user", {"lost": True})
        note = lock.read_bytes()
        assert note.count(b"failed") == 1
        log.append("user", {"kept": 1})
        assert b"failed" not in lock.read_bytes()
        log.append("user", {"kept": 2})
    lock.write_bytes(note)  # as an old copy would
    with Log.open(path) as log:
        assert len(log) == 7


@settings(
    max_examples=n_examples(40, 1_000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_flipped_byte_before_the_last_line_is_named_by_file_and_line(path: Path, data: st.DataObject) -> None:
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    place = data.draw(st.integers(0, len(whole) - len(lines[-1]) - 1))
    flipped = bytes([whole[place] ^ data.draw(st.integers(1, 255))])
    broken = path.with_name("broken.jsonl")
    broken.write_bytes(whole[:place] + flipped + whole[place + 1 :])
    number = whole[:place].count(b"\n") + 1
    for open_it in (lambda: list(JSONLStorage.read(broken)), lambda: Log.open(broken)):
        with pytest.raises(LogCorrupt) as caught:
            open_it()
        assert f"broken.jsonl, line {number}: " in str(caught.value)
        assert "restore it" in str(caught.value)


def test_every_bit_of_the_first_two_lines_is_covered(path: Path) -> None:
    whole = path.read_bytes()
    end = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for place in range(end):
        for bit in cases([place % 8], range(8)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
            with pytest.raises(LogCorrupt, match=f"line {whole[:place].count(bytes([10])) + 1}: "):
                list(JSONLStorage.read(path))


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: lines[:2] + lines[3:],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: lines[:3] + lines[2:],
        lambda lines: lines[1:],
    ],
    ids=["removed", "swapped", "doubled", "beheaded"],
)
def test_lines_cannot_be_removed_swapped_or_doubled(path: Path, edit: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(LogCorrupt):
        Log.open(path)
    with pytest.raises(LogCorrupt):
        Log.open(path)  # and a refused open holds no lock


def test_an_empty_file_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").touch()
    with Log.open(tmp_path / "log.jsonl") as log:
        assert len(log) == 0 and log.digest == bytes(16)
        log.append("user", {})


@pytest.mark.filterwarnings("ignore:.*unfinished line")
def test_a_first_line_cut_short_is_an_empty_log(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])
    with Log.open(path) as log:
        assert len(log) == 0


def test_a_second_writer_in_this_process_is_refused(path: Path) -> None:
    with Log.open(path):
        with pytest.raises(LogLocked, match=rf"log\.jsonl is being written by this process \({os.getpid()}\)"):
            Log.open(path)
        assert len(list(JSONLStorage.read(path))) == 5
    Log.open(path).close()


def test_a_log_that_is_dropped_lets_go_of_its_file(path: Path) -> None:
    assert len(Log.open(path)) == 5
    gc.collect()
    Log.open(path).close()


def test_another_name_of_its_folder_is_the_same_lock(path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    link = tmp_path_factory.mktemp("links") / "run"
    try:
        link.symlink_to(path.parent, target_is_directory=True)
    except OSError:
        pytest.skip("links are not allowed here")
    with Log.open(path), pytest.raises(LogLocked):
        Log.open(link / path.name)
    with Log.open(link / path.name) as log, pytest.raises(LogLocked):
        Log.open(path)
    assert len(log) == 5


HOLD = """
import sys, time
from contextkit.log.log import Log
log = Log.open(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_the_lock_dies_with_the_process(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        with pytest.raises(LogLocked, match=f"process {holder.pid}"):
            Log.open(path)
        holder.kill()
        holder.wait()
        Log.open(path).close()


FULL = """
import resource, sys, os
from contextkit.log.log import Log
log = Log.open(sys.argv[1])
size = os.path.getsize(sys.argv[1])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, hard))
for _ in range(2):
    try:
        log.append("user", {"text": "x" * 1000})
    except OSError as error:
        print(type(error).__name__, len(log), os.path.getsize(sys.argv[1]) == size)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(log.append("user", {"text": "room again"}).sequence)
"""


@pytest.mark.skipif(
    sys.platform == "win32", reason="a file size limit is how the test makes a real write fail half-way"
)
def test_a_disk_that_is_full_half_way_leaves_neither_entry_nor_bytes(path: Path) -> None:
    assert python(FULL, path) == "OSError 5 True\nOSError 5 True\n5\n"
    with Log.open(path) as log:
        assert log[5].body == b'{"text":"room again"}'
