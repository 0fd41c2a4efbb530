"""One process writes a log: not the one forked from it, and not once its file or its lock is another file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contextkit import AnthropicMessages, Context
from contextkit.errors import LogLocked, StorageError
from contextkit.log.log import Log
from contextkit.log.storage import JSONLStorage

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
needs_replacing = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody replace a file that is open")


def opened(folder: Path) -> Context:
    return Context.open(
        folder, AnthropicMessages("claude-sonnet-5-5", max_tokens=9), system="Be brief.", clock=lambda: 5.0
    )


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


START = """
import os, sys, subprocess
from contextkit import AnthropicMessages, Context
from contextkit.errors import LogLocked
context = Context.open(sys.argv[1], AnthropicMessages("claude-sonnet-5-5", max_tokens=9))
context.user("before")

def other_process():
    code = "import sys; from contextkit.log.log import Log; Log.open(sys.argv[1] + '/log.jsonl')"
    found = subprocess.run([sys.executable, "-c", code, sys.argv[1]], capture_output=True, text=True)
    return "refused" if "LogLocked" in found.stderr else "let in"
"""


@needs_fork
def test_a_forked_child_leaves_the_lock_to_its_parent(tmp_path: Path) -> None:
    """Whether the child closes the context, or exits as programs do."""
    code = f"""{START}
if not (child := os.fork()):
    context.close()
    os._exit(0)
os.waitpid(child, 0)
print(other_process())
if not (child := os.fork()):
    sys.exit(0)
os.waitpid(child, 0)
print(other_process())
context.user("after")
context.close()
print(other_process())
"""
    ran = python(code, tmp_path)
    assert (ran.stdout, ran.stderr) == ("refused\nrefused\nlet in\n", "")
    assert [entry.kind for entry in JSONLStorage.read(tmp_path / "log.jsonl")] == ["opened", "user", "user"]


@needs_fork
def test_a_program_that_inherits_descriptors_does_not_keep_the_lock(tmp_path: Path) -> None:
    code = f"""{START}
child = subprocess.Popen([sys.executable, "-c", "input()"], close_fds=False, stdin=subprocess.PIPE)
context.close()
print(other_process())
child.communicate(b"\\n")
"""
    assert python(code, tmp_path).stdout == "let in\n"


@needs_fork
def test_a_forked_child_cannot_append_to_log_or_ledger_and_is_told_what_to_do(tmp_path: Path) -> None:
    code = f"""{START}
appends = (lambda: context.user("in the child"), lambda: context.log.append("user", {{}}),
           lambda: context.failed("aborted", context.request()))
child = os.fork()
if not child:
    for append in appends:
        try:
            append()
        except LogLocked as error:
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
context.user("in the parent")
context.failed("aborted", context.request())
print(len(context.log), len(context.ledger), os.getpid())
"""
    ran = python(code, tmp_path)
    *said, last = ran.stdout.splitlines()
    n, n_rows, pid = last.split()
    assert (n, n_rows, len(said)) == ("3", "1", 3), ran.stderr
    assert all(f"was opened by process {pid}, and this is process" in text for text in said)
    assert all("append in the process that opened it" in text for text in said[:2]) and "ledger.jsonl" in said[2]
    with opened_again(tmp_path) as context:
        assert len(context.log) == 3


def opened_again(folder: Path) -> Context:
    return Context.open(folder, AnthropicMessages("claude-sonnet-5-5", max_tokens=9))


@needs_fork
def test_the_lock_of_a_dead_parent_is_free_although_its_child_lives(tmp_path: Path) -> None:
    code = f"""{START}
child = os.fork()
if not child:
    print("child", flush=True)
    sys.stdin.readline()
    os._exit(0)
os._exit(0)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin and parent.stdout and parent.stdout.readline() == "child\n"
        parent.wait()
        opened_again(tmp_path).close()
        parent.stdin.write("\n")


