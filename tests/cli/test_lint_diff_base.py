"""`--diff-base`: findings that the code of a git revision has, too, are not told. Against real repositories."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

HEAD = "import datetime\nimport anthropic\n\nclient = anthropic.Anthropic()\n"


def ask(name: str, call: str = "datetime.datetime.now()") -> str:
    return (
        f"\n\ndef {name}(messages, state: dict):\n    return client.messages.create(\n"
        f"        model='m', max_tokens=9, system=f'{name} {{{call}}}', messages=messages\n    )\n"
    )


def tools(name: str, listing: str) -> str:
    return (
        f"\n\ndef {name}(messages, state):\n    tools = [load(path) for path in {listing}]\n"
        "    return client.messages.create(model='m', max_tokens=9, messages=messages, tools=tools)\n"
    )


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@host.example", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "change")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "repository"
    (top / "src" / "pkg").mkdir(parents=True)
    git(tmp_path, "init", "-q", "-b", "main", str(top))
    (top / "src" / "pkg" / "__init__.py").write_text("", "utf-8")
    (top / "src" / "pkg" / "a.py").write_text(HEAD + ask("one"), "utf-8")
    commit(top)
    monkeypatch.chdir(top)
    return top


def told(run: Run, *args: str) -> list[tuple[str, int]]:
    """File and line of each finding of a clock in the system prompt."""
    ended = run("lint", *args, "--select", "CKS01", "--json")
    found = [row["place"] for row in json.loads(ended.out)["findings"]]
    assert ended.code == bool(found), ended.err
    return [(Path(place["file"]).name, place["line"]) for place in found]


def test_what_the_revision_has_is_not_told(repository: Path, run: Run) -> None:
    assert len(told(run, "src")) == 1
    assert told(run, "src", "--diff-base", "main") == []
    ended = run("lint", "src", "--select", "CKS01", "--diff-base", "main")
    assert (ended.out, ended.err) == ("No hazards found in 2 Python files.\n", "")


def test_what_is_added_is_told_and_what_moves_within_a_file_is_not(repository: Path, run: Run) -> None:
    path = repository / "src" / "pkg" / "a.py"
    path.write_text(HEAD + "\nx = 1\n" + ask("two") + ask("one"), "utf-8")
    line = (
        path.read_text("utf-8")
        .splitlines()
        .index("        model='m', max_tokens=9, system=f'two {datetime.datetime.now()}', messages=messages")
        + 1
    )
    assert told(run, "src", "--diff-base", "HEAD") == [("a.py", line)]
    commit(repository)
    assert told(run, "src", "--diff-base", "HEAD") == []
    assert told(run, "src", "--diff-base", "HEAD~1") == [("a.py", line)]
    assert told(run, "--diff-base", "HEAD~1") == told(run, "src/pkg/a.py", "--diff-base", "HEAD~1") == [("a.py", line)]


def test_the_same_line_once_more_is_new(repository: Path, run: Run) -> None:
    path = repository / "src" / "pkg" / "a.py"
    path.write_text(path.read_text("utf-8") + ask("one").replace("def one", "def two"), "utf-8")
    assert len(told(run, "src", "--diff-base", "HEAD")) == 1


def test_a_moved_file_keeps_its_findings(repository: Path, run: Run) -> None:
    (repository / "lib").mkdir()
    git(repository, "mv", "src/pkg/a.py", "lib/b ü.py")
    moved = repository / "lib" / "b ü.py"
    moved.write_text(moved.read_text("utf-8") + "\nx = 1\n", "utf-8")
    for paths in ("lib",), (".",), ("lib/b ü.py",):
        assert told(run, *paths, "--diff-base", "HEAD") == []
    assert len(told(run, "lib")) == 1


def test_a_file_that_is_not_tracked_is_new(repository: Path, run: Run) -> None:
    (repository / "src" / "new.py").write_text(HEAD + ask("one"), "utf-8")
    assert [file for file, _ in told(run, "src", "--diff-base", "HEAD")] == ["new.py"]


def test_a_flow_across_files_is_known_again(repository: Path, run: Run) -> None:
    (repository / "src" / "pkg" / "when.py").write_text(
        "import datetime\n\n\ndef now():\n    return datetime.datetime.now()\n"
    )
    other = repository / "src" / "pkg" / "c.py"
    other.write_text("from pkg.when import now\n" + HEAD + ask("three", "now()"), "utf-8")
    assert len(told(run, "src", "--diff-base", "HEAD")) == 1
    commit(repository)
    assert told(run, "src", "--diff-base", "HEAD") == []


def test_paths_outside_of_the_folder_one_stands_in_are_named_from_the_top(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "src" / "pkg")
    assert told(run, "..", "--diff-base", "HEAD") == []
    monkeypatch.chdir(repository.parent)
    assert told(run, "repository/src", "--diff-base", "HEAD") == []
    (repository.parent / "link").symlink_to(repository, target_is_directory=True)
    assert told(run, "link/src", "--diff-base", "HEAD") == []


def test_only_what_is_new_is_mended(repository: Path, run: Run) -> None:
    path = repository / "src" / "pkg" / "a.py"
    old = HEAD + tools("one", "{'a', 'b'}")
    path.write_text(old, "utf-8")
    commit(repository)
    path.write_text(old + tools("two", "{'a', 'b'}"), "utf-8")
    run("lint", "src", "--select", "CKT01", "--diff-base", "HEAD", "--fix")
    assert path.read_text("utf-8") == old + tools("two", "sorted({'a', 'b'})")


def test_the_repository_stays_as_it_is(repository: Path, run: Run) -> None:
    def state() -> bytes:
        asked = ["git", "-C", repository, "status", "--porcelain=v2", "--branch", "--untracked-files=all"]
        return subprocess.run(asked, check=True, capture_output=True).stdout

    (repository / "src" / "new.py").write_text("x = 1\n", "utf-8")
    before = state()
    told(run, "src", "--diff-base", "HEAD")
    assert state() == before


@pytest.mark.parametrize("revision", ["--help", "HEAD~99"])
def test_an_unknown_revision_is_one_line(repository: Path, run: Run, revision: str) -> None:
    ended = run("lint", "src", f"--diff-base={revision}")
    assert ended.code == 2 and "no such revision" in ended.err and "git fetch" in ended.err
    assert len(ended.err.strip().splitlines()) <= 3


def test_outside_of_a_repository_is_one_line(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.py").write_text("x = 1\n", "utf-8")
    ended = run("lint", str(tmp_path), "--diff-base", "HEAD")
    assert ended.code == 2 and "needs a git repository" in ended.err and "not a git repository" in ended.err


def test_two_repositories_are_refused(repository: Path, run: Run) -> None:
    git(repository.parent, "init", "-q", "other")
    ended = run("lint", "src", "../other", "--diff-base", "HEAD")
    assert ended.code == 2 and "another git repository" in ended.err


def test_without_git_it_says_so(repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    ended = run("lint", "src", "--diff-base", "HEAD")
    assert ended.code == 2 and "needs git" in ended.err and "--baseline" in ended.err


@pytest.mark.parametrize("other", [["--baseline", "a.json"]])
def test_one_of_two_ways_to_leave_out_is_refused(repository: Path, run: Run, other: list[str]) -> None:
    ended = run("lint", "src", "--diff-base", "HEAD", *other)
    assert ended.code == 2 and "do not go together" in ended.err
