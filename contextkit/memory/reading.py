"""The tool `read_reference`: one reference or several, by ranges of lines or by a text they hold, within a limit a call.

Takes references and a function that gives their bytes, gives a tool. A conversation that was begun with an earlier
definition of the tool keeps that definition: it stands in the static prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidCall, MemoryRefused, NotText
from contextkit.log.entry import Entry
from contextkit.memory.reference import Reference, References, lines_of, passage, size_of_line
from contextkit.tools.tool import Tool, tool

READ_REFERENCE = "read_reference"
"""The tool's name, as previews and compactions give it."""
READERS = frozenset({READ_REFERENCE, "memory_read", "memory_search"})
"""Tools whose results are parts of what is stored already."""
_FIRST_DEFINITION = (
    b'{"name":"read_reference","description":"Read lines of something kept outside, by the id its reference shows.",'
    b'"parameters":{"type":"object","properties":{"id":{"description":"The reference, as it was shown.","type":"string"},'
    b'"start_line":{"default":1,"description":"The first line to read, counted from 1.","type":"integer"},'
    b'"n_lines":{"default":200,"description":"How many lines to read at most.","type":"integer"}},"required":["id"],'
    b'"additionalProperties":false}}'
)
EARLIER_DEFINITIONS = (_FIRST_DEFINITION,)
"""Definitions that logs of earlier versions hold; what they allow is still understood."""
LEAST_SHARE = 8
"""A part of a call is read while one eighth of the call's limit is left, and named as not read otherwise."""
MATCH_CHARACTERS = 300
"""Characters shown of a line that holds the text that was searched for."""

_LINES = re.compile(r"[lL]?(?P<first>\d+)(?:\s*(?:-|–|\.\.|to)\s*[lL]?(?P<last>\d+)?)?")
"""`20`, `20-60`, `20-`."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing a call asks for."""

    id: str
    """The reference, as the model wrote it."""
    first: int = 1
    """First line, from 1."""
    last: int | None = None
    """Last line; None for as many as fit."""

    def __str__(self) -> str:
        lines = f"{self.first}-{'' if self.last is None else self.last}"
        return self.id if lines == "1-" else f"{self.id}:{lines}"


def parse_part(text: str, id: str) -> Part:
    """The part that an item of `ranges` names; `id` is the reference it means where it names none.

    Raises `InvalidCall` for what is neither a reference nor lines of one.

    >>> parse_part("20-60", "3f2a9c"), parse_part("77b0cd:5", ""), str(parse_part("77b0cd", ""))
    (Part(id='3f2a9c', first=20, last=60), Part(id='77b0cd', first=5, last=5), '77b0cd')
    """
    name, colon, lines = text.strip().rpartition(":")
    found = _LINES.fullmatch(lines.strip())
    if not colon and (found is None or not id):
        name, found, lines = lines, None, ""
    name = name.strip() or id
    if not name or (colon and lines.strip() and found is None):
        raise InvalidCall(f"{text!r} names no lines: write '20-60' for lines of id, or 'ID:20-60' for those of another")
    if found is None:
        return Part(name)
    first, last = int(found["first"]), found["last"]
    is_open = last is None and not found[0].isalnum()
    return Part(name, first, None if is_open else int(last or first))


def parts_of(id: str, start_line: int, n_lines: int | None, ranges: Iterable[str]) -> list[Part]:
    """What a call asks for, in order: `id` itself first, unless a range is one of its own. Raises `InvalidCall`."""
    if start_line < 1 or (n_lines is not None and n_lines < 1):
        raise InvalidCall(
            f"start_line={start_line}, n_lines={n_lines}: lines are counted from 1, and at least one is read"
        )
    name = id.strip()
    listed = [parse_part(text, name) for text in ranges if text.strip()]
    if name and all(part.id != name for part in listed):
        last = None if n_lines is None else start_line + n_lines - 1
        whole = parse_part(name, "") if ":" in name else Part(name, start_line, last)
        listed.insert(0, whole)
    if not listed:
        raise InvalidCall("nothing to read: give id, or ranges such as ['ID:1-200', 'ID']")
    return listed