@needs_replacing
@pytest.mark.parametrize("what", ["deleted", "replaced", "moved with its folder", "cut", "added to"])
@pytest.mark.parametrize("name", ["log.jsonl", "ledger.jsonl"])
def test_nothing_is_appended_to_a_file_that_is_no_longer_there(tmp_path: Path, what: str, name: str) -> None:
    if name == "ledger.jsonl" and what in ("cut", "added to"):
        pytest.skip("several programs may add rows to one ledger")
    folder, copy = tmp_path / "run", tmp_path / "copy.jsonl"
    context = opened(folder)
    context.user("hello")
    context.failed("aborted", context.request())
    path = folder / name
    before = path.read_bytes()
    copy.write_bytes(before)
    if what == "deleted":
        path.unlink()
    elif what == "replaced":
        copy.replace(path)
    elif what == "moved with its folder":
        folder.rename(tmp_path / "moved")
    elif what == "cut":
        os.truncate(path, len(before) // 2)
    else:
        with path.open("ab") as file:
            file.write(before)
    was = path.read_bytes() if path.exists() else None
    with pytest.raises(StorageError, match=rf"{name}.* (open the log|open the ledger) again"):
        context.user("lost?") if name == "log.jsonl" else context.failed("aborted", context.request())
    assert (path.read_bytes() if path.exists() else None) == was, "nothing was written"
    context.close()


@needs_replacing
def test_a_lock_file_that_is_deleted_does_not_let_a_second_writer_in_for_good(tmp_path: Path) -> None:
    lock = tmp_path / "log.jsonl.lock"
    with opened(tmp_path) as context:
        lock.unlink()
        context.user("still mine")  # and makes the lock again
        with pytest.raises(LogLocked):
            Log.open(tmp_path / "log.jsonl")
        lock.unlink()
        with Log.open(tmp_path / "log.jsonl") as second, pytest.raises(LogLocked):
            context.user("no longer mine")
        assert len(second) == len(context.log) == 2
        context.user("mine again")
        lock.unlink()
        with Log.open(tmp_path / "log.jsonl") as second:
            second.append("user", {"content": [{"type": "text", "text": "hers"}]})
        with pytest.raises(StorageError, match="somebody else changed it"):
            context.user("on top of hers")
    with opened(tmp_path) as context:
        assert len(context.log) == 4


MODES = """
import os, stat, sys
os.umask(0)
from contextkit import AnthropicMessages, Context
from contextkit.memory import FileMemory, Memory
from contextkit.memory.search.index import Index
memory = Memory(FileMemory(sys.argv[1] + "/memory"), index=Index(sys.argv[1] + "/search.db"))
memory.files.write("notes/a.md", "secret")
for _ in range(2):
    with Context.open(sys.argv[1], AnthropicMessages("claude-sonnet-5-5", max_tokens=9), memory=memory) as context:
        context.user("secret")
        context.failed("aborted", context.request())
        with context.fork(folder=sys.argv[1] + "/fork") if not os.path.exists(sys.argv[1] + "/fork") else context:
            pass
    for name in ("log.jsonl", "ledger.jsonl"):
        with open(f"{sys.argv[1]}/{name}", "ab") as file:
            file.write(b'{"')
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no modes")
def test_only_their_owner_reads_what_holds_prompts(tmp_path: Path) -> None:
    ran = python(MODES, tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = {
        path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert {
        "log.jsonl",
        "log.jsonl.lock",
        "log.jsonl.torn",
        "ledger.jsonl",
        "ledger.jsonl.torn",
        "fork/log.jsonl",
    } <= set(found)
    assert {"memory/notes/a.md", "search.db"} <= set(found)
    assert set(found.values()) == {0o600}, found


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no modes")
def test_a_file_keeps_the_mode_its_owner_gave_it(tmp_path: Path) -> None:
    opened(tmp_path).close()
    for path in tmp_path.iterdir():
        path.chmod(0o640)
    with opened(tmp_path) as context:
        context.user("hello")
        context.failed("aborted", context.request())
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}
