"""Reads what is known of libraries from the TOML files of `contextkit/lint/knowledge` and of the project.

A pattern names a call: its full dotted name (`datetime.datetime.now`), or with a leading `*.` the end of one
(`*.messages.create`), whatever the object is; `logging.*` is every function of a module.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
        self._lasts: set[str] = set()

    def add(self, pattern: str, row: T) -> None:
        """Adds a row under a pattern."""
        self._lasts |= {pattern.rpartition(".")[2], f"_{pattern.rpartition('.')[2]}"}
        if pattern.endswith(".*"):
            self._beginnings_of[pattern.partition(".")[0]].append((pattern[:-1], row))
        elif pattern.startswith("*."):
            self._ends[pattern.rpartition(".")[2]].append((pattern[1:], row))
        else:
            self._exact[pattern].append(row)

    def has_last(self, last: str) -> bool:
        """Return whether there may be a row about a call whose dotted name ends in a word."""
        return last in self._lasts

    def find(self, name: str) -> list[T]:
        """Return the rows about a call of a dotted name, full names first."""
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
    without: tuple[str, ...] = ()
    """None of these arguments may be given; a number is a position."""
    text: str = ""
    """A regular expression that the constant arguments, with a space between, have to match."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call that sends a request, or makes an agent that will."""

    arguments: Mapping[str, str]
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


class Knowledge:
    """Everything that is known."""

    def __init__(self) -> None:
        self.sources: Patterns[Source] = Patterns()
        self.names: dict[str, str] = {}
        """Attribute, key or parameter → kind of what it holds."""
        self.sorts: Patterns[str] = Patterns()
        """Calls whose result has an order of its own."""
        self.passes: Patterns[str] = Patterns()
        """Calls whose result holds what they are given."""
        self.requests: Patterns[Request] = Patterns()
        self.sections: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """Rows of other tables (`usage`, `breakpoint`, …), for the modules that know what they mean."""
        self._words: dict[tuple[str, str], frozenset[str]] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}

    def words(self, section: str, field_name: str) -> frozenset[str]:
        """Return the words in a list of all rows of a section."""
        key = section, field_name
        if key not in self._words:
            self._words[key] = frozenset(word for row in self.sections[section] for word in row.get(field_name, ()))
        return self._words[key]

    def matches(self, section: str, name: str) -> bool:
        """Return whether a name is one of the `names` of a section, or its `pattern` is found in it."""
        if section not in self._patterns:
            patterns = [row["pattern"] for row in self.sections[section] if "pattern" in row]
            self._patterns[section] = re.compile("|".join(patterns) or "(?!)", re.IGNORECASE)
        return name in self.words(section, "names") or self._patterns[section].search(name) is not None

    def words_of_interest(self) -> re.Pattern[bytes]:
        """Return what a file holds that sends a request or counts tokens: one of these words has to stand in it."""
        words = self.words("usage", "input") | self.words("tool_dict", "schema")
        words |= {"messages", "contents", "input", "system", "tools", "prompt", "instructions"}
        escaped = "|".join(map(re.escape, sorted(words))).encode()
        return re.compile(rb"\b(?:%b|\w*_prompt)\b" % escaped)

    def kind_of_name(self, name: str) -> str:
        """Return what a variable, attribute or key of this name holds, empty where the name does not say it."""
        return self.names.get(name.lstrip("_"), "")

    def read(self, table: Mapping[str, Any], where: str) -> None:
        """Adds the rows of one file; raises `UsageError` that names the file for a row that is none."""
        for section, rows in table.items():
            if section not in FIELDS:
                raise UsageError(f"{where}: no table is called {section}; there are {', '.join(sorted(FIELDS))}")
            if not isinstance(rows, list):
                raise UsageError(f"{where}: {section} must be a list of tables: [[{section}]]")
            for row in rows:
                if not isinstance(row, dict):
                    raise UsageError(f"{where}: {section} must be a list of tables: [[{section}]]")
                try:
                    self._add(section, dict(row))
                except (KeyError, TypeError, ValueError, re.error) as error:
                    raise UsageError(f"{where}: [[{section}]] {dict(row)!r}: {error}") from None

    def _add(self, section: str, row: dict[str, Any]) -> None:
        for key, value in row.items():
            if key not in FIELDS[section]:
                raise TypeError(f"no field is called {key}")
            wanted, what = _FORMS.get(key, (list, "a list of texts"))
            parts = value.values() if isinstance(value, dict) else value
            if not isinstance(value, wanted) or not all(isinstance(part, str) for part in parts):
                raise TypeError(f"{key} must be {what}")
            if key in ("arguments", "sink") and not SINKS.issuperset(parts if key == "arguments" else [value]):
                raise TypeError(f"{key}: a sink is one of {', '.join(sorted(SINKS))}")
        if row.get("lifetime", "call") not in ("call", "session"):
            raise TypeError("lifetime must be call or session")
        re.compile(row.get("pattern", row.get("text", "")))
        patterns: Patterns[Any]
        made: Any = section
        lists: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in row.items() if key != "calls"
        }
        if section == "source":
            if row["kind"] not in KINDS:
                raise KeyError(f"kind {row['kind']!r}; there are {', '.join(sorted(KINDS))}")
            self.names |= dict.fromkeys(lists.pop("names", ()), row["kind"])
            patterns, made = self.sources, Source(**lists)
        elif section == "request":
            patterns, made = self.requests, Request(**lists)
        elif section in ("passes", "sorts"):
            patterns = self.passes if section == "passes" else self.sorts
        else:
            self.sections[section].append(row)
            return
        for call in row.get("calls", ()):
            patterns.add(call, made)


