"""Where a recording is read from: a file, plain or packed, or standard input, line by line in constant memory.

Takes a name, gives numbered lines, or the whole; and takes note of what is wrong with it. Knows no format.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import sys
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, cast

import orjson

from contextkit.cache.usage import NO_COUNT, natural
from contextkit.errors import MissingExtra, UnreadableLog
from contextkit.importers.dedup import DigestSet

_BLANK = ord(" ")
BUFFER = 1 << 19
"""Bytes asked of the system at once."""
STDIN = "-"
"""Stands for standard input."""
HEAD = 1 << 16
"""Bytes in which a format shows itself."""
DAMAGED = "a damaged row is left out (restore it from a copy); prompts of later calls that continue it are unknown"
"""What is said of a row that cannot be read, or whose checksum is not that of its content."""
_RESTORE, _UPGRADE = "(restore the ledger from a copy)", "upgrade contextkit"


def damage(what: str) -> str:
    """Return the text of a fault of a ledger's row; `what` is what `Rows` found wrong, empty for an unreadable row."""
    return DAMAGED if not what else what if what.endswith(_UPGRADE) else f"{what} {_RESTORE}"


def is_damage(fault: str) -> bool:
    """Return whether a fault is one of a ledger's row."""
    return fault == DAMAGED or fault.endswith((_RESTORE, _UPGRADE))


def is_newer_format(fault: str) -> bool:
    """Return whether a fault is of a row that a newer contextkit wrote."""
    return fault.endswith(_UPGRADE)


OTHER_KINDS = "and so on: more kinds of faults than are told apart"
"""Stands for what is too varied to be listed."""


MOST_DIGITS = len(str(2**64))
"""Of an integer that is written as text: a longer one is no number of any program, and Python refuses to read it."""
MOST_LEVELS = 254
"""Levels of nesting that are read: orjson writes no more, and Python prints and compares not many more."""


def load_json(data: bytes | bytearray | str) -> Any:
    """The value of JSON text, as `orjson.loads` gives it.

    Raises `orjson.JSONDecodeError`, also for what is nested deeper than `MOST_LEVELS`.
    """
    value = orjson.loads(data)
    n_openings = data.count("{") + data.count("[") if isinstance(data, str) else data.count(b"{") + data.count(b"[")
    if n_openings > MOST_LEVELS:  # only then it may be so deep, and is asked of orjson, which is faster than a walk
        try:
            orjson.dumps(value)
        except TypeError:
            raise orjson.JSONDecodeError(f"nested deeper than {MOST_LEVELS} levels", "", 0) from None
    return value


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with a recording that did not stop its reading."""

    file: str
    """As it was named."""
    line: int
    """From 1; 0 where it is of the file as a whole."""
    what: str
    """What is wrong and what was done about it, without the line's content."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


@dataclass(slots=True)
class Faults:
    """All that was wrong with what was read; only the first ones of a kind are kept in full, all are counted."""

    kept: list[Fault] = field(default_factory=list)
    """In the order they were met, `MOST` of each kind."""
    counts: dict[str, int] = field(default_factory=dict)
    """Kind (`what`) → how many."""
    seen: DigestSet = field(default_factory=DigestSet)
    """The calls counted so far in this run: what several files repeat is counted once."""
    n_files: int = 0
    """Files that were opened to be read."""
    n_refused: int = 0
    """Files of which nothing was read: of no known format, empty, unreadable."""
    is_incomplete: bool = False
    """Whether a file could not be opened or ends too early, or one that was named was refused: the exit code is 1."""
    left: dict[tuple[str, ...], Any] = field(default_factory=dict)
    """What a reader leaves for the next file of its kind: where cumulative counters stood."""

    MOST = 5
    MOST_KINDS = 1_000
    """Kinds told apart; what is of yet another one is counted among the rest."""

    def add(self, file: str, line: int, what: str) -> None:
        """One more."""
        if what not in self.counts and len(self.counts) >= self.MOST_KINDS:
            what = OTHER_KINDS
        n = self.counts[what] = self.counts.get(what, 0) + 1
        if n <= self.MOST:
            self.kept.append(Fault(file, line, what))

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """So many more of kinds that were met before, which are only counted."""
        for what, n in counts.items():
            kind = what if what in self.counts else OTHER_KINDS
            self.counts[kind] = self.counts.get(kind, 0) + n

    def refuse(self, file: str, error: UnreadableLog, named: Collection[str] = ()) -> None:
        """A file of which nothing was read, with the error that says why; raises it for the only file that was `named`."""
        if file in named and len(named) == 1:
            raise error
        self.is_incomplete |= file in named
        self.n_refused += 1
        self.add(file, 0, str(error).removeprefix(f"{file} line 1: ").removeprefix(f"{file}: "))

    def __len__(self) -> int:
        return sum(self.counts.values())


