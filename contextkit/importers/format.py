"""What an importer is: a name, how its files look, and how their records are read.

Takes nothing, gives the row that `found.py` holds one of for each importer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contextkit.importers.source import Source
from contextkit.ledger.row import Record


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of recording."""

    name: str
    """What people call it."""
    is_it: Callable[[bytes], bool]
    """Whether a file that starts with these bytes (unpacked, up to 64 KiB, maybe cut inside a line) is one; never raises."""
    read: Callable[[Source], Iterator[Record]]
    """Its exchanges, in the order of the file, each remark before what it is about. What is wrong on a line goes to `Source.fault`
    and reading goes on; only a file of which nothing can be read raises `UnreadableLog`. Nothing is counted twice."""


def first_line(head: bytes) -> bytes:
    """The first line of what a file starts with.

    >>> first_line(b'{"a":1}\\n{"b":2}')
    b'{"a":1}'
    """
    return head.lstrip().split(b"\n", 1)[0]
