"""Finds the session logs that agent programs left on this machine: one table of the folders they write to.

Takes the environment and the home folder, gives folders and files that are there. Reads no log.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from contextkit.importers.source import Faults


@dataclass(frozen=True, slots=True)
class Place:
    """Where one program keeps its session logs."""

    program: str
    """The program, as its importer names it in remarks."""
    variables: tuple[str, ...]
    """Environment variables that name the program's folders, separated by commas; the first that is set replaces
    `homes`."""
    homes: tuple[str, ...]
    """Folders of the program, below the user's home folder; `$NAME` at the start stands for an environment variable."""
    patterns: tuple[str, ...]
    """Folders and files with logs, below each home."""
    endings: tuple[str, ...]
    """How the names of its logs end: what else lies there is no log, as files that an agent made."""
    source: str
    """Who documents it."""
    subfolder: str = ""
    """What stands between the folder that a variable names and the patterns."""


CCUSAGE = "https://github.com/ryoppippi/ccusage/blob/main/docs/guide/environment-variables.md"
JSON_LINES = (".jsonl",)
RUNS = ".contextkit/runs"
"""Where `contextkit run` records, below the home folder."""
PLACES = (
    Place(
        "contextkit run",
        (),
        (RUNS,),
        ("",),
        ("-other.jsonl",),  # other programs than "other" keep a log of their own
        "contextkit/cli/run.py",
    ),
    Place(
        "Claude Code",
        ("CLAUDE_CONFIG_DIR",),
        (".claude", ".config/claude", "$XDG_CONFIG_HOME/claude"),
        ("projects",),
        JSON_LINES,
        CCUSAGE,
    ),
    Place(
        "Codex",
        ("CODEX_HOME",),
        (".codex",),
        ("sessions", "archived_sessions"),
        JSON_LINES,
        f"https://developers.openai.com/docs/config-file/environment-variables; {CCUSAGE}",
    ),
    Place(
        "Copilot CLI",
        ("COPILOT_HOME",),
        (".copilot",),
        ("session-state",),
        ("events.jsonl",),
        "https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-config-dir-reference",
    ),
    Place(
        "Copilot CLI",
        ("COPILOT_HOME",),
        (".copilot",),
        ("history-session-state",),
        (".json", ".jsonl"),
        "https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-config-dir-reference",
    ),
    Place(
        "Gemini CLI",
        ("GEMINI_DATA_DIR",),
        (".gemini/tmp",),
        ("*/chats",),
        (".json", ".jsonl"),
        f"{CCUSAGE}; packages/core/src/config/storage.ts of github.com/google-gemini/gemini-cli",
    ),
    Place(
        "Gemini CLI",
        ("GEMINI_CLI_HOME",),
        (),
        ("*/chats",),
        (".json", ".jsonl"),
        "homedir() in packages/core/src/utils/paths.ts of github.com/google-gemini/gemini-cli",
        subfolder=".gemini/tmp",
    ),
    Place(
        "opencode",
        ("OPENCODE_DATA_DIR",),
        (
            ".local/share/opencode",
            "$XDG_DATA_HOME/opencode",
            "Library/Application Support/opencode",
            "$LOCALAPPDATA/opencode",
            "$APPDATA/opencode",
        ),
        ("opencode*.db", "storage/message"),
        (".db", ".json"),
        f"{CCUSAGE}; packages/opencode/src/global/index.ts of github.com/anomalyco/opencode",
    ),
    Place(
        "pi",
        ("PI_CODING_AGENT_DIR",),
        (".pi/agent",),
        ("sessions",),
        JSON_LINES,
        "packages/coding-agent/src/config.ts of github.com/badlogic/pi-mono",
    ),
    Place(
        "pi",
        ("PI_CODING_AGENT_SESSION_DIR", "PI_AGENT_DIR"),
        (),
        ("",),
        JSON_LINES,
        f"packages/coding-agent/src/config.ts of github.com/badlogic/pi-mono; {CCUSAGE}",
    ),
    Place(
        "Qwen Code",
        ("QWEN_DATA_DIR", "QWEN_RUNTIME_DIR", "QWEN_HOME"),
        (".qwen",),
        ("projects/*/chats", "tmp/*/chats"),
        JSON_LINES,
        f"{CCUSAGE}; packages/core/src/config/storage.ts of github.com/QwenLM/qwen-code",
    ),
)
"""The table. A program that keeps its logs below the home folder does so on every system, Windows and macOS included;
for opencode the folders that those systems have for the data of programs are looked at as well."""


