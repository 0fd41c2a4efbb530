"""Tables of contextkit in a project's pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contextkit.errors import UsageError


def read_table(file: Path, name: str) -> Mapping[str, Any] | None:
    """Return the table `[tool.contextkit.NAME]` of a file; None if it has none.

    Raises `UsageError` if the file is not TOML, or if that or what holds it is no table.
    """
    found = _own_table(file).get(name)
    if found is None:
        return None
    if not isinstance(found, dict):
        raise UsageError(f"{file}: [tool.contextkit.{name}] must be a table, not {found!r}")
    return found


def read_value(file: Path, name: str) -> Any:
    """Return the value of `NAME` in the table `[tool.contextkit]` of a file; None if it has none.

    Raises `UsageError` if the file is not TOML, or if what holds the value is no table.
    """
    return _own_table(file).get(name)


def _own_table(file: Path) -> Mapping[str, Any]:
    try:
        found: Any = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    for key in ("tool", "contextkit"):
        found = found.get(key, {})
        if not isinstance(found, dict):
            raise UsageError(f"{file}: {key!r} on the way to [tool.contextkit] must be a table, not {found!r}")
    table: Mapping[str, Any] = found
    return table
