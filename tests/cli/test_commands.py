"""What every command owes whoever types it: an example, one line for a mistake, no traceback, nothing written."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_core import SchemaSerializer, core_schema

from contextkit.cli.main import COMMANDS
from tests.cli.conftest import COMMAND, Run, Start, pi_session
from tests.scale import cases

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals as POSIX has them")
HEAD = b'{"type":"session","id":"a","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/"}\n'
FILES = {
    "empty.jsonl": b"",
    "binary.jsonl": bytes(range(256)) * 50,
    "torn.jsonl": HEAD + b'{"type":"message","timest',
    "torn-ledger.jsonl": b'{"contextkit_ledger":1}\n{"id":"a","sess',
    "not-json.json": b"{replies",
    "array.json": b"[]",
    "wrong-shape.json": b'{"replies": 3}',
    "wrong-field.json": b'{"replies": [{"parts": []}, {"part": []}]}',
}
MISTAKES = {
    "a command that is none": (["prox"], "Did you mean 'proxy'?"),
    "a period of no budget": (
        ["proxy", "--upstream", "http://127.0.0.1:9", "--budget-per", "day"],
        "give --budget or --budget-tokens",
    ),
    "a pattern that names nothing": (["report", "*.har"], "*.har: no such file"),
    "a page that is no file": (["report", "session.jsonl", "--html", "-"], "--html writes a file, not standard output"),
    "a face of no report": (
        ["report", "session.jsonl", "--to", "y.jsonl", "--json"],
        "reports nothing: leave out --json",
    ),
    "a value that is no trace": (["simulate", "array.json"], "array.json:1: no JSON object; expected a Mooncake line"),
    "a model that would clear the screen": (
        ["demo", "--model", "llama\x1b[2J"],
        "'llama\\x1b[2J' is no model of Anthropic's",
    ),
    "a name no file can have": (["report", "a" * 5000], "name too long"),
    "too few turns": (["demo", "--turns", "1"], "not in the range"),
    "a script that is no list": (
        ["serve", "--script", "wrong-shape.json"],
        "wrong-shape.json: $: a script is an object with a list",
    ),
    "a script with a wrong field": (["serve", "--script", "wrong-field.json"], "wrong-field.json: replies.1.part: "),
    "an allowed host that is none": (
        ["serve", "--port", "0", "--allow-host", "http://box"],
        "--allow-host 'http://box'",
    ),
    "a host that is none": (
        ["serve", "--port", "0", "--host", "256.256.256.256"],
        "cannot listen on 256.256.256.256:0",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    pi_session(tmp_path / "session.jsonl", 6)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example(name: str, run: Run) -> None:
    ended = run(name, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert re.search(rf"^  contextkit {name} .*\w|^  contextkit {name}$", ended.out, re.MULTILINE)


def test_help_shows_a_line_for_every_daily_command(run: Run) -> None:
    ended = run("--help")
    assert ended.code == 0
    assert {name for name in COMMANDS if f"contextkit {name} " not in ended.out} == {"validate"}
    assert run() == ended
    assert run("--version").out.startswith("contextkit, version ")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_changes_nothing(mistake: str, folder: Path, run: Run) -> None:
    args, says = MISTAKES[mistake]
    before = contents(folder)
    ended = run(*args)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("contextkit: ") and ended.err.count("\n") == 1
    assert says in ended.err
    assert contents(folder) == before


def test_what_a_crash_tore_is_read_up_to_the_tear_and_said(folder: Path, run: Run) -> None:
    for file, line in (("torn-ledger.jsonl", 2), ("torn.jsonl", 2)):
        ended = run("report", file)
        assert ended.code == 0
        assert ended.err.startswith(f"{file}:{line}: ") and ended.err.count("\n") == 1


def test_a_folder_is_read_as_far_as_it_can_be(folder: Path, run: Run) -> None:
    ended = run("report", ".", "--verbose")
    assert ended.code == 0  # what is no recording was not asked for
    assert "empty.jsonl: the file is empty" in ended.err and "binary.jsonl: of no known format" in ended.err


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_one_line(folder: Path, run: Run) -> None:
    locked = folder / "locked"
    locked.mkdir()
    (locked / "ledger.jsonl").write_bytes(b"")
    locked.chmod(0)
    try:
        ended = run("report", "locked")
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert "locked" in ended.err
    finally:
        locked.chmod(0o700)


@pytest.mark.parametrize(
    ("package", "args"),
    [("uvicorn", ["serve", "--port", "0"]), ("starlette", ["serve", "--port", "0"])],
)
def test_a_missing_extra_names_the_install_command(package: str, args: list[str], folder: Path) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; sys.argv = {['contextkit', *args]}; from contextkit.cli.main import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60, cwd=folder
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert (
        ended.stderr
        == 'contextkit: the local server needs an extra that is not installed: pip install "contextkit-sdk[server]"\n'
    )


# Streams that are closed, full or not of Unicode
# -----------------------------------------------------------------------------------------


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line for the shell, in which `contextkit` is ours."""
    ours = " ".join(shlex.quote(word) for word in COMMAND)
    given = {**os.environ, "COLUMNS": "200", **environment}
    typed = ["sh", "-c", line.replace("contextkit", ours, 1)]
    return subprocess.run(typed, check=False, capture_output=True, timeout=60, cwd=folder, env=given)


