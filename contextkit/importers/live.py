"""Files that are being written, read on from where they were read to: a look costs what came since the one before.

Takes names, gives the records of the lines that are whole by now. A file is known again by its place on disk and by
what stands before where it was read to: one that was cut, replaced or turned over is said to be another one. What is
packed, or is no file of lines, is read as a whole, and is another one once it was written to. Knows no format.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from contextkit.errors import UnreadableLog
from contextkit.importers.format import Lines, ProgramRemarks
from contextkit.importers.registry import format_of, unknown
from contextkit.importers.source import HEAD, Faults, Source, is_packed, translated_errors
from contextkit.ledger.calls import Record

BEFORE = 256
"""Bytes at the front, and before the place that was read to, by which a file is known again."""
PIECE = 1 << 20
"""Bytes read at once."""
Status = tuple[int, int, int]
"""Place on disk, size, when it was written last."""


class LiveFile:
    """One file, and how far it was read."""

    def __init__(self, name: str, faults: Faults) -> None:
        self.name = name
        """As it was given."""
        self._source = Source(name, faults)
        self._reader: Lines | None = None
        self._status: Status | None = None
        self._offset, self._n_lines, self._before = 0, 0, (b"", b"")
        self._is_refused = False
        self._programs = ProgramRemarks()

    def is_another(self) -> bool:
        """Return whether what was read of it is no longer what stands there: it has gone, was cut, replaced, or written anew."""
        if self._status is None:
            return False
        now = _status(self.name)
        if now is None or now[0] != self._status[0] or now[1] < self._offset:
            return True
        if self._reader is None:
            return now != self._status
        return now != self._status and self._around(self._offset) != self._before

    def news(self) -> Iterator[Record]:
        """The records of the lines that have come since the last look."""
        return self._programs.added(self._news())

    def _news(self) -> Iterator[Record]:
        status = _status(self.name)
        if status is None or status == self._status or self._is_refused:
            return
        if self._reader is None and not (yield from self._started(status)):
            return
        self._status = status
        yield from self._lines()

    def waiting(self) -> Iterable[Record]:
        """What its reader holds back, as it stands; what is wrong with it is said once it is counted."""
        if self._reader is None:
            return ()
        faults, self._source.faults = self._source.faults, Faults()
        try:
            return list(ProgramRemarks(self._programs.program, self._programs.sessions).added(self._reader.waiting()))
        finally:
            self._source.faults = faults

    def rest(self) -> Iterator[Record]:
        """What is held back, and a last line without its end; to be asked once, when nothing more is to come."""
        return self._programs.added(self._rest())

    def _rest(self) -> Iterator[Record]:
        yield from self._news()
        if self._reader is None:
            if self._status is None and not self._is_refused and _status(self.name):
                yield from self._whole()
            return
        last = self._bytes(self._offset, -1)
        if last.strip():
            yield from self._parse_line(last)
        yield from self._reader.waiting()
        self._reader.finish()

    def _started(self, status: Status) -> Generator[Record, None, bool]:
        """Finds out what it is, once its first line is whole; gives whether there are lines to be read."""
        if status[1] < HEAD and b"\n" not in self._bytes(0, HEAD):
            return False
        self._source = Source(self.name, self._source.faults)
        try:
            known = format_of(self._source)
            self._reader = known.lines(self._source) if known and not is_packed(self.name) else None
        except UnreadableLog:
            return False  # nothing but blanks so far, or half of what was packed
        self._programs.program = known.program if known else ""
        if known is None and status[1] < HEAD:
            return False
        if self._reader is None:
            self._status = status
            yield from self._whole()
        return self._reader is not None

    def _whole(self) -> Iterator[Record]:
        try:
            source = Source(self.name, self._source.faults)
            known = format_of(source)
            if known is None:
                raise unknown(self.name)
            self._programs.program = known.program
            yield from known.read(source)
        except UnreadableLog as error:
            self._refuse(error)

    def _lines(self) -> Iterator[Record]:
        rest, at = b"", self._offset
        with translated_errors(self.name), Path(self.name).open("rb") as file:
            file.seek(at)
            while piece := file.read(PIECE):
                *whole, rest = (rest + piece).split(b"\n") if b"\n" in piece else [rest + piece]
                for line in whole:
                    self._offset += len(line) + 1
                    yield from self._parse_line(line + b"\n")
        self._before = self._around(self._offset)

    def _parse_line(self, line: bytes) -> Iterator[Record]:
        self._n_lines += 1
        if self._reader is not None and not self._is_refused and not line.isspace():
            try:
                yield from self._reader.hear(self._n_lines, line)
            except UnreadableLog as error:
                self._refuse(error)

    def _refuse(self, error: UnreadableLog) -> None:
        self._is_refused = True
        self._source.fault(0, str(error).removeprefix(f"{self.name} line 1: ").removeprefix(f"{self.name}: "))

    def _around(self, offset: int) -> tuple[bytes, bytes]:
        """How it begins, and what stands before a place in it."""
        n = min(BEFORE, offset)
        return self._bytes(0, n), self._bytes(offset - n, n)

    def _bytes(self, at: int, n: int) -> bytes:
        try:
            with Path(self.name).open("rb") as file:
                file.seek(at)
                return file.read(n)
        except FileNotFoundError:
            return b""  # gone meanwhile: the next look says so


class LiveFiles:
    """Several of them, that may become more."""

    def __init__(self) -> None:
        self.faults = Faults()
        """What is wrong with them."""
        self._files: dict[str, LiveFile] = {}

    def is_past(self, names: Iterable[str]) -> bool:
        """Return whether what was counted is to be forgotten, as a file it came from is another one now, or is none of
        `names`.
        """
        return not self._files.keys() <= set(names) or any(file.is_another() for file in self._files.values())

    def news(self, names: Iterable[str]) -> Iterator[Record]:
        """The records that have come since the last look, file by file."""
        for name in names:
            file = self._files.setdefault(name, LiveFile(name, self.faults))
            yield from file.news()

    def waiting(self) -> Iterator[Record]:
        """What readers hold back, as it stands."""
        return (record for file in self._files.values() for record in file.waiting())

    def rest(self) -> Iterator[Record]:
        """What readers hold back, to be counted; once, when nothing more is to come."""
        return (record for file in self._files.values() for record in file.rest())


class Sums(Protocol):
    """What adds up the records of files, and can be asked how it stands."""

    def add(self, records: Iterable[Record], /) -> None:
        """Add the next records."""

    def copied(self) -> Self:
        """Another one with the same sums, that goes on by itself."""


S = TypeVar("S", bound=Sums)


class GrowingSums(Generic[S]):
    """The sums of live files: only what has come is read, unless a file that was counted was cut, replaced or written
    anew.
    """

    def __init__(self, names: Callable[[], Iterable[str]], start: Callable[[], S]) -> None:
        """`names` gives the files of now, `start` makes empty sums."""
        self._names, self._new = names, start
        self._start()

    def _start(self) -> None:
        self._files, self._sums = LiveFiles(), self._new()

    @property
    def faults(self) -> Faults:
        """What is wrong with the files."""
        return self._files.faults

    def read(self) -> S:
        """Return the sums as they stand, with what readers hold back."""
        self._read()
        waiting = list(self._files.waiting())
        if not waiting:
            return self._sums
        ahead = self._sums.copied()
        ahead.add(waiting)
        return ahead

    def rest(self) -> S:
        """Return the sums of all of it, when nothing more is to come."""
        self._read()
        self._sums.add(self._files.rest())
        return self._sums

    def _read(self) -> None:
        names = list(self._names())
        if self._files.is_past(names):
            self._start()
        self._sums.add(self._files.news(names))


def _status(name: str) -> Status | None:
    try:
        status = Path(name).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