KINDS = frozenset({"clock", "id", "status", "plan", "unordered", "arrival", "user"})
"""What varies."""
ORDER = frozenset({"unordered", "arrival"})
"""Kinds that are an order which nobody promised."""
SINKS = frozenset({"system", "messages", "tools", "tool", "schema"})
"""What a model is sent."""
_FORMS: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("kind", "text", "pattern", "provider", "lifetime", "sink"), (str, "a text")),
    "arguments": (dict, "a table of texts"),
}
_NAMES = frozenset({"names", "pattern"})
FIELDS: Mapping[str, frozenset[str]] = {
    "source": frozenset({"kind", "calls", "names", "without", "text"}),
    "request": frozenset({"calls", "arguments", "provider", "needs", "lifetime", "packages", "receivers"}),
    "decorator": frozenset({"names", "sink", "packages"}),
    **dict.fromkeys(("sorts", "passes"), frozenset({"calls"})),
    **dict.fromkeys(
        ("history_name", "state_name", "template_function", "once", "side_call", "freezing", "price"), _NAMES
    ),
    "uncached_usage": _NAMES | {"packages"},
    "request_dict": frozenset({"arguments"}),
    "tool_dict": frozenset({"schema"}),
    "usage": frozenset({"input", "output", "whole", "held"}),
    "breakpoint": frozenset({"provider", "words", "clients", "models"}),
}
"""Tables of a knowledge file, and their fields."""


@lru_cache(maxsize=4)
def load(files: tuple[str, ...] = ()) -> Knowledge:
    """Return what is known, with the files of a project added: read once, not to be changed."""
    return read_all(files)


def read_all(files: tuple[str, ...] = ()) -> Knowledge:
    """Return what is known, with the files of a project added."""
    knowledge = Knowledge()
    folder = resources.files("contextkit.lint.knowledge")
    texts = [(one.name, one.read_text("utf-8")) for one in folder.iterdir() if one.name.endswith(".toml")]
    texts.sort()
    for file in files:
        try:
            texts.append((file, Path(file).read_text("utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            fault = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise UsageError(f"{file}: {fault}; [tool.contextkit.lint] knowledge names it") from None
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
