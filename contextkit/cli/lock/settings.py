"""How a project wants its prompts locked: `[tool.contextkit.lock]` of the nearest pyproject.toml.

Takes a folder, gives settings; an unknown key or a wrong value is an error that names it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contextkit.errors import UsageError
from contextkit.prompt.lock import Live


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent whose head is locked."""

    name: str
    """What it is called in the lock file."""
    at: str
    """Where it is made: `module:attribute`."""
    live: Live
    """Conversations of it that are going on when a change goes out."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is locked, where, and what a change may cost."""

    root: Path
    """Folder of the pyproject.toml."""
    path: Path
    """The lock file."""
    agents: tuple[Agent, ...]
    """In the order they are named."""
    budget_tokens: int | None
    """Most tokens a change may re-bill; None for any number."""
    budget_usd: float | None
    """Most dollars it may cost; None for any amount."""


_EXAMPLE = '[tool.contextkit.lock.agents] with a line such as researcher = "myapp.agents:researcher"'


def read_settings(folder: str | Path) -> Settings:
    """The settings that hold for a folder; `UsageError` where there are none, or where they are wrong."""
    start = Path(folder).absolute()
    for place in (start, *start.parents):
        file = place / "pyproject.toml"
        if file.is_file() and (table := _table(file)) is not None:
            return _settings(table, file)
    raise UsageError(f"no pyproject.toml at {start} or above names agents to lock: add {_EXAMPLE}")


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        whole = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    found = whole.get("tool", {}).get("contextkit", {}).get("lock")
    return found if found is None or isinstance(found, dict) else {"": found}


def _settings(table: Mapping[str, Any], file: Path) -> Settings:
    where = f"{file}: [tool.contextkit.lock]"
    _known(where, table, ("agents", *_KINDS))
    found = {key: _KINDS[key](f"{where} {key}", value) for key, value in table.items() if key != "agents"}
    live = Live(found.get("live_sessions", 0), found.get("session_tokens", 0))
    agents = table.get("agents")
    if not isinstance(agents, dict) or not agents:
        raise UsageError(f"{where} names no agents: add {_EXAMPLE}")
    tokens, usd = found.get("budget_tokens"), found.get("budget_usd")
    return Settings(
        file.parent,
        file.parent / found.get("path", "prompt.lock"),
        tuple(_agent(f"{where} agents.{name}", name, value, live) for name, value in agents.items()),
        0 if tokens is None and usd is None else tokens,
        usd,
    )


def _agent(where: str, name: str, value: object, live: Live) -> Agent:
    row = {"at": value} if isinstance(value, str) else value
    if not isinstance(row, dict) or "at" not in row:
        raise UsageError(
            f'{where} is "module:attribute", or {{ at = "module:attribute", live_sessions = …, session_tokens = … }}'
        )
    _known(where, row, ("at", "live_sessions", "session_tokens"))
    at = _text(f"{where}.at", row["at"])
    if at.count(":") != 1 or not all(at.split(":")):
        raise UsageError(f'{where} is {at!r}: write "module:attribute", such as "myapp.agents:researcher"')
    counts = [
        _count(f"{where}.{key}", row.get(key, default))
        for key, default in (
            ("live_sessions", live.n_sessions),
            ("session_tokens", live.session_tokens),
        )
    ]
    return Agent(name, at, Live(*counts))


def _known(where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    if unknown := sorted(table.keys() - set(keys)):
        raise UsageError(f"{where} has an unknown key {unknown[0]!r}; it may have {', '.join(keys)}")


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where} must be text, not {value!r}")
    return value


def _count(where: str, value: object) -> int:
    if type(value) is not int or value < 0:
        raise UsageError(f"{where} must be a whole number, 0 or more, not {value!r}")
    return value


def _amount(where: str, value: object) -> float:
    if type(value) not in (int, float) or not value >= 0:  # type: ignore[operator]
        raise UsageError(f"{where} must be dollars, 0 or more, not {value!r}")
    return float(value)  # type: ignore[arg-type]


_KINDS: Mapping[str, Callable[[str, object], Any]] = {
    "path": _text,
    "live_sessions": _count,
    "session_tokens": _count,
    "budget_tokens": _count,
    "budget_usd": _amount,
}
"""Key of the table → what reads it."""