class Source:
    """One recording, opened by name; what it starts with is at hand without reading on."""

    def __init__(self, name: str, faults: Faults | None = None) -> None:
        """Opens nothing yet; `faults` collects what is wrong, its own collection where none is given."""
        self.name = name
        """As it was given; `-` is standard input."""
        self.faults = Faults() if faults is None else faults
        """Where to say what is wrong."""
        self.label = "stdin" if name == STDIN else Path(name).name
        """What a session without a name of its own is called: the file's name."""
        self._stream: IO[bytes] | None = None
        self._head: bytes | None = None

    @property
    def head(self) -> bytes:
        """The first `HEAD` bytes, unpacked; raises `UnreadableLog` for what nobody can open or unpack."""
        if self._head is None:
            try:
                self._head = self._opened_head()
            except UnreadableLog:
                self.faults.is_incomplete = True
                raise
        return self._head

    def _opened_head(self) -> bytes:
        with translated_errors(self.name), ExitStack() as opened:
            stream = _opened(self.name)
            if self.name != STDIN:
                opened.callback(stream.close)
            head = stream.read(HEAD)
            if self.name == STDIN or not Path(self.name).is_file():
                self._stream = stream  # what came by a pipe comes once
                opened.pop_all()
        return head

    def close(self) -> None:
        """Lets go of what came by a pipe and is not read on."""
        if self._stream and self.name != STDIN:
            self._stream.close()

    def chunks(self, size: int = 1 << 20) -> Iterator[bytes]:
        """All of it, in pieces; once. What is packed and ends too early is a fault, and what came before it is given."""
        if self.head and self._stream:
            yield self.head
        stream = self._stream
        try:
            with translated_errors(self.name):
                stream = stream or _opened(self.name)
                while piece := stream.read(size):
                    yield piece
        except UnreadableLog as error:
            self.faults.is_incomplete = True
            self.fault(0, f"{str(error).removeprefix(f'{self.name}: ')}; what came before was read")
        finally:
            if stream and self.name != STDIN:
                stream.close()

    def whole(self) -> bytes:
        """All of it at once, for formats that are one value."""
        return b"".join(self.chunks())

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Each line that is not blank, with its number, without its newline; once."""
        return ((number, line.rstrip(b"\n")) for number, line in self.raw_lines())

    def raw_lines(self) -> Iterator[tuple[int, bytes]]:
        """As `lines`, each with its newline where it has one: nothing is copied twice, by the system's own buffer."""
        came_by_pipe = bool(self.head and self._stream)
        try:
            with (
                translated_errors(self.name),
                nullcontext(_split(self.chunks())) if came_by_pipe else _opened(self.name, BUFFER) as lines,
            ):
                for number, line in enumerate(lines, 1):
                    if line[0] > _BLANK or not line.isspace():
                        yield number, line
        except UnreadableLog as error:
            self.faults.is_incomplete = True
            self.fault(0, f"{str(error).removeprefix(f'{self.name}: ')}; what came before was read")

    def fault(self, line: int, what: str) -> None:
        """Say that something is wrong on a line; reading goes on."""
        self.faults.add(self.name, line, what)

    def count(self, line: int, value: object) -> int | None:
        """A count of tokens that stands on a line; None where there is none.

        What stands there and is none is a fault.
        """
        count = natural(value)
        if count is None and value is not None:
            self.fault(line, NO_COUNT)
        return count

    def is_new(self, *key: bytes) -> bool:
        """Return whether nothing of this key was counted before in this run, in any file; from now on it was."""
        return self.faults.seen.is_new(blake2b(b"\0".join(key), digest_size=16).digest())


@contextmanager
def translated_errors(name: str) -> Iterator[None]:
    """What the system or a packer refuses, in our words."""
    try:
        yield
    except _packer_errors() as fault:
        said = getattr(fault, "strerror", None) or str(fault) or type(fault).__name__
        raise UnreadableLog(f"{name}: {said}; give a whole file, plain or packed with gzip or zstd") from None


def _packer_errors() -> tuple[type[Exception], ...]:
    zstandard = sys.modules.get("zstandard")  # an extra, which may not be there
    return (OSError, EOFError, zlib.error, lzma.LZMAError, *([zstandard.ZstdError] if zstandard else []))