@posix
@pytest.mark.parametrize("args", cases(["report session.jsonl"], ["--version", "report session.jsonl"]))
def test_a_closed_output_is_one_line(args: str, folder: Path) -> None:
    ended = shell(f"contextkit {args} >&-", folder)
    assert (ended.returncode, ended.stderr) == (2, b"contextkit: standard output is closed; give it a file or a pipe\n")


@posix
@pytest.mark.parametrize("command", cases(["report"], ["report", "simulate"]))
def test_a_closed_input_is_one_line(command: str, folder: Path) -> None:
    ended = shell(f"contextkit {command} - <&-", folder)
    assert (ended.returncode, ended.stderr) == (
        2,
        b"contextkit: -: standard input is closed; give it a file or a pipe\n",
    )


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
@pytest.mark.parametrize(
    ("args", "unbuffered"), cases([("--help", "")], [("--help", ""), ("report session.jsonl --json", "1")])
)
def test_a_full_disk_is_one_line(args: str, unbuffered: str, folder: Path) -> None:
    ended = shell(f"contextkit {args} >/dev/full", folder, PYTHONUNBUFFERED=unbuffered)
    assert (ended.returncode, ended.stderr) == (2, b"contextkit: input or output: No space left on device\n")


@posix
@pytest.mark.parametrize("args", ["report {} --json", "report {} --csv --by session"])
def test_what_a_program_reads_is_utf_8_whatever_the_locale(args: str, folder: Path, run: Run) -> None:
    path = pi_session(folder / "проект.jsonl", 6)
    path.write_text(path.read_text("utf-8").replace('"id": "s"', '"id": "сессия"'), "utf-8")
    words = args.format("проект.jsonl")
    ended = shell(f"contextkit {words}", folder, PYTHONIOENCODING="cp1252")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.decode() == run(*words.split()).out
    assert "проект" in ended.stdout.decode() or "сессия" in ended.stdout.decode()


@posix
def test_what_a_person_reads_stays_in_the_letters_of_the_locale(folder: Path) -> None:
    pi_session(folder / "проект.jsonl", 6)
    for command in ("report", "whatif"):
        ended = shell(f"contextkit {command} проект.jsonl", folder, PYTHONIOENCODING="cp1252")
        assert (ended.returncode, ended.stderr) == (0, b"") and ended.stdout.decode("cp1252").isascii()


def test_what_a_recording_says_never_moves_the_terminal(folder: Path, run: Run) -> None:
    path = folder / "clears.jsonl"
    path.write_text(
        (folder / "session.jsonl").read_text("utf-8").replace("claude-opus-4-5", "claude-x\\u001b[2J"), "utf-8"
    )
    for args in (
        ["whatif"],
        ["validate"],
        ["report", "--misses", "--verbose"],
        ["report", "--by", "model"],
        ["report", "--markdown"],
    ):
        ended = run(*args, path)
        assert ended.code == 0 and "\x1b" not in ended.out + ended.err
    assert "no price for claude-x\\x1b[2J" in " ".join(run("whatif", path).out.split())
    assert "claude-x\\\\x1b\\[2J" in run("report", "--markdown", path).out


