"""Traces of prompts that were cut into blocks and hashed: two formats, files plain or gzipped.

Takes paths or a stream, gives requests one by one, so that a trace larger than memory can be replayed. Knows nothing of
caches.

* Mooncake (github.com/kvcache-ai/Mooncake, FAST25 release): one JSON object a line, `{"timestamp": ms, "input_length",
  "output_length",
  "hash_ids"}`, 512-token blocks, ids chained by prefix and shared by all requests of a file; the last block may be cut
  short.
* kv-cache-tester (github.com/callanjfox/kv-cache-tester): one JSON object a file, a conversation, `{"id", "block_size",
  "hash_id_scope",
  "requests": [{"t": s, "in", "out", "hash_ids", "api_time", "model"}]}`; a sub-agent is an entry with `agent_id` and
  `requests` of its own, their times counted from its start and their ids those of the conversation; what fills no block
  has no id.

Ids mean something inside their file only (`hash_id_scope: local`; Mooncake numbers each file from 0), so those of every
further file are moved behind all before: requests of several files can be replayed together and never share a block by
accident.
"""

from __future__ import annotations

import glob
import gzip
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from contextkit.engines.block_trace import BlockRequest
from contextkit.errors import UnreadableLog
from contextkit.importers.source import Source, load_json, open_file, standard_input
from contextkit.importers.transcript import LATEST
from contextkit.ledger.calls import BlockIds, ModelCall

MOONCAKE_BLOCK = 512
"""Tokens in a block of a Mooncake trace, whose lines do not say (FAST25 release)."""
STDIN = "-"
"""Stands for standard input."""
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
"""What is read of a folder."""
EXPECTED = (
    'expected a Mooncake line {"timestamp", "input_length", "output_length", "hash_ids"} or a '
    'kv-cache-tester object {"requests": […]}'
)
"""Said by every error."""
_GZIP = b"\x1f\x8b"


def trace_files(names: Iterable[str]) -> list[str]:
    """The files that paths, folders and patterns name, each once, sorted inside a folder or a pattern.

    Raises `UnreadableLog` where one names nothing.
    """
    return list(dict.fromkeys(file for name in names for file in _named(name)))


def _named(name: str) -> list[str]:
    path = Path(name)
    if name == STDIN or (path.exists() and not path.is_dir()):  # a pipe is read like a file
        return [name]
    if path.is_dir():
        files = [str(file) for file in sorted(path.rglob("*")) if file.name.endswith(SUFFIXES) and file.is_file()]
        what = f"no {', '.join(SUFFIXES)} in this folder"
    else:
        files, what = sorted(glob.glob(name, recursive=True)), "no such file"  # noqa: PTH207 - a pattern may be absolute
    if not files:
        raise UnreadableLog(f"{name}: {what}; give traces, folders of them, or - for standard input")
    return files


def content_of(name: str) -> bytes:
    """All of a file or of standard input, unpacked; raises `UnreadableLog` for a file that nobody can read or unpack."""
    try:
        data = standard_input().read() if name == STDIN else _read(name)
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError, zlib.error) as fault:
        raise UnreadableLog(
            f"{name}: {getattr(fault, 'strerror', None) or fault}; give a whole file, plain or gzipped"
        ) from None


def _read(name: str) -> bytes:
    with open_file(name) as file:
        return file.read()


def is_block_trace(start: bytes) -> bool:
    """Return whether a file that starts with these bytes, unpacked, is a trace of either format.

    >>> is_block_trace(b'{"timestamp":0,"input_length":9,"output_length":1,"hash_ids":[0]}'), is_block_trace(b'{"type":"session"}')
    (True, False)
    """
    head = start[:_HEAD]
    return (
        head.lstrip().startswith(b"{")
        and (b'"hash_ids"' in head or b'"hash_id_scope"' in head)
        and b'"contextkit_ledger"' not in head
    )


_HEAD = 4096
"""Bytes in which a format shows itself."""


class BlockTraces:
    """Reads traces one after another and keeps their ids apart."""

    def __init__(self) -> None:
        self._next_id = 0

    def read(self, name: str, data: bytes | None = None) -> Iterator[BlockRequest]:
        """The requests of a file, in its order; `data` where it was read already.

        Raises `UnreadableLog` with file and line, or file and place, for what is no request of either format.
        """
        content = content_of(name) if data is None else data
        if not content.strip():
            raise UnreadableLog(f"{name}: the file is empty; {EXPECTED}")
        reader = _conversation if b'"requests"' in content[:_HEAD] else _mooncake
        for request in reader(name, content, self._next_id):
            self._next_id = max(self._next_id, max(request.ids, default=-1) + 1)
            yield request

    def together(self, names: Iterable[str]) -> Iterator[BlockRequest]:
        """The requests of all files by time, each file's first moment as its own zero: all conversations begin at once.

        All are held in memory, eight bytes a block.
        """
        conversations = (sorted(map(_packed, self.read(name)), key=lambda request: request.at) for name in names)
        started = (_from_zero(requests) for requests in list(conversations) if requests)
        yield from merge(*started, key=lambda request: request.at)


def _packed(request: BlockRequest) -> BlockRequest:
    return replace(request, ids=array("Q", request.ids))


def _from_zero(requests: list[BlockRequest]) -> list[BlockRequest]:
    return [replace(request, at=request.at - requests[0].at) for request in requests]


def _mooncake(name: str, content: bytes, offset: int) -> Iterator[BlockRequest]:
    session = _session_of(name)
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            try:
                yield _mooncake_line(session, line, offset)
            except (KeyError, TypeError, ValueError, OverflowError) as fault:
                raise UnreadableLog(f"{name}:{number}: {_fault_text(fault)}; {EXPECTED}") from None


