"""Reads what is known of libraries from the TOML files of `contextkit/lint/knowledge` and of the project.

A pattern names a call: its full dotted name (`datetime.datetime.now`), or with a leading `*.` the end of one
(`*.messages.create`), whatever the object is; `logging.*` is every function of a module.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Generic, TypeVar

from contextkit.errors import UsageError

T = TypeVar("T")


class Patterns(Generic[T]):
    """Rows by the calls they are about."""

    def __init__(self) -> None:
        self._exact: dict[str, list[T]] = defaultdict(list)
        self._ends: dict[str, list[tuple[str, T]]] = defaultdict(list)
        self._beginnings_of: dict[str, list[tuple[str, T]]] = defaultdict(list)

    def add(self, pattern: str, row: T) -> None:
        """Adds a row under a pattern."""
        if pattern.endswith(".*"):
            self._beginnings_of[pattern.partition(".")[0]].append((pattern[:-1], row))
        elif pattern.startswith("*."):
            self._ends[pattern.rpartition(".")[2]].append((pattern[1:], row))
        else:
            self._exact[pattern].append(row)

    def find(self, name: str) -> list[T]:
        """The rows about a call of a dotted name, full names first."""
        results = list(self._exact.get(name, ()))
        before, dot, last = name.rpartition(".")
        last = last.lstrip("_") or last
        if last in self._ends:
            dotted = f".{before}{dot}{last}"
            results += [row for end, row in self._ends[last] if dotted.endswith(end)]
        first = name.partition(".")[0]
        if first in self._beginnings_of:
            results += [row for beginning, row in self._beginnings_of[first] if name.startswith(beginning)]
        return results


@dataclass(frozen=True, slots=True)
class Source:
    """A call whose result varies."""

    kind: str
    receivers: tuple[str, ...] = ()
    """Ends of the names of the objects it is called on, where the method's name alone says too little."""
    arguments: tuple[str, ...] = ()
    """One of these has to be given, where the name alone says too little; a number is a position."""
    without: tuple[str, ...] = ()
    """None of these may be given."""
    text: str = ""
    """A regular expression that one of the constant arguments has to match."""
    is_tuple: bool = False
    """Whether the result is a tuple of what varies: `done, pending = asyncio.wait(…)`."""


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """A call whose result no longer varies in some ways."""

    removes: frozenset[str]
    needs: tuple[str, ...] = ()
    """One of these arguments has to be given: `sort_keys`."""
    passes: tuple[str | int, ...] = ()
    """Arguments that go into the result; all where empty."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call that sends a request, or makes an agent that will."""

    arguments: Mapping[str | int, str]
    """Name or position of an argument → sink."""
    provider: str = ""
    needs: tuple[str, ...] = ()
    """One of these arguments (or `**`) has to be given: what else is called so is another function."""
    lifetime: str = "call"
    """How long what it is given is sent: `call`, or `session` for what makes an agent."""
    packages: tuple[str, ...] = ()
    """First parts of the packages it comes from; one of them has to be imported by the file where the name alone says too
    little."""
    receivers: tuple[str, ...] = ()
    """Ends of the names of the objects it is called on, where the method's name alone says too little."""


@dataclass(slots=True)
class Knowledge:
    """Everything that is known."""

    sources: Patterns[Source] = field(default_factory=Patterns)
    names: dict[str, str] = field(default_factory=dict)
    """Attribute, key or parameter → kind of what it holds."""
    globals: dict[str, str] = field(default_factory=dict)
    """Full name of a variable → kind."""
    sanitizers: Patterns[Sanitizer] = field(default_factory=Patterns)
    opaque: Patterns[bool] = field(default_factory=Patterns)
    requests: Patterns[Request] = field(default_factory=Patterns)
    sections: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """Rows of other tables (`usage`, `window`, …), for the modules that know what they mean."""
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    """Name of a group of kinds → its kinds: `order`."""

    def words(self, section: str, field_name: str) -> list[str]:
        """The words in a list of all rows of a section, in order."""
        return [word for row in self.sections.get(section, ()) for word in row.get(field_name, ())]

    def read(self, table: Mapping[str, Any], where: str) -> None:
        """Adds the rows of one file; raises `UsageError` that names the file for a row that is none."""
        for name, kinds in table.get("groups", {}).items():
            self.groups[name] = frozenset(kinds)
        for section, rows in table.items():
            if section == "groups":
                continue
            if not isinstance(rows, list):
                raise UsageError(f"{where}: {section} must be a list of tables: [[{section}]]")
            for row in rows:
                try:
                    self._add(section, dict(row))
                except (KeyError, TypeError) as error:
                    raise UsageError(f"{where}: [[{section}]] {dict(row)!r}: {error}") from None

    def _add(self, section: str, row: dict[str, Any]) -> None:
        if section == "source":
            calls, kind = row.pop("calls", ()), row.pop("kind")
            for name in row.pop("names", ()):
                self.names[name] = kind
            for name in row.pop("globals", ()):
                self.globals[name] = kind
            rest: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
            }
            source = Source(kind, **rest)
            for call in calls:
                self.sources.add(call, source)
        elif section == "sanitizer":
            removes = frozenset().union(*(self.groups.get(one, frozenset({one})) for one in row["removes"]))
            sanitizer = Sanitizer(removes, tuple(row.get("needs", ())), tuple(row.get("passes", ())))
            for call in row["calls"]:
                self.sanitizers.add(call, sanitizer)
        elif section == "opaque":
            for call in row["calls"]:
                self.opaque.add(call, True)
        elif section == "request":
            arguments = {int(key) if key.lstrip("-").isdigit() else key: sink for key, sink in row["arguments"].items()}
            request = Request(
                arguments,
                row.get("provider", ""),
                tuple(row.get("needs", ())),
                row.get("lifetime", "call"),
                tuple(row.get("packages", ())),
                tuple(row.get("receivers", ())),
            )
            for call in row["calls"]:
                self.requests.add(call, request)
        else:
            self.sections[section].append(row)


KINDS = frozenset(
    """clock date id choice place environ unordered arrival paths mapping rows recall user person file notes plan counter listing server
    media model flag""".split()  # noqa: SIM905 - a list of words
)
"""What varies."""
SINKS = frozenset(
    """system messages tools tool schema front model effort thinking tool_choice output headers template cache_key salt stream ttl
    middleware history_processors content""".split()  # noqa: SIM905 - a list of words
)
"""What a model is sent, or a parameter of the request."""


@lru_cache(maxsize=4)
def load(files: tuple[str, ...] = ()) -> Knowledge:
    """What is known, with the files of a project added: read once, not to be changed."""
    return read_all(files)


def read_all(files: tuple[str, ...] = ()) -> Knowledge:
    """What is known, with the files of a project added."""
    knowledge = Knowledge()
    folder = resources.files("contextkit.lint.knowledge")
    texts = [(one.name, one.read_text("utf-8")) for one in folder.iterdir() if one.name.endswith(".toml")]
    texts.sort(key=lambda item: (item[0] != "python.toml", item[0]))  # groups are defined in python.toml
    for file in files:
        try:
            texts.append((file, Path(file).read_text("utf-8")))
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}; [tool.contextkit.lint] knowledge names it") from None
    for name, text in texts:
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{name}: not TOML: {error}") from None
        knowledge.read(table, name)
    return knowledge


def ends_with(name: str, ends: Iterable[str]) -> bool:
    """Return whether a name is one of some words or ends in one: `self.long_term_memory` in `memory`."""
    last = name.rpartition(".")[2].strip("_").lower()
    return any(last == end or last.endswith(f"_{end}") for end in ends)
