"""`contextkit report` as people call it: every face, every choice, Ctrl-C, a live session, what is wrong with the
files."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from contextkit.ledger.calls import Record, Remark, encode
from tests.cli.conftest import COMMAND, Run, Start, pi_session
from tests.report.made_up import many_sessions, one_session
from tests.scale import cases, n_examples

posix = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
HEADER = b'{"contextkit_ledger":1}\n'


def ledger(path: Path, records: Iterable[Record], header: bytes = HEADER) -> Path:
    """A ledger of ours; without a header, lines to go behind one."""
    with path.open("ab") as file:
        file.write(header + b"".join(encode(record) + b"\n" for record in records))
    return path


@pytest.fixture
def many(tmp_path: Path) -> Path:
    return ledger(tmp_path / "many.jsonl", many_sessions(12))


@pytest.mark.parametrize("by", ["day", "session", "model", "agent", "project"])
def test_each_grouping_is_a_table_whose_rows_add_up(
    run: Run, many: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.loads(run("report", many, "--by", by, "--json").out)
    assert sum(row["calls"] for row in said["groups"]) == said["total"]["calls"] and said["by"] == by
    monkeypatch.setenv("COLUMNS", "200")  # no name is folded
    page = run("report", many, "--by", by).out
    shown = {"project": lambda name: Path(name).name, "session": lambda name: f"({name[:8]}"}.get(by, str)
    assert all(shown(row["name"]) in page for row in said["groups"])


def test_every_face_tells_of_the_same_calls(run: Run, many: Path, tmp_path: Path) -> None:
    said = json.loads(run("report", many, "--json").out)
    total = said["total"]
    assert said["format"] == 1
    rows = list(csv.DictReader(io.StringIO(run("report", many, "--csv").out)))
    assert len(rows) == total["calls"] and sum(int(row["read"]) for row in rows) == total["usage"]["read"]
    assert f"{total['calls']:,}" in run("report", many, "--markdown").out
    grouped = list(csv.DictReader(io.StringIO(run("report", many, "--csv", "--by", "model").out)))
    assert sum(int(row["calls"]) for row in grouped) == total["calls"]
    ended = run("report", many, "--html", tmp_path / "out.html")
    assert ended.code == 0 and "the page is" in ended.out
    assert "many.jsonl" in (tmp_path / "out.html").read_text("utf-8")


def test_the_tree_takes_the_place_of_the_tables(run: Run, many: Path, tmp_path: Path) -> None:
    ended = run("report", "--example", "--tree", "--html", tmp_path / "out.html")
    assert ended.code == 0 and "├─ same to the end" in ended.out and "system block 10 changed" in ended.out
    assert "the page is" in ended.out and 'id="prefixes"' in (tmp_path / "out.html").read_text("utf-8")
    said, tables = (json.loads(run("report", "--example", *more, "--json").out) for more in (["--tree"], []))
    assert said["calls"] == tables["total"]["calls"] == sum(line["calls"] for line in said["starts"])
    lost = sum(miss["lost_tokens"] for miss in tables["misses"] if miss["is_loss"])
    assert lost == sum(line["lost_tokens"] for line in said["starts"]) > 0
    bare = run("report", many, "--tree")
    assert bare.code == 0 and "calls without recorded prompts are not in the tree" in bare.out


def test_a_page_and_another_face_are_made_in_one_go(run: Run, many: Path, tmp_path: Path) -> None:
    ended = run("report", many, "--json", "--html", tmp_path / "out.html")
    assert json.loads(ended.out)["total"]["calls"] and (tmp_path / "out.html").stat().st_size > 50_000


def test_since_until_and_session_choose_what_counts(run: Run, many: Path) -> None:
    def calls(*options: str) -> int:
        return int(json.loads(run("report", many, "--json", *options).out)["total"]["calls"])

    days = {row["name"]: row["calls"] for row in json.loads(run("report", many, "--json", "--by", "day").out)["groups"]}
    first, *rest = days
    assert calls("--until", first) == days[first] and calls("--since", rest[0]) == sum(days[day] for day in rest)
    assert calls("--since", first, "--until", first) == days[first]
    assert calls("--since", f"{first}T00:00", "--until", f"{rest[0]}T00:00+00:00") == days[first]
    assert run("report", many, "--since", "2w").code == 2 or time.time() < 1_777_000_000
    assert calls("--session", "shop/0000") == 16 and calls("--session", "shop/") > 16


@pytest.mark.parametrize("words", ["yesterday", "2026-13-01", "7y", ""])
def test_a_time_that_is_none_is_refused_in_one_line(run: Run, many: Path, words: str) -> None:
    ended = run("report", many, "--since", words)
    assert ended.code == 2 and "is no time; write 2026-04-09" in ended.err and len(ended.err.splitlines()) == 1


def test_a_first_write_before_the_days_asked_for_is_no_first_write_of_them(run: Run, tmp_path: Path) -> None:
    path = ledger(tmp_path / "one.jsonl", one_session(40))
    said = json.loads(run("report", path, "--json", "--since", "2026-04-09T01:05").out)
    assert 0 < said["total"]["calls"] < 40 and said["misses"] == []


def test_faults_are_on_standard_error_and_in_json_and_on_the_page(run: Run, many: Path, tmp_path: Path) -> None:
    with many.open("ab") as file:
        file.write(b'{"id":"cut')
    ended = run("report", many, "--json", "--html", tmp_path / "out.html")
    assert "an unfinished line" in ended.err and ended.code == 0
    said = json.loads(ended.out)
    assert (
        said["n_faults"] == 1
        and said["faults"][0]["what"].startswith("an unfinished line")
        and said["faults"][0]["line"] > 1
    )
    assert "an unfinished line" in (tmp_path / "out.html").read_text("utf-8")


def test_a_file_of_a_folder_that_nobody_can_read_is_a_fault_and_one_named_fails_the_command(
    run: Run, many: Path
) -> None:
    (many.parent / "diary.txt").write_text("Dear diary\n")
    ended = run("report", many.parent)
    assert ended.code == 0 and "diary.txt: of no known format" in ended.err  # the only fault is told as it is
    assert run("report", many, many.parent / "diary.txt").code == 1


def test_a_page_that_cannot_be_written_is_one_line(run: Run, many: Path, tmp_path: Path) -> None:
    ended = run("report", many, "--html", tmp_path / "absent" / "out.html")
    assert ended.code == 2 and "out.html" in ended.err and len(ended.err.splitlines()) == 1


def test_a_page_that_cannot_be_written_is_said_before_anything_is_read(run: Run, many: Path, tmp_path: Path) -> None:
    ended = run("report", tmp_path / "absent.jsonl", "--html", tmp_path / "absent" / "out.html")
    assert "out.html cannot be written" in ended.err
    before = many.read_bytes()
    assert "one of the files to report" in run("report", many, "--html", many).err and many.read_bytes() == before


def test_two_faces_at_once_are_refused(run: Run, many: Path) -> None:
    ended = run("report", many, "--json", "--csv")
    assert ended.code == 2 and "--json and --csv" in ended.err and not ended.out


@pytest.mark.parametrize("face", [[], ["--json"], ["--markdown"], ["--csv", "--by", "day"]])
def test_a_filter_without_matches_is_an_error_that_names_what_there_is(
    run: Run, many: Path, face: list[str], tmp_path: Path
) -> None:
    said = json.loads(run("report", many, "--json", "--by", "session").out)
    n_calls, sessions = said["total"]["calls"], [group["name"] for group in said["groups"]]
    ended = run("report", many, "--session", "absent", "--until", "2020-01-01", *face, "--html", tmp_path / "page.html")
    assert (ended.code, ended.out) == (2, "")
    assert (
        f"no call matches --session absent and --until 2020-01-01: the {n_calls:,} calls that were read started from 2026-"
        in ended.err
    )
    assert any(session in ended.err for session in sessions) and "and others" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


@posix
@pytest.mark.parametrize("face", cases([[]], [[], ["--json"]]))
def test_ctrl_c_shows_what_is_done_and_says_that_it_is_partial(start: Start, tmp_path: Path, face: list[str]) -> None:
    """The last file is a pipe that nobody writes the end of."""
    ledger(tmp_path / "a.jsonl", one_session(20))
    os.mkfifo(tmp_path / "b.jsonl")
    process = start(
        [*COMMAND, "report", "a.jsonl", "b.jsonl", *face],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with (tmp_path / "b.jsonl").open("wb") as pipe:
        pipe.write(HEADER + b"".join(encode(record) + b"\n" for record in one_session(9, "other")))
        pipe.write(b" " * (1 << 16) + b"\n")
        pipe.flush()
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "partial" in err and "Traceback" not in err
    if face:
        said = json.loads(out)
        assert said["partial"] is True and said["total"]["calls"] >= 20
    else:
        assert "partial: reading was cut short" in out and "read from cache" in out


@posix
def test_a_progress_bar_is_drawn_on_a_terminal_s_standard_error_only(many: Path, run: Run) -> None:
    import pty

    many.write_bytes(HEADER)
    ledger(many, many_sessions(n_examples(70, 150)), header=b"")
    parent, child = pty.openpty()
    ran = subprocess.run([*COMMAND, "report", many, many, "--json"], stdout=subprocess.PIPE, stderr=child, check=True)
    os.close(child)
    assert json.loads(ran.stdout)["total"]["calls"] > 1_000
    assert re.search(rb"requests|reading", os.read(parent, 1 << 16))
    os.close(parent)
    assert run("report", many, "--json").err == ""


def grown_pi(path: Path, calls: int) -> None:
    pi_session(path, calls)


def grown_ledger(path: Path, calls: int) -> None:
    path.unlink(missing_ok=True)
    ledger(path, one_session(calls))


def grown_claude_code(path: Path, calls: int) -> None:
    lines = []
    for i in range(calls):
        usage = {
            "input_tokens": 2,
            "cache_read_input_tokens": 5_000 * bool(i),
            "cache_creation_input_tokens": 5_000,
            "output_tokens": 9,
        }
        message = {
            "id": f"msg_{i}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-5",
            "content": [],
            "usage": usage,
        }
        about = {
            "parentUuid": None,
            "isSidechain": False,
            "sessionId": "s",
            "cwd": "/shop",
            "version": "2.1.97",
            "uuid": f"u{i}",
        }
        said = {
            **about,
            "type": "assistant",
            "requestId": f"req_{i}",
            "timestamp": f"2026-04-09T01:00:{i:02}.000Z",
            "message": message,
        }
        lines.append(json.dumps(said, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n")


def grown_codex(path: Path, calls: int) -> None:
    stamp = "2026-04-09T01:00:{:02}.000Z"
    lines: list[dict[str, object]] = [
        {"timestamp": stamp.format(0), "type": "session_meta", "payload": {"id": "s", "cwd": "/shop"}}
    ]
    lines.append(
        {"timestamp": stamp.format(0), "type": "turn_context", "payload": {"model": "gpt-5.1-codex", "cwd": "/shop"}}
    )
    for i in range(1, calls + 1):
        last = {"input_tokens": 9_000, "cached_input_tokens": 8_000, "output_tokens": 9, "total_tokens": 9_009}
        info = {"total_token_usage": {name: count * i for name, count in last.items()}, "last_token_usage": last}
        lines.append(
            {"timestamp": stamp.format(i), "type": "event_msg", "payload": {"type": "token_count", "info": info}}
        )
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


@posix
@pytest.mark.parametrize(
    "grow",
    cases([grown_ledger, grown_claude_code], [grown_ledger, grown_pi, grown_claude_code, grown_codex]),
    ids=lambda grow: grow.__name__,
)
def test_a_live_session_is_followed_to_its_last_call(start: Start, tmp_path: Path, grow: object) -> None:
    assert callable(grow)
    path = tmp_path / "live.jsonl"
    grow(path, 3)
    process = start(
        [*COMMAND, "report", path, "--follow", "--verbose"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert "read from cache" in process.stdout.readline()
    grow(path, 7)
    assert "read from cache" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0 and "Traceback" not in err
    assert re.search(r"^all +7\b", out, re.MULTILINE), out


@posix
def test_of_a_folder_the_files_written_last_are_followed_and_new_ones_join(start: Start, tmp_path: Path) -> None:
    old = ledger(tmp_path / "old.jsonl", one_session(50, "old"))
    os.utime(old, (1_700_000_000, 1_700_000_000))
    ledger(tmp_path / "now.jsonl", one_session(4, "now"))
    process = start(
        [*COMMAND, "report", tmp_path, "--follow", "--verbose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline()
    ledger(tmp_path / "side.jsonl", one_session(6, "side"))
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert re.search(r"^all +10\b", out, re.MULTILINE) and "2 files being written" in out


@posix
@pytest.mark.parametrize("number", cases([signal.SIGTERM], [signal.SIGTERM, signal.SIGHUP]))
def test_following_ends_at_a_signal(start: Start, many: Path, number: signal.Signals) -> None:
    process = start([*COMMAND, "report", many, "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "read from cache" in process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", "")


@posix
def test_following_ends_when_nobody_reads_it_any_more(start: Start, many: Path) -> None:
    """The session does not grow, so nothing is written that would break the pipe."""
    process = start([*COMMAND, "report", many, "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "read from cache" in process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""


PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


@posix
def test_following_ends_with_the_process_that_started_it(start: Start, many: Path) -> None:
    """A test that is killed leaves nothing behind: the reading end of the pipe goes with it."""
    command = [*COMMAND, "report", many, "--follow"]
    process = start([sys.executable, "-c", PARENT, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    process.kill()
    process.wait()
    for _ in range(600):
        if not is_running(child):
            return
        time.sleep(0.1)
    pytest.fail("it goes on following")


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait for whoever takes over orphans."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("options", [["--json"], ["--csv"], ["--markdown"]])
@pytest.mark.parametrize("name", ["--live", "--follow"])
def test_watching_is_for_the_terminal(run: Run, many: Path, name: str, options: list[str]) -> None:
    ended = run("report", many, name, *options)
    assert ended.code == 2 and "--live (or --follow) draws on the terminal" in ended.err and not ended.out


def test_a_ledger_made_of_a_recording_gives_the_same_report(run: Run, tmp_path: Path) -> None:
    session, ledger = pi_session(tmp_path / "session.jsonl", 6), tmp_path / "ledger.jsonl"
    title = {"type": "session_info", "id": "i", "timestamp": "2025-12-08T22:45:00Z", "name": "Reading"}
    session.write_text(session.read_text("utf-8") + json.dumps(title) + "\n", "utf-8")
    assert run("report", session, "--to", ledger).out == f"6 calls written to {ledger}\n"
    of_session, of_ledger = (json.loads(run("report", path, "--json").out) for path in (session, ledger))
    assert of_ledger == of_session
    (row,) = of_ledger["sessions"]
    assert (row["program"], row["title"]) == ("pi", "Reading")
    assert "is there already" in run("report", session, "--to", ledger).err


@pytest.mark.parametrize("command", [("report", "--to"), ("report", "--anonymize"), ("export", "--out")])
@pytest.mark.parametrize("records", [[], [Remark("project", "s", "/srv")]])
def test_a_recording_without_calls_is_written_to_no_file(
    command: tuple[str, str], records: list[Record], run: Run, tmp_path: Path
) -> None:
    if command[0] == "export":
        pytest.importorskip("pyarrow")
    recording, out = ledger(tmp_path / "ledger.jsonl", records), tmp_path / "out"
    ended = run(command[0], recording, command[1], out)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"the recordings hold no call: {out} was not written" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.jsonl"]


@pytest.mark.parametrize(
    "command", [("report", "--to"), ("report", "--anonymize"), ("report", "--html"), ("export", "--out")]
)
def test_an_empty_file_name_is_refused(command: tuple[str, str], run: Run, tmp_path: Path) -> None:
    ended = run(command[0], pi_session(tmp_path / "session.jsonl", 6), command[1], "")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert f"{command[1]} names no file" in ended.err


def metrics(sent: int, read: int, *engines: int, caching: str = "True") -> str:
    """Two scrapes of a server with several engines."""
    lines = []
    for n in (1, 2):
        lines.append(f"# 2026-04-09T0{n}:00:00Z")
        lines.append(f'vllm:cache_config_info{{enable_prefix_caching="{caching}"}} 1.0')
        for engine in engines:
            labels = f'{{engine="{engine}",model_name="m"}}'
            counts = {"prefix_cache_queries": sent, "prefix_cache_hits": read, "generation_tokens": 5}
            lines += [f"vllm:{name}_total{labels} {n * count}" for name, count in counts.items()]
    return "\n".join(lines) + "\n"


def test_metrics_of_an_engine_say_what_its_operator_can_do(run: Run, tmp_path: Path) -> None:
    (tmp_path / "off.prom").write_text(metrics(0, 0, 0, caching="False"), "utf-8")
    (tmp_path / "two.prom").write_text(metrics(9_000, 8_000, 0, 1), "utf-8")
    ended = run("report", tmp_path / "off.prom")
    off = 'refix caching is off (enable_prefix_caching="False"): start vLLM with'
    assert f"P{off}" in " ".join(ended.out.split()) and f"p{off}" in ended.err and ended.code == 0
    assert f"p{off}" in run("validate", tmp_path / "off.prom").err
    ended = run("report", tmp_path / "two.prom")
    assert (ended.code, ended.err) == (0, "")
    shown = " ".join(ended.out.split())
    assert "Metrics of an engine add calls up, so no miss can be named." in shown
    assert "2 engines. Keep a conversation on one server: Route by session: vLLM router" in shown
    assert "engines" not in run("report", tmp_path / "off.prom").out  # there is one
