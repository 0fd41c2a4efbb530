"""Where the logs of agent programs are looked for: the folders and variables that ccusage documents, and their traps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contextkit.importers.places import PLACES, log_files, looked_at
from contextkit.importers.registry import FORMATS
from contextkit.importers.source import Faults

CCUSAGE = (
    ("CLAUDE_CONFIG_DIR", ".config/claude", "projects/-home-ada/4fec.jsonl"),
    ("CLAUDE_CONFIG_DIR", ".claude", "projects/-home-ada/4fec.jsonl"),
    ("CODEX_HOME", ".codex", "sessions/2026/11/22/rollout-1.jsonl"),
    ("CODEX_HOME", ".codex", "archived_sessions/rollout-2.jsonl"),
    ("OPENCODE_DATA_DIR", ".local/share/opencode", "opencode.db"),
    ("OPENCODE_DATA_DIR", ".local/share/opencode", "storage/message/ses_1/msg_1.json"),
    ("PI_AGENT_DIR", ".pi/agent/sessions", "--home-ada--/1.jsonl"),
    ("QWEN_DATA_DIR", ".qwen", "projects/-home-ada/chats/1.jsonl"),
    ("GEMINI_DATA_DIR", ".gemini/tmp", "shop/chats/session-1.json"),
)
"""(variable, folder below the home folder, a log in it): the table of the page `PLACES` names, read in November 2026."""


def written(path: Path, at: float | None = None) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"SQLite format 3\0" if path.suffix == ".db" else b"{}\n")
    if at is not None:
        os.utime(path, (at, at))
    return str(path)


@pytest.mark.parametrize(("variable", "folder", "log"), CCUSAGE)
def test_the_folders_that_ccusage_documents_are_looked_at(tmp_path: Path, variable: str, folder: str, log: str) -> None:
    file = written(tmp_path / folder / log)
    assert log_files(None, Faults(), tmp_path, {}) == ([file], 0)


@pytest.mark.parametrize(("variable", "folder", "log"), CCUSAGE)
def test_a_variable_names_other_folders_several_with_commas(
    tmp_path: Path, variable: str, folder: str, log: str
) -> None:
    files = [written(tmp_path / name / log) for name in ("one", "two")]
    given = {variable: f"{tmp_path / 'one'}, {tmp_path / 'two'}"}
    assert log_files(None, Faults(), tmp_path / "home", given) == (files, 0)


@pytest.mark.parametrize(
    ("variable", "log"),
    [
        ("COPILOT_HOME", "session-state/1/events.jsonl"),
        ("GEMINI_CLI_HOME", ".gemini/tmp/shop/chats/session-1.jsonl"),
        ("PI_CODING_AGENT_DIR", "sessions/--home-ada--/1.jsonl"),
        ("XDG_DATA_HOME", "opencode/opencode.db"),
        ("XDG_CONFIG_HOME", "claude/projects/-home-ada/1.jsonl"),
        ("LOCALAPPDATA", "opencode/opencode.db"),
        ("QWEN_HOME", "projects/-home-ada/chats/1.jsonl"),
    ],
)
def test_the_programs_own_variables_are_heeded(tmp_path: Path, variable: str, log: str) -> None:
    file = written(tmp_path / "there" / log)
    assert log_files(None, Faults(), tmp_path / "home", {variable: str(tmp_path / "there")}) == ([file], 0)


def test_what_an_agent_made_beside_its_log_is_no_log(tmp_path: Path) -> None:
    log = written(tmp_path / ".copilot/session-state/1/events.jsonl")
    written(tmp_path / ".copilot/session-state/1/files/recorded.har")
    written(tmp_path / ".copilot/session-state/1/files/data.json")
    written(tmp_path / ".claude/projects/-home-ada/sessions-index.json")
    assert log_files(None, Faults(), tmp_path, {}) == ([log], 0)


def test_files_not_written_in_the_period_are_counted_and_left_out(tmp_path: Path) -> None:
    new = written(tmp_path / ".claude/projects/-home-ada/new.jsonl", 2_000.0)
    written(tmp_path / ".claude/projects/-home-ada/old.jsonl", 1_000.0)
    assert log_files(1_500.0, Faults(), tmp_path, {}) == ([new], 1)
    assert log_files(2_000.0, Faults(), tmp_path, {}) == ([new], 1)
    assert log_files(2_001.0, Faults(), tmp_path, {}) == ([], 2)


def test_a_database_whose_log_ahead_was_written_is_new(tmp_path: Path) -> None:
    file = written(tmp_path / ".local/share/opencode/opencode.db", 1_000.0)
    written(tmp_path / ".local/share/opencode/opencode.db-wal", 2_000.0)
    assert log_files(1_500.0, Faults(), tmp_path, {}) == ([file], 0)


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_one_folder_under_two_names_is_read_once(tmp_path: Path) -> None:
    file = written(tmp_path / ".claude/projects/-home-ada/1.jsonl")
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config/claude").symlink_to(tmp_path / ".claude")
    assert log_files(None, Faults(), tmp_path, {}) == ([file], 0)


def test_an_empty_home_has_nothing_and_every_program_of_the_table_is_named(tmp_path: Path) -> None:
    assert log_files(None, Faults(), tmp_path, {}) == ([], 0)
    assert {program for program, _ in looked_at(tmp_path, {})} == {place.program for place in PLACES}
    assert all(pattern.startswith("~/") for _, pattern in looked_at(tmp_path, {}))


def test_each_program_has_an_importer_of_its_name_and_each_place_a_source() -> None:
    ours = {"contextkit run"}  # a ledger, which names no program
    assert {place.program for place in PLACES} - ours <= {known.program for known in FORMATS}
    assert all(place.source for place in PLACES)
