"""`contextkit run`: what it starts and how, what it records, what it says at the end."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.server import LocalServer
from tests.cli.conftest import COMMAND, Ended

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ends its processes with POSIX signals")
POST = """
import json, os, urllib.request
def post(variable, path, **body):
    headers = {"content-type": "application/json", "authorization": "Bearer any", "anthropic-version": "2023-06-01"}
    if variable == "OPENAI_BASE_URL":
        del headers["anthropic-version"]
    asked = urllib.request.Request(os.environ[variable] + path, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(asked))
"""
CALL = (
    POST
    + """
system = [{"type": "text", "text": "You are careful. " * 800 + CLOCK, "cache_control": {"type": "ephemeral"}}]
said = [{"role": "user", "content": "hi"}]
post("ANTHROPIC_BASE_URL", "/v1/messages", model="claude-sonnet-5-5", max_tokens=MOST, system=system, messages=said)
"""
)
ASK = (
    POST
    + """
reply = post("OPENAI_BASE_URL", "/responses", model="gpt-6.1-sol", input="hi")
print(reply["output"][-1]["content"][0]["text"])
"""
)
KEYS = {"ANTHROPIC_API_KEY": "any", "OPENAI_API_KEY": "any"}
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


@pytest.fixture
def environment(server: LocalServer, tmp_path: Path) -> dict[str, str]:
    """A home folder of its own, and the local provider in place of two vendors."""
    server.reset()
    kept = {name: value for name, value in os.environ.items() if name.upper() not in PROXY_VARIABLES}
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    return {**kept, **KEYS, **home, "ANTHROPIC_BASE_URL": server.url, "OPENAI_BASE_URL": f"{server.url}/v1"}


def call(clock: str = "", most: int = 50) -> str:
    """A program that makes one call."""
    return CALL.replace("CLOCK", repr(clock)).replace("MOST", str(most))


def started(environment: dict[str, str], *args: object, **named: Any) -> Ended:
    """`contextkit run …` to its end."""
    ended = subprocess.run(
        [*COMMAND, "run", *map(str, args)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
        **named,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def recorded(environment: dict[str, str]) -> list[Path]:
    return sorted(Path(environment["HOME"], ".contextkit", "runs").glob("*"))


def test_a_program_is_recorded_judged_and_summed_up(server: LocalServer, environment: dict[str, str]) -> None:
    program = call("10:30") + call("10:31") + ASK
    ended = started(environment, "--", sys.executable, "-c", program, input="")
    assert (ended.code, ended.out) == (0, "You said: hi\n")
    (path,) = recorded(environment)
    assert path.name.endswith("-other.jsonl") and stat.S_IMODE(path.stat().st_mode) == 0o600
    first, *rest = ended.err.splitlines()
    assert first.startswith("contextkit: 3 calls · $")
    assert rest[0].startswith("  1 miss, $") and "system_changed at call 2" in rest[0] and len(rest) == 2
    assert rest[1] == f"  contextkit report ~/.contextkit/runs/{path.name}   for details"
    calls = [row for row in Ledger.read(path) if isinstance(row, ModelCall)]
    assert [row.usage for row in calls] == [row.usage for row in server.ledger]
    assert [row.provider for row in calls] == ["anthropic", "anthropic", "openai"]

    last = subprocess.run([*COMMAND, "report", "--last", "--json"], capture_output=True, env=environment, check=True)
    assert json.loads(last.stdout)["total"]["calls"] == 3
    every = subprocess.run([*COMMAND, "report", "--json"], capture_output=True, env=environment, check=True)
    assert json.loads(every.stdout)["total"]["calls"] == 3  # a program without a log of its own


def test_input_output_and_exit_code_are_the_programs(environment: dict[str, str]) -> None:
    program = "import sys; text = sys.stdin.read(); print(text.upper()); print('low', file=sys.stderr); sys.exit(7)"
    ended = started(environment, "--", sys.executable, "-c", program, input="hello")
    assert (ended.code, ended.out) == (7, "HELLO\n")
    assert ended.err.startswith("low\n") and "no call was recorded" in ended.err
    assert recorded(environment) == []


def test_a_programs_options_are_its_own(environment: dict[str, str]) -> None:
    ended = started(environment, sys.executable, "-c", "import sys; print(sys.argv[1:])", "--port", "--help", "--", "x")
    assert ended.out == "['--port', '--help', '--', 'x']\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_the_programs(environment: dict[str, str], number: signal.Signals) -> None:
    program = """
import signal, sys, time
def ends(number, frame):
    print("ended by", number, flush=True)
    sys.exit(9)
