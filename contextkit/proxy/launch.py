"""How a program is told to call the proxy instead of its providers, and which providers those are.

Takes the name of a program and the environment, gives arguments, variables and routes; the rows are in
`facts/clients.toml`. Reads no configuration of a program and changes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from contextkit.facts.load import built_in_table
from contextkit.proxy.upstreams import Route, Routes, Upstream

OTHER = "other"
"""Name of the row for programs that have none of their own."""
_LOOPBACK = "127.0.0.1,localhost,::1"
_PROXIES = ("NO_PROXY", "no_proxy")
"""Variables with the hosts that a program calls directly, where it calls others through an HTTP proxy."""


def row_of(command: str) -> Mapping[str, Any]:
    """Return how a program is redirected: the row for its file name, without an ending of Windows.

    >>> row_of("/usr/bin/codex")["name"], row_of("claude.CMD")["name"], row_of("python")["name"]
    ('codex', 'claude-code', 'other')
    """
    name = PurePath(command).name.lower()
    for ending in (".exe", ".cmd", ".bat", ".ps1"):
        name = name.removesuffix(ending)
    rows = built_in_table("clients.toml")["redirects"]
    row: Mapping[str, Any] = next((row for row in rows if name in row["commands"]), rows[-1])
    return row


def variables_of(row: Mapping[str, Any], origin: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a program is started with, beside those of the environment."""
    said = {name: _filled(value, origin) for name, value in row.get("variables", {}).items()}
    for name in _PROXIES:
        before = environment.get(name, "")
        said[name] = f"{before},{_LOOPBACK}" if before else _LOOPBACK
    return said


def arguments_of(row: Mapping[str, Any], origin: str) -> list[str]:
    """Return the arguments that a program is started with, before its own."""
    return [_filled(value, origin) for value in row.get("arguments", ())]


def _filled(value: str, origin: str) -> str:
    return value.replace("{origin}", origin)


def routes(row: Mapping[str, Any], environment: Mapping[str, str], ca: Path | None, connect_seconds: float) -> Routes:
    """Return the providers that calls of a program go to: those that the environment names, else the vendors'.

    Raises `UsageError` naming the variable whose value is no address.
    """
    return Routes(
        [_route(row, environment, ca, connect_seconds) for row in built_in_table("clients.toml")["upstreams"]]
    )


def _route(row: Mapping[str, Any], environment: Mapping[str, str], ca: Path | None, connect_seconds: float) -> Route:
    variable = next((name for name in row["variables"] if environment.get(name)), "")
    url = environment[variable] if variable else row["url"]
    upstream = Upstream(url, ca, connect_seconds, variable)
    is_versioned = row["is_versioned"] or urlsplit(upstream.url).path.endswith("/v1")
    headers = frozenset(name.encode() for name in row["headers"])
    paths = tuple(path.encode() for path in row["paths"])
    return Route(upstream, frozenset(row["endpoints"]), headers, paths, is_versioned)
