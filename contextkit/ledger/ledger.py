"""The trace of everything that was sent: one line an exchange, in memory or in a file that only grows.

Takes exchanges, gives them back in the order they were recorded, and with them the prompts that a cache saw. Holds
digests, sizes and bills; headers and keys never, and text only where a recorder was asked for whole bodies. Knows
nothing of why a call missed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from contextkit.cache.prompt import Prompt
from contextkit.canonical import parse
from contextkit.errors import LogCorrupt, NotSerialisable, StorageError, UnreadableLog, UsageError
from contextkit.ledger.exchange import Exchange, Outline, Remark, Tokens
from contextkit.ledger.file import LedgerFile
from contextkit.ledger.outlines import prompts_of
from contextkit.ledger.row import Record, decode, encode
from contextkit.log.jsonl.line import is_unfinished
from contextkit.log.storage import folder_at
from contextkit.terminal import sanitize

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

        Raises `UnreadableLog` where the file is not a ledger, `LogCorrupt` where one of its lines is not an exchange,
        `StorageError` where the system lets nobody read or write there.
        """
        self._rows: dict[type, list[Any]] = {Exchange: [], Remark: []}
        self._file: LedgerFile | None = None
        self._lock = Lock()
        self.path = None if path is None else folder_at(path)
        """Where it is kept, None in memory."""
        self.torn: bytes | None = None
        """What a crash left of a last line, None where every line is whole."""
        if self.path is not None:
            with _told(self.path):
                self._file = LedgerFile(self.path, HEADER)
                try:
                    self._continue(self._file)
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
    def read(cls, path: str | os.PathLike[str], on_corrupt: Callable[[LogCorrupt], object] | None = None) -> Ledger:
        """The exchanges at `path`, in memory: the file is not touched, and what is appended does not reach it.

        A damaged row raises `LogCorrupt`, or, with `on_corrupt`, is left out: `on_corrupt` is called with the error,
        which names file and line. The prompts of rows that continue a row left out are unknown then.
        """
        ledger = cls()
        path = folder_at(path)
        with _told(path):
            data = path.read_bytes()
        ledger.torn = data[ledger._load(data, str(path), on_corrupt) :] or None
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
            self._rows[type(record)].append(record)

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
                self._rows[type(record)].append(record)
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
def _told(path: Path) -> Iterator[None]:
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