def _split(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n") if b"\n" in piece else [rest + piece]
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def standard_input() -> IO[bytes]:
    """Standard input as bytes; raises `UnreadableLog` where it was closed before we came."""
    if sys.stdin is None:
        raise UnreadableLog(f"{STDIN}: standard input is closed; give it a file or a pipe")
    return sys.stdin.buffer


WRITER_SECONDS = 2.0
"""How long a process that writes to a named pipe is waited for."""
_LOOK_SECONDS = 0.05
_MAGIC = 4
"""Bytes by which a packed file is known."""


def open_file(path: str | Path, buffer: int = -1) -> IO[bytes]:
    """A file for reading, or the reading end of a pipe: a named one, or `/dev/fd/63` of a shell's `<(zcat session.gz)`.

    Raises `UnreadableLog` for a socket, and for a pipe that no process writes to, which would be waited for without
    end; `OSError` as `open` does.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        mode = 0  # opening it says what is wrong
    if stat.S_ISSOCK(mode):
        raise UnreadableLog(f"{path}: a socket, which cannot be read as a file; give a file or a pipe")
    return _pipe(path, buffer) if stat.S_ISFIFO(mode) else Path(path).open("rb", buffer)


def _pipe(path: str | Path, buffer: int) -> IO[bytes]:
    """A pipe, as soon as somebody has opened it for writing; opening it in the usual way would wait without end."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        begins = _first_bytes(path, descriptor)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return io.BufferedReader(_Pipe(descriptor, begins), buffer if buffer > 0 else io.DEFAULT_BUFFER_SIZE)


def _first_bytes(path: str | Path, descriptor: int) -> bytes:
    """What comes first, empty where a writer is there that has written nothing yet."""
    waited = 0.0
    while True:
        try:
            begins = os.read(descriptor, HEAD)
        except BlockingIOError:
            return b""
        if begins:
            return begins
        if waited >= WRITER_SECONDS:
            raise UnreadableLog(
                f"{path}: an empty pipe that no process writes to; start the writer first, or give a file"
            )
        time.sleep(_LOOK_SECONDS)
        waited += _LOOK_SECONDS


class _Pipe(io.RawIOBase):
    """A pipe of which some bytes were read already."""

    def __init__(self, descriptor: int, begins: bytes) -> None:
        super().__init__()
        self._descriptor, self._begins, self._is_begun = descriptor, begins, False

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        if not self._is_begun:
            self._begin()
        begins = self._begins
        if not begins:
            begins = os.read(self._descriptor, len(into))
        data, self._begins = begins[: len(into)], begins[len(into) :]
        into[: len(data)] = data
        return len(data)

    def _begin(self) -> None:
        """Waits for as many bytes as tell a packed recording: a writer may write byte by byte."""
        self._is_begun = True
        while len(self._begins) < _MAGIC and (more := os.read(self._descriptor, HEAD)):
            self._begins += more

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def _opened(name: str, buffer: int = -1) -> IO[bytes]:
    raw: IO[bytes] = standard_input() if name == STDIN else open_file(name, buffer)
    start = cast(Any, raw).peek(_MAGIC)[:_MAGIC]
    opener = next((opener for magic, opener in _PACKED if start.startswith(magic)), None)
    return raw if opener is None else opener(raw)


def is_packed(name: str) -> bool:
    """Return whether a file is packed, by its first bytes; raises `UnreadableLog` for one that nobody can open."""
    with translated_errors(name), Path(name).open("rb") as file:
        return file.read(4).startswith(tuple(magic for magic, _ in _PACKED))


class _Gzip(gzip.GzipFile):
    """Closes what it unpacks."""

    def close(self) -> None:
        raw = self.packed
        super().close()
        raw.close()

    packed: IO[bytes]


def _gzip(raw: IO[bytes]) -> IO[bytes]:
    unpacked = _Gzip(fileobj=raw)
    unpacked.packed = raw
    return cast(IO[bytes], unpacked)


class _Zstd(io.RawIOBase):
    """Unpacks zstd frame by frame.

    Raises `EOFError` where the last frame is cut, which the reader of zstandard takes for its end.
    """

    STEP = 256
    """Packed bytes unpacked at once: they hold 64 blocks of 128 KB at most."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        try:
            import zstandard
        except ImportError:
            raise MissingExtra("reading what zstd packed", "zstd") from None
        self._raw, self._unpacker = raw, zstandard.ZstdDecompressor()
        self._frame = self._unpacker.decompressobj()
        self._packed = self._unpacked = b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._unpacked:
            self._packed = self._packed or self._raw.read(self.STEP)
            if not self._packed:
                if not self._frame.eof:
                    raise EOFError("the file ends inside what zstd packed")
                return 0
            if self._frame.eof:
                self._frame = self._unpacker.decompressobj()
            self._unpacked = self._frame.decompress(self._packed)
            self._packed = self._frame.unused_data if self._frame.eof else b""
        n = min(len(into), len(self._unpacked))
        into[:n], self._unpacked = self._unpacked[:n], self._unpacked[n:]
        return n

    def close(self) -> None:
        self._raw.close()
        super().close()


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(_Zstd(raw), BUFFER)


_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (b"\x1f\x8b", _gzip),
    (b"\x28\xb5\x2f\xfd", _zstd),
)
"""(first bytes, how it is unpacked)."""
