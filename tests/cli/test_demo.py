"""`contextkit demo`: any folder, any width, three columns, and what they mean in words."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from contextkit.cli.demo import WAYS
from contextkit.cli.demo_agent import Workspace
from contextkit.errors import InvalidCall
from tests.cli.conftest import COMMAND, Run, Start

posix = pytest.mark.skipif(os.name != "posix", reason="files and terminals as POSIX has them")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A dozen files of some thousand characters."""
    folder = tmp_path / "project"
    (folder / "inner").mkdir(parents=True)
    for number in range(12):
        name = f"inner/part_{number}.py" if number % 2 else f"page_{number}.md"
        (folder / name).write_text(f"Line of file {number}, which says something.\n" * (200 + 30 * number), "utf-8")
    return folder


def figures(run: Run, *args: object) -> dict[str, dict[str, object]]:
    ended = run("demo", "--json", *args)
    assert ended.code == 0, ended.err
    found: dict[str, dict[str, object]] = json.loads(ended.out)
    assert list(found) == list(WAYS)
    turns = {name: summary["total"]["calls"] for name, summary in found.items()}  # type: ignore[index]
    told = [f"{name} {turn}/{n}" for name, n in turns.items() for turn in range(1, n + 1)]
    assert [line.partition(":")[0] for line in ended.err.splitlines()] == told  # one line a turn
    return {name: summary["total"] for name, summary in found.items()}


def test_contextkit_is_the_cheapest_of_the_three_and_misses_nothing(project: Path, run: Run) -> None:
    careless, automatic, ours = figures(run, "--folder", project, "--turns", 12).values()
    assert [row["calls"] for row in (careless, automatic, ours)] == [12, 12, 12]
    assert careless["cost_usd"] > automatic["cost_usd"] > ours["cost_usd"] > 0  # type: ignore[operator]
    assert (careless["n_misses"], automatic["n_misses"], ours["n_misses"]) == (9, 1, 0)
    assert automatic["usage"]["output"] == ours["usage"]["output"] == careless["usage"]["output"]  # type: ignore[index]


def test_the_same_folder_gives_the_same_figures(project: Path, run: Run) -> None:
    assert figures(run, "--folder", project, "--turns", 5) == figures(run, "--folder", project, "--turns", 5)


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-fable-5-1"])
def test_other_models_have_their_own_prices(project: Path, model: str, run: Run) -> None:
    ours = figures(run, "--folder", project, "--turns", 6, "--model", model)["contextkit"]
    assert 0 < ours["cost_usd"] < ours["cost_uncached_usd"]  # type: ignore[operator]


def test_a_run_longer_than_the_window_says_so(tmp_path: Path, run: Run) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("many words in a long file\n" * 2000, "utf-8")
    ended = run("demo", "--folder", tmp_path, "--turns", 60, "--model", "claude-haiku-4-5")
    assert (ended.code, ended.out) == (2, "")
    assert re.search(
        r"contextkit: call \d+ was refused \(prompt is too long: .*\): ask for fewer --turns\n$", ended.err
    )


# Folders
# ---------------------------------------------------------------------------------------------------------------------------------


def test_an_empty_folder_will_do(tmp_path: Path, run: Run) -> None:
    assert figures(run, "--folder", tmp_path, "--turns", 4)["contextkit"]["calls"] == 4
    assert list(tmp_path.iterdir()) == []


@posix
def test_awkward_files_are_left_alone(tmp_path: Path, run: Run) -> None:
    (tmp_path / "read me.txt").write_text("[red]not markup[/red] é\n", "utf-8")
    (tmp_path / "latin.txt").write_bytes("café\n".encode("latin-1"))
    (tmp_path / "program").write_bytes(bytes(range(256)))
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "around").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "outside").symlink_to(__file__)
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    (tmp_path / "two\nlines").write_text("a", "utf-8")
    (tmp_path / "secret").write_text("may not be read", "utf-8")
    (tmp_path / "secret").chmod(0)
    (tmp_path / "huge.txt").write_bytes(b"some words \n" * 3_000_000)
    os.mkfifo(tmp_path / "pipe")
    if os.uname().sysname == "Linux":  # macOS refuses such a name
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).write_text("a", "utf-8")
    may_read = os.access(tmp_path / "secret", os.R_OK)
    assert Workspace(tmp_path).files == ["huge.txt", "latin.txt", "read me.txt", *(["secret"] if may_read else [])]
    assert figures(run, "--folder", tmp_path, "--turns", 8)["contextkit"]["n_misses"] == 0


@pytest.mark.parametrize(
    "path", [".env", ".git/config", "program", "folder", "absent.txt", "../outside.txt", "link", "a.txt\0"]
)
def test_the_agent_reads_what_it_may_list_and_nothing_else(path: str, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside.txt", tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (root / "folder").mkdir()
    for name in (root / ".env", root / ".git" / "config", root / "a.txt", outside):
        name.write_text("KEY=1", "utf-8")
    (root / "program").write_bytes(b"KEY\0")
    if os.name == "posix":
        (root / "link").symlink_to(outside)
    _, read, _ = Workspace(root).tools()
    assert read.run({"path": "./folder/../a.txt"}) == "KEY=1"
    with pytest.raises((InvalidCall, ValueError)):
        read.run({"path": path})


# What is seen
# ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_three_columns_side_by_side_at_every_width(
    project: Path, width: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ended = run("demo", "--folder", project, "--turns", 6)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= width
    assert "\x1b" not in ended.out and "…" not in ended.out
    table = [
        re.split(r"\s{1,}", line.strip())
        for line in lines
        if re.match(r"(hit rate|cost|misses)\s+\S+\s+\S+\s+\S+$", line)
    ]
    assert [row[-3:] for row in table if row[0] == "misses"] == [["3", "1", "0"]]
    assert len(table) == 3


def test_it_ends_in_words(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = " ".join(run("demo", "--folder", project, "--turns", 6).out.split())
    assert re.search(
        r"Careless read 0\.0% of its input from cache, missed on 3 of 6 calls \(tools_changed\) and paid \$[\d.]+, "
        r"more than without any cache\. "
        r"Automatic caching read [\d.]+% of its input from cache, missed on 1 of 6 calls \(out_of_reach\) and paid \$[\d.]+\. "
        r"contextkit read [\d.]+% of its input from cache, had no miss and paid \$[\d.]+: "
        r"\d+% less than careless, \d+% less than automatic caching\. "
        r"Next: `contextkit report PATH`",
        words,
    )


def test_a_terminal_that_has_only_ascii(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    ended = subprocess.run(
        [*COMMAND, "demo", "--turns", "4"], cwd=tmp_path, env=environment, check=False, capture_output=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert "hit rate" in ended.stdout.decode("ascii")


@posix
def test_a_terminal_gets_colour_and_moving_lines(start: Start, tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    with start(
        [*COMMAND, "demo", "--turns", "4"], cwd=tmp_path, env=environment, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # Linux says so when the other side has closed
            pass
        assert process.wait(60) == 0
    os.close(ours)
    assert b"\x1b[32m" in shown and b"4/4" in shown
