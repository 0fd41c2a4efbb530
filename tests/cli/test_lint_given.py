"""What `contextkit lint` is given: patterns, links, closed folders and streams, standard input, what is known already."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Run, Start
from tests.cli.test_lint import CLEAN, FIXABLE, HAZARDOUS, RULES, codes, recording

posix = pytest.mark.skipif(os.name == "nt", reason="no such files, or no such shell, there")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src" / "inner").mkdir(parents=True)
    (tmp_path / "src" / "clean.py").write_text(CLEAN, "utf-8")
    (tmp_path / "src" / "bad.py").write_text(HAZARDOUS, "utf-8")
    (tmp_path / "src" / "inner" / "worse.py").write_text(HAZARDOUS, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(said: str) -> list[str]:
    """The files of JSON's findings."""
    return [finding["place"]["file"].replace("\\", "/") for finding in json.loads(said)["findings"]]


def say(text: bytes | str, *args: str) -> subprocess.CompletedProcess[bytes]:
    """The command with something at its standard input."""
    raw = text.encode() if isinstance(text, str) else text
    return subprocess.run([*COMMAND, "lint", *args], input=raw, capture_output=True, check=False)


# Paths
# --------------------------------------------------------------------------------------------------------------------


def test_a_pattern_means_what_a_shell_would_make_of_it(folder: Path, run: Run) -> None:
    bad, worse = "src/bad.py", "src/inner/worse.py"
    for pattern, meant in {"src/*.py": [bad], "src/*": [bad, worse], "**/w*.py": [worse]}.items():
        ended = run("lint", pattern, "--json", "--select", "CKS01")
        assert (ended.code, ended.err, files(ended.out)) == (1, "", meant)


def test_a_file_that_is_called_like_a_pattern_is_that_file(folder: Path, run: Run) -> None:
    (folder / "src" / "[id].py").write_text(HAZARDOUS, "utf-8")
    assert files(run("lint", "src/[id].py", "--json", "--select", "CKS01").out) == ["src/[id].py"]


def test_a_pattern_of_recordings_is_one_recording(folder: Path, run: Run) -> None:
    recording(folder / "one.jsonl", f"Rules of Ada. {RULES}", f"Rules of Bob. {RULES}")
    (folder / "other.jsonl").write_text("Dear diary\n", "utf-8")
    ended = run("lint", "*.jsonl")
    assert ended.code == 1 and "turn 2 system" in ended.out
    assert ended.err.startswith("other.jsonl: ") and ended.err.count("\n") == 1


def test_how_much_was_looked_at_is_said_of_code_and_recordings(folder: Path, run: Run) -> None:
    recording(folder / "steady.jsonl", "Be terse.", "Be terse.")
    (folder / "empty").mkdir()
    ended = run("lint", "src/clean.py", "--requests", "steady.jsonl", "--select", "CKS")
    assert (ended.code, ended.out, ended.err) == (0, "No hazards found in 1 Python file, 2 recorded calls.\n", "")
    assert json.loads(run("lint", "src", "--json").out)["looked_at"] == {"files": 3, "calls": None}
    ended = run("lint", "empty")
    assert (ended.code, ended.out, ended.err) == (0, "Nothing to look at: no Python file.\n", "")


@posix
def test_a_link_to_nothing_is_no_finding_in_a_folder_and_a_mistake_by_name(folder: Path, run: Run) -> None:
    (folder / "src" / ".#bad.py").symlink_to("ada@host.example:1")
    (folder / "src" / "gone.py").symlink_to("nowhere.py")
    assert "CK000" not in codes(run("lint", "src", "--json").out)
    assert "CK000" not in codes(run("lint", "src/*.py", "--json").out)
    ended = run("lint", "src/gone.py")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith("contextkit: src/gone.py: no such file or folder; ")


@posix
def test_a_folder_that_cannot_be_looked_into_is_told_once(folder: Path, run: Run) -> None:
    (folder / "src" / "clean.py").rename(folder / "clean.py")
    inner = os.open(folder / "src", os.O_RDONLY)
    for _ in range(20):  # deeper than a path may be long: nobody may look into that, not even root
        os.mkdir("d" * 250, dir_fd=inner)
        inner, above = os.open("d" * 250, os.O_RDONLY, dir_fd=inner), inner
        os.close(above)
    os.close(inner)
    for args in (["."], [".", "--fix"]):
        ended = run("lint", *args, "--select", "CKS01")
        assert (ended.code, ended.err) == (1, "") and "src/bad.py:12" in ended.out
        assert ended.out.count("CK000 folder cannot be read: ") == 1 and "/ddd" in ended.out


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may look into everything")
def test_a_named_folder_that_cannot_be_looked_into_is_a_mistake(folder: Path, run: Run) -> None:
    (folder / "src").chmod(0)
    ended = run("lint", "src")
    (folder / "src").chmod(0o700)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith("contextkit: ") and "src" in ended.err


