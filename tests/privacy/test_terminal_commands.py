"""Names that attack a terminal, through every command that shows what other programs said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.cli.main import main
from contextkit.ledger.calls import Bodies, ModelCall, Remark
from contextkit.ledger.ledger import Ledger
from tests.cli.conftest import COMMAND
from tests.privacy.test_terminal import ATTACKS, OBEYED
from tests.server.proxied import Wire, provider

ATTACK = "".join(text for name, text in ATTACKS.items() if name != "half a pair")


def body(turn: int) -> bytes:
    tool = {"name": f"tool{ATTACK}{turn}", "description": ATTACK, "input_schema": {"type": "object"}}
    messages = [{"role": "user", "content": f"{ATTACK} {n} " + "word " * 2000} for n in range(turn)]
    return json.dumps(
        {"model": f"model{ATTACK}", "tools": [tool], "system": f"now {turn}{ATTACK}", "messages": messages}
    ).encode()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    with Ledger.open(path) as ledger:
        for turn in range(1, 4):
            at = 1_775_700_000.0 + 60 * turn
            usage = Usage(9, 0 if turn == 3 else 4000, 4000, 0, 5)
            error = f"failed{ATTACK}" if turn == 2 else None
            names = f"msg{ATTACK}{turn}", f"session{ATTACK}", f"lane{ATTACK}"
            model = f"model{ATTACK}" if turn < 3 else "claude-sonnet-5-5"
            ledger.remark(Remark("verdict", names[0], f"verdict{ATTACK}"))
            ledger.append(
                ModelCall(*names, at, at + 1, at + 2, f"prov{ATTACK}", model, Bodies(body(turn)), usage, None, error)
            )
    return path


COMMANDS = (
    ["report", "--misses", "--verbose"],
    ["report", "--json"],
    ["report", "--csv"],
    ["report", "--markdown"],
    ["whatif"],
    ["lint", "--requests"],
    ["lint", "--format", "json", "--requests"],
    ["lint", "--format", "github", "--requests"],
    ["lint", "--format", "sarif", "--requests"],
    ["simulate", "--cache", "anthropic"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_escapes_what_a_recording_says(
    command: list[str], recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["contextkit", *command, str(recording)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code in (None, 0, 1, 2) and "Traceback" not in err
    assert (out or err or "github" in command) and not OBEYED.search(out) and not OBEYED.search(err)
    if "--csv" not in command:  # which quotes a newline in a cell
        assert not any(line.startswith("contextkit: all is well") for line in (out + "\n" + err).splitlines())


def test_an_error_about_a_file_escapes_its_name(tmp_path: Path) -> None:
    if os.name == "nt":
        pytest.skip("such names cannot be given to files")
    ended = subprocess.run(
        [*COMMAND, "report", str(tmp_path / f"no{ATTACKS['title']}")], capture_output=True, check=False, timeout=120
    )
    assert ended.returncode == 2 and not OBEYED.search(ended.stderr.decode()) and b"]0;pwn" in ended.stderr


@pytest.mark.skipif(os.name == "nt", reason="ends its processes with POSIX signals")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["plain", "json"])
def test_the_proxy_escapes_what_passes(form: list[str], tmp_path: Path) -> None:
    answer = json.dumps(
        {"id": ATTACK, "type": ATTACK, "model": ATTACK, "error": {"type": ATTACK, "message": ATTACK}}
    ).encode()

    def answering(wire: Wire) -> None:
        statuses = iter([b"200", b"400", b"200", b"200"])
        while wire.request()[0]:
            head = b"HTTP/1.1 %s OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            wire.say(head % (next(statuses), len(answer)) + answer)

    with provider(answering) as upstream:
        command = [
            *COMMAND,
            "proxy",
            "--upstream",
            upstream,
            "--port",
            "0",
            "--record",
            str(tmp_path / "runs.jsonl"),
            *form,
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout
        first = process.stdout.readline().decode()
        url = json.loads(first)["url"] if form else first.split()[0]
        try:
            for turn, path in enumerate(
                ("/v1/messages", "/v1/messages", "/v1/chat/completions", "/v1/%1b%5d0;pwn%07/embeddings"), 1
            ):
                request = urllib.request.Request(f"{url}{path}", body(turn))
                try:
                    urllib.request.urlopen(request, timeout=30).read()
                except urllib.error.HTTPError as error:
                    error.close()
        finally:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
    for text in (out.decode(), err.decode()):
        assert not OBEYED.search(text)
    lines = out.decode().splitlines()
    assert not any(line.startswith("contextkit: all is well") for line in lines)
    if form:
        assert all(isinstance(json.loads(line), dict) for line in lines)


@pytest.mark.skipif(os.name == "nt", reason="ends its processes with POSIX signals")
def test_the_local_provider_writes_no_name_to_the_terminal(tmp_path: Path) -> None:
    process = subprocess.Popen([*COMMAND, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    url = process.stdout.readline().decode().strip()
    try:
        for path in ("/v1/messages", "/v1/%1b%5d0;pwn%07"):
            try:
                urllib.request.urlopen(
                    urllib.request.Request(f"{url}{path}", body(1), {"x-api-key": "any"}), timeout=30
                ).read()
            except urllib.error.HTTPError as error:
                error.close()
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert not OBEYED.search(out.decode()) and not OBEYED.search(err.decode())
