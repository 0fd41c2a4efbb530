"""What an importer is: a name, how its files look, and how their records are read.

Takes nothing, gives the row that `registry.py` holds one of for each importer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from contextkit.importers.source import Source
from contextkit.ledger.calls import ModelCall, Record, Remark


def not_by_line(source: Source) -> None:
    """For formats that are one value, or whose lines are put in order first."""


class Lines(Protocol):
    """A reader that is given one line after another, so that a file can be followed as it grows."""

    def hear(self, number: int, line: bytes) -> Iterable[Record]:
        """The next line, not blank, with its newline where it has one; gives the records that are whole by now."""

    def waiting(self) -> Iterable[Record]:
        """What is held back because more of it may come, as it stands; nothing is changed by asking."""

    def finish(self) -> None:
        """Report what concerns the file as a whole."""


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of recording."""

    name: str
    """What people call it."""
    is_it: Callable[[bytes], bool]
    """Whether a file that starts with these bytes (unpacked, up to 64 KiB, maybe cut inside a line) is one; never
    raises."""
    read: Callable[[Source], Iterator[Record]]
    """Its calls, in the order of the file, each remark before what it is about. What is wrong on a line goes to
    `Source.fault` and reading goes on; only a file of which nothing can be read raises `UnreadableLog`. Nothing is
    counted twice."""
    lines: Callable[[Source], Lines | None] = not_by_line
    """A reader of the lines of a file; None where this file, or any of this format, is not read line by line."""
    program: str = ""
    """The agent program that writes it, as people call it; empty for formats of gateways, libraries and our own."""


class ProgramRemarks:
    """Adds to the records of a file which program held each of its sessions, before the session's first call."""

    def __init__(self, program: str = "", sessions: Iterable[str] = ()) -> None:
        """`sessions` are those whose program was remarked before."""
        self.program = program
        """Its name; empty for none, and then nothing is added."""
        self.sessions = set(sessions)
        """Sessions whose program was remarked."""

    def added(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records with the remarks among them."""
        for record in records:
            if self.program and isinstance(record, ModelCall) and record.session not in self.sessions:
                self.sessions.add(record.session)
                yield Remark("program", record.session, self.program)
            yield record


def by_line(start: Callable[[Source], Lines]) -> Callable[[Source], Iterator[Record]]:
    """The `read` of a format whose reader is given line after line."""

    def read(source: Source) -> Iterator[Record]:
        """The calls of a file in its order."""
        lines = start(source)
        hear = lines.hear
        for number, line in source.raw_lines():
            records = hear(number, line)
            if records:  # of most lines there are none
                yield from records
        yield from lines.waiting()
        lines.finish()

    return read


def first_line(head: bytes) -> bytes:
    """The first line of what a file starts with.

    >>> first_line(b'{"a":1}\\n{"b":2}')
    b'{"a":1}'
    """
    return head.lstrip().split(b"\n", 1)[0]


def has_names(start: bytes, *sets: str) -> bool:
    """Return whether all names of one of the sets, with blanks between them, stand in quotes in what a file starts with.

    >>> has_names(b'{"id":1,"type":2}', "id kind", "type id"), has_names(b'{"id":1}', "type id")
    (True, False)
    """
    return any(all(b'"%b"' % name.encode() in start for name in names.split()) for names in sets)


def has_columns(start: bytes, *sets: str) -> bool:
    """Return whether a file that starts like this is a table with all columns of one of the sets."""
    line = first_line(start)
    return line[:1] not in (b"{", b"[") and any(all(name.encode() in line for name in names.split()) for names in sets)