# Ends that come from outside
# -------------------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize(
    "args",
    cases([["report", "session.jsonl"]], [["report", "session.jsonl"], ["demo", "--turns", "6"]]),
    ids=lambda args: args[0],
)
def test_a_reader_that_left_is_not_complained_about(start: Start, args: list[str], folder: Path) -> None:
    with start([*COMMAND, *args], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        err = process.stderr.read()
        code = process.wait(60)
    assert code == 141
    assert not re.search("Traceback|Error|Exception", err)


def _interrupted(process: subprocess.Popen[bytes]) -> bytes:
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err.decode()
    return err or b""


@posix
def test_ctrl_c_ends_the_server(start: Start, folder: Path) -> None:
    with start([*COMMAND, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline().startswith(b"http://127.0.0.1:")
        err = _interrupted(process)
    assert err.strip() == b"" and err.count(b"\n") <= 1


@posix
def test_ctrl_c_ends_the_demo(start: Start, folder: Path) -> None:
    import pty

    before = contents(folder)
    ours, theirs = pty.openpty()  # the progress that shows that it has begun is for terminals only
    with start([*COMMAND, "demo", "--turns", "60"], cwd=folder, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        err = b""
        while b"append-only 1/60" not in err:
            err += os.read(ours, 4096)
        _interrupted(process)
    err += _rest(ours)
    assert err.rstrip().endswith(b"interrupted: the runs are compared when all are done; no figures"), err
    assert contents(folder) == before


class _Pressed:
    def __repr__(self) -> str:
        raise KeyboardInterrupt

    def __set_name__(self, owner: type, name: str) -> None:
        raise KeyboardInterrupt


def _named() -> None:
    try:
        type("Message", (), {"content": _Pressed()})  # Python 3.11 makes a RuntimeError of it
    except RuntimeError as error:
        raise ImportError("as an SDK may tell of it once more") from error


INTERRUPTED: dict[str, Callable[[], object]] = {
    "pydantic": lambda: SchemaSerializer(core_schema.literal_schema([_Pressed()])),
    "__set_name__": lambda: type("Message", (), {"content": _Pressed()}),
    "an error with that cause": _named,
}


@pytest.mark.parametrize("how", INTERRUPTED)
def test_ctrl_c_that_becomes_another_error_is_ctrl_c(how: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextkit.cli.serve.command.callback", INTERRUPTED[how])
    monkeypatch.setattr("contextkit.cli.serve.command.params", [])
    ended = run("serve")
    assert (ended.code, ended.out, ended.err) == (130, "", "")


def test_an_error_of_another_cause_is_not_taken_for_ctrl_c(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        raise RuntimeError("a bug") from ValueError("of ours")

    monkeypatch.setattr("contextkit.cli.serve.command.callback", command)
    monkeypatch.setattr("contextkit.cli.serve.command.params", [])
    with pytest.raises(RuntimeError, match="a bug"):
        run("serve")


@posix
def test_ctrl_c_ends_every_process_of_a_lint_that_was_counting(start: Start) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [*COMMAND, "lint", *(str(ROOT / name) for name in ("contextkit", "tests", "examples"))]
    with start(command, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        shown = os.read(ours, 4096)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        assert process.stdout
        assert process.stdout.read() == b"" and process.wait(10) == 130
    shown += _rest(ours)
    assert re.fullmatch(rb"(\r[\d,]+ of [\d,]+ files read *)+\r +\r(\^C)?[\r\n]*", shown)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def _rest(terminal: int) -> bytes:
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # Linux says so when the other side has closed
        pass
    os.close(terminal)
    return shown


def test_python_m_contextkit_is_the_command(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("x = 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "contextkit", "lint", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


EXTRAS = (
    "starlette",
    "uvicorn",
    "uvloop",
    "mcp",
    "opentelemetry.sdk",
    "bpe_openai",
    "numpy",
    "zstandard",
    "brotli",
    "pyarrow",
)
EXTRAS += ("fsspec", "boto3", "google.genai", "jinja2", "psycopg", "time_machine", "websockets")
WATCHED = "import anthropic, contextkit; contextkit.watch(anthropic.Anthropic(api_key='k'))"
PLAIN = [["run", "--", sys.executable, "-c", WATCHED], ["demo", "--turns", "6"]]
PLAIN_TOO = [["report", "--example"], ["lint", "src"], ["statusline"], ["models", "gpt-6.1-sol"]]


@pytest.mark.parametrize("args", cases(PLAIN, [*PLAIN, *PLAIN_TOO]), ids=lambda args: args[0])
def test_a_plain_install_runs_what_people_start_with(args: list[str], tmp_path: Path) -> None:
    missing = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
    (tmp_path / "sitecustomize.py").write_text(missing)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "clean.py").write_text("x = 1\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "HOME": str(tmp_path)}
    ended = subprocess.run(
        [*COMMAND, *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env=environment,
        input="{}",
    )
    assert ended.returncode == 0, ended.stderr
    assert "needs an extra" not in ended.stderr and "Traceback" not in ended.stderr
