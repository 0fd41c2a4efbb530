"""All that a conversation does, in any order, killed at any moment, on a disk that fails: nothing acknowledged is lost
or billed twice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import anthropic
import pytest

from contextkit import Context, Log
from contextkit.canonical import parse
from contextkit.server import LocalServer
from tests.crash.session_writer import opened

WRITER = Path(__file__).with_name("session_writer.py")
ROOT = Path(__file__).resolve().parents[2]


def killed_writer(folder: Path, seed: int) -> list[dict[str, Any]]:
    """What a writer said before it was killed, whole lines only."""
    mode = ("kill", "faults", "dies")[seed % 3]
    command = [sys.executable, "-W", "ignore", "-m", "tests.crash.session_writer", str(folder), f"run{seed}", mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout and writer.stderr
        first = writer.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.4))
        writer.kill()
        lines, trouble = [first, *writer.stdout], writer.stderr.read()
    assert writer.returncode in (-9, 1) and "Traceback" not in trouble, (
        trouble
    )  # 1: what Windows says of a killed process
    return [json.loads(line) for line in lines if line.endswith("\n")]


def texts(context: Context) -> Counter[str]:
    """What the user and the writer's model said, each text with how often it stands in the log.

    The local provider repeats itself.
    """
    bodies = [parse(entry.body) for entry in context.log if entry.kind in ("user", "assistant")]
    found = (body["text"] if "text" in body else body["content"][0]["text"] for body in bodies)
    return Counter(text for text in found if not text.startswith("You said"))


def check(folder: Path, said: list[dict[str, Any]], counted: Counter[str]) -> None:
    """Open the folder, and hold what is there against what was acknowledged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        context = opened(str(folder))
    counted["set aside"] += len(caught)
    main = str(context.log.storage.path)
    logs: dict[str, list[Any]] = {main: list(context.log)}
    for row in said:
        if "entry" in row and row["entry"][0] is not None:
            path, sequence, digest = row["entry"]
            if path not in logs:
                with Log.open(path) as log:
                    logs[path] = list(log)
            assert logs[path][sequence].digest.hex() == digest, "an acknowledged entry is lost"
            counted["entries"] += 1
    ids = Counter(row.id for row in context.ledger)
    assert max(ids.values(), default=0) <= 1, f"billed twice: {ids.most_common(3)}"
    for row in said:
        if "bill" in row:
            assert ids[row["bill"]] == 1, "an acknowledged bill is lost"
            counted["bills"] += 1
    found = texts(context)
    assert max(found.values(), default=0) <= 1, f"kept twice: {found.most_common(3)}"
    gone = [row["gone"] for row in said if "gone" in row]
    assert not [text for text in gone if text in found], "what was said to have failed is there"
    counted["given up"] += len(gone)
    counted["raised"] += sum("raised" in row for row in said)
    context.close()


def goes_on(folder: Path, server: LocalServer, client: anthropic.Anthropic, counted: Counter[str]) -> None:
    """Whatever was open is answered, and the provider takes the next request; those of the sub-agents too."""
    with opened(str(folder)) as context:
        asks_on(context, client)
        for lane in context.agents:
            with context.agent(lane) as agent:
                asks_on(agent, client)
                counted["sub-agents"] += 1


def asks_on(context: Context, client: anthropic.Anthropic) -> None:
    context.interrupt("the process died")
    context.user(f"Go on {len(context.log)}.")
    n = len(context.ledger)
    context.receive(context.request().send(client))
    assert len(context.ledger) == n + 1
    context.interrupt("enough")


@pytest.mark.filterwarnings("ignore:.*set aside in")  # of sub-agents, which are opened last
@pytest.mark.timeout(3_600)
def test_200_interleavings(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    n_runs = 200 if request.config.getoption("--full") else 6
    counted: Counter[str] = Counter()
    said: list[dict[str, Any]] = []
    with LocalServer() as server, anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as client:
        for seed in range(n_runs):
            folder = tmp_path / str(seed // 5)  # five to a folder: recovery must not harm the next one either
            said = said if folder.exists() else []
            rows = killed_writer(folder, seed)
            assert rows, "the writer failed"
            said = [*said, *rows]
            check(folder, said, counted)
            goes_on(folder, server, client, counted)
            if seed % 5 == 4:
                check(folder, said, counted)
    print(f"{n_runs} interleavings: {dict(counted)}; nothing acknowledged is lost, nothing is billed or kept twice")
    assert counted["entries"] > n_runs and counted["bills"] > n_runs
