"""A recording goes on in forked workers and after its file was rotated; every row is whole, whoever wrote it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anthropic
import pytest

from contextkit import Ledger, watch
from contextkit.server import LocalServer
from tests.scale import n_examples
from tests.watcher.talk import Talk

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

WORKERS = """
import os, sys
import anthropic, httpx2
from contextkit import watch
said = {"id": "msg", "type": "message", "role": "assistant", "model": "claude-opus-5", "content": [{"type": "text", "text": "ok"}],
    "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
answers = httpx2.MockTransport(lambda request: httpx2.Response(200, json=said))
client = watch(anthropic.Anthropic(api_key="any", http_client=httpx2.Client(transport=answers)), record=sys.argv[1])
children = []
for worker in range(3):
    child = os.fork()
    if not child:
        for call in range(int(sys.argv[2])):
            client.messages.create(model="claude-opus-5", max_tokens=9, messages=[{"role": "user", "content": f"{worker} {call} " * 200}])
        os._exit(0)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""


@needs_fork
def test_forked_workers_record_into_one_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    n_calls = n_examples(4, 10)
    command = [sys.executable, "-W", "ignore", "-c", WORKERS, str(path), str(n_calls)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout == "[0, 0, 0]\n", ran.stderr
    assert len(Ledger.read(path)) == 3 * n_calls


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody move a file that is open")
@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_recording_goes_on_where_its_file_was_rotated(server: LocalServer, tmp_path: Path, how: str) -> None:
    path, talk = tmp_path / "ledger.jsonl", Talk("word " * 300)
    client = watch(anthropic.Anthropic(base_url=server.url, api_key="any"), record=path)
    for _ in range(2):
        client.messages.create(**talk.claude())
        talk.say()
    path.rename(tmp_path / "ledger.1.jsonl") if how == "moved" else path.unlink()
    client.messages.create(**talk.claude())
    client.close()
    assert len(Ledger.read(path)) == 1
    assert how == "deleted" or len(Ledger.read(tmp_path / "ledger.1.jsonl")) == 2
