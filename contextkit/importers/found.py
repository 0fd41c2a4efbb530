"""Which format a file is in, by its content, and the ledger it holds.

Takes a path, gives a ledger. Every importer is one row here.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from contextkit.errors import LogCorrupt, UnreadableLog
from contextkit.importers.block_trace import BlockTraces, content_of, is_block_trace
from contextkit.importers.block_trace import ledger_of as ledger_of_blocks
from contextkit.importers.pi import is_pi, ledger_of, read_pi
from contextkit.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file."""

    name: str
    """What people call it."""
    is_it: Callable[[bytes], bool]
    """Whether a file that starts with this line is one."""
    read: Callable[[Path], Ledger]
    """What it holds."""


FORMATS = (
    Format("contextkit ledger", lambda line: b'"contextkit_ledger"' in line, Ledger.read),
    Format("pi session", is_pi, lambda path: ledger_of(read_pi(path))),
    Format("block trace", is_block_trace, lambda path: ledger_of_blocks(BlockTraces().read(str(path)))),
)


def ledger_at(path: str | Path) -> tuple[str, Ledger]:
    """Name of the format and the ledger of a file, or of a context's folder.

    A packed file (.gz) is read like the one inside. Raises `UnreadableLog` for what is not there, empty, or of no known format.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "ledger.jsonl"
    first = _first_line(file)
    if not first.strip():
        raise UnreadableLog(f"{file}: the file is empty")
    for known in FORMATS:
        if known.is_it(first):
            return known.name, _read(known, file)
    raise UnreadableLog(f"{file} line 1: of no known format; known are {', '.join(known.name for known in FORMATS)}")


def is_ledger(path: str | Path) -> bool:
    """Whether a file is a contextkit ledger, plain or packed; raises `UnreadableLog` for one that nobody can read."""
    return FORMATS[0].is_it(_first_line(Path(path), _HEADER))


def _read(known: Format, file: Path) -> Ledger:
    """Readers take plain files: what is packed is unpacked for as long as it is read."""
    with file.open("rb") as start:
        is_packed = start.read(len(_GZIP)) == _GZIP
    if not is_packed or known.is_it is is_block_trace:  # which unpacks for itself
        return known.read(file)
    with TemporaryDirectory() as folder:
        plain = Path(folder) / file.name.removesuffix(".gz")
        plain.write_bytes(content_of(str(file)))
        try:
            return known.read(plain)
        except (LogCorrupt, UnreadableLog) as error:
            raise type(error)(str(error).replace(str(plain), str(file))) from None


def _first_line(file: Path, longest: int = 1 << 20) -> bytes:
    """At most `longest` bytes of it, unpacked: what has no line ends is no log; those of our formats have a few hundred."""
    try:
        with file.open("rb") as lines:
            first = lines.readline(longest)
        if not first.startswith(_GZIP):
            return first
        with gzip.open(file) as unpacked:
            return unpacked.readline(longest)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return first  # of no known format: packed, and not whole
    except OSError as fault:
        raise UnreadableLog(f"{file}: {fault.strerror}; give a ledger.jsonl, a context's folder, or a pi session") from None


_GZIP = b"\x1f\x8b"
_HEADER = 256
"""Bytes in which a ledger shows itself."""