def patterns_of(place: Place, home: Path, variables: Mapping[str, str]) -> list[Path]:
    """What a program's logs are looked for under: patterns of folders and files, whether they are there or not."""
    given = next((value for name in place.variables if (value := variables.get(name, "").strip())), "")
    if given:
        names = [part.strip() for part in given.split(",") if part.strip()]
        roots = [home.joinpath(name.removeprefix("~/")) / place.subfolder for name in names]
    else:
        roots = [root for name in place.homes if (root := _root(name, home, variables)) is not None]
    return list(dict.fromkeys(root / pattern for root in roots for pattern in place.patterns))


def runs_folder() -> Path:
    """Return where `contextkit run` records."""
    return _home() / RUNS


def run_files() -> list[str]:
    """Return what `contextkit run` recorded, of any program."""
    return _files_in(runs_folder(), JSON_LINES, Faults())


def _root(name: str, home: Path, variables: Mapping[str, str]) -> Path | None:
    """A folder of the table; None where it starts with a variable that is not set."""
    if not name.startswith("$"):
        return home / name
    variable, _, rest = name[1:].partition("/")
    value = variables.get(variable, "").strip()
    return Path(value) / rest if value else None


def looked_at(home: Path | None = None, variables: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """(program, pattern) of every place, the home folder written as `~`: what an error says was looked at."""
    home, variables = home or _home(), os.environ if variables is None else variables
    shown = [
        (place.program, short_path(pattern, home))
        for place in PLACES
        for pattern in patterns_of(place, home, variables)
    ]
    return list(dict.fromkeys(shown))


def short_path(path: Path, home: Path) -> str:
    """Return a path with the home folder written as `~`."""
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)


def log_files(
    since: float | None, faults: Faults, home: Path | None = None, variables: Mapping[str, str] | None = None
) -> tuple[list[str], int]:
    """The logs at the places of the table that were written at `since` or later, and how many were not.

    A file that was not written since then holds no later call.
    """
    home, variables = home or _home(), os.environ if variables is None else variables
    files: dict[str, None] = {}
    seen: set[tuple[Path, tuple[str, ...]]] = set()
    for place in PLACES:
        patterns = patterns_of(place, home, variables)
        for path in [path for pattern in patterns for path in _there(pattern, faults)]:
            real = path.resolve(), place.endings
            if real not in seen:  # the same folder may have another name
                seen.add(real)
                files |= dict.fromkeys(_files_in(path, place.endings, faults))
    times = {file: at for file in files if (at := _written_at(file)) is not None}
    written = [file for file, at in times.items() if since is None or at >= since]
    return written, len(times) - len(written)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # nobody says which it is
        return Path("~")


def _there(pattern: Path, faults: Faults) -> list[Path]:
    """What a pattern stands for, in order."""
    parts = pattern.parts
    at = next((i for i, part in enumerate(parts) if "*" in part), len(parts))
    try:
        if at == len(parts):
            return [pattern] if pattern.exists() else []
        return sorted(Path(*parts[:at]).glob(str(Path(*parts[at:]))))
    except OSError as error:
        faults.add(str(pattern), 0, f"cannot be looked at ({error.strerror}); passed over")
        return []


def _files_in(path: Path, endings: tuple[str, ...], faults: Faults) -> list[str]:
    """The files with these endings, in order; none of them is opened."""
    if path.is_file():
        return [str(path)]

    def passed_over(error: OSError) -> None:
        faults.add(str(error.filename), 0, f"cannot be looked at ({error.strerror}); passed over")

    found = os.walk(path, onerror=passed_over)
    return sorted(str(Path(folder, name)) for folder, _, names in found for name in names if name.endswith(endings))


def _written_at(file: str) -> float | None:
    """When a file was written last, None for what is none; of a database its write-ahead log counts too."""
    at = None
    for name in (file, f"{file}-wal") if file.endswith(".db") else (file,):
        try:
            status = Path(name).stat()
        except OSError:  # none, or gone meanwhile
            continue
        if stat.S_ISREG(status.st_mode):
            at = max(at or 0.0, status.st_mtime)
    return at
