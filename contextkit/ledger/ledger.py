"""The trace of everything that was sent: one line an exchange, in memory or in a file that only grows.

Takes exchanges, gives them back in the order they were recorded, and with them the prompts that a cache saw. Holds digests, sizes
and bills; headers and keys never, and text only where a recorder was asked for whole bodies. Knows nothing of why a call missed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from contextkit.cache.prompt import Prompt
from contextkit.canonical import parse
from contextkit.errors import LogCorrupt, NotSerialisable, StorageError, UnreadableLog, UsageError
from contextkit.ledger.exchange import Exchange, Remark
from contextkit.ledger.outlines import prompts_of
from contextkit.ledger.row import Record, decode, encode
from contextkit.log.storage import folder_at

VERSION = 1
"""Of the file format; stands in the first line."""
HEADER = b'{"contextkit_ledger":%d}\n' % VERSION


class Ledger:
    """Exchanges in the order they were recorded.

    >>> ledger = Ledger()
    >>> len(ledger)
    0
    """

    __slots__ = ("_file", "_lock", "_rows", "path", "torn")

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """An empty ledger in memory, or the one at `path`, made if it is not there.

        Raises `UnreadableLog` where the file is not a ledger, `LogCorrupt` where one of its lines is not an exchange, `StorageError` where
        the system lets nobody read or write there.
        """
        self._rows: dict[type, list[Any]] = {Exchange: [], Remark: []}
        self._file: FileIO | None = None
        self._lock = Lock()
        self.path = None if path is None else folder_at(path)
        """Where it is kept, None in memory."""
        self.torn: bytes | None = None
        """What a crash left of a last line, None where every line is whole."""
        if self.path is not None:
            with _told(self.path):
                self._file = self._continue(self.path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger at `path`, to be read and appended to; an unfinished last line is moved to `<file>.torn`, with a warning."""
        return cls(path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Ledger:
        """The exchanges at `path`, in memory: the file is not touched, and what is appended does not reach it."""
        ledger = cls()
        path = folder_at(path)
        with _told(path):
            ledger.torn = path.read_bytes()[ledger._load(path) :] or None
        return ledger

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """All of them; a view that grows with the ledger."""
        return self._rows[Exchange]

    @property
    def remarks(self) -> Sequence[Remark]:
        """What was said about them; a view that grows with the ledger."""
        return self._rows[Remark]

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

    def append(self, exchange: Exchange) -> None:
        """Record one exchange: one write of one line, handed to the operating system, not forced to disk.

        Raises `OSError` when the disk is full or fails; the file is then cut back to its last whole line.
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
                _write(self._file, line)
            self._rows[type(record)].append(record)

    def prompts(self) -> Iterator[tuple[Exchange, Prompt | None]]:
        """Each exchange with the prompt a cache saw, rebuilt from the differences; None where no outline was recorded.

        A prompt borrows the arrays of its lane: it is good until the iterator moves on. Copy what must stay. Costs what each
        exchange added. Raises `LogCorrupt` where an outline keeps segments that its lane does not have.
        """
        return prompts_of(self.exchanges)

    def close(self) -> None:
        """Give the file back; what is in memory stays readable."""
        if self._file:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _continue(self, path: Path) -> FileIO:
        path.parent.mkdir(parents=True, exist_ok=True)
        good = self._load(path) if path.exists() else 0
        file = FileIO(path, "ab")
        try:
            self._set_aside(file, good, path)
            if not good:
                _write(file, HEADER)
        except BaseException:
            file.close()
            raise
        return file

    def _set_aside(self, file: FileIO, good: int, path: Path) -> None:
        """Move what follows the last whole line to `<file>.torn`, there first, so that the next line starts clean and nothing is lost."""
        tail = path.read_bytes()[good:]
        if not tail:
            return
        aside = path.with_name(f"{path.name}.torn")
        with aside.open("ab") as beside:
            beside.write(tail)
        file.truncate(good)
        self.torn = tail
        text = f"{path} ended in an unfinished line: {len(tail)} bytes set aside in {aside}, every line before it is whole"
        warnings.warn(text, stacklevel=4)

    def _load(self, path: Path) -> int:
        """Read all whole lines; gives how many bytes they take."""
        data = path.read_bytes()
        good = data.rfind(b"\n") + 1
        lines = data[:good].split(b"\n")[:-1]
        if not lines and HEADER.startswith(data):
            return 0  # a crash while the file was made: nothing had been recorded
        check_header(lines[0] if lines else b"", str(path))
        for record in records_of(enumerate(lines[1:], 2), str(path)):
            self._rows[type(record)].append(record)
        return good


def records_of(lines: Iterable[tuple[int, bytes]], name: str) -> Iterator[Record]:
    """The rows on the numbered lines behind a header, one by one; raises `LogCorrupt` with file and line."""
    for number, line in lines:
        try:
            yield decode(line)
        except LogCorrupt as error:
            raise LogCorrupt(f"{name} line {number}: {error}; restore the line or cut the file before it") from None


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the system refuses, in our words."""
    try:
        yield
    except OSError as fault:
        raise StorageError(f"{path} cannot be opened ({fault.strerror or fault}): name a ledger you may read and write") from fault


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
        raise UnreadableLog(f"{name} line 1: ledger format {version}, this contextkit reads {VERSION}: upgrade contextkit")


def _write(file: FileIO, line: bytes) -> None:
    """One write, more only where the system took a part; a failure leaves nothing of the line."""
    end = file.seek(0, os.SEEK_END)
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except BaseException:
        file.truncate(end)
        raise