signal.signal(signal.SIGINT, ends), signal.signal(signal.SIGTERM, ends)
print("ready", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen(
        [*COMMAND, "run", "--", sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (9, f"ended by {int(number)}\n") and "Traceback" not in err


def test_what_is_ignored_closed_or_open_here_is_so_for_the_program(environment: dict[str, str], tmp_path: Path) -> None:
    program = "import os, signal, sys; os.write(9, str(signal.getsignal(signal.SIGHUP)).encode()); sys.exit(5)"
    command = shlex.join([*COMMAND, "run", "--", sys.executable, "-c", program])
    for streams in ("<&-", "2>&-", "<&- 2>&-"):
        kept = tmp_path / "kept"
        script = f"trap '' HUP; exec 9>{kept}; {command} {streams}"
        ended = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, timeout=120, check=False)
        assert (ended.returncode, kept.read_text()) == (5, "1"), ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="writes to a device of Linux")
def test_a_summary_that_nobody_can_read_leaves_the_exit_code(environment: dict[str, str]) -> None:
    command = shlex.join([*COMMAND, "run", "--", sys.executable, "-c", "import sys; sys.exit(5)"])
    assert (
        subprocess.run(["sh", "-c", f"{command} 2>/dev/full"], env=environment, timeout=120, check=False).returncode
        == 5
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_program_is_there_starts_nothing(
    environment: dict[str, str], number: signal.Signals, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "--", "touch", str(tmp_path / "started")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    while not recorded(environment) and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(number)  # the process that judges is starting
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and "Traceback" not in err
    assert recorded(environment) == [] and not (tmp_path / "started").exists()


def test_a_process_that_judges_no_more_is_told(environment: dict[str, str]) -> None:
    program = f"""
import os, signal, subprocess
said = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
for line in said.splitlines():
    pid, parent, args = line.split(None, 2)
    if int(parent) == os.getppid() and "-m contextkit.proxy.analyzer" in args and int(pid) != os.getpid():
        os.kill(int(pid), signal.SIGKILL)
{call()}"""
    ended = started(environment, "--", sys.executable, "-c", program)
    assert ended.code == 0 and "the process that records ended before its time, with -9" in ended.err, ended.err
    assert "1 call was not confirmed" in ended.err


def test_a_program_that_a_signal_ends_has_the_code_of_a_shell(environment: dict[str, str]) -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert started(environment, "--", sys.executable, "-c", program).code == 128 + signal.SIGKILL


def test_the_terminal_is_the_programs(environment: dict[str, str]) -> None:
    import pty

    program = "import os, sys; print([stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)], os.getpgrp() == os.tcgetpgrp(0))"
    child, terminal = pty.fork()
    if child == 0:
        os.execve(COMMAND[0], [*COMMAND, "run", "--", sys.executable, "-c", program], environment)
    said = b""
    with suppress(OSError):  # Linux: the other side is closed
        while more := os.read(terminal, 4096):
            said += more
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0 and said.startswith(b"[True, True, True] True\r\n")


def test_remarks_wait_until_the_program_has_ended(environment: dict[str, str]) -> None:
    asks = (
        "import anthropic; anthropic.Anthropic(max_retries=0).messages.create(model='claude-sonnet-5-5', max_tokens=9, "
    )
    asks += "messages=[{'role': 'user', 'content': 'hi'}], extra_body={'colour': 'red'})"
    ended = started(environment, "--", sys.executable, "-c", asks)
    assert ended.code == 0
    first, *rest = ended.err.splitlines()
    assert first.startswith("contextkit: 1 call")
    assert any("field 'colour' is not listed" in line for line in rest)


def test_what_is_not_there_is_one_line(environment: dict[str, str]) -> None:
    ended = started(environment, "--", "no-such-agent")
    assert (ended.code, ended.out, ended.err.count("\n")) == (127, "", 1) and "no-such-agent: not found" in ended.err
    ended = started(environment)
    assert ended.code == 2 and "contextkit run -- claude" in ended.err
    ended = started({**environment, "OPENAI_BASE_URL": "nonsense"}, "--", sys.executable, "-c", "")
    assert ended.code == 2 and ended.err.startswith("contextkit: OPENAI_BASE_URL 'nonsense'")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = started(environment, "--port", taken.getsockname()[1], "--", sys.executable, "-c", "print('started')")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1) and "choose another port" in ended.err
    assert recorded(environment) == []


def test_a_provider_that_is_down_and_a_missing_key_are_named(environment: dict[str, str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    ended = started({**environment, "ANTHROPIC_BASE_URL": url}, "--", sys.executable, "-c", call())
    assert ended.code == 1 and f"1 call failed: unreachable at {url[7:]} × 1" in ended.err
    ask = "r.Request(os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages', b'{}', {'content-type': 'application/json'})"
    program = f"import os, urllib.request as r; r.urlopen({ask})"
    ended = started(environment, "--", sys.executable, "-c", program)
    assert ended.code == 1 and "1 call failed: authentication_error × 1" in ended.err


def test_a_budget_keeps_requests_back(server: LocalServer, environment: dict[str, str]) -> None:
    ended = started(environment, "--budget", "0.0001", "--", sys.executable, "-c", call())
    assert ended.code == 1 and "1 request not sent: " in ended.err and "the budget is $0.0001" in ended.err
    assert not list(server.ledger)


def test_the_environment_is_printed_for_a_program_started_elsewhere(environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "--print-env"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout
    lines = list[str]()
    while not lines or not lines[-1].startswith("# recording"):
        lines.append(process.stdout.readline().rstrip("\n"))
    said = dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))
    subprocess.run([sys.executable, "-c", call()], env={**environment, **said}, check=True)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.startswith("contextkit: 1 call · ")


def test_arguments_are_printed_behind_their_program(environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "--print-env", "--", "codex"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout
    lines = list(iter(process.stdout.readline, "# recording until Ctrl-C\n"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert any(line.startswith("# start it as: codex -c 'openai_base_url=") for line in lines)


def test_hosts_of_this_machine_are_called_directly(environment: dict[str, str]) -> None:
    named = {**environment, "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "x.y"}
    assert started(named, "--", sys.executable, "-c", ASK).out == "You said: hi\n"


def test_a_recording_is_appended_to(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    for n in (1, 2):
        ended = started(environment, "--record", path, "--", sys.executable, "-c", ASK)
        assert ended.code == 0 and len(list(Ledger.read(path))) == n
    path.write_text("no ledger")
    ended = started(environment, "--record", path, "--", sys.executable, "-c", "print('started')")
    assert (ended.code, ended.out) == (2, "") and str(path) in ended.err
