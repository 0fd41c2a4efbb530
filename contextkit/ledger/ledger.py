"""The ledger: every model call that was sent, in the order it was recorded, in memory or in a file that only grows.

A row is written whole or not at all. Each append holds a lock of the operating system, so several processes may record
into one file; each row names the one before it, so a missing, doubled or moved row is noticed. A row keeps a prompt as
the difference to the row before it of the same lane: digests and sizes, and text only where a recorder was asked for
whole bodies. Headers and keys are never recorded.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from contextkit.cache.prompt import Prompt
from contextkit.canonical import parse
from contextkit.errors import (
    LogCorrupt,
    LogLocked,
    NewerFormat,
    NotSerialisable,
    StorageError,
    UnreadableLog,
    UsageError,
)
from contextkit.ledger.calls import (
    GENESIS,
    HEADER,
    PLACE_BYTES,
    VERSION,
    Chain,
    ModelCall,
    Outline,
    Record,
    Remark,
    Tokens,
    decode,
    encode,
    has_sum,
    place_of,
)
from contextkit.ledger.prompts import Lane, outline, prompts_of
from contextkit.log.storage import JSONLStorage, Storage, folder_at, is_same_file, is_unfinished
from contextkit.private_files import open_private
from contextkit.sequence_view import SequenceView
from contextkit.terminal import sanitize

if TYPE_CHECKING:
    from contextkit.log.sqlite import CallLines

if sys.platform != "win32":
    import fcntl


class LedgerFile:
    """A ledger's file, open for more; made where it is not there yet. Raises `OSError` where it cannot be."""

    __slots__ = ("_descriptor", "_end", "_pid", "_size", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        """Where it is."""
        self._pid = os.getpid()
        self._size, self._end = -1, Chain()
        """Bytes of the file as this process last saw it, and the end of the ledger there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor: int | None = open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def __del__(self) -> None:
        self.close()

    def begin(self, good: int | None = None) -> bytes:
        """Make the file ready for more, inside `alone`: give it its first line, and move what follows the first `good`
        bytes to `<file>.torn`. That is returned. None: what follows the last whole line.

        A first line of an older version is changed to this one's, so that an older contextkit says that it cannot read
        what comes. Raises `UnreadableLog` for what is no ledger.
        """
        good = self._end_of_lines() if good is None else good
        first = self._bytes(0, len(HEADER))
        if good or not _begins_header(first):
            check_header(first.partition(b"\n")[0], str(self.path))
        tail = self._drop_tail(good)
        if not good:
            self._write(HEADER)
        elif first != HEADER and len(first.partition(b"\n")[0]) + 1 == len(HEADER):
            self._raise_version()
        return tail

    def append(self, *rows: bytes) -> None:
        """Hand rows that `encode` gave to the operating system, in one write; the disk is not waited for.

        Raises `OSError` when the disk is full or fails, and nothing of the rows is left then. Raises `LogLocked` in
        another process than the one that opened it, `StorageError` where the file was replaced, deleted or cut: nothing
        is written then.
        """
        if os.getpid() != self._pid:
            raise LogLocked(
                f"{self.path} was opened by process {self._pid}, and this is process {os.getpid()}, forked from it: record in the process "
                "that opened it, or open the ledger again here"
            )
        if not is_same_file(self._open(), self.path):
            raise StorageError(
                f"{self.path} was deleted, moved or replaced while it was open: nothing was recorded; put it back where it was, "
                "or open the ledger again"
            )
        with self.alone():
            lines, end = self._last_row().add(*rows)
            self._write(lines)
            self._size, self._end = self._size + len(lines), end

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Other processes that append to the file wait until the block ends.

        Windows has no such lock: there one process may write.
        """
        if sys.platform != "win32":
            descriptor = self._open()
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
        else:
            yield

    def _last_row(self) -> Chain:
        """The end of the ledger, read from the file where it has grown since this process appended."""
        size = os.fstat(self._open()).st_size
        if size < self._size:
            raise StorageError(
                f"{self.path} has {size:,} bytes and had {self._size:,}: rows were cut off while it was open; nothing was recorded, "
                "restore it from a copy, or open the ledger again"
            )
        if size > self._size:
            self._drop_tail(self._end_of_lines())
            self._size = os.fstat(self._open()).st_size
            place = place_of(self._bytes(max(0, self._size - PLACE_BYTES), self._size))
            self._end = self._counted() if place is None else Chain(place.sequence + 1, place.sum)
        return self._end

    def _counted(self) -> Chain:
        """The end of a ledger whose last row has no place: an older version wrote it."""
        n, last = -1, GENESIS
        with self.path.open("rb") as file:
            for line in file:
                n, place = n + 1, place_of(line)
                last = last if place is None else place.sum
        return Chain(n, last)

    def _raise_version(self) -> None:
        """Change the digit in the first line; in a file that is open for appending, writes go to its end only."""
        descriptor = open_private(self.path, os.O_WRONLY)
        try:
            os.write(descriptor, HEADER)
        finally:
            os.close(descriptor)

    def _write(self, lines: bytes) -> None:
        """Append `lines`, or nothing of them; inside `alone`."""
        descriptor = self._open()
        end = os.fstat(descriptor).st_size
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except BaseException as failure:
            try:
                os.ftruncate(descriptor, end)
            except OSError as error:
                failure.add_note(
                    f"{self.path} could not be cut back to its last whole line either ({error}); the next append tries again"
                )
            raise

    def _drop_tail(self, good: int) -> bytes:
        """Move what stands behind the first `good` bytes to `<file>.torn`, there first, so that nothing is lost."""
        descriptor = self._open()
        size = os.fstat(descriptor).st_size
        if size <= good:
            return b""
        tail = self._bytes(good, size)
        aside = open_private(f"{self.path}.torn", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            rest = memoryview(tail)
            while rest:
                rest = rest[os.write(aside, rest) :]
        finally:
            os.close(aside)
        os.ftruncate(descriptor, good)
        return tail

    def close(self) -> None:
        """Give the file back; a second call does nothing."""
        descriptor, self._descriptor = getattr(self, "_descriptor", None), None
        if descriptor is not None:
            os.close(descriptor)

    def _end_of_lines(self) -> int:
        """Up to the end of the last whole line."""
        end = os.fstat(self._open()).st_size
        step = 1
        while end:
            start = max(0, end - step)
            at = self._bytes(start, end).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end, step = start, 1 << 16
        return 0

    def _bytes(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`; reading moves no append, which goes to the end whatever was read."""
        descriptor, content = self._open(), bytearray()
        os.lseek(descriptor, start, os.SEEK_SET)
        while len(content) < end - start and (piece := os.read(descriptor, end - start - len(content))):
            content += piece
        return bytes(content)

    def _open(self) -> int:
        if self._descriptor is None:
            raise StorageError(f"{self.path} is closed: open the ledger again to record")
        return self._descriptor


LEDGER_NAME = "ledger.jsonl"
"""Name of the ledger in the folder of its log."""


class Ledger:
    """Calls in the order they were recorded.

    >>> ledger = Ledger()
    >>> len(ledger)
    0
    """

    __slots__ = ("_calls", "_end", "_file", "_lock", "_remarks", "path", "torn")

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """An empty ledger in memory, or the one at `path`, made if it is not there.

        Raises `UnreadableLog` where the file is not a ledger, `LogCorrupt` where one of its lines is not a call,
        `StorageError` where the system lets nobody read or write there.
        """
        self._calls: list[ModelCall] = []
        self._remarks: list[Remark] = []
        self._end = Chain()
        self._file: LedgerFile | CallLines | None = None
        self._lock = Lock()
        self.path = None if path is None else folder_at(path)
        """Where it is kept, None in memory."""
        self.torn: bytes | None = None
        """What a crash left of a last line, None where every line is whole."""
        if self.path is not None:
            with as_storage_error(self.path):
                self._file = file = LedgerFile(self.path)
                try:
                    self._continue(file)
                except BaseException:
                    self.close()
                    raise

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger at `path`, to be read and appended to.

        An unfinished last line is moved to `<file>.torn`, with a warning.
        """
        return cls(path)

    @classmethod
    def beside(cls, storage: Storage) -> Ledger:
        """The ledger that is kept beside a log: in its folder, or in its SQLite file; in memory beside any other."""
        if isinstance(storage, JSONLStorage) and storage.path is not None:
            return cls.open(storage.path.parent / LEDGER_NAME)
        from contextkit.log.sqlite import CallLines, SQLiteStorage

        ledger = cls()
        if isinstance(storage, SQLiteStorage):
            lines = CallLines(storage.file, storage.session)
            try:
                data = HEADER + b"".join(lines.lines())
                ledger._load(data, f"{storage.file}, session {storage.session!r}: the ledger", None)
            except BaseException:
                lines.close()
                raise
            ledger._file = lines
        return ledger

    @classmethod
    def read(cls, path: str | os.PathLike[str], on_corrupt: Callable[[LogCorrupt], object] | None = None) -> Ledger:
        """The calls at `path`, in memory: the file is not touched, and what is appended does not reach it.

        A damaged row raises `LogCorrupt`, or, with `on_corrupt`, is left out: `on_corrupt` is called with the error,
        which names file and line. So it is of a row that stands there twice. Before which rows are missing, and what
        stands in another place than it was written in, is told likewise, and counted. The prompts of rows that continue
        a row that is missing are unknown then.
        """
        ledger = cls()
        path = folder_at(path)
        with as_storage_error(path):
            data = path.read_bytes()
        ledger.torn = data[ledger._load(data, str(path), on_corrupt) :] or None
        return ledger

    @property
    def calls(self) -> Sequence[ModelCall]:
        """All of them, to read; `append` adds to them."""
        return SequenceView(self._calls)

    @property
    def remarks(self) -> Sequence[Remark]:
        """Remarks about them, to read."""
        return SequenceView(self._remarks)

    @property
    def records(self) -> Iterator[Record]:
        """Remarks first, then the calls: who reads in one go knows what was said of a call before it comes."""
        yield from self._remarks
        yield from self._calls

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[ModelCall]:
        return iter(self._calls)

    def __getitem__(self, index: int) -> ModelCall:
        return self._calls[index]

    def _add(self, record: Record) -> None:
        if isinstance(record, Remark):
            self._remarks.append(record)
        else:
            self._calls.append(record)

    def append(self, call: ModelCall) -> None:
        """Record one call: one write of one line, handed to the operating system, not forced to disk.

        Raises `OSError` when the disk is full or fails; the file is then cut back to its last whole line. Raises
        `LogLocked` in a process forked from the one that opened it, `StorageError` where the file was deleted or
        replaced.
        """
        if not isinstance(call, ModelCall):
            raise UsageError(f"a ledger keeps calls, not {type(call).__name__}")
        self._append(call)

    def remark(self, remark: Remark) -> None:
        """Record one remark, as `append` does."""
        self._append(remark)

    def _append(self, record: Record) -> None:
        row = encode(record) if self._file else b""
        with self._lock:
            if isinstance(self._file, LedgerFile):
                self._file.append(row)
            elif self._file:
                line, end = self._end.add(row)
                self._file.append(line)
                self._end = end
            self._add(record)

    def prompts(self) -> Iterator[tuple[ModelCall, Prompt | None]]:
        """Each call with the prompt a cache saw, rebuilt from the differences; None where no outline was recorded.

        A prompt borrows the arrays of its lane: it is good until the iterator moves on. Copy what must stay. Costs what
        each call added. Raises `LogCorrupt` where an outline keeps segments that its lane does not have.
        """
        return prompts_of(self._calls)

    def close(self) -> None:
        """Give the file back; what is in memory stays readable."""
        if self._file:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _continue(self, file: LedgerFile) -> None:
        """Read what is there, and set aside what a crash left of a last line, so that the next line starts clean and
        nothing is lost.
        """
        with file.alone():
            self.torn = file.begin(self._load(file.path.read_bytes(), str(file.path), None)) or None
        if self.torn:
            text = f"{file.path} ended in an unfinished line: {len(self.torn)} bytes set aside in {file.path}.torn"
            warnings.warn(sanitize(f"{text}, every line before it is whole"), stacklevel=4)

    def _load(self, data: bytes, name: str, on_corrupt: Callable[[LogCorrupt], object] | None) -> int:
        """Read all whole lines; gives how many bytes they take."""
        lines = data.split(b"\n")
        tail = lines.pop()
        if not lines and _begins_header(data):
            return 0  # a crash while the file was made: nothing had been recorded
        if not tail and len(lines) > 1 and b"\0\0" in lines[-1]:
            tail = lines.pop() + b"\n"
        check_header(lines[0] if lines else b"", name)
        rows = Rows(name, None if on_corrupt is None else lambda number, error, what: on_corrupt(error))
        for number, line in enumerate(lines[1:], 2):
            if (record := rows.read(number, line)) is not None:
                self._add(record)
        rows.check_tail(len(lines) + 1, tail)
        self._end = rows.end
        return len(data) - len(tail)


class Rows:
    """Reads the lines behind a header, and checks that each row stands where it was written. What is wrong raises
    `LogCorrupt`, naming file and line, or is reported.

    A prompt is written as the difference to the row before it in its lane. Behind a fault, a prompt that continues
    another without saying which is unknown.
    """

    __slots__ = ("_gaps", "_n_unread", "_name", "_on_fault", "_sure", "end")

    def __init__(self, name: str, on_fault: Callable[[int, LogCorrupt, str], object] | None = None) -> None:
        """`on_fault` is called with the number of a line, the error, and in a few words what is wrong, empty where the
        line cannot be read; None raises the error instead.
        """
        self._name, self._on_fault = name, on_fault
        self.end = Chain()
        """Behind the rows read so far."""
        self._n_unread = 0
        """Lines behind that end that could not be read."""
        self._gaps: list[range] = []
        """Rows before that end that were not met."""
        self._sure: set[tuple[str, str]] | None = None
        """Lanes that began anew behind the last fault; None where none was."""

    def read(self, number: int, line: bytes) -> Record | None:
        """The row of a line; None for one that is left out."""
        try:
            record = decode(line)
        except LogCorrupt as error:
            self._n_unread += 1
            self._refuse(number, str(error), type(error), is_unread=type(error) is LogCorrupt)
            return None
        if not self._is_new(number, line):
            return None
        return record if self._sure is None else self._without_unsure_prompt(record, self._sure)

    def check_tail(self, number: int, tail: bytes) -> None:
        """Refuse what stands behind the last whole line and is not what an interrupted append leaves."""
        if tail and (not is_unfinished(tail, _STARTS) or _is_row(tail[:-1])):
            self._refuse(number, "not a call, and not the beginning of one", is_unread=True)

    def _is_new(self, number: int, line: bytes) -> bool:
        """Return whether a row is to be counted: one that stands in the file twice is not. Faults of its place are reported."""
        place, end = place_of(line), self.end
        if place is None:
            is_older = end.sum == GENESIS or has_sum(line)
            if not is_older:
                self._refuse(number, "its place among the rows was taken out")
            self.end = Chain(end.n + 1, end.sum)
            return is_older
        is_next, n_missing = place.prev == end.sum, place.sequence - end.n - self._n_unread
        if place.sequence < end.n and not is_next:
            gap = next((gap for gap in self._gaps if place.sequence in gap), None)
            if gap is None:
                self._refuse(number, "it is a copy of a row before it")
                return False
            self._gaps.remove(gap)
            self._gaps += [range(gap.start, place.sequence), range(place.sequence + 1, gap.stop)]
            self._refuse(number, "rows that were written after it stand before it")
            return True
        if n_missing > 0:
            what = f"{n_missing} row{'s' * (n_missing > 1)} before it {'are' if n_missing > 1 else 'is'} missing"
        elif place.sequence < end.n:
            what = "more rows stand before it than when it was written"
        else:
            what = "" if is_next or place.sequence > end.n else "the row before it is another than when it was written"
        if what:
            self._refuse(number, what)
        if place.sequence > end.n:
            self._gaps.append(range(end.n, place.sequence))
        self.end, self._n_unread = Chain(place.sequence + 1, place.sum), 0
        return True

    def _refuse(self, number: int, what: str, kind: type[LogCorrupt] = LogCorrupt, *, is_unread: bool = False) -> None:
        self._sure = set()
        what_now = (
            "restore the file from a copy, or move it away to begin a new one; "
            f"`contextkit report {self._name}` counts its other rows"
        )
        error = kind(f"{self._name} line {number}: {what}" + ("" if kind is NewerFormat else f"; {what_now}"))
        if self._on_fault is None:
            raise error from None
        self._on_fault(number, error, "" if is_unread else what)

    @staticmethod
    def _without_unsure_prompt(record: Record, sure: set[tuple[str, str]]) -> Record:
        if not isinstance(record, ModelCall) or not isinstance(record.prompt, Outline | Tokens):
            return record
        prompt, lane = record.prompt, (record.session, record.lane)
        if not prompt.keep:
            sure.add(lane)
        is_checked = isinstance(prompt, Outline) and bool(prompt.base)
        return record if lane in sure or is_checked else replace(record, prompt=None)


_HEADER = HEADER.replace(b"%d" % VERSION, b"%d")
_STARTS = (b'{"id":', b'{"remark":')


def _is_row(line: bytes) -> bool:
    try:
        decode(line)
    except LogCorrupt:
        return False
    return True


@contextmanager
def as_storage_error(path: Path) -> Iterator[None]:
    """What the system refuses, in our words."""
    try:
        yield
    except OSError as fault:
        raise StorageError(
            f"{path} cannot be opened ({fault.strerror or fault}): name a ledger you may read and write"
        ) from fault


def _begins_header(data: bytes) -> bool:
    """Return whether a file without a whole line is what a crash left of a first line, of any version."""
    return any((_HEADER % version).startswith(data.partition(b"\0\0")[0]) for version in range(1, VERSION + 1))


def check_header(line: bytes, name: str) -> None:
    """Raises `UnreadableLog` for what is not the first line of a ledger this contextkit reads."""
    try:
        header = parse(line)
    except NotSerialisable:
        header = None
    version = header.get("contextkit_ledger") if isinstance(header, dict) else None
    if version is None:
        raise UnreadableLog(f'{name} line 1: not a ledger, which starts with {{"contextkit_ledger":{VERSION}}}')
    if version not in range(1, VERSION + 1):
        raise UnreadableLog(
            f"{name} line 1: ledger format {version}, this contextkit reads up to {VERSION}: upgrade contextkit"
        )


class Recorder:
    """The one hand that writes prompts into a ledger; a ledger that was written before is continued."""

    __slots__ = ("_lanes", "_lock", "ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        """Where rows go."""
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._lock = Lock()
        for call in ledger:
            self._follow(call)

    def record(
        self, call: ModelCall, prompt: Prompt | None = None, entries: Sequence[int] = (), epoch: int = 0
    ) -> ModelCall:
        """Append `call`, its prompt replaced by the outline of `prompt` where one is given.

        `entries` holds the log sequence of each segment of `prompt`; `epoch` counts the declared breaks before it.
        """
        with self._lock:
            if prompt is not None:
                lane = self._lanes.get((call.session, call.lane))
                call = replace(call, prompt=outline(lane.prompt if lane else None, prompt, entries, epoch))
            self.ledger.append(call)
            self._follow(call)
            return call

    def _follow(self, call: ModelCall) -> None:
        if isinstance(call.prompt, Outline):
            self._lanes.setdefault((call.session, call.lane), Lane()).grow(call.prompt, call.id)
