"""How a program is told to call the proxy instead of its providers, and which providers those are.

Takes a command and the environment, gives arguments, variables and routes; the rows are in `facts/clients.toml`, which
says what each key means. Of a user's configuration only the addresses are read, and nothing is changed.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from contextkit.canonical import Json, parse
from contextkit.errors import NotSerialisable
from contextkit.facts.load import built_in_table
from contextkit.private_files import replacing
from contextkit.proxy.upstreams import Route, Routes, Upstream

_LOOPBACK = "127.0.0.1,localhost,::1"
_DIRECT = ("NO_PROXY", "no_proxy")
"""Variables with the hosts that a program calls directly, where it calls others through an HTTP proxy."""
_ENDINGS = (".exe", ".cmd", ".bat", ".ps1")


def row_of(command: str) -> Mapping[str, Any]:
    """Return how a program is redirected: the row for its file name, without an ending of Windows.

    >>> row_of("/usr/bin/codex")["name"], row_of("claude.CMD")["name"], row_of("python")["name"]
    ('codex', 'claude-code', 'other')
    """
    name = PurePath(command).name.lower()
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    rows = built_in_table("clients.toml")["redirects"]
    row: Mapping[str, Any] = next((row for row in rows if name in row["commands"]), rows[-1])
    return row


class Launch:
    """A program that is about to be started."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], home: Path) -> None:
        """`command` is the program and its arguments, empty for one that is started elsewhere."""
        self.row = row_of(command[0] if command else "")
        """How it is redirected."""
        self._command, self._environment, self._home = command, environment, home

    def routes(self, ca: Path | None, connect_seconds: float) -> Routes:
        """Return the providers that its calls go to: those of its configuration, those of the environment, the vendors'.

        Raises `UsageError` naming the variable whose value is no address.
        """
        rows = built_in_table("clients.toml")["upstreams"]
        default = next(i for i, row in enumerate(rows) if row["name"] == self.row["upstream"])
        return Routes([self._route(row, ca, connect_seconds) for row in rows], default)

    def variables(self, origin: str, folder: Path) -> dict[str, str]:
        """Return the variables that it is started with beside those of the environment; `folder` may get a file."""
        row, environment = self.row, self._environment
        said = dict(row.get("variables", {}))
        if self._is_vendors:
            said |= row.get("vendor_variables", {})
        for name, more in row.get("if_set", {}).items():
            said |= more if environment.get(name) else {}
        if content := self._content():
            said[row["content_variable"]] = content
        for name in _DIRECT:
            said[name] = ",".join(filter(None, (environment.get(name), _LOOPBACK)))
        return {name: self._filled(value, origin, folder) for name, value in said.items()}

    def arguments(self, origin: str, folder: Path) -> list[str]:
        """Return the arguments that it is started with before its own; `folder` may get a file."""
        if self._command[1:2] and self._command[1] in self.row.get("unless", ()):
            return []
        name, url = self._own
        more = self.row.get("configured_arguments", []) if url and (name or "provider_key" not in self.row) else []
        return [self._filled(value, origin, folder) for value in (*self.row.get("arguments", ()), *more)]

    def _route(self, row: Mapping[str, Any], ca: Path | None, connect_seconds: float) -> Route:
        variable = next((name for name in row.get("variables", ()) if self._environment.get(name)), "")
        url, named = self._environment[variable] if variable else row["url"], variable
        configured = self._configured.get(row["name"])
        if configured and not (variable and self.row.get("is_environment_first")):
            url, named = configured[1], f"the configuration of {(*self._command, 'the program')[0]}:"
        upstream = Upstream(url.rstrip("/").removesuffix(row.get("ending", "")), ca, connect_seconds, named)
        is_versioned = row.get("is_versioned", False) or urlsplit(upstream.url).path.endswith("/v1")
        headers = frozenset(name.encode() for name in row.get("headers", ()))
        paths = tuple(path.encode() for path in row.get("paths", ()))
        return Route(upstream, frozenset(row.get("endpoints", ())), headers, paths, is_versioned)

    @cached_property
    def _configured(self) -> dict[str, tuple[str, str]]:
        """Upstream → the provider's name and address in the last file of the configuration that gives it one."""
        found: dict[str, tuple[str, str]] = {}
        for fields in self._read(self.row.get("configured", ())):
            name = fields.get(self.row.get("provider_key", ""))
            for upstream, keys in self.row["urls"].items():
                for key in keys:
                    url: Json = fields
                    for part in key.replace("{name}", str(name)).split("."):
                        url = url.get(part) if isinstance(url, dict) else None
                    if isinstance(url, str) and url:
                        found[upstream] = str(name) if "{name}" in key else "", url
                        break
        return found

    @property
    def _own(self) -> tuple[str, str]:
        """What the configuration says of the program's own upstream; empty where it says nothing."""
        return self._configured.get(self.row["upstream"], ("", ""))

    @property
    def _is_vendors(self) -> bool:
        """Whether its calls go to the vendor's own host."""
        row = next(row for row in built_in_table("clients.toml")["upstreams"] if row["name"] == self.row["upstream"])
        named = [self._own[1], *(self._environment.get(name, "") for name in row.get("variables", ()))]
        host = urlsplit(row["url"]).hostname
        return all(urlsplit(url).hostname == host for url in named if url)

    def _content(self) -> str:
        """The configuration in a variable, with the user's own in that variable: an address for each provider with a key."""
        providers, variable = self.row.get("providers", {}), self.row.get("content_variable", "")
        logins = {name for fields in self._read(self.row.get("logins", ())) for name in fields}
        there = logins | self._configured.keys()
        chosen = {name: one for name, one in providers.items() if self._environment.get(one["key"]) or name in there}
        if not chosen:
            return ""
        own = _object(self._environment.get(variable, "").encode("utf-8", "surrogateescape") or b"{}")
        for name, one in chosen.items():
            fields: Json = own
            for key in ("provider", name, "options"):
                fields = fields.setdefault(key, {}) if isinstance(fields, dict) else None
            if not isinstance(fields, dict):
                return ""  # no configuration: the program says so itself
            fields["baseURL"] = one["url"]
        return json.dumps(own)

    def _read(self, paths: Sequence[str]) -> Iterator[dict[str, Json]]:
        """Yield what files of the user hold; one that is not there or cannot be read holds nothing."""
        for path in paths:
            file = self._place(path)
            try:
                raw = file.read_bytes() if file is not None else b""
                fields = _PARSERS.get(PurePath(path).suffix or PurePath(path).name, _object)(raw)
            except (OSError, ValueError):
                continue
            if fields:
                yield fields

    def _place(self, path: str) -> Path | None:
        """A path of the table; None where it begins with a variable that is not set."""
        first, _, rest = path.partition("/")
        if first == "~":
            return self._home / rest
        if not first.startswith("$"):
            return Path(path)
        value = self._environment.get(first[1:])
        return Path(value, rest) if value else None

    def _filled(self, value: str, origin: str, folder: Path) -> str:
        if "{file}" in value:
            file = folder / self.row["file"]["name"]
            with replacing(file) as out:
                out.write(self._filled(self.row["file"]["text"], origin, folder).encode())
            value = value.replace("{file}", os.fspath(file))
        return value.replace("{origin}", origin).replace("{name}", self._own[0])


def _object(raw: bytes) -> dict[str, Json] | None:
    """Parse a JSON object; None for anything else."""
    try:
        fields = parse(raw)
    except NotSerialisable:
        return None
    return fields if isinstance(fields, dict) else None


def _variables(raw: bytes) -> dict[str, Json]:
    """Parse the lines `NAME=value` of a .env file.

    >>> _variables(b"# ours\\nexport A='b'\\nC=d # e\\nF")
    {'A': 'b', 'C': 'd'}
    """
    found = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        if mark and not name.startswith("#"):
            value = value.strip()
            is_quoted = value[:1] in ("'", '"') and value.endswith(value[0])
            found[name.strip()] = value[1:-1] if is_quoted else value.partition(" #")[0].rstrip()
    return found


_PARSERS: dict[str, Callable[[bytes], dict[str, Json] | None]] = {
    ".toml": lambda raw: tomllib.loads(raw.decode()),
    ".env": _variables,
}
"""Ending of a configuration's name → what parses it; JSON for others."""
