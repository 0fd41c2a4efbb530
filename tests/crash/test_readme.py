"""The loops of README.md, killed with SIGKILL before any line that they or contextkit execute, and started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contextkit.ledger.ledger import Ledger
from contextkit.log.storage import JSONLStorage
from contextkit.server import LocalServer
from tests.scale import cases
from tests.test_docs import ROOT, blocks

WRITER = Path(__file__).with_name("readme_writer.py")
FINAL = "The three cheapest are A, B and C."
N_CALLS = 3
LOOP = "    for step in context.run(client):\n        print(step.text)\n"


def programs() -> dict[str, str]:
    """The README's program, and the same with its loop of one's own."""
    [program] = [
        block.code for block in blocks(ROOT / "README.md") if "Context.open(" in block.code and "@tool" in block.code
    ]
    [own] = [block.code for block in blocks(ROOT / "README.md") if block.code.startswith("while not context.finished")]
    assert program.count(LOOP) == 1
    return {"run": program, "own": program.replace(LOOP, textwrap.indent(own, "    "))}


def reply(parsed: Any, body: Any) -> Any:
    """A call for each of `N_CALLS` queries, two of them at once, then the answer; by what the request holds."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    n = sum(block["type"] == "tool_result" for block in blocks)
    queries = {0: ["one", "two"], 2: ["three"]}.get(n, [])
    calls = [{"type": "call", "name": "search", "arguments": {"query": query}} for query in queries]
    return {"parts": calls or [{"type": "text", "text": FINAL}]}


def executed(writer: subprocess.Popen[str], program: Path, n_lines: int) -> bool:
    """Whether the program came to its end; else it was killed."""
    assert writer.stdin and writer.stdout
    writer.stdin.write(json.dumps([str(program), n_lines]) + "\n")
    writer.stdin.flush()
    status = int(writer.stdout.readline())
    assert status == 0 or (n_lines and os.WTERMSIG(status) == signal.SIGKILL), status
    return status == 0


def check(folder: Path, n_sent: int) -> int:
    """What must hold after every process; returns how many replies the log holds."""
    log = folder / "runs" / "gpu-prices" / "log.jsonl"
    kinds = Counter(entry.kind for entry in JSONLStorage.read(log)) if log.exists() else Counter[str]()
    assert kinds["user"] <= 1, "the task is said once"
    effects = (folder / "effects").read_text("utf-8").split("\n")[:-1] if (folder / "effects").exists() else []
    assert len(set(effects)) == len(effects), f"a tool ran twice: {effects}"
    assert kinds["result"] <= kinds["begun"] <= kinds["result"] + 1
    rows = folder / "runs" / "gpu-prices" / "ledger.jsonl"
    n_billed = len(Ledger.read(rows)) if rows.exists() else 0
    assert kinds["assistant"] <= n_billed <= n_sent
    return kinds["assistant"]


@pytest.mark.skipif(os.name == "nt", reason="kill -9 and fork are POSIX")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("which", cases(["run"], ["run", "own"]))
def test_kill_9_at_any_line_repeats_nothing(
    which: str, tmp_path: Path, request: pytest.FixtureRequest, start: Callable[..., subprocess.Popen[str]]
) -> None:
    n_kills, chance, counted = 30 if request.config.getoption("--full") else 2, random.Random(which), Counter[str]()
    code, n_lines, n_conversations = programs()[which], 0, 0
    with LocalServer(reply) as server:
        environment = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "any"}
        writer = start(
            [sys.executable, WRITER],
            env=environment,
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        while not n_lines or counted["kills"] < n_kills:
            folder = tmp_path / str(n_conversations)
            folder.mkdir()
            program = folder / "program.py"
            program.write_text(code, "utf-8")
            server.reset()
            n_sent, n_replies, is_over = 0, 0, False
            while not is_over:
                limit = chance.randrange(n_lines) if n_lines and counted["kills"] < n_kills else 0
                is_over = executed(writer, program, limit)
                counted["kills"] += not is_over
                was, n_sent, n_replies_before = n_sent, len(server.ledger), n_replies
                n_replies = check(folder, n_sent)
                lost = n_sent - was - (n_replies - n_replies_before)
                # A reply on its way when the process dies is asked for again; nothing else is billed twice.
                assert lost in ((0,) if is_over else (0, 1))
                counted["replies lost"] += lost
            out = (folder / "out").read_text("utf-8")
            assert FINAL in out
            effects = (folder / "effects").read_text("utf-8").split()
            counted["killed in a tool"] += effects.count("began") - effects.count("ended")
            n_lines = n_lines or int(out.split()[-1])
            n_conversations += 1
    print(f"{counted['kills']} kills in {n_conversations} conversations, {n_lines} lines each: {dict(counted)}")
