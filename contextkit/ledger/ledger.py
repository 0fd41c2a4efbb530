"""The trace of everything that was sent: one line an exchange, in memory or in a file that only grows.

Takes exchanges, gives them back in the order they were recorded, and with them the prompts that a cache saw. Holds digests, sizes
and bills; headers and keys never, and text only where a recorder was asked for whole bodies. Knows nothing of why a call missed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from contextkit.cache.prompt import Prompt
from contextkit.canonical import parse
from contextkit.errors import LogCorrupt, NotSerialisable, StorageError, UnreadableLog, UsageError
from contextkit.ledger.exchange import Exchange, Outline
from contextkit.ledger.row import decode, encode
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

    __slots__ = ("_exchanges", "_file", "_lock", "path", "torn")

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """An empty ledger in memory, or the one at `path`, made if it is not there.

        Raises `UnreadableLog` where the file is not a ledger, `LogCorrupt` where one of its lines is not an exchange, `StorageError` where
        the system lets nobody read or write there.
        """
        self._exchanges: list[Exchange] = []
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
        return self._exchanges

    def __len__(self) -> int:
        return len(self._exchanges)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self._exchanges)

    def __getitem__(self, index: int) -> Exchange:
        return self._exchanges[index]

    def append(self, exchange: Exchange) -> None:
        """Record one exchange: one write of one line, handed to the operating system, not forced to disk.

        Raises `OSError` when the disk is full or fails; the file is then cut back to its last whole line.
        """
        if not isinstance(exchange, Exchange):
            raise UsageError(f"a ledger keeps exchanges, not {type(exchange).__name__}")
        line = encode(exchange) + b"\n" if self._file else b""
        with self._lock:
            if self._file:
                _write(self._file, line)
            self._exchanges.append(exchange)

    def prompts(self) -> Iterator[tuple[Exchange, Prompt | None]]:
        """Each exchange with the prompt a cache saw, rebuilt from the differences; None where no outline was recorded.

        A prompt borrows the arrays of its lane: it is good until the iterator moves on. Copy what must stay. Costs what each
        exchange added. Raises `LogCorrupt` where an outline keeps segments that its lane does not have.
        """
        lanes: dict[tuple[str, str], Lane] = {}
        for exchange in self._exchanges:
            if isinstance(exchange.prompt, Outline):
                lane = lanes.setdefault((exchange.session, exchange.lane), Lane())
                yield exchange, lane.grow(exchange.prompt, exchange.id)
            else:
                yield exchange, None

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
        _check_header(lines[0] if lines else data, path, is_whole=bool(lines))
        for number, line in enumerate(lines[1:], 2):
            try:
                self._exchanges.append(decode(line))
            except LogCorrupt as error:
                raise LogCorrupt(f"{path} line {number}: {error}; restore the line or cut the file before it") from None
        return good


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the system refuses, in our words."""
    try:
        yield
    except OSError as fault:
        raise StorageError(f"{path} cannot be opened ({fault.strerror or fault}): name a ledger you may read and write") from fault


def _check_header(line: bytes, path: Path, *, is_whole: bool) -> None:
    if not is_whole and HEADER.startswith(line):
        return  # a crash while the file was made: nothing had been recorded
    try:
        header = parse(line)
    except NotSerialisable:
        header = None
    version = header.get("contextkit_ledger") if isinstance(header, dict) else None
    if version is None or not is_whole:
        raise UnreadableLog(f'{path} line 1: not a ledger, which starts with {{"contextkit_ledger":{VERSION}}}')
    if version != VERSION:
        raise UnreadableLog(f"{path} line 1: ledger format {version}, this contextkit reads {VERSION}: upgrade contextkit")


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


class Lane:
    """What one lane has grown to: the arrays that differences are applied to."""

    __slots__ = ("digests", "ends_tokens", "positions", "prompt")

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.ends_tokens: list[int] = []
        self.positions: list[int] = []
        self.prompt: Prompt | None = None
        """The last prompt, on these arrays."""

    def grow(self, outline: Outline, exchange_id: str) -> Prompt:
        """The prompt `outline` stands for; the one before it is no longer good where fewer segments were kept."""
        if not 0 <= outline.keep <= len(self.digests):
            raise LogCorrupt(
                f"exchange {exchange_id!r} keeps {outline.keep} segments of a lane that has {len(self.digests)}: "
                "an exchange before it is missing, or lanes were mixed"
            )
        del self.digests[outline.keep :], self.ends_tokens[outline.keep :], self.positions[outline.keep :]
        self.digests.extend(map(bytes.fromhex, outline.digests))
        self.ends_tokens.extend(outline.ends_tokens)
        self.positions.extend(outline.positions)
        tools, system, messages = map(bytes.fromhex, outline.namespaces)
        self.prompt = Prompt(
            (tools, system, messages), outline.level_ends, self.digests, self.ends_tokens, self.positions,
            outline.breakpoints, len(self.digests),
        )  # fmt: skip
        return self.prompt


def outline(previous: Prompt | None, prompt: Prompt, entries: Sequence[int], epoch: int) -> Outline:
    """`prompt` as a difference to `previous`, the prompt recorded before it in its lane; `entries` has one log sequence a segment.

    Kept is what both say in the same words: a changed namespace stands beside it and does not shorten it. O(log n + what is new).
    """
    keep = _same_words(previous, prompt) if previous else 0
    new = range(keep, prompt.n)
    tools, system, messages = (namespace.hex() for namespace in prompt.namespaces)
    return Outline(
        keep=keep, namespaces=(tools, system, messages), level_ends=prompt.level_ends,
        digests=tuple(prompt.digests[i].hex() for i in new), ends_tokens=tuple(prompt.ends_tokens[i] for i in new),
        positions=tuple(prompt.positions[i] for i in new), entries=tuple(entries[i] for i in new),
        breakpoints=prompt.breakpoints, epoch=epoch,
    )  # fmt: skip


def _same_words(one: Prompt, other: Prompt) -> int:
    """Equal leading digests, a binary search because digests run."""
    low, high = 0, min(one.n, other.n)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.digests[middle - 1] == other.digests[middle - 1] else (low, middle - 1)
    return low
