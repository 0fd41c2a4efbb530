"""A process that dies between two calls, between request and reply, or in a stream: what the next one finds, and how it
goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.context.desk import Desk, asks, bill, goes_on, says

ROOT = Path(__file__).resolve().parents[2]
STORY = """
import json, os, sys, urllib.request
from tests.context.head import SYSTEM, add, shout
from contextkit import AnthropicMessages, Context
folder, url, moment = sys.argv[1:]
provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=1024)
def post(request):
    headers = {"content-type": "application/json", "x-api-key": "any", "anthropic-version": "2023-06-01"}
    return urllib.request.urlopen(urllib.request.Request(url + request.path, request.body, headers))
def events(request):
    for line in post(request):
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])
def die():
    if sys.platform != "win32":
        import signal
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(9)
context = Context.open(folder, provider, system=SYSTEM, tools=[add, shout], clock=lambda: 1000.0)
context.user("one")
if moment == "between request and reply":
    post(context.request()).read()
    die()
if moment == "in a stream":
    for event in context.stream(events(context.request(stream=True))):
        die()
context.receive(json.load(post(context.request())))
first, second, third = context.calls
context.result(first, first.run())
second.begin()
if moment == "between two calls":
    die()
"""


def crash(claude: Desk, folder: Path, moment: str) -> None:
    """Run the story in another process up to `moment`."""
    died = subprocess.run(
        [sys.executable, "-c", STORY, str(folder), claude.url, moment],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        check=False,
    )
    assert (died.returncode, died.stderr) in ((-9, ""), (9, "")), died.stderr


def test_between_two_calls(claude: Desk, tmp_path: Path) -> None:
    claude.server.script([asks(("add", {"a": 1, "b": 2}), ("shout", {"text": "x"}), ("add", {"a": 5, "b": 5}))])
    crash(claude, tmp_path / "run", "between two calls")
    context = claude.open(tmp_path / "run")
    assert [(call.name, call.was_started) for call in context.calls] == [("shout", True), ("add", False)]
    assert bill(context.ledger[0].usage) == bill(claude.server.ledger[0].usage) and len(context.ledger) == 1
    for call in context.calls:
        context.result(call, "found in the outbox" if call.was_started else call.run())
    request = context.request()
    body = request.body.decode()
    assert body.index('"3"') < body.index("found in the outbox") < body.index('"10"')
    assert request.predicted.read
    goes_on(claude, context, says_something=False)
    context.close()


@pytest.mark.parametrize("moment", ["between request and reply", "in a stream"])
def test_a_reply_that_was_under_way_is_lost_and_asked_for_again(claude: Desk, tmp_path: Path, moment: str) -> None:
    claude.server.script([says("never read " * 50)])
    crash(claude, tmp_path / "run", moment)
    context = claude.open(tmp_path / "run")
    assert [entry.kind for entry in context.log] == ["opened", "user"] and len(context.ledger) == 0
    assert not context.finished
    # What the dead process was billed nobody told this one: its prediction is too dear by what the provider still
    # holds.
    request = claude.ask(context, says("again"))
    usage = claude.server.ledger[1].usage
    assert (
        usage is not None
        and usage.read
        and request.predicted.read == 0
        and bill(context.ledger[0].usage) == bill(usage)
    )
    goes_on(claude, context)
    context.close()