# Streams
# ------------------------------------------------------------------------------------------------------------------


@posix
def test_a_closed_error_stream_takes_nothing_from_the_output(folder: Path, run: Run) -> None:
    ended = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", *COMMAND, "lint", "src"], stdout=subprocess.PIPE, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, run("lint", "src").out)


@posix
@pytest.mark.parametrize(("form", "unbuffered"), [("json", "1")])
def test_a_reader_that_leaves_ends_the_command_without_a_word(
    start: Start, form: str, unbuffered: str, folder: Path
) -> None:
    # More than a pipe holds
    head, ask = HAZARDOUS[: HAZARDOUS.index("def ask")], HAZARDOUS[HAZARDOUS.index("def ask") :]
    (folder / "many.py").write_text(head + "\n\n".join(ask.replace("ask", f"ask{n}") for n in range(1200)), "utf-8")
    command = [*COMMAND, "lint", "many.py", "--format", form]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout and process.stderr
        assert process.stdout.read(1)
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 141)


def test_a_notebook_is_code_by_name_and_in_a_folder(folder: Path, run: Run) -> None:
    cells = [
        {"cell_type": "code", "source": text.splitlines(keepends=True)} for text in ("%pip install a\n", HAZARDOUS)
    ]
    (folder / "src" / "note.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}), "utf-8")
    for path in ("src", "src/note.ipynb", "src/*.ipynb"):
        found = [one["place"] for one in json.loads(run("lint", path, "--json").out)["findings"]]
        assert 12 in [place["line"] for place in found if place["file"].endswith("note.ipynb#cell2")]
    assert "12 |         system=f" in run("lint", "src/note.ipynb").out
    sarif = json.loads(run("lint", "src/note.ipynb", "--format", "sarif").out)
    location = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "src/note.ipynb"


def test_comments_and_settings_silence_the_cells_of_a_notebook(folder: Path, run: Run) -> None:
    def told(text: str, *options: str) -> list[str]:
        cells = [{"cell_type": "code", "source": one.splitlines(keepends=True)} for one in ("%pip install a\n", text)]
        (folder / "note.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}), "utf-8")
        found = json.loads(run("lint", "note.ipynb", "--json", "--select", "CKS01", *options).out)["findings"]
        return [one["code"] for one in found]

    assert told(HAZARDOUS) == ["CKS01"]
    run("lint", "note.ipynb", "--write-baseline", "known.json")
    assert told(HAZARDOUS, "--baseline", "known.json") == []
    assert told(HAZARDOUS.replace('terse.",', 'terse.",  # noqa: CKS01')) == []
    (folder / "pyproject.toml").write_text('[tool.contextkit.lint.per-file-ignores]\n"*.ipynb" = ["CKS"]\n', "utf-8")
    assert told(HAZARDOUS) == []


# Standard input
# -----------------------------------------------------------------------------------------------------------


def test_source_is_read_from_standard_input_under_its_name(folder: Path, run: Run) -> None:
    named = say(HAZARDOUS, "-", "--stdin-filename", "src/bad.py")
    assert (named.returncode, named.stderr) == (1, b"")
    assert named.stdout.decode().replace("\r\n", "\n") == run("lint", "src/bad.py").out
    changed = say(CLEAN, "-", "--stdin-filename", "src/bad.py")
    assert (changed.returncode, changed.stdout.split()) == (0, b"No hazards found in 1 Python file.".split())
    unnamed = say(HAZARDOUS, "-", "--select", "CKS01")
    assert unnamed.returncode == 1 and unnamed.stdout.startswith(b"stdin:12:25: CKS01 ")
    assert b"12 |         system=f" in unnamed.stdout
    broken = say("def (:\n", "-", "--json")
    assert (broken.returncode, codes(broken.stdout.decode())) == (1, ["CK000"])


def test_settings_and_comments_hold_for_what_comes_by_standard_input(folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.contextkit.lint.per-file-ignores]\n"src/*" = ["CK"]\n', "utf-8")
    assert say(HAZARDOUS, "-", "--stdin-filename", "src/new.py").returncode == 0
    assert say(HAZARDOUS, "-", "--stdin-filename", "new.py").returncode == 1
    silenced = HAZARDOUS.replace('terse.",', 'terse.",  # noqa: CKS01')
    assert say(silenced, "-", "--select", "CKS01").returncode == 0


def test_a_recording_at_standard_input_is_known_by_how_it_begins(folder: Path) -> None:
    raw = recording(folder / "runs.jsonl", f"Rules of Ada. {RULES}", f"Rules of Bob. {RULES}").read_bytes()
    for args in (["-"], ["--requests", "-"]):
        ended = say(raw, *args)
        assert ended.returncode == 1 and b"turn 2 system" in ended.stdout


@pytest.mark.parametrize(
    ("text", "args", "says"),
    [
        ("", ["-"], "standard input: the file is empty"),
        (HAZARDOUS, ["-", "--fix"], "--fix and --diff change files, and standard input is none"),
    ],
)
def test_what_standard_input_cannot_be_is_one_line(text: str, args: list[str], says: str, folder: Path) -> None:
    ended = say(text, *args)
    assert (ended.returncode, ended.stdout, ended.stderr.count(b"\n")) == (2, b"", 1)
    assert ended.stderr.decode().startswith(f"contextkit: {says}")


# What is known
# ------------------------------------------------------------------------------------------------------------


def test_only_what_is_not_in_the_baseline_is_told(folder: Path, run: Run) -> None:
    n = len(codes(run("lint", "src", "--json").out))
    written = run("lint", "src", "--write-baseline", "known.json")
    assert (written.code, written.out, written.err) == (0, f"{n} hazards written to known.json.\n", "")
    again = run("lint", "src", "--baseline", "known.json")
    assert (again.code, again.out, again.err) == (
        0,
        "No hazards found in 3 Python files.\n",
        "",
    )
    bad = folder / "src" / "bad.py"
    bad.write_text("# moved\n\n" + HAZARDOUS.replace("        system=", "          system="), "utf-8")
    assert run("lint", "src", "--baseline", "known.json").code == 0
    bad.write_text(HAZARDOUS.replace("You are terse", "You are brief"), "utf-8")
    ended = run("lint", "src", "--baseline", "known.json", "--json")
    assert (ended.code, codes(ended.out), files(ended.out)) == (1, ["CKS01"], ["src/bad.py"])


def test_a_line_that_is_written_a_second_time_is_new(folder: Path, run: Run) -> None:
    run("lint", "src", "--write-baseline", "known.json")
    (folder / "src" / "bad.py").write_text(
        HAZARDOUS + "\n\n" + HAZARDOUS[HAZARDOUS.index("def ask") :].replace("ask", "again"), "utf-8"
    )
    found = json.loads(run("lint", "src", "--baseline", "known.json", "--json", "--select", "CKS01").out)["findings"]
    assert [finding["place"]["line"] for finding in found] == [HAZARDOUS.count("\n") + 7]


def test_a_baseline_is_the_same_bytes_however_the_files_are_named(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("lint", "src", "--write-baseline", "known.json")
    for args in (["./src"], [folder / "src"], ["src/inner", "src"]):
        run("lint", *args, "--write-baseline", "again.json")
        assert (folder / "again.json").read_bytes() == (folder / "known.json").read_bytes()
    monkeypatch.chdir(folder / "src")
    assert run("lint", ".", "--baseline", "../known.json").code == 0


def test_fix_leaves_alone_what_is_in_the_baseline(folder: Path, run: Run) -> None:
    path = folder / "src" / "fixable.py"
    path.write_text(FIXABLE, "utf-8")
    run("lint", path, "--write-baseline", "known.json")
    ended = run("lint", path, "--fix", "--baseline", "known.json")
    assert (ended.code, ended.out, path.read_text("utf-8")) == (0, "No hazards found in 1 Python file.\n", FIXABLE)
    assert run("lint", path, "--fix").out.startswith("Fixed 1 hazard. ")


def test_requests_are_told_whatever_the_baseline_holds(folder: Path, run: Run) -> None:
    run("lint", "src", "--write-baseline", "known.json")
    recording(folder / "broken.jsonl", f"Rules of Ada. {RULES}", f"Rules of Bob. {RULES}")
    ended = run("lint", "src", "--baseline", "known.json", "--requests", "broken.jsonl", "--json")
    assert {finding["place"]["kind"] for finding in json.loads(ended.out)["findings"]} == {"request"}


ROW = {"file": "a.py", "code": "CKS01", "text": "x", "count": 1}


@pytest.mark.parametrize(
    "told",
    [
        "",
        "{}",
        '{"version": 0, "findings": []}',
        {"version": 1, "findings": [{**ROW, "count": "1"}]},
        "[" * 100_000,
    ],
    ids=lambda told: str(told)[:60],
)
def test_a_baseline_that_is_none_is_one_line(told: object, folder: Path, run: Run) -> None:
    (folder / "known.json").write_text(told if isinstance(told, str) else json.dumps(told), "utf-8")
    ended = run("lint", "src", "--baseline", "known.json")
    assert (ended.code, ended.out) == (2, "")
    assert (
        ended.err == "contextkit: known.json: no baseline of version 1; make it anew with --write-baseline known.json\n"
    )


def test_a_baseline_of_a_newer_version_asks_for_an_upgrade(folder: Path, run: Run) -> None:
    (folder / "known.json").write_text('{"version": 2, "findings": []}', "utf-8")
    ended = run("lint", "src", "--baseline", "known.json")
    assert (ended.code, ended.out) == (2, "")
    assert (
        ended.err
        == "contextkit: known.json: a baseline of version 2, this contextkit reads up to 1: upgrade contextkit\n"
    )
