"""`contextkit fingerprint`: a ledger that `report` reads, written whole or not at all."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from contextkit.ledger.fingerprint import Fingerprinter
from contextkit.ledger.ledger import Ledger
from tests.cli.conftest import COMMAND, Run, pi_session


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pi_session(tmp_path / "session.jsonl", 6)
    return tmp_path / "session.jsonl"


def sums(run: Run, path: object) -> Any:
    ended = run("report", path, "--json")
    assert ended.code == 0
    found = json.loads(ended.out)
    return (
        found["total"],
        found["hit_rates"],
        [(miss["cause"], re.sub("'[^']*'", "…", miss["where"])) for miss in found["misses"]],
    )


def test_a_fingerprint_is_a_ledger_with_the_same_report(session: Path, run: Run) -> None:
    ended = run("fingerprint", session, "--out", "f.jsonl")
    assert (ended.code, ended.out, ended.err) == (0, "6 calls written to f.jsonl\n", "")
    assert len(Ledger.read("f.jsonl")) == 6
    assert sums(run, "f.jsonl") == sums(run, session)
    text = Path("f.jsonl").read_text()
    assert "Read everything" not in text and '"session":"s"' not in text
    if os.name != "nt":
        assert Path("f.jsonl").stat().st_mode & 0o777 == 0o600


def test_standard_output_is_the_ledger_and_nothing_else(session: Path, tmp_path: Path) -> None:
    read = subprocess.run([*COMMAND, "fingerprint", str(session), "--out", "-"], capture_output=True, check=True)
    assert read.stderr == b"" and read.stdout.count(b"\n") == 9
    (tmp_path / "f.jsonl.gz").write_bytes(gzip.compress(read.stdout))
    again = subprocess.run(
        [*COMMAND, "report", str(tmp_path / "f.jsonl.gz"), "--json"], capture_output=True, check=True
    )
    assert json.loads(again.stdout)["total"]["calls"] == 6


def test_one_salt_gives_one_fingerprint_and_no_salt_another_each_time(session: Path, run: Run) -> None:
    for name in ("a", "b"):
        assert run("fingerprint", session, "--out", f"{name}.jsonl", "--salt-file", "salt").code == 0
        assert run("fingerprint", session, "--out", f"{name}-alone.jsonl").code == 0
    a, b, alone, other = (Path(name).read_bytes() for name in ("a.jsonl", "b.jsonl", "a-alone.jsonl", "b-alone.jsonl"))
    assert a == b
    digests = [{*re.findall(rb"[0-9a-f]{32}", text)} for text in (a, alone, other)]
    assert all(len(one) > 10 for one in digests)
    assert not digests[0] & digests[1] and not digests[1] & digests[2]
    assert len(Path("salt").read_bytes()) == 32 and Path("salt").read_bytes() not in a
    if os.name != "nt":
        assert Path("salt").stat().st_mode & 0o777 == 0o600
    call = Fingerprinter(Path("salt").read_bytes()).names.identifier("session", "s")
    assert call.encode() in a


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no file to write": (["fingerprint", "session.jsonl"], "--out"),
    "a file that is there": (["fingerprint", "session.jsonl", "--out", "there.jsonl"], "there.jsonl is there already"),
    "a folder": (["fingerprint", "session.jsonl", "--out", "."], "directory"),
    "no recording": (["fingerprint", "absent.jsonl", "--out", "f.jsonl"], "absent.jsonl: no such file"),
    "an empty file": (["fingerprint", "empty.jsonl", "--out", "f.jsonl"], "empty.jsonl: the file is empty"),
    "a file of another kind": (["fingerprint", "text.txt", "--out", "f.jsonl"], "of no known format"),
    "a ledger without calls": (["fingerprint", "nothing.jsonl", "--out", "f.jsonl"], "no model call was found"),
    "nothing for standard output": (["fingerprint", "nothing.jsonl", "--out", "-"], "no model call was found"),
    "a short salt": (
        ["fingerprint", "session.jsonl", "--out", "f.jsonl", "--salt-file", "there.jsonl"],
        "there.jsonl holds 2 bytes, and a salt has 16 or more",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_writes_nothing(mistake: str, session: Path, run: Run) -> None:
    files = {
        "empty.jsonl": "",
        "text.txt": "hello\n",
        "there.jsonl": "{}",
        "nothing.jsonl": '{"contextkit_ledger":1}\n',
    }
    for name, content in files.items():
        Path(name).write_text(content)
    args, says = MISTAKES[mistake]
    ended = run(*args)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err and ended.err.count("\n") == 1
    assert {path.name for path in Path().iterdir()} == {"session.jsonl", *files}


def test_a_file_in_a_folder_that_is_no_recording_is_passed_over(session: Path, run: Run) -> None:
    Path("other.txt").write_text("hello\n")
    ended = run("fingerprint", ".", "--out", "f.out")
    assert (ended.code, ended.out) == (0, "6 calls written to f.out\n")
    assert "other.txt: of no known format" in ended.err


def test_hidden_models_are_said(session: Path, run: Run) -> None:
    session.write_text(session.read_text().replace("claude-opus-4-5", "claude-acme"))
    ended = run("fingerprint", session, "--out", "f.jsonl")
    assert ended.code == 0 and "--keep-models" in ended.err and "acme" not in ended.err + Path("f.jsonl").read_text()
    assert run("fingerprint", session, "--out", "g.jsonl", "--keep-models").err == ""
    assert "claude-acme" in Path("g.jsonl").read_text()


@pytest.mark.skipif(os.name == "nt", reason="interrupts as POSIX systems do")
def test_ctrl_c_leaves_no_file(tmp_path: Path) -> None:
    """A pipe whose writer waits: the command is in the middle of a recording."""
    pi_session(tmp_path / "session.jsonl", 6)
    command = [*COMMAND, "fingerprint", "-", "--out", str(tmp_path / "f.jsonl")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stderr
        process.stdin.write((tmp_path / "session.jsonl").read_bytes())
        process.stdin.flush()
        while not list(tmp_path.glob(".*.part")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        error = process.stderr.read()
    assert (process.returncode, error) == (130, b"interrupted: no whole fingerprint was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["session.jsonl"]


def test_importing_the_command_imports_no_prices() -> None:
    code = "import contextkit.cli.fingerprint, sys; print('genai_prices' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "False\n"
