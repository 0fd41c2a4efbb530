"""One entry as one line of a JSONL log, and back.

Takes entries, gives bytes whose last field is the body exactly as it was frozen; knows nothing of files.

    {"sequence":3,"kind":"user","at":1790000000.5,"prev":"…","digest":"…","body":{…}}

The digest covers the entry before, the kind, the time and the body. A line is ours only if writing what was read from
it gives the same bytes again, so no byte of it can change unseen: not the case of a hex digit, not the spelling of a
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import get_args

from contextkit.canonical import canonical, parse
from contextkit.errors import LogCorrupt, NotSerialisable
from contextkit.log.entry import Entry, Kind

GENESIS = bytes(16)
"""What stands for the entry before the first."""
KINDS: tuple[str, ...] = get_args(Kind)
"""Every kind this version can read."""

_LINE = b'{"sequence":%d,"kind":"%b","at":%b,"prev":"%b","digest":"%b","body":%b}\n'
_START = b'{"sequence":'
_BODY = b',"body":'


def digest_of(prev: bytes, kind: str, at: float, body: bytes) -> bytes:
    """The 16 bytes that tie an entry to the one before.

    >>> digest_of(GENESIS, "user", 0.0, b"{}").hex()
    'cc3f55a047b782436a95705417268cb8'
    """
    return blake2b(prev + kind.encode() + b"\0" + canonical(at) + b"\0" + body, digest_size=16).digest()


def write_line(entry: Entry, prev: bytes) -> bytes:
    """The line of `entry`, newline included; the body is spliced in as it is."""
    at, before, digest = canonical(entry.at), prev.hex().encode(), entry.digest.hex().encode()
    return _LINE % (entry.sequence, entry.kind.encode(), at, before, digest, entry.body)


def read_line(line: bytes) -> tuple[Entry, bytes]:
    """The entry of a line and the digest it says it follows.

    Raises `LogCorrupt` with the reason only (the caller knows the place).
    """
    head, _, rest = line.partition(_BODY)
    try:
        fields = parse(head + b"}")
        entry = Entry(
            fields["sequence"], fields["kind"], rest[:-2], float(fields["at"]), bytes.fromhex(fields["digest"])
        )
        prev = bytes.fromhex(fields["prev"])
        is_ours = write_line(entry, prev) == line
    except (NotSerialisable, KeyError, TypeError, ValueError, AttributeError):
        raise LogCorrupt("not a line of a contextkit log") from None
    if not is_ours:
        raise LogCorrupt("not as contextkit writes a line")
    check(entry, prev)
    return entry, prev


def check(entry: Entry, prev: bytes) -> None:
    """Raises `LogCorrupt`, with the reason only, for an entry whose digest is another's, or whose kind this version
    does not know.
    """
    if digest_of(prev, entry.kind, entry.at, entry.body) != entry.digest:
        raise LogCorrupt("its digest is not that of its content")
    if entry.kind not in KINDS:
        raise LogCorrupt(f"kind {entry.kind!r} is unknown to this version (a newer contextkit wrote it: upgrade)")


def is_torn(line: bytes) -> bool:
    """Whether a *last* line is what an interrupted append leaves.

    A line in which a whole entry stands is none: its newline was changed.
    """
    return is_unfinished(line, (_START,)) and not _holds_whole_entry(line)


def is_unfinished(line: bytes, starts: Sequence[bytes]) -> bool:
    """Whether a last line begins as `starts` say, and has no newline, or has blocks of zeros in it: they never reached
    the disk.

    A line that ends is not unfinished: one that is not valid was changed.
    """
    begins, zeros, _ = line.partition(b"\0\0")
    is_ours = any(begins.startswith(start) or start.startswith(begins) for start in starts)
    return is_ours and (bool(zeros) or not line.endswith(b"\n"))


def _holds_whole_entry(line: bytes) -> bool:
    """Whether `line` begins with an entry that is whole but for its newline."""
    place = line.find(_START, 1)
    while place > 0:
        if line[place - 2 : place - 1] == b"}" and _is_whole(line[: place - 1]):
            return True
        place = line.find(_START, place + 1)
    return _is_whole(line[:-1])


def _is_whole(entry: bytes) -> bool:
    try:
        read_line(entry + b"\n")
    except LogCorrupt:
        return False
    return True
