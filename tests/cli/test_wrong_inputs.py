"""What people type wrong, over all commands: one line that says what to do, and the right exit code."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import COMMAND, Run, Start, pi_session

BODY = {"model": "claude-opus-4-5", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
FILES = {
    "empty.jsonl": b"",
    "binary.jsonl": bytes(range(256)) * 50,
    "bad.json": b'{"a":',
    "other.json": b'{"hello": 1}',
    "prose.txt": b"Dear diary\n",
    "bad.toml": b"a = b = c",
    "requests.jsonl": json.dumps(BODY).encode() + b"\n",
    "src/broken.py": b"def f(:\n",
    "src/fine.py": b"x = 1\n",
    "binary.py": bytes(range(256)),
}


class Wrong(NamedTuple):
    """A command line, how it ends, and words of the line that says so."""

    args: str
    code: int
    words: tuple[str, ...]


UPSTREAM = "proxy --port 0 --upstream"
TABLE = [
    Wrong("repotr session.jsonl", 2, ("Did you mean 'report'?",)),
    Wrong("report session.jsonl --jsno", 2, ("--jsno", "--json")),
    Wrong("report nope.jsonl", 2, ("nope.jsonl: no such file", "give recordings")),
    Wrong("report hollow", 2, ("hollow: no .jsonl", "give recordings")),
    Wrong("report empty.jsonl", 2, ("empty.jsonl: the file is empty",)),
    Wrong("report binary.jsonl --json", 2, ("binary.jsonl line 1: of no known format; give one of",)),
    Wrong("report cut.jsonl.gz", 2, ("cut.jsonl.gz", "give a whole file")),
    Wrong("report session.jsonl binary.jsonl", 1, ("binary.jsonl: of no known format",)),
    Wrong("report session.jsonl cut.jsonl.gz --json", 1, ("cut.jsonl.gz", "give a whole file")),
    Wrong("report session.jsonl cut-late.jsonl.gz --json", 1, ("1 damaged line",)),
    Wrong("report binary.jsonl empty.jsonl", 2, ("none of the 2 files",)),
    Wrong("report session.jsonl --since yesterday", 2, ("'yesterday' is no time; write 2026-04-09",)),
    Wrong("report session.jsonl --since 1d", 2, ("no call matches --since 1d", "leave out the filter")),
    Wrong("report session.jsonl --last --session s", 2, ("--last chooses a session in files: leave out",)),
    Wrong("report hollow --last", 2, ("hollow: no .jsonl", "give recordings")),
    Wrong("report session.jsonl --by week", 2, ("'week' is not one of 'day'",)),
    Wrong("report session.jsonl --html hollow", 2, ("'hollow' is a directory",)),
    Wrong("report session.jsonl --html nowhere/page.html", 2, ("nowhere/page.html cannot be written",)),
    Wrong("report session.jsonl --tree --csv", 2, ("--tree is drawn on the terminal, or with --json",)),
    Wrong("report session.jsonl --tree --live", 2, ("leave one out",)),
    Wrong("report session.jsonl --tree --to ledger.jsonl", 2, ("leave out --live, --tree",)),
    Wrong("report session.jsonl --models nope.toml", 2, ("nope.toml: No such file", "[[models]]")),
    Wrong("report session.jsonl --models bad.toml", 2, ("bad.toml: not TOML", "line 1")),
    Wrong("status nope.jsonl", 2, ("nope.jsonl: no such file", "give recordings")),
    Wrong("status hollow --watch", 2, ("hollow: no .jsonl", "give recordings")),
    Wrong("status -", 2, ("give the file instead of -",)),
    Wrong("status binary.jsonl --json", 2, ("binary.jsonl line 1: of no known format; give one of",)),
    Wrong("status session.jsonl binary.jsonl --json", 1, ("binary.jsonl: of no known format",)),
    Wrong("status session.jsonl --jsno", 2, ("--jsno", "--json")),
    Wrong("statusline --yes", 2, ("--settings and --yes belong to --install or --uninstall",)),
    Wrong("statusline --instal", 2, ("--instal", "--install")),
    Wrong("statusline --install --settings hollow --yes", 2, ("hollow is a folder",)),
    Wrong("statusline --install --settings nowhere/s.json --yes", 2, ("nowhere is no folder", "--settings")),
    Wrong("statusline --install --settings bad.json --yes", 2, ("bad.json is not JSON", "mend it first")),
    Wrong("statusline --uninstall --settings other.json --yes", 2, ("contextkit did not write its statusLine",)),
    Wrong("run", 2, ("name the program to start", "contextkit run -- claude")),
    Wrong("run --budgt 5 -- claude", 2, ("--budgt", "--budget")),
    Wrong("run --budget much -- claude", 2, ("'much' is not a valid float",)),
    Wrong("run --record binary.jsonl -- true", 2, ("binary.jsonl",)),
    Wrong("run --repair everything -- true", 2, ("everything",)),
    Wrong("run -- no-such-agent", 127, ("no-such-agent: not found", "on the PATH")),
    Wrong("explain session.jsonl", 2, ("Missing argument 'CALL'", "explain --help")),
    Wrong("explain session.jsonl 99999", 2, ("session.jsonl has no call 99999: give a number from 1 to",)),
    Wrong("explain binary.jsonl 1", 2, ("binary.jsonl line 1: of no known format",)),
    Wrong("explain empty.jsonl 1", 2, ("empty.jsonl: the file is empty",)),
    Wrong("whatif", 2, ("Missing argument 'PATHS...'", "whatif --help")),
    Wrong("export session.jsonl", 2, ("Missing option '--out'", "export --help")),
    Wrong("whatif session.jsonl --ttl 5m", 2, ("--ttl", "whatif --help")),
    Wrong("whatif session.jsonl --change nonsense", 2, ("'nonsense' is no change: use one of longer-lifetime",)),
    Wrong("whatif session.jsonl --model claude-sonet-5-5", 2, ("did you mean 'claude-sonnet-5-5'?",)),
    Wrong("whatif session.jsonl --model nonsense", 2, ("no price for model 'nonsense': correct the name",)),
    Wrong("whatif session.jsonl binary.jsonl --json", 1, ("binary.jsonl: of no known format",)),
    Wrong("validate binary.jsonl --json", 2, ("binary.jsonl line 1",)),
    Wrong("validate session.jsonl cut.jsonl.gz --json", 1, ("give a whole file",)),
    Wrong("validate", 2, ("Missing argument 'PATHS...'", "--engine")),
    Wrong("validate session.jsonl --engine vllm", 2, ("--engine asks a server", "leave one out")),
    Wrong(
        "validate session.jsonl --slots 2", 2, ("--slots is about a running engine", "--engine vllm|sglang|llamacpp")
    ),
    Wrong("validate --engine ollama", 2, ("'ollama' is not one of 'vllm'",)),
    Wrong("validate --engine vllm --slots 2", 2, ("vllm has no slots: it takes --block-size",)),
    Wrong("validate --engine vllm --base-url localhost:8000", 2, ("no address of a server: give one such as http://",)),
    Wrong("validate --engine vllm --base-url http://127.0.0.1:9", 2, ("nothing usable answers", "correct --base-url")),
    Wrong("lint nope.py", 2, ("nope.py: no such file or folder; give Python files",)),
    Wrong("lint prose.txt", 2, ("prose.txt line 1: of no known format",)),
    Wrong("lint --requests bad.json --json", 2, ("bad.json line 1",)),
    Wrong("lint src/fine.py --requests binary.jsonl --json", 1, ("binary.jsonl: of no known format",)),
    Wrong("lint --select XYZ src", 2, ("'XYZ'; codes look like CKS01",)),
    Wrong("lint --format xml", 2, ("'xml' is not one of",)),
    Wrong("simulate hollow", 2, ("hollow: no .jsonl", "give traces")),
    Wrong("simulate binary.jsonl", 2, ("binary.jsonl:1: not JSON; expected a Mooncake line",)),
    Wrong("simulate session.jsonl --capacity lots", 2, ("'lots' is no number of blocks: give",)),
    Wrong("simulate session.jsonl --cache tiered --disk-capacity 0", 2, ("'--disk-capacity'",)),
    Wrong("models nonsense --json", 2, ("no model 'nonsense'", "lists all")),
    Wrong("models claude-sonet-5-5", 0, ("Did you mean 'claude-sonnet-5-5'?",)),
    Wrong("template", 2, ("Missing command: contextkit template check",)),
    Wrong("template check nope.jinja bad.json", 2, ("'nope.jinja' does not exist",)),
    Wrong("template check prose.txt bad.json", 2, ("bad.json, line 1: no JSON",)),
    Wrong("explain-edit abc", 2, ("give exactly one of --append",)),
    Wrong("explain-edit abc --delete 33 13", 2, ("does not fit into 3",)),
    Wrong("explain-edit abc --append x --svg nowhere/a.svg", 2, ("nowhere/a.svg: No such file",)),
    Wrong("kv-size", 2, ("Missing argument 'CONFIG|NAME'", "kv-size --help")),
    Wrong(
        "kv-size Llama-2-8B", 2, ("Llama-2-8B: no such file, and no model of that name: did you mean 'Llama-2-7B'?",)
    ),
    Wrong("kv-size nope.json", 2, ("nope.json: no such file", "give a config.json or one of Llama-2-7B")),
    Wrong("kv-size hollow", 2, ("hollow: no such file",)),
    Wrong("kv-size binary.jsonl", 2, ("binary.jsonl: no JSON object: give the config.json",)),
    Wrong("kv-size bad.json", 2, ("bad.json: no JSON object",)),
    Wrong("kv-size other.json", 2, ("other.json: no 'num_hidden_layers' (or n_layer", "add it")),
    Wrong("kv-size Llama-2-7B --dtype fp7", 2, ("'fp7' is not one of 'fp32', 'fp16'",)),
    Wrong("kv-size Llama-2-7B --context lots", 2, ("'lots' is no amount", "4096 or 128k")),
    Wrong("kv-size Llama-2-7B --batch 0", 2, ("'--batch'",)),
    Wrong("kv-size Llama-2-7B --memory 80QB", 2, ("'80QB' is no amount", "80GB or 24GiB")),
    Wrong("lock", 2, ("Missing command: contextkit lock check|write",)),
    Wrong("lock check", 2, ("add [tool.contextkit.lock.agents]",)),
    Wrong("demo --model nonsense", 2, ("name a Claude model",)),
    Wrong("serve --port x", 2, ("'--port'", "'x'")),
    Wrong("serve --script hollow", 2, ("'hollow' is a directory",)),
    Wrong("serve --script bad.json", 2, ("bad.json: not JSON",)),
    Wrong("proxy", 2, ("Missing option '--upstream'", "proxy --help")),
    Wrong(f"{UPSTREAM} nonsense", 2, ("--upstream 'nonsense': give scheme and host",)),
    Wrong(f"{UPSTREAM} https://a%b", 2, ("--upstream 'https://a%b': give scheme and host",)),
    Wrong(f"{UPSTREAM} https://user:pass@host", 2, ("--upstream takes scheme, host and path alone",)),
    Wrong(f"{UPSTREAM} https://api.anthropic.com --record hollow", 2, ("hollow",)),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    session = pi_session(tmp_path / "session.jsonl", 6).read_bytes()
    packed = gzip.compress(session)
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[:60])
    long = gzip.compress(session + os.urandom(400_000).hex().encode() + b"\n")
    (tmp_path / "cut-late.jsonl.gz").write_bytes(long[:-1000])
    (tmp_path / "hollow").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("wrong", TABLE, ids=lambda wrong: wrong.args)
def test_what_is_typed_wrong_is_one_line_with_what_to_do(wrong: Wrong, folder: Path, run: Run) -> None:
    ended = run(*wrong.args.split())
    assert ended.code == wrong.code, ended
    assert ended.err.count("\n") == 1, ended.err
    assert all(word in ended.err for word in wrong.words), ended.err
    if wrong.code == 2:
        assert ended.out == "" and ended.err.startswith("contextkit: ")
    elif "--json" in wrong.args:
        json.loads(ended.out)


def test_code_that_cannot_be_read_exits_with_1_and_a_note(folder: Path, run: Run) -> None:
    for path in ("src/broken.py", "binary.py"):
        ended = run("lint", path)
        assert (ended.code, ended.err) == (1, "")
        assert f"{path}:1:1: CK000" in ended.out
        [finding] = json.loads(run("lint", path, "--json").out)["findings"]
        assert (finding["code"], finding["severity"]) == ("CK000", "note")
    assert run("lint", "src", "--ignore", "CK000").code == 0
    assert run("lint", "src/fine.py").code == 0


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions as POSIX has them")
def test_a_file_that_may_not_be_read_among_others_exits_with_1(folder: Path) -> None:
    locked = folder / "locked.jsonl"
    locked.write_bytes((folder / "session.jsonl").read_bytes())
    locked.chmod(0)
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    for args in (["session.jsonl", "locked.jsonl"], ["."]):
        ended = subprocess.run([*COMMAND, "report", *args, "--json"], capture_output=True, text=True, check=False)
        assert ended.returncode == 1 and "Permission denied" in ended.stderr
        assert json.loads(ended.stdout)["total"]["calls"] == 6
    ended = subprocess.run([*COMMAND, "report", "locked.jsonl"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "Permission denied" in ended.stderr


def test_a_port_in_use_is_one_line_of_every_server(folder: Path, run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for args in (["serve"], ["proxy", "--upstream", "http://127.0.0.1:9"]):
            ended = run(*args, "--port", port)
            assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
            assert f"cannot listen on 127.0.0.1:{port}" in ended.err and "choose another port" in ended.err


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_while_standard_input_is_read_ends_with_130(folder: Path, start: Start) -> None:
    process = start(
        [*COMMAND, "report", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    process.stdin.write((folder / "session.jsonl").read_text())
    process.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_no_escapes_are_printed_where_none_are_wanted(
    folder: Path, variables: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for args in (["report", "session.jsonl"], ["lint", "src"]):
        ended = run(*args)
        assert ended.code == (1 if args[0] == "lint" else 0), ended.err
        assert "\x1b" not in ended.out + ended.err


def test_the_commands_are_all_in_the_table() -> None:
    from contextkit.cli.main import COMMANDS

    assert {wrong.args.split()[0] for wrong in TABLE} >= COMMANDS.keys()
