"""Every file that contextkit writes × what may stand in its place: nothing is written, and the error says what to do."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anthropic
import pytest

from contextkit import AnthropicMessages, Context, watch
from contextkit.errors import StorageError
from contextkit.ledger.ledger import Ledger
from contextkit.log.log import Log
from contextkit.log.storage import JSONLStorage
from contextkit.memory.search.index import Index
from contextkit.private_files import replacing
from tests.cli.conftest import Run, pi_session
from tests.cli.test_lint import FIXABLE, MARKED
from tests.cli.test_simulate import a_trace

PROVIDER = AnthropicMessages("claude-sonnet-5-5", max_tokens=64)
SOURCE = "import json\nSYSTEM = f'{json.dumps({})}'\n"
AGENT = """
from contextkit import AnthropicMessages, Context
agent = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=9), system="You are careful.")
"""
PROJECT = '[tool.contextkit.lock.agents]\na = "{}:agent"\n'
VICTIM = b"export PATH=$PATH:~/bin\n"


Act = Callable[[Path, Run], None]


@dataclass(frozen=True)
class Place:
    """A file that contextkit writes."""

    name: str
    """Below the folder of the test."""
    write: Act
    """What writes it."""
    prepare: Act = lambda folder, run: None
    """What must be there before."""


class Refused(Exception):
    """A command ended with an error."""


def command(*arguments: str) -> Act:
    def call(folder: Path, run: Run) -> None:
        ended = run(*(argument.replace("@", str(folder)) for argument in arguments))
        if ended.code:
            raise Refused(ended.err)

    return call


def opened(place: str) -> Act:
    def write(folder: Path, run: Run) -> None:
        with Context.open(place.replace("@", str(folder)), PROVIDER) as context:
            context.user("Hello")

    return write


def with_torn(name: str) -> Act:
    def prepare(folder: Path, run: Run) -> None:
        with Context.open(folder / "run", PROVIDER) as context:
            context.user("Hello")
            context.failed("aborted", context.request())
        with (folder / "run" / name).open("ab") as file:
            file.write(b'{"')

    return prepare


def recorded(folder: Path, run: Run) -> None:
    watch(anthropic.Anthropic(api_key="k"), record=folder / "calls.jsonl")


def remembered(folder: Path, run: Run) -> None:
    Index(folder / "search.db").close()


def torn_recording(folder: Path, run: Run) -> None:
    Ledger.open(folder / "calls.jsonl").close()
    with (folder / "calls.jsonl").open("ab") as file:
        file.write(b'{"id":')


def made(name: str, text: str) -> Act:
    def prepare(folder: Path, run: Run) -> None:
        (folder / name).write_text(text, "utf-8")

    return prepare


def project(folder: Path, run: Run) -> None:
    package = f"own_files_{abs(hash(folder))}"
    (folder / f"{package}.py").write_text(AGENT, "utf-8")
    (folder / "pyproject.toml").write_text(PROJECT.format(package), "utf-8")


def trace(folder: Path, run: Run) -> None:
    a_trace(folder / "trace.jsonl")


def session(folder: Path, run: Run) -> None:
    pi_session(folder / "session.jsonl", 6)


def exported(folder: Path, run: Run) -> None:
    pytest.importorskip("pyarrow", reason='the extra is not installed: pip install "contextkit-sdk[export]"')
    command("export", "@/session.jsonl", "--out", "@/calls.parquet")(folder, run)


PROXY = ("proxy", "--upstream", "http://127.0.0.1:9", "--port", "0", "--record", "@/calls.jsonl")
STATUS_LINE = command("statusline", "--install", "--settings", "@/settings.json", "--yes")
DATABASE = "sqlite:///@/logs.db?session=a"
LOCK = "logs.db.40f89e395b66422f.lock"
PLACES = {
    "log": Place("run/log.jsonl", opened("@/run")),
    "lock of a log": Place("run/log.jsonl.lock", opened("@/run")),
    "torn line of a log": Place("run/log.jsonl.torn", opened("@/run"), with_torn("log.jsonl")),
    "ledger": Place("run/ledger.jsonl", opened("@/run")),
    "torn line of a ledger": Place("run/ledger.jsonl.torn", opened("@/run"), with_torn("ledger.jsonl")),
    "SQLite": Place("logs.db", opened(DATABASE)),
    "SQLite's lock": Place(LOCK, opened(DATABASE)),
    "SQLite's wal": Place("logs.db-wal", opened(DATABASE), opened(DATABASE)),
    "SQLite's shm": Place("logs.db-shm", opened(DATABASE), opened(DATABASE)),
    "SQLite's journal": Place("logs.db-journal", opened(DATABASE)),
    "recording of watch": Place("calls.jsonl", recorded),
    "torn line of a recording": Place("calls.jsonl.torn", recorded, torn_recording),
    "recording of the proxy": Place("calls.jsonl", command(*PROXY)),
    "torn line of the proxy's recording": Place("calls.jsonl.torn", command(*PROXY), torn_recording),
    "search database": Place("search.db", remembered),
    "search database's wal": Place("search.db-wal", remembered, remembered),
    "page of report": Place("page.html", command("report", "@/session.jsonl", "--html", "@/page.html"), session),
    "ledger of report": Place("all.jsonl", command("report", "@/session.jsonl", "--to", "@/all.jsonl"), session),
    "anonymized ledger of report": Place(
        "all.jsonl", command("report", "@/session.jsonl", "--anonymize", "@/all.jsonl"), session
    ),
    "rows of export": Place("calls.parquet", exported, session),
    "page of simulate": Place(
        "page.html", command("simulate", "@/trace.jsonl", "--capacity", "10,100", "--html", "@/page.html"), trace
    ),
    "picture": Place("edit.svg", command("explain-edit", "--delete", "33", "13", "--svg", "@/edit.svg")),
    "baseline": Place(
        "base.json", command("lint", "@/source.py", "--write-baseline", "@/base.json"), made("source.py", SOURCE)
    ),
    "settings of Claude Code": Place("settings.json", STATUS_LINE),
    "settings as they were": Place("settings.json.before-contextkit", STATUS_LINE, made("settings.json", "{}")),
    "what is kept of an install": Place("settings.json.contextkit", STATUS_LINE),
    "prompt.lock": Place("prompt.lock", command("lock", "write", "--project", "@"), project),
}


def link(path: Path, victim: Path) -> None:
    path.symlink_to(os.path.relpath(victim, path.parent))


def link_to_nothing(path: Path, victim: Path) -> None:
    victim.rename(victim.with_name("elsewhere"))
    path.symlink_to(victim)


def named_pipe(path: Path, victim: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    os.mkfifo(path)


def folder(path: Path, victim: Path) -> None:
    path.mkdir()


def device(path: Path, victim: Path) -> None:
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
    except (AttributeError, PermissionError):
        pytest.skip("no device can be made here")


def another_user(path: Path, victim: Path) -> None:
    path.write_bytes(VICTIM)
    try:
        os.chown(path, 12345, 12345)
    except (AttributeError, PermissionError):
        pytest.skip("no file of another user can be made here")


OBSTACLES = {
    "link": (link, "link"),
    "link to nothing": (link_to_nothing, "link"),
    "named pipe": (named_pipe, "named pipe"),
    "folder": (folder, "folder|directory"),
    "device": (device, "device"),
    "file of another user": (another_user, "user 12345"),
}


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


WRITERS = (
    *("log", "torn line of a ledger", "SQLite", "page of report", "ledger of report"),
    *("settings of Claude Code", "prompt.lock"),
)
"""A place for each way to write, on which every obstacle is put; on the others a link is."""
PAIRS = [(name, obstacle) for name in PLACES for obstacle in (OBSTACLES if name in WRITERS else ["link"])]


@pytest.mark.parametrize(("name", "obstacle"), PAIRS)
def test_nothing_but_a_file_of_ours_is_written(name: str, obstacle: str, run: Run, tmp_path: Path) -> None:
    place, (put, what) = PLACES[name], OBSTACLES[obstacle]
    below, victim = tmp_path / "project", tmp_path / "bashrc"
    below.mkdir()
    victim.write_bytes(VICTIM)
    place.prepare(below, run)
    path = below / place.name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    put(path, victim)
    status, before = os.lstat(path), contents(tmp_path)
    with pytest.raises((StorageError, Refused)) as raised:
        place.write(below, run)
    if name.endswith("ledger of report"):
        what = "there already; name a new file|is a directory"
    assert str(path) in str(raised.value)
    assert re.search(what, str(raised.value))
    kept = os.lstat(path)
    assert (kept.st_mode, kept.st_ino, kept.st_size, kept.st_mtime) == (
        status.st_mode,
        status.st_ino,
        status.st_size,
        status.st_mtime,
    )
    after = contents(tmp_path)
    assert {name: after.get(name) for name in before} == before
    assert ("bashrc" in after) == ("bashrc" in before)
    assert not list(tmp_path.rglob(".*.part"))


@pytest.mark.parametrize("name", PLACES)
def test_a_new_file_is_its_owners_alone_also_below_a_linked_folder(name: str, run: Run, tmp_path: Path) -> None:
    if name in ("SQLite's journal", "recording of the proxy", "torn line of the proxy's recording"):
        pytest.skip("kept by SQLite for a moment only, or by a process that serves")
    place, below = PLACES[name], tmp_path / "linked"
    (tmp_path / "project").mkdir()
    try:
        below.symlink_to("project", target_is_directory=True)
    except OSError:
        pytest.skip("links are not allowed here")
    place.prepare(below, run)
    with warnings.catch_warnings(action="ignore"):
        place.write(below, run)
    if not place.name.endswith(("-wal", "-shm")):  # gone when the last connection is closed
        assert (below / place.name).stat().st_mode & 0o777 == 0o600 or sys.platform == "win32"


@pytest.mark.parametrize("text", [b"1234\nA note", b"9" * 5000])
@pytest.mark.parametrize("name", ["lock of a log", "SQLite's lock"])
def test_a_lock_file_that_holds_something_else_is_left_alone(name: str, text: bytes, run: Run, tmp_path: Path) -> None:
    path = tmp_path / PLACES[name].name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    with pytest.raises(StorageError, match=r"\.lock holds something else .* move it away"):
        PLACES[name].write(tmp_path, run)
    assert path.read_bytes() == text


@pytest.mark.parametrize("text", [b"", b"4711", b"4711\nfailed 12 " + b"0f" * 16, bytes(5)])
def test_a_lock_file_that_a_writer_or_a_power_cut_left_is_taken(text: bytes, run: Run, tmp_path: Path) -> None:
    place = PLACES["lock of a log"]
    (tmp_path / "run").mkdir()
    (tmp_path / place.name).write_bytes(text)
    place.write(tmp_path, run)
    assert (tmp_path / place.name).read_bytes().startswith(str(os.getpid()).encode())


def test_a_link_put_where_the_lock_was_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "bashrc"
    victim.write_bytes(b"")
    with Log.open(tmp_path / "log.jsonl") as log:
        lock = tmp_path / "log.jsonl.lock"
        lock.unlink()
        link(lock, victim)
        with pytest.raises(StorageError, match=r"log\.jsonl\.lock is a link"):
            log.append("user", {"a": 1})
    assert victim.read_bytes() == b""


def test_a_log_is_read_through_a_link(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log.jsonl") as log:
        log.append("user", {"a": 1})
        entries = list(log)
    link(tmp_path / "latest.jsonl", tmp_path / "log.jsonl")
    assert list(JSONLStorage.read(tmp_path / "latest.jsonl")) == entries


def test_a_fix_goes_through_a_link_and_keeps_the_mode_but_not_to_a_file_of_another_user(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "real" / "source.py"
    file.parent.mkdir()
    file.write_text(FIXABLE, "utf-8")
    file.chmod(0o640)
    link(tmp_path / "source.py", file)
    assert run("lint", tmp_path / "source.py", "--fix").code in (0, 1)
    assert file.read_text("utf-8").replace(MARKED, "") == FIXABLE != file.read_text("utf-8")
    assert file.stat().st_mode & 0o777 == 0o640 or sys.platform == "win32"
    assert (tmp_path / "source.py").is_symlink()
    file.write_text(FIXABLE, "utf-8")
    try:
        os.chown(file, 12345, 12345)
    except (AttributeError, PermissionError):
        pytest.skip("no file of another user can be made here")
    ended = run("lint", tmp_path / "source.py", "--fix")
    assert ended.code == 2 and f"{file} is a file of user 12345" in ended.err
    assert file.read_text("utf-8") == FIXABLE and file.stat().st_uid == 12345


def test_an_export_that_fails_leaves_the_former_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"before")
    path.chmod(0o644)
    with pytest.raises(TypeError), replacing(path) as file:
        file.write("a part")  # type: ignore[arg-type]
    assert contents(tmp_path) == {"page.html": b"before"}
    with replacing(path) as file:
        file.write(b"after")
    assert contents(tmp_path) == {"page.html": b"after"}
    assert path.stat().st_mode & 0o777 == 0o644 or sys.platform == "win32"
