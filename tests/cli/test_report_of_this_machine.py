"""`contextkit report` without PATHS, as somebody tries it first: the logs of a home folder, found, summed and titled."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contextkit.importers.places import PLACES
from tests.cli.conftest import COMMAND, Run, Start, pi_session

posix = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
SECRET = "my secret plan"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder; no variable names another one."""
    for name in [name for place in PLACES for name in place.variables]:
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def claude_code(
    home: Path, session: str, calls: int, ago: timedelta, title: str = "", cwd: str = "/home/ada/shop"
) -> Path:
    """A transcript whose calls ended so long ago; the second one lost the cache after a pause of six minutes."""
    path = home / ".claude/projects/-home-ada-shop" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    start = datetime.now(UTC) - ago
    rows: list[dict[str, Any]] = []
    for number in range(calls):
        at = (start + timedelta(seconds=360 * number)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        about = {"parentUuid": None, "isSidechain": False, "sessionId": session, "cwd": cwd, "timestamp": at}
        rows.append({**about, "type": "user", "uuid": f"q{number}", "message": {"role": "user", "content": SECRET}})
        usage = {"input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 50_000}
        message = {"id": f"{session}-{number}", "role": "assistant", "model": "claude-opus-4-5", "content": []}
        told = {"message": {**message, "usage": {**usage, "output_tokens": 9}}, "requestId": f"r{number}"}
        rows.append({**about, "type": "assistant", "uuid": f"a{number}", **told})
    rows += [{"type": "ai-title", "aiTitle": title, "sessionId": session}] if title else []
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    return path


def test_an_empty_home_is_an_error_that_says_where_it_looked_and_what_to_do(run: Run, home: Path) -> None:
    ended = run("report")
    assert (ended.code, ended.out) == (2, "")
    first, *more = ended.err.splitlines()
    assert first == "contextkit: no session log was found on this machine"
    assert "Name your own file: contextkit report FILE" in more
    assert "  Codex: ~/.codex/sessions, ~/.codex/archived_sessions (another folder: CODEX_HOME)" in more
    assert max(map(len, more)) < 240, "one line for each program"
    assert str(home) not in ended.err


def test_the_last_seven_days_by_project_and_program_with_titles(run: Run, home: Path) -> None:
    claude_code(home, "4fec7ea0-3335-43ec", 3, timedelta(days=2), "Fix the checkout")
    claude_code(home, "5fec7ea0-3335-43ec", 1, timedelta(days=1), cwd="/home/ada/docs")
    pi_session(home / "x.jsonl", 2)  # of December 2025, but written today
    (home / ".pi/agent/sessions/--home--").mkdir(parents=True)
    (home / "x.jsonl").rename(home / ".pi/agent/sessions/--home--/x.jsonl")
    first = run("report")
    assert first.code == 0 and first.err == ""
    lines = first.out.splitlines()
    assert lines[0] == "session logs of this machine, the last 7 days: 3 files" and len(lines) <= 25
    assert lines[1].endswith("Claude Code · 2 projects · 2 sessions · 4 calls")
    ended = run("report", "--verbose")
    assert ended.out.startswith(first.out.partition("\ncontextkit report --misses")[0])
    assert re.search(r"^shop +Claude Code +3 +\$0\.\d\d +2 +100,000 +\$0\.\d\d$", ended.out, re.MULTILINE), ended.out
    assert re.search(r"^docs +Claude Code +1 ", ended.out, re.MULTILINE)
    assert re.search(r"^all +4 ", ended.out, re.MULTILINE)
    assert re.search(r"^ttl_expired +2 +100,000 +\$0\.\d\d +Ask for the longer cache lifetime", ended.out, re.MULTILINE)
    assert re.search(r"^Fix the checkout \(4fec7ea0\) +3 ", ended.out, re.MULTILINE)
    assert re.search(r"^docs \d{4}-\d\d-\d\d \d\d:\d\d \(5fec7ea0\) +1 ", ended.out, re.MULTILINE)
    assert ended.out.index("shop ") < ended.out.index("ttl_expired") < ended.out.index("Fix the checkout")


def test_since_reaches_further_back_and_the_files_of_the_period_are_read_whole(run: Run, home: Path) -> None:
    claude_code(home, "aaaaaaaa-1", 3, timedelta(minutes=7))
    old = claude_code(home, "bbbbbbbb-2", 2, timedelta(days=20))
    then = time.time() - 20 * 86_400
    os.utime(old, (then, then))
    assert json.loads(run("report", "--json").out)["total"]["calls"] == 3
    assert json.loads(run("report", "--json", "--since", "30d").out)["total"]["calls"] == 5
    last = json.loads(run("report", "--json", "--since", "5m").out)
    assert last["total"]["calls"] == 2  # one of them lies ahead
    assert [miss["cause"] for miss in last["misses"]] == ["ttl_expired"] * 2  # the first call, before, is known


def test_a_page_never_takes_the_place_of_a_log(run: Run, home: Path) -> None:
    path = claude_code(home, "4fec7ea0-3335-43ec", 2, timedelta(days=2))
    before = path.read_bytes()
    for paths in ([], [home / ".claude"]):
        ended = run("report", *paths, "--html", path)
        assert ended.code == 2 and "is one of the files to report" in ended.err and path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may look everywhere")
def test_a_folder_that_may_not_be_looked_at_is_passed_over(run: Run, home: Path) -> None:
    claude_code(home, "4fec7ea0-3335-43ec", 2, timedelta(days=2))
    (home / ".codex").mkdir(mode=0)
    ended = run("report", "--verbose")
    (home / ".codex").chmod(0o700)
    assert ended.code == 0 and re.search(r"^all +2 ", ended.out, re.MULTILINE)


def test_older_logs_only_are_an_error_that_says_so(run: Run, home: Path) -> None:
    old = claude_code(home, "bbbbbbbb-2", 2, timedelta(days=20))
    then = time.time() - 20 * 86_400
    os.utime(old, (then, then))
    ended = run("report")
    assert ended.code == 2 and "1 older ones are there" in ended.err and "--since 30d" in ended.err
    os.utime(old)
    ended = run("report")
    assert ended.code == 2 and "no call matches --since 7d: the 2 calls that were read started from" in ended.err


@pytest.mark.parametrize("face", [[], ["--json"], ["--markdown"], ["--csv"]])
def test_no_prompt_is_in_any_report(run: Run, home: Path, tmp_path: Path, face: list[str]) -> None:
    claude_code(home, "4fec7ea0-3335-43ec", 3, timedelta(days=2))
    page = tmp_path / "page.html"
    ended = run("report", *face, "--html", page)
    assert ended.code == 0 and SECRET not in ended.out + ended.err + page.read_text("utf-8")


def test_json_has_ids_in_full_titles_projects_and_causes(run: Run, home: Path) -> None:
    claude_code(home, "4fec7ea0-3335-43ec", 3, timedelta(days=2), "Fix the checkout")
    said = json.loads(run("report", "--json").out)
    session = said["sessions"][0]
    assert (session["name"], session["title"], session["program"], session["project"], session["calls"]) == (
        "4fec7ea0-3335-43ec",
        "Fix the checkout",
        "Claude Code",
        "/home/ada/shop",
        3,
    )
    part, cause = said["projects"][0], said["causes"][0]
    assert (part["project"], part["program"], part["calls"]) == ("/home/ada/shop", "Claude Code", 3)
    assert part["lost_usd"] == cause["cost_usd"] == sum(miss["cost_usd"] for miss in said["misses"] if miss["is_loss"])
    assert (cause["cause"], cause["n"], cause["action"]) == ("ttl_expired", 2, "longer-lifetime")


def test_single_misses_are_listed_on_demand_the_dearest_ones(run: Run, home: Path) -> None:
    claude_code(home, "4fec7ea0-3335-43ec", 40, timedelta(days=2))
    listed = [run("report", *options).out.count("gap 360 s > 300 s") for options in ([], ["--verbose"], ["--misses"])]
    assert listed == [0, 0, 30] and "and 9 more, smaller ones" in run("report", "--misses").out


def test_faults_are_one_line_unless_each_is_asked_for(run: Run, home: Path) -> None:
    path = claude_code(home, "4fec7ea0-3335-43ec", 2, timedelta(days=2))
    path.with_name("copy.jsonl").write_bytes(path.read_bytes())
    with path.open("a") as file:
        file.write('{"cut": \nnoise\n')
    ended = run("report")
    assert ended.err.splitlines() == [
        "in the recordings: 2 calls counted once though they stand twice; 2 damaged lines; --verbose lists them"
    ]
    told = run("report", "--verbose").err
    assert told.count("no JSON object, or one that was cut") == 2 and "counted once" in told
    assert json.loads(run("report", "--json").out)["n_faults"] == 3


def test_real_logs_in_their_places_add_up_to_those_given_by_path(run: Run, home: Path, shared: Path) -> None:
    logs = shared / "data" / "agent-logs"
    given: list[Path] = []
    for number, source in enumerate(
        [*sorted((logs / "claude-code").glob("*.gz"))[:4], *sorted((logs / "codex").glob("*.gz"))[:2]]
    ):
        folder = ".claude/projects/-x" if source.parent.name == "claude-code" else ".codex/sessions/2026/06/18"
        path = home / folder / f"{number}-{source.name.removesuffix('.gz')}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.decompress(source.read_bytes()))
        given.append(source)
    found = json.loads(run("report", "--since", "2020-01-01", "--json").out)
    told = json.loads(run("report", *given, "--json").out)
    assert found["total"] == told["total"] and found["total"]["calls"] > 100
    assert {part["program"] for part in found["projects"]} == {"Claude Code", "Codex"}
    assert sum(part["calls"] for part in found["projects"]) == found["total"]["calls"]
    lost = [miss["lost_tokens"] for miss in found["misses"]]
    assert sum(part["lost_tokens"] for part in found["projects"]) == sum(lost)
    assert sum(cause["lost_tokens"] for cause in found["causes"]) == sum(lost)


@posix
def test_a_running_session_of_this_machine_is_watched_to_its_end(start: Start, home: Path) -> None:
    old = claude_code(home, "aaaaaaaa-1", 2, timedelta(days=3))
    os.utime(old, (1_700_000_000, 1_700_000_000))
    claude_code(home, "bbbbbbbb-2", 2, timedelta(minutes=6), "Fix the checkout")
    process = start(
        [*COMMAND, "report", "--follow", "--verbose"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and "read from cache" in process.stdout.readline()
    claude_code(home, "bbbbbbbb-2", 4, timedelta(minutes=6), "Fix the checkout")
    assert "read from cache" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert re.search(r"^all +4 ", out, re.MULTILINE) and "shop      Claude Code" in out


@posix
def test_a_terminal_shows_countdowns_that_run_while_nothing_is_written(home: Path) -> None:
    import pty

    claude_code(home, "bbbbbbbb-2", 1, timedelta(seconds=1), "Fix the checkout")
    parent, child = pty.openpty()
    process = subprocess.Popen([*COMMAND, "report", "--live", "--misses"], stdout=child, stderr=child, stdin=child)
    os.close(child)
    shown, deadline = "", time.monotonic() + 60
    while len(set(re.findall(r"4:\d\d", shown))) < 3 and time.monotonic() < deadline:
        shown += os.read(parent, 1 << 16).decode("utf-8", "replace")
    process.send_signal(signal.SIGINT)
    while process.poll() is None or not shown.rstrip().endswith("first_write"):
        try:
            shown += os.read(parent, 1 << 16).decode("utf-8", "replace")
        except OSError:  # the other end has closed
            break
    assert process.wait(timeout=20) == 0
    os.close(parent)
    assert len(set(re.findall(r"4:\d\d", shown))) >= 3 and "goes cold" in shown and "Traceback" not in shown
    assert "lost nothing, so not listed" in shown.rpartition("goes cold")[2]


def sub_agent(home: Path, session: str, calls: int, ago: timedelta) -> Path:
    """A transcript of a sub-agent of `session`, in a file of its own."""
    path = claude_code(home, session, calls, ago)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row |= {"isSidechain": True, "agentId": "a1"}
        if row["type"] == "assistant":
            row |= {"requestId": f"sub-{row['requestId']}", "uuid": f"sub-{row['uuid']}"}
            row["message"]["id"] = f"sub-{row['message']['id']}"
    place = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    place.parent.mkdir(parents=True)
    place.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    return place


@pytest.mark.parametrize("is_later_written_first", [False, True])
def test_the_last_session_is_the_one_whose_last_call_is_later_with_its_sub_agents(
    run: Run, home: Path, is_later_written_first: bool
) -> None:
    sub_agent(home, "aaaaaaaa-1", 2, timedelta(minutes=25))
    earlier = claude_code(home, "bbbbbbbb-2", 4, timedelta(minutes=40))
    later = claude_code(home, "aaaaaaaa-1", 3, timedelta(minutes=30), "Fix the checkout")
    if is_later_written_first:
        os.utime(later, (time.time() - 300, time.time() - 300))
    for paths in ([], [earlier.parent]):
        found = json.loads(run("report", *paths, "--last", "--json").out)
        assert [(row["name"], row["title"], row["calls"]) for row in found["sessions"]] == [
            ("aaaaaaaa-1", "Fix the checkout", 5)
        ]
        assert sorted(row["calls"] for row in found["lanes"]) == [2, 3]
    assert "1 session · 5 calls" in run("report", "--last").out


def test_the_last_session_is_no_other_one_whose_id_begins_so(run: Run, home: Path) -> None:
    claude_code(home, "run-10", 4, timedelta(minutes=40))
    claude_code(home, "run-1", 3, timedelta(minutes=30))
    assert [row["name"] for row in json.loads(run("report", "--last", "--json").out)["sessions"]] == ["run-1"]
