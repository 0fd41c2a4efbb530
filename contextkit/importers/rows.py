"""Reads the objects of a recording, one a line, in an array, one after another over many lines, or as a table.

Takes a source, gives each object with the line it starts on; an unfinished file is read as far as whole rows go.
`in_time` sorts rows by their times, since exports often have the latest first; a row that comes too late to be sorted
is given in file order and reported. Knows no format.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import chain, islice, pairwise
from typing import Any, TypeVar

import orjson

from contextkit.importers.source import MOST_DIGITS, Source, load_json
from contextkit.importers.transcript import CUT

Row = tuple[int, dict[str, Any]]
"""The line an object starts on, and the object."""
LONGEST_CELL = (1 << 31) - 1
"""Characters of a cell of a table: a prompt may stand in one."""
ENDED = "the file ends inside a value; every whole row before it was read"
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[\[\]{}]', re.DOTALL)
_OPENING, _CLOSERS = b"[{", {ord("["): b"]", ord("{"): b"}"}
_NEAR = 400


def rows(source: Source, wrappers: Mapping[str, int] | None = None) -> Iterator[Row]:
    """Each object of a file; of an object with a key of `wrappers` the objects in the list behind it instead.

    The number beside a wrapper says how many brackets are open around one row: what a file that was cut may be mended
    by. Lines and tables are read as they come; a value that is spread over lines is read at once.
    """
    inside = wrappers or {}
    head = bare(source.head)
    if head[:1] not in (b"{", b"["):
        yield from _table(source)
    elif is_spread(head):
        yield from _spread(source, source.whole(), inside)
    else:
        for number, line in source.raw_lines():
            yield from rows_of(source, number, line, inside)


def is_by_line(head: bytes) -> bool:
    """Return whether what starts like this holds objects, each on a line of its own."""
    start = bare(head)
    return start[:1] == b"{" and not is_spread(start)


def rows_of(source: Source, number: int, line: bytes, wrappers: Mapping[str, int]) -> Iterator[Row]:
    """The objects of one line."""
    if stripped := bare(line):
        yield from _of_line(source, number, stripped, wrappers)


def bare(head: bytes) -> bytes:
    """What a file starts with, without blanks and without the mark that Windows puts before UTF-8."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()


def is_spread(head: bytes) -> bool:
    r"""Return whether the first line opens what only a later line closes, as in a file written for people.

    >>> is_spread(b'{"a": 1}'), is_spread(b'[{"a": 1},\n{"a": 2}]')
    (False, True)
    """
    first, newline, _ = head.partition(b"\n")
    return bool(newline) and first.rstrip()[-1:] in (b"{", b"[", b",", b":")