def _mooncake_line(session: str, line: bytes, offset: int) -> BlockRequest:
    row = _object(line)
    ids, n_tokens = _ids(row["hash_ids"], offset), _size(row["input_length"])
    if len(ids) != -(-n_tokens // MOONCAKE_BLOCK):
        raise ValueError(f"{len(ids)} hash_ids for {n_tokens} tokens in blocks of {MOONCAKE_BLOCK}")
    return BlockRequest(
        session, "main", _time(row["timestamp"] / 1000), MOONCAKE_BLOCK, ids, n_tokens, _size(row["output_length"])
    )


def _object(text: bytes) -> dict[str, Any]:
    """The object that a line or a file holds; raises `TypeError` for another value."""
    value = load_json(text)
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return value


def _conversation(name: str, content: bytes, offset: int) -> Iterator[BlockRequest]:
    try:
        trace = _object(content)
        session, size = str(trace["id"]), _size(trace["block_size"])
        requests = trace["requests"]
        if not isinstance(requests, list) or not size:
            raise ValueError("requests is no list, or block_size is 0")
        rows = list(_nested(requests, "$.requests", "main", 0.0))
    except (KeyError, TypeError, ValueError) as fault:
        line = content.count(b"\n", 0, getattr(fault, "pos", 0)) + 1
        raise UnreadableLog(f"{name}:{line}: {_fault_text(fault)}; {EXPECTED}") from None
    for place, lane, since, row in rows:
        try:
            ids, at = _ids(row["hash_ids"], offset), _time(since + row["t"])
            yield BlockRequest(
                session, lane, at, size, ids, _size(row["in"]), _size(row.get("out", 0)), str(row.get("model", ""))
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as fault:
            raise UnreadableLog(f"{name}:1: {place}: {_fault_text(fault)}; {EXPECTED}") from None


def _nested(rows: list[Any], place: str, lane: str, since: float) -> Iterator[tuple[str, str, float, Any]]:
    """Each request with its place in the file, its lane, and what its time is counted from."""
    for index, row in enumerate(rows):
        here = f"{place}[{index}]"
        if isinstance(row, dict) and isinstance(row.get("requests"), list):
            yield from _nested(
                row["requests"], f"{here}.requests", str(row.get("agent_id", here)), since + float(row.get("t", 0.0))
            )
        else:
            yield here, lane, since, row


def _ids(ids: Any, offset: int) -> list[int]:
    """Block ids moved behind those of other files.

    Raises `TypeError` or `ValueError` for what is no list of natural numbers.
    """
    if not isinstance(ids, list):
        raise TypeError("hash_ids is no list")
    array("Q", ids)  # an array takes nothing but natural numbers, and says so faster than a loop
    return [block + offset for block in ids] if offset else ids


def _time(seconds: float) -> float:
    if not 0 <= seconds <= LATEST:
        raise ValueError("a time that is negative or beyond the year 9999")
    return seconds


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a length that is no natural number")
    return value


def _fault_text(fault: Exception) -> str:
    """What is wrong, without the content of the line."""
    if isinstance(fault, KeyError):
        return f"no {fault}"
    return "not JSON" if isinstance(fault, orjson.JSONDecodeError) else f"{fault}"


def _session_of(name: str) -> str:
    return "stdin" if name == STDIN else Path(name).name


def read(source: Source) -> Iterator[ModelCall]:
    """The requests of a trace as calls; what they were billed is unknown."""
    is_conversation = b'"requests"' in source.head[:_HEAD]
    yield from calls_of(_of_conversation(source, source.whole()) if is_conversation else _of_lines(source))


def _mended(source: Source, content: bytes) -> bytes:
    """A conversation, one that was cut up to its last whole request; as it stands where that does not help."""
    try:
        load_json(content)
    except orjson.JSONDecodeError:
        at = len(content)
        for _ in range(MOST_TRIES):
            at = content.rfind(b"}", 0, max(0, at))
            for closing in (b"]}", b"]}]}"):  # behind a request, or behind one of a sub-agent
                try:
                    load_json(content[: at + 1] + closing)
                except orjson.JSONDecodeError:
                    continue
                source.fault(0, "the file ends inside a value; every whole request before it was read")
                return content[: at + 1] + closing
    return content


MOST_TRIES = 4


def _of_conversation(source: Source, content: bytes) -> Iterator[BlockRequest]:
    requests = _conversation(source.name, content, 0)
    try:
        first = list(islice(requests, 1))
    except UnreadableLog:
        first, requests = [], _conversation(source.name, _mended(source, content), 0)
    yield from chain(first, requests)


def _of_lines(source: Source) -> Iterator[BlockRequest]:
    """Those of a Mooncake trace, each line by itself: one that is none is a fault and no more."""
    n_known, session, file = 0, _session_of(source.name), source.name.encode("utf-8", "surrogatepass")
    for number, line in source.raw_lines():
        if not source.is_new(b"mooncake", file, line.rstrip()):
            n_known += 1
            continue
        try:
            yield _mooncake_line(session, line, 0)
        except (KeyError, TypeError, ValueError, OverflowError) as fault:
            source.fault(number, f"{_fault_text(fault)}; passed over")
    if n_known:
        source.fault(0, f"{n_known:,} of its lines stand in it more than once; counted once")


def calls_of(requests: Iterable[BlockRequest]) -> Iterator[ModelCall]:
    """Each request as a call."""
    for number, request in enumerate(requests):
        yield ModelCall(
            id=f"{request.session}/{number}",
            session=request.session,
            lane=request.lane,
            at=request.at,
            model=request.model,
            prompt=BlockIds(request.size, tuple(request.ids)),
        )
