"""What the commands say of paths that hold no recording, and of what is no file: pipes, sockets, links."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.importers import source
from tests.cli.conftest import Run, pi_session

posix = pytest.mark.skipif(
    sys.platform == "win32", reason="pipes with names and process substitution are of POSIX systems"
)
READERS = (
    ["report"],
    ["validate"],
    ["whatif"],
    ["lint", "--requests"],
)
VERBOSE = {name: ["--verbose"] for name in ("report", "validate", "whatif")}
"""What has a command tell each fault; the others do so anyway."""


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """A folder of files in formats that nobody knows."""
    folder = tmp_path / "unknown"
    folder.mkdir()
    for name in ("a.json", "b.jsonl", "c.log"):
        (folder / name).write_text('{"surprise": 1}\n', "utf-8")
    return folder


@pytest.mark.parametrize("command", READERS)
def test_a_folder_without_a_recording_is_an_error(run: Run, unknown: Path, command: list[str]) -> None:
    ended = run(*command, unknown)
    assert (ended.code, ended.out) == (2, "")
    assert "none of the 3 files that were looked at is a recording" in ended.err
    assert "of no known format" in ended.err and str(unknown / "c.log") in ended.err and "proxy --record" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_ledger_is_not_written_of_no_recording(run: Run, unknown: Path, tmp_path: Path) -> None:
    assert run("report", unknown, "--to", tmp_path / "out.jsonl").code == 2
    assert not list(tmp_path.glob("out.jsonl*"))


@pytest.mark.parametrize("command", READERS)
def test_one_recording_among_other_files_is_read(run: Run, unknown: Path, command: list[str]) -> None:
    pi_session(unknown / "session.jsonl", 4)
    ended = run(*command, *VERBOSE.get(command[0], []), unknown)
    assert ended.code in (0, 1) and ended.out
    assert ended.err.count("of no known format") == 3


def test_a_ledger_without_calls_is_a_recording(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_text('{"contextkit_ledger":1}\n', "utf-8")
    ended = run("report", tmp_path)
    assert ended.code == 0 and "no calls recorded" in ended.out


# What is no file
# ------------------------------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("command", [*READERS, ["simulate"]])
def test_a_pipe_that_nobody_writes_to_is_an_error(
    run: Run, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "WRITER_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe.jsonl")
    ended = run(*command, tmp_path / "pipe.jsonl")
    assert (ended.code, ended.out) == (2, "")
    assert "an empty pipe that no process writes to" in ended.err


@posix
def test_a_pipe_is_read_to_its_writer_s_end(run: Run, session: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(session.read_bytes()))
    writer.start()
    ended = run("report", "--json", pipe)
    writer.join()
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == json.loads(run("report", "--json", session).out)


@posix
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_process_substitution_is_read(session: Path, tmp_path: Path) -> None:
    (tmp_path / "session.gz").write_bytes(gzip.compress(session.read_bytes()))
    shell = '"$0" -m contextkit.cli.main report --json <(gzip -dc "$1") <(cat "$2")'
    ended = subprocess.run(
        ["bash", "-c", shell, sys.executable, str(tmp_path / "session.gz"), str(tmp_path / "session.gz")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["total"]["calls"] == 6


@posix
@pytest.mark.parametrize("command", READERS)
def test_what_is_no_file_in_a_folder_is_passed_over_with_a_note(
    run: Run, session: Path, tmp_path: Path, command: list[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "broken.jsonl").symlink_to("nowhere")
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    (tmp_path / "up").symlink_to(".")
    (tmp_path / "up2").symlink_to(".")
    ended = run(*command, *VERBOSE.get(command[0], []), tmp_path)
    assert ended.code in (0, 1)
    assert ended.err.count("passed over; name it to have it read") == 3
    assert f"{tmp_path / 'pipe.jsonl'}: a pipe, passed over" in ended.err


@posix
def test_a_pattern_passes_pipes_over_and_follows_no_link_upwards(run: Run, session: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in ("up", "up2", "up3"):
        (tmp_path / name).symlink_to(".")
    for pattern in ("*.jsonl", "**/*.jsonl"):
        ended = run("report", tmp_path / pattern, "--json")
        assert json.loads(ended.out)["total"]["calls"] == 6
        assert ended.err.count("a pipe, passed over") == 1


@posix
def test_a_socket_is_an_error(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("s.jsonl")
        ended = run("report", "s.jsonl")
        assert ended.code == 2 and "s.jsonl: a socket, which cannot be read as a file" in ended.err
        ended = run("report", tmp_path / "*")
        assert ended.code == 2 and "no such file that can be read; 1 pipes and the like were passed over" in ended.err


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_device_without_an_end_is_of_no_known_format(run: Run) -> None:
    ended = run("report", "/dev/zero")
    assert ended.code == 2 and "of no known format" in ended.err


@posix
@pytest.mark.parametrize("option", ["--live", "--follow"])
def test_watching_a_pipe_is_refused(run: Run, tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    ended = run("report", tmp_path / "pipe.jsonl", option)
    assert ended.code == 2 and "leave out --live" in ended.err


@posix
def test_a_pipe_of_source_is_a_finding(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    ended = run("lint", tmp_path / "pipe.py")
    assert ended.code == 1 and "CK000" in ended.out and "not a file" in ended.out


# What to do is said in flags
# ------------------------------------------------------------------------------------------------------------

WRONG: dict[str, Callable[[Path], list[object]]] = {
    "a model of another provider": lambda session: ["simulate", session, "--cache", "openai"],
    "a named model of another provider": lambda session: [
        "simulate",
        session,
        "--cache",
        "anthropic",
        "--model",
        "gpt-5.5",
    ],
    "an option of another engine": lambda _: ["serve", "--cache", "vllm", "--slots", "3", "--port", "0"],
}


@pytest.mark.parametrize("what", WRONG)
def test_an_error_names_a_flag_and_no_python(run: Run, session: Path, what: str) -> None:
    ended = run(*WRONG[what](session))
    assert ended.code == 2 and "--" in ended.err
    assert not any(word in ended.err for word in ("=…", "model=", "register(", "block_size", "Context("))