def named(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row by its names in one spelling, so that `startTime`, `start_time` and `starttime` are one.

    What is null is left out.

    >>> named({"startTime": 1, "model_id": "a", "user": None})
    {'starttime': 1, 'modelid': 'a'}
    """
    return {_PLAIN[key]: value for key, value in row.items() if value is not None}


class _Plain(dict[str, str]):
    """Name → its one spelling, worked out once for each name: a file has few, and a row of it dozens."""

    MOST = 4096

    def __missing__(self, key: str) -> str:
        if len(self) >= self.MOST:
            self.clear()
        plain = self[key] = key.replace("_", "").lower()
        return plain


_PLAIN = _Plain()


def table(value: object) -> dict[str, Any]:
    """An object that may stand as text inside a cell; an empty one where there is none."""
    if isinstance(value, str) and value[:1] == "{":
        try:
            value = load_json(value)
        except orjson.JSONDecodeError:
            return {}
    return value if isinstance(value, dict) else {}


def _of_line(source: Source, number: int, line: bytes, inside: Mapping[str, int]) -> Iterator[Row]:
    try:
        value = load_json(line)
    except orjson.JSONDecodeError:
        yield from _scanned(source, line, number, inside, is_line=True)
        return
    yield from _unwrapped(number, value, inside)


def _unwrapped(number: int, value: Any, inside: Mapping[str, int]) -> Iterator[Row]:
    if isinstance(value, list):
        for part in value:
            yield from _unwrapped(number, part, inside)
    elif isinstance(value, dict):
        listed = next((value[key] for key in inside if isinstance(value.get(key), list)), None)
        if listed is None:
            yield number, value
        else:
            yield from _unwrapped(number, listed, inside)


def _spread(source: Source, data: bytes, inside: Mapping[str, int]) -> Iterator[Row]:
    """What is spread over lines: one object is parsed at once, of several each is found by its brackets, and so its
    line.
    """
    try:
        value = load_json(data)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict) and not any(isinstance(value.get(key), list) for key in inside):
        yield 1 + data.count(b"\n", 0, data.index(b"{")), value
    else:
        yield from _scanned(source, data, 1, inside)


def _scanned(
    source: Source, data: bytes, line: int, inside: Mapping[str, int], *, is_line: bool = False
) -> Iterator[Row]:
    """Each object, found by its brackets; of the one that lacks its end as much as is whole."""
    stack, start, depth, last, most = bytearray(), -1, 0, 0, 0
    safe: tuple[int, bytes] | None = None
    for token in _TOKEN.finditer(data):
        mark = data[token.start()]
        if mark in _OPENING:
            if start < 0 and mark == _OPENING[1]:
                start, depth, safe = token.start(), len(stack), None
                line, last, most = (
                    line + data.count(b"\n", last, start),
                    start,
                    _rows_depth(data[start : start + _NEAR], inside),
                )
            stack.append(mark)
        elif mark != ord('"') and stack:
            stack.pop()
            if start >= 0 and len(stack) == depth:
                yield from _whole(source, line, data[start : token.end()], inside)
                start = -1
            elif stack and stack[-1] == _OPENING[0] and len(stack) - depth <= most:
                safe = token.end(), bytes(stack[depth:])
    if start >= 0 and safe:
        closed = data[start : safe[0]] + b"".join(_CLOSERS[mark] for mark in reversed(safe[1]))
        source.fault(line, ENDED)
        yield from _whole(source, line, closed, inside)
    elif start >= 0 or stack or is_line:
        source.fault(line, CUT if start >= 0 or is_line else ENDED)


def _rows_depth(start: bytes, inside: Mapping[str, int]) -> int:
    """How many brackets stand around one row of a wrapper that starts like this, 0 for what is a row itself."""
    return next((most for key, most in inside.items() if re.match(rb'\{\s*"%b"\s*:\s*\[' % key.encode(), start)), 0)


def _whole(source: Source, line: int, data: bytes, inside: Mapping[str, int]) -> Iterator[Row]:
    try:
        value = load_json(data)
    except orjson.JSONDecodeError:
        source.fault(line, CUT)
        return
    yield from _unwrapped(line, value, inside)


def _table(source: Source) -> Iterator[Row]:
    """The rows of comma-separated values under a line of names.

    Cells that hold JSON are objects, empty ones are not there.
    """
    before = csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(_text(source), strict=True)
    try:
        names = next(reader, [])
        end = reader.line_num
        for cells in reader:
            start, end = end + 1, reader.line_num
            if len(cells) != len(names):
                source.fault(start, f"{len(cells)} cells under {len(names)} names; passed over")
                continue
            yield start, {name: _cell(cell) for name, cell in zip(names, cells, strict=True) if cell}
    except csv.Error as error:
        source.fault(reader.line_num, f"no row of a table ({error}); what came before was read")
    finally:
        csv.field_size_limit(before)


def _text(source: Source) -> Iterator[str]:
    """Every line, the blank ones inside a cell too."""
    rest, is_first = b"", True
    for piece in source.chunks():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield (line.removeprefix(b"\xef\xbb\xbf") if is_first else line).decode("utf-8", "replace") + "\n"
            is_first = False
    if rest:
        yield rest.decode("utf-8", "replace")


def _cell(cell: str) -> Any:
    if len(cell) <= MOST_DIGITS and cell.isascii() and cell.isdigit() and (cell == "0" or cell[0] != "0"):
        return int(cell)
    if cell[:1] in ("{", "["):
        try:
            return load_json(cell)
        except orjson.JSONDecodeError:
            return cell
    return cell


T = TypeVar("T")
WINDOW = 1_000
"""How many rows are held to be put in order; a file whose first rows run backwards is held as a whole."""
MOST_HELD = 48 << 20
"""Bytes that rows may hold together while they wait: of very long ones fewer are held."""
LOOKED_AT = 16
"""Rows that show which way a file runs."""


def in_time(
    source: Source, items: Iterable[tuple[int, T]], at: Callable[[T], float], size: Callable[[T], int] = lambda item: 0
) -> Iterator[tuple[int, T]]:
    """Each (line, item) by its time, those of one time in the order of the file.

    `size` says how many bytes an item holds.
    """
    rows = iter(items)
    first = list(islice(rows, LOOKED_AT))
    times = [at(item) for _, item in first]
    n_back = sum(one >= other for one, other in pairwise(times))
    if times and times[0] > times[-1] and n_back * 2 > len(times):
        turned = [*first, *rows]
        turned.reverse()
        yield from sorted(turned, key=lambda row: at(row[1]))
        return
    latest = 0.0
    for when, _, line, item in _windowed(chain(first, rows), at, size):
        if when < latest:
            source.fault(
                line, "earlier than the calls before it: a wrong clock, or lines out of order; taken as it stands"
            )
        latest = max(latest, when)
        yield line, item


def _windowed(
    rows: Iterable[tuple[int, T]], at: Callable[[T], float], size: Callable[[T], int]
) -> Iterator[tuple[float, int, int, T]]:
    """Time, place, line and item of each row, in order as far as rows are held."""
    heap: list[tuple[float, int, int, T]] = []
    held = 0
    for count, (line, item) in enumerate(rows):
        heappush(heap, (at(item), count, line, item))
        held += size(item)
        while len(heap) > WINDOW or held > MOST_HELD:
            held -= size(heap[0][3])
            yield heappop(heap)
    while heap:
        yield heappop(heap)
