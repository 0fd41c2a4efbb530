"""The file of a ledger: lines are appended to it, whole or not at all, by one process for each object and by as many as
open it.

Takes lines that are encoded already; knows nothing of what they say. Each append is made under a lock of the operating
system, so that the line of one process never stands inside that of another, and what a failed one left is taken away
before anything follows it.

The trace of everything that was sent: one line an exchange, in memory or in a file that only grows.

Takes exchanges, gives them back in the order they were recorded, and with them the prompts that a cache saw. Holds
digests, sizes and bills; headers and keys never, and text only where a recorder was asked for whole bodies. Knows
nothing of why a call missed.

Writes exchanges into a ledger, each prompt as its difference to the one before it in the same lane.

Takes an exchange and the prompt that was sent, gives the row that was recorded. Keeps digests of each lane, so that the
caller's arrays may go on growing, or be rewound. Knows nothing of providers or bodies.
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
from typing import Self

from contextkit.cache.prompt import Prompt
from contextkit.canonical import parse
from contextkit.errors import LogCorrupt, LogLocked, NotSerialisable, StorageError, UnreadableLog, UsageError
from contextkit.ledger.calls import Exchange, Outline, Record, Remark, Tokens, decode, encode
from contextkit.ledger.prompts import Lane, outline, prompts_of
from contextkit.log.sqlite import CallLines, SQLiteStorage
from contextkit.log.storage import JSONLStorage, Storage, folder_at, is_same_file, is_unfinished
from contextkit.private_files import open_private
from contextkit.terminal import sanitize

if sys.platform != "win32":
    import fcntl


class LedgerFile:
    """A ledger's file, open for more; made where it is not there yet. Raises `OSError` where it cannot be."""

    __slots__ = ("_descriptor", "_header", "_pid", "path")

    def __init__(self, path: Path, header: bytes) -> None:
        """`header`: the first line."""
        self.path = path
        """Where it is."""
        self._header, self._pid = header, os.getpid()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor: int | None = open_private(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def __del__(self) -> None:
        self.close()

    def append(self, line: bytes) -> None:
        """Hand one line to the operating system; the disk is not waited for.

        Raises `OSError` when the disk is full or fails, and nothing of the line is left then. Raises `LogLocked` in
        another process than the one that opened it, `StorageError` where the file was replaced or deleted: nothing is
        written then.
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
            self.drop_tail(self._end_of_lines())
            self.write(line)

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

    def write(self, line: bytes) -> None:
        """Append `line`, behind the header where the file is empty; inside `alone`."""
        descriptor = self._open()
        end = os.fstat(descriptor).st_size
        rest = memoryview(line if end else self._header + line)
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

    def drop_tail(self, good: int) -> bytes:
        """Move what stands behind the first `good` bytes to `<file>.torn`, there first, so that nothing is lost.

        Inside `alone`.
        """
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
VERSION = 1
"""Of the file format; stands in the first line."""
HEADER = b'{"contextkit_ledger":%d}\n' % VERSION


class Ledger:
    """Exchanges in the order they were recorded.

    >>> ledger = Ledger()
    >>> len(ledger)
    0
    """

    __slots__ = ("_file", "_lock", "exchanges", "path", "remarks", "torn")

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """An empty ledger in memory, or the one at `path`, made if it is not there.

        Raises `UnreadableLog` where the file is not a ledger, `LogCorrupt` where one of its lines is not an exchange,
        `StorageError` where the system lets nobody read or write there.
        """
        self.exchanges: list[Exchange] = []
        """All of them, to read; `append` adds to them."""
        self.remarks: list[Remark] = []
        """Remarks about them, to read."""
        self._file: LedgerFile | CallLines | None = None
        self._lock = Lock()
        self.path = None if path is None else folder_at(path)
        """Where it is kept, None in memory."""
        self.torn: bytes | None = None
        """What a crash left of a last line, None where every line is whole."""
        if self.path is not None:
            with _as_storage_error(self.path):
                self._file = file = LedgerFile(self.path, HEADER)
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
        """The exchanges at `path`, in memory: the file is not touched, and what is appended does not reach it.

        A damaged row raises `LogCorrupt`, or, with `on_corrupt`, is left out: `on_corrupt` is called with the error,
        which names file and line. The prompts of rows that continue a row left out are unknown then.
        """
        ledger = cls()
        path = folder_at(path)
        with _as_storage_error(path):
            data = path.read_bytes()
        ledger.torn = data[ledger._load(data, str(path), on_corrupt) :] or None
        return ledger

    @property
    def records(self) -> Iterator[Record]:
        """Remarks first, then the exchanges: who reads in one go knows what was said of a call before it comes."""
        yield from self.remarks
        yield from self.exchanges

    def __len__(self) -> int:
        return len(self.exchanges)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self.exchanges)

    def __getitem__(self, index: int) -> Exchange:
        return self.exchanges[index]

    def _add(self, record: Record) -> None:
        if isinstance(record, Remark):
            self.remarks.append(record)
        else:
            self.exchanges.append(record)

    def append(self, exchange: Exchange) -> None:
        """Record one exchange: one write of one line, handed to the operating system, not forced to disk.

        Raises `OSError` when the disk is full or fails; the file is then cut back to its last whole line. Raises
        `LogLocked` in a process forked from the one that opened it, `StorageError` where the file was deleted or
        replaced.
        """
        if not isinstance(exchange, Exchange):
            raise UsageError(f"a ledger keeps exchanges, not {type(exchange).__name__}")
        self._append(exchange)

    def remark(self, remark: Remark) -> None:
        """Record one remark, as `append` does."""
        self._append(remark)

    def _append(self, record: Record) -> None:
        line = encode(record) + b"\n" if self._file else b""
        with self._lock:
            if self._file:
                self._file.append(line)
            self._add(record)

    def prompts(self) -> Iterator[tuple[Exchange, Prompt | None]]:
        """Each exchange with the prompt a cache saw, rebuilt from the differences; None where no outline was recorded.

        A prompt borrows the arrays of its lane: it is good until the iterator moves on. Copy what must stay. Costs what
        each exchange added. Raises `LogCorrupt` where an outline keeps segments that its lane does not have.
        """
        return prompts_of(self.exchanges)

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
            good = self._load(file.path.read_bytes(), str(file.path), None)
            self.torn = file.drop_tail(good) or None
            if not good:
                file.write(b"")
        if self.torn:
            text = f"{file.path} ended in an unfinished line: {len(self.torn)} bytes set aside in {file.path}.torn"
            warnings.warn(sanitize(f"{text}, every line before it is whole"), stacklevel=4)

    def _load(self, data: bytes, name: str, on_corrupt: Callable[[LogCorrupt], object] | None) -> int:
        """Read all whole lines; gives how many bytes they take."""
        lines = data.split(b"\n")
        tail = lines.pop()
        if not lines and HEADER.startswith(data.partition(b"\0\0")[0]):
            return 0  # a crash while the file was made: nothing had been recorded
        if not tail and len(lines) > 1 and b"\0\0" in lines[-1]:
            tail = lines.pop() + b"\n"
        check_header(lines[0] if lines else b"", name)
        rows = Rows(name, on_corrupt)
        for number, line in enumerate(lines[1:], 2):
            if (record := rows.read(number, line)) is not None:
                self._add(record)
        rows.check_tail(len(lines) + 1, tail)
        return len(data) - len(tail)


class Rows:
    """Reads the lines behind a header: damaged ones raise `LogCorrupt`, naming file and line, or are left out and
    reported.

    A prompt is written as the difference to the row before it in its lane. Behind a row left out, a prompt that
    continues another without saying which is unknown.
    """

    __slots__ = ("_name", "_on_corrupt", "_sure")

    def __init__(self, name: str, on_corrupt: Callable[[LogCorrupt], object] | None = None) -> None:
        self._name, self._on_corrupt = name, on_corrupt
        self._sure: set[tuple[str, str]] | None = None
        """Lanes that began anew behind the last row left out; None where none was."""

    def read(self, number: int, line: bytes) -> Record | None:
        """The row of a line; None for one that was left out."""
        try:
            record = decode(line)
        except LogCorrupt as error:
            self._refuse(number, str(error))
            self._sure = set()
            return None
        return record if self._sure is None else self._without_unsure_prompt(record, self._sure)

    def check_tail(self, number: int, tail: bytes) -> None:
        """Refuse what stands behind the last whole line and is not what an interrupted append leaves."""
        if tail and (not is_unfinished(tail, _STARTS) or _is_row(tail[:-1])):
            self._refuse(number, "not an exchange, and not the beginning of one")

    def _refuse(self, number: int, what: str) -> None:
        what_now = (
            "restore the file from a copy, or move it away to begin a new one; "
            f"`contextkit report {self._name}` counts its other rows"
        )
        error = LogCorrupt(f"{self._name} line {number}: {what}; {what_now}")
        if self._on_corrupt is None:
            raise error from None
        self._on_corrupt(error)

    @staticmethod
    def _without_unsure_prompt(record: Record, sure: set[tuple[str, str]]) -> Record:
        if not isinstance(record, Exchange) or not isinstance(record.prompt, Outline | Tokens):
            return record
        prompt, lane = record.prompt, (record.session, record.lane)
        if not prompt.keep:
            sure.add(lane)
        is_checked = isinstance(prompt, Outline) and bool(prompt.base)
        return record if lane in sure or is_checked else replace(record, prompt=None)


_STARTS = (b'{"id":', b'{"remark":')


def _is_row(line: bytes) -> bool:
    try:
        decode(line)
    except LogCorrupt:
        return False
    return True


@contextmanager
def _as_storage_error(path: Path) -> Iterator[None]:
    """What the system refuses, in our words."""
    try:
        yield
    except OSError as fault:
        raise StorageError(
            f"{path} cannot be opened ({fault.strerror or fault}): name a ledger you may read and write"
        ) from fault


def check_header(line: bytes, name: str) -> None:
    """Raises `UnreadableLog` for what is not the first line of a ledger this contextkit reads."""
    try:
        header = parse(line)
    except NotSerialisable:
        header = None
    version = header.get("contextkit_ledger") if isinstance(header, dict) else None
    if version is None:
        raise UnreadableLog(f'{name} line 1: not a ledger, which starts with {{"contextkit_ledger":{VERSION}}}')
    if version != VERSION:
        raise UnreadableLog(
            f"{name} line 1: ledger format {version}, this contextkit reads {VERSION}: upgrade contextkit"
        )


class Recorder:
    """The one hand that writes prompts into a ledger; a ledger that was written before is continued."""

    __slots__ = ("_lanes", "_lock", "ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        """Where rows go."""
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._lock = Lock()
        for exchange in ledger:
            self._follow(exchange)

    def record(
        self, exchange: Exchange, prompt: Prompt | None = None, entries: Sequence[int] = (), epoch: int = 0
    ) -> Exchange:
        """Append `exchange`, its prompt replaced by the outline of `prompt` where one is given.

        `entries` holds the log sequence of each segment of `prompt`; `epoch` counts the declared breaks before it.
        """
        with self._lock:
            if prompt is not None:
                lane = self._lanes.get((exchange.session, exchange.lane))
                exchange = replace(exchange, prompt=outline(lane.prompt if lane else None, prompt, entries, epoch))
            self.ledger.append(exchange)
            self._follow(exchange)
            return exchange

    def _follow(self, exchange: Exchange) -> None:
        if isinstance(exchange.prompt, Outline):
            self._lanes.setdefault((exchange.session, exchange.lane), Lane()).grow(exchange.prompt, exchange.id)