def reading_tool(references: References, content: Callable[[Reference], bytes], most_bytes: int) -> Tool:
    """`read_reference` over `references`; `content` gives the bytes of one and raises like `bytes_of`.

    A call returns `most_bytes` of lines, and an eighth more where that is all that is left.
    """

    def text_of(part: Part) -> tuple[Reference, str]:
        reference = references.named(part.id)
        try:
            return reference, content(reference).decode()
        except UnicodeDecodeError:
            raise NotText(f"reference {reference.id} is {reference.kind}, not text: it has no lines to read") from None

    def lines(part: Part, room: int, find: str) -> str:
        _, text = text_of(part)
        if find:
            return matches(text, part, find, room)
        n_lines = None if part.last is None else part.last - part.first + 1
        return passage(text, part.first, n_lines, room)

    def read_reference(
        id: str = "",
        start_line: int = 1,
        n_lines: int | None = None,
        ranges: list[str] | None = None,
        find: str = "",
    ) -> str:
        """Read results kept outside the window, by the ids their references show.

        Args:
            id: The reference.
            start_line: The first line to read, counted from 1.
            n_lines: How many lines to read; as many as fit if left out.
            ranges: To read several parts in one call: "20-60" for lines of id, "ID:20-60" or "ID" for other references.
            find: Give only lines that hold this text, with their numbers.

        """
        parts = parts_of(id, start_line, n_lines, ranges or [])
        if len(parts) == 1:
            return lines(parts[0], most_bytes, find)
        shown, unread, room = list[str](), list[str](), most_bytes
        for part in parts:
            if room < most_bytes // LEAST_SHARE:
                unread.append(str(part))
                continue
            try:
                read = lines(part, room, find)
            except (InvalidCall, MemoryRefused) as refused:
                read = f"[{refused}]"
            shown.append(f"[reference {part.id}]\n{read}")
            room -= len(read.encode())
        if unread:
            shown.append(f"[this call is full; not read: {', '.join(unread)}]")
        return "\n".join(shown)

    return tool(read_reference)


def matches(text: str, part: Part, find: str, most_bytes: int) -> str:
    """The lines of `part` that hold `find`, case aside, with their numbers, and how many there are.

    >>> matches("a cat" + chr(10) + "a dog" + chr(10) + "Cats", Part("3f2a9c"), "cat", 100)
    '1: a cat\\n3: Cats\\n[2 of 3 lines hold "cat"]'
    """
    lines, wanted = lines_of(text), " ".join(find.split()).casefold()
    end = len(lines) if part.last is None else min(part.last, len(lines))
    shown, n_found, room = list[str](), 0, most_bytes
    for number in range(part.first, end + 1):
        at = lines[number - 1].casefold().find(wanted)
        if at < 0:
            continue
        n_found += 1
        line = f"{number}: {_around(lines[number - 1], at)}"
        room -= size_of_line(line)
        if room >= 0 or not shown:
            shown.append(line)
    more = f"; the first {len(shown)} are shown, go on with start_line" if len(shown) < n_found else ""
    return "\n".join([*shown, f'[{n_found} of {len(lines)} lines hold "{find}"{more}]'])


def _around(line: str, at: int) -> str:
    """The stretch of a long line around the place `at`."""
    if len(line) <= MATCH_CHARACTERS:
        return line
    start = max(0, min(at - MATCH_CHARACTERS // 3, len(line) - MATCH_CHARACTERS))
    end = start + MATCH_CHARACTERS
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def declared_in(log: Iterable[Entry]) -> list[Json]:
    """The definitions of `read_reference` that a log declares or announces, in order."""
    found = list[Json]()
    for entry in log:
        if entry.kind in ("opened", "epoch", "tools") and READ_REFERENCE.encode() in entry.body:
            body = parse(entry.body)
            definitions = [*(body.get("tools") or ()), *(body.get("definitions") or ())]
            found += [definition for definition in definitions if definition.get("name") == READ_REFERENCE]
    return found


def in_declared_form(tools: Iterable[Tool], declared: Iterable[Json]) -> list[Tool]:
    """`tools`, with `read_reference` under the definition that was declared, where that is an earlier one of ours."""
    earlier = {canonical(definition) for definition in declared}.intersection(EARLIER_DEFINITIONS)
    return [replace(one, body=min(earlier)) if one.name == READ_REFERENCE and earlier else one for one in tools]
