"""`contextkit status`: the caches of running sessions, once and as they go on."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall, Remark
from contextkit.ledger.ledger import Ledger
from tests.cli.conftest import COMMAND, Run, Start

OPUS = "claude-opus-4-5"


def written(
    path: Path, *usages: Usage, session: str = "session-a", at: float = 1_775_696_400.0, title: str = ""
) -> Path:
    """A ledger with one more session, a call every 20 seconds."""
    with Ledger.open(path) as ledger:
        if title:
            ledger.remark(Remark("title", session, title))
        for number, usage in enumerate(usages):
            start = at + 20 * number
            name = f"{session}-{number}"
            ledger.append(
                ModelCall(
                    name, session, "main", start, start + 1, start + 2, "anthropic", OPUS, None, usage, None, None
                )
            )
    return path


WARM = Usage(3, 0, 40_000, 0, 9), Usage(3, 40_000, 2_000, 0, 9)
RISK = 42_000 * (6.25 - 0.5) / 1e6


def test_the_last_session_of_a_recording(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", *WARM, session="earlier", at=1_775_000_000.0)
    ledger = written(tmp_path / "a.jsonl", *WARM, Usage(3, 0, 45_000, 0, 9), title="Fix\x1b the checkout")
    text = run("status", ledger).out
    assert (
        text
        == "Fix\\x1b the checkout: cache 31.5 % · cold · $0.26 more for the next call · last miss: unknown (call 3)\n"
    )
    state = json.loads(run("status", ledger, "--json").out)
    report = json.loads(run("report", ledger, "--session", "session-a", "--json").out)
    assert state["hit_rate"] == report["total"]["hit_rate"] and not state["is_warm"]
    assert state["last_loss"]["call"] == 3 and report["misses"][-1]["cause"] == state["last_loss"]["cause"]
    assert state["expires_at"] == state["last_at"] + 300 and state["cached_tokens"] == 45_000


def test_every_session_that_is_running(run: Run, tmp_path: Path) -> None:
    now = time.time()
    written(tmp_path / "a.jsonl", *WARM, session="long-gone", at=now - 5_000)
    written(tmp_path / "a.jsonl", *WARM, session="just-cold", at=now - 400)
    ledger = written(tmp_path / "a.jsonl", *WARM, session="is-warm", at=now - 60)
    lines = run("status", ledger).out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["just-col", "is-warm"]
    assert " · cold · $0.24 more" in lines[0] and " · warm 4:" in lines[1] and f"${RISK:.2f} at risk" in lines[1]


def test_a_recording_without_a_call_says_so(run: Run, tmp_path: Path) -> None:
    ended = run("status", written(tmp_path / "a.jsonl"))
    assert ended.code == 2 and "no call in it" in ended.err


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("json_option", [[], ["--json"]])
def test_each_change_is_a_line_where_nobody_draws(start: Start, tmp_path: Path, json_option: list[str]) -> None:
    ledger = written(tmp_path / "a.jsonl", WARM[0], at=time.time() - 60)
    process = start(
        [*COMMAND, "status", str(ledger), "--watch", *json_option],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "0.0 %" in first or json.loads(first)["hit_rate"] == 0.0
    with pytest.raises(subprocess.TimeoutExpired):  # the seconds left are no change
        process.wait(3)
    written(ledger, WARM[1], at=time.time() - 10)
    second = process.stdout.readline()
    assert "48.8 %" in second or round(json.loads(second)["hit_rate"], 3) == 0.488
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


@pytest.mark.skipif(os.name != "posix", reason="a terminal as POSIX has it")
def test_on_a_terminal_the_line_is_drawn_in_place(start: Start, tmp_path: Path) -> None:
    import pty

    ledger = written(tmp_path / "a.jsonl", *WARM, at=time.time() - 60)
    ours, child = pty.openpty()
    process = start([*COMMAND, "status", str(ledger), "--watch"], stdout=child, stderr=child, stdin=child)
    os.close(child)
    page, deadline = b"", time.monotonic() + 60
    while page.count(b"warm 4:") < 3 and time.monotonic() < deadline:
        if select.select([ours], [], [], 1)[0]:
            page += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    os.close(ours)
    assert page.count(b"warm 4:") >= 3 and page.count(b"\n") < 3
