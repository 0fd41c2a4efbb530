"""Large folders of transcripts, read by several processes: each reads whole files, this one takes their calls in order.

Takes names of files, gives their records, in the order and with the faults of reading one file after the other. A call
that several files repeat is counted in the first of them, so a process is told which calls were met in the files before
the one it reads, as far as those are read; where that was not enough, as files that repeat each other were read at the
same time, the later one is read again here. What is no transcript of Claude Code is read here too. On one core,
for little data, and on other systems than Linux everything is read here: Windows cannot fork, and what macOS' own
libraries do in a forked process is not sure.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, NoReturn

import orjson

from contextkit.cache.usage import Usage
from contextkit.errors import UnreadableLog
from contextkit.importers import claude_code
from contextkit.importers.dedup import DigestSet
from contextkit.importers.format import ProgramRemarks
from contextkit.importers.registry import records_at, remarked_records_at
from contextkit.importers.source import STDIN, Faults, Source
from contextkit.ledger.calls import ModelCall, Record, Remark

LEAST_BYTES = 64 << 20
"""Less is read sooner than processes are started."""
MOST_PROCESSES = 4
MOST_AHEAD = 64
"""Files that are read and not yet asked for."""
MOST_WAITING = 2
"""Files that a process was told to read and has not answered for: it goes on to the next while its answer is not yet
taken."""
OFTEN = 512
"""Records between two looks at what the processes have answered."""
_SIZE = 8
"""Bytes before each message that say how long it is."""
_DIGEST = 16
Reader = Callable[[str], Iterator[Record]]


@contextmanager
def reading(files: Sequence[str], faults: Faults, least_bytes: int = LEAST_BYTES) -> Iterator[Reader]:
    """Give a function that reads one of `files`; to be called for each once, in their order.

    It raises `UnreadableLog` as `records_at`. Less than `least_bytes` in all is read in this process.
    """
    n = min(MOST_PROCESSES, os.cpu_count() or 1)
    is_possible = sys.platform == "linux" and n >= 2 and len(files) >= 2 and threading.active_count() == 1
    if not is_possible or _size(files) < least_bytes:
        yield lambda file: remarked_records_at(file, faults)
        return
    readers = _Readers(files, faults, n)
    try:
        yield readers.records
    finally:
        readers.close()


def _size(files: Sequence[str]) -> int:
    total = 0
    for file in files:
        with suppress(OSError):
            total += Path(file).stat().st_size
    return total


class _Readers:
    """The processes. Between records, what they have read is taken from them, and more files are given to them."""

    def __init__(self, files: Sequence[str], faults: Faults, n: int) -> None:
        self._files, self._faults = files, faults
        self._next = self._asked = 0
        self._read: dict[int, bytes | None] = {}
        """File → what a process says of it; None where it is to be read here."""
        self._met: list[bytes] = []
        """Calls that processes have met, as digests one behind the other: a piece for each file."""
        self._workers = [_Worker() for _ in range(n)]
        self._hand_out()

    def _hand_out(self) -> None:
        while self._next < min(len(self._files), self._asked + MOST_AHEAD):
            worker = min(self._workers, key=lambda worker: len(worker.waiting))
            if len(worker.waiting) >= MOST_WAITING:
                return
            index, self._next = self._next, self._next + 1
            file = self._files[index]
            if worker.is_gone or file == STDIN or not Path(file).is_file():  # what comes by a pipe comes once
                self._read[index] = None
            else:
                worker.waiting.append(index)
                worker.tell(file, b"".join(self._met[worker.n_told :]))
                worker.n_told = len(self._met)

    def _exchange(self, *, is_waiting: bool) -> None:
        """Take what the processes have answered, and give them more; wait for something of it if `is_waiting`."""
        import select

        poll, by_pipe = select.poll(), dict[int, _Worker]()
        for worker in self._workers:
            if worker.waiting:
                by_pipe[worker.heard] = by_pipe[worker.told] = worker
                poll.register(worker.heard, select.POLLIN)
                if worker.to_tell:
                    poll.register(worker.told, select.POLLOUT)
        for pipe, _ in poll.poll(None if is_waiting else 0):
            worker = by_pipe[pipe]
            worker.send() if pipe == worker.told else worker.receive()
            for answer in worker.answers():
                if answer is not None:
                    n_digests = int.from_bytes(answer[:_SIZE], "little")
                    self._met.append(answer[_SIZE : _SIZE + n_digests])
                self._read[worker.waiting.popleft()] = answer
        self._hand_out()

    def records(self, file: str) -> Iterator[Record]:
        """The records of the next file."""
        index = self._asked
        while index not in self._read:
            self._exchange(is_waiting=True)
        answer = self._read.pop(index)
        self._asked += 1
        self._hand_out()
        result = None if answer is None else self._accepted(answer)
        if result is None:
            return remarked_records_at(file, self._faults)
        self._faults.n_files += 1
        for line, what in result["faults"]:
            self._faults.add(file, line, what)
        self._faults.add_counts(result["counts"])
        self._faults.is_incomplete |= result["is_incomplete"]
        return self._records(result["records"])

    def _records(self, rows: list[list[Any]]) -> Iterator[Record]:
        for at in range(0, len(rows), OFTEN):
            self._exchange(is_waiting=False)
            yield from map(_record, rows[at : at + OFTEN])

    def _accepted(self, answer: bytes) -> dict[str, Any] | None:
        """What a process read; None where it counted a call that a file before counts."""
        n_digests = int.from_bytes(answer[:_SIZE], "little")
        end, seen = _SIZE + n_digests, self._faults.seen
        digests = [answer[at : at + _DIGEST] for at in range(_SIZE, end, _DIGEST)]
        if any(seen.has(digest) for digest in digests):
            return None
        for digest in digests:
            seen.is_new(digest)
        result: dict[str, Any] = orjson.loads(answer[end:])
        return result

    def close(self) -> None:
        """End the processes; what is not asked for by now is not read."""
        for worker in self._workers:
            worker.close()


class _Worker:
    """One process, and the two pipes to it, on which this end never waits."""

    def __init__(self) -> None:
        (told, self.told), (self.heard, heard) = os.pipe(), os.pipe()
        self._process = os.fork()
        if not self._process:
            os.close(self.told)
            os.close(self.heard)
            _work(os.fdopen(told, "rb"), os.fdopen(heard, "wb"))
        os.close(told)
        os.close(heard)
        os.set_blocking(self.told, False)
        os.set_blocking(self.heard, False)
        self.waiting = deque[int]()
        """Files that it was told to read and has not answered for."""
        self.n_told = 0
        """Pieces of digests that it knows."""
        self.is_gone = False
        self.to_tell, self._answered = bytearray(), bytearray()

    def tell(self, file: str, met: bytes) -> None:
        """Have a file read; `met` are calls of the files before, as far as it was not told of them."""
        self.to_tell += _message(os.fsencode(file)) + _message(met)
        self.send()

    def send(self) -> None:
        """Send as much as its pipe holds."""
        try:
            while self.to_tell:
                del self.to_tell[: os.write(self.told, self.to_tell)]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # it is gone, as the end of its answers says
            self.to_tell.clear()

    def receive(self) -> None:
        """Take what its pipe holds."""
        with suppress(BlockingIOError):
            while piece := os.read(self.heard, 1 << 20):
                self._answered += piece
            self.is_gone = True

    def answers(self) -> Iterator[bytes | None]:
        """What is in each file that it has read: the digests of its calls that it was told of in no message, and the rest
        as JSON.

        None for a file that is none for this, and for all that it was told to read if it is gone.
        """
        while len(self._answered) >= _SIZE:
            end = _SIZE + int.from_bytes(self._answered[:_SIZE], "little")
            if len(self._answered) < end:
                break
            answer = bytes(self._answered[_SIZE:end])
            del self._answered[:end]
            yield answer or None
        if self.is_gone:
            yield from [None] * len(self.waiting)

    def close(self) -> None:
        """End it, whatever it does."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self.told)
        os.close(self.heard)


class _Met(DigestSet):
    """Calls that were met in the files before, and those that this file is the first to hold."""

    __slots__ = ("here",)

    def __init__(self) -> None:
        super().__init__()
        self.here: list[bytes] = []

    def is_new(self, digest: bytes) -> bool:
        """As of any set; what is new is told to the others."""
        is_new = super().is_new(digest)
        if is_new:
            self.here.append(digest)
        return is_new


def _work(told: IO[bytes], hear: IO[bytes]) -> NoReturn:
    """The other process: reads what it is told to, until nobody asks any more. Ctrl-C is not for it."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        met = _Met()
        while True:
            file, news = os.fsdecode(_received(told)), _received(told)
            for at in range(0, len(news), _DIGEST):
                met.is_new(news[at : at + _DIGEST])
            met.here = []
            hear.write(_message(_answer(file, met)))
            hear.flush()
    finally:
        os._exit(0)


def _answer(file: str, met: _Met) -> bytes:
    faults = Faults(seen=met)
    source = Source(file, faults)
    try:
        if not claude_code.is_claude_code(source.head):
            return b""
        known, records = records_at(file, faults)
        if known.name != "Claude Code transcript":
            return b""
        rest = {
            "records": list(map(_row, ProgramRemarks(known.program).added(records))),
            "faults": [(fault.line, fault.what) for fault in faults.kept],
            "counts": {what: n - Faults.MOST for what, n in faults.counts.items() if n > Faults.MOST},
            "is_incomplete": faults.is_incomplete,
        }
        written = orjson.dumps(rest)
    except (UnreadableLog, TypeError, OSError):  # read here, which says what is wrong
        return b""
    digests = b"".join(met.here)
    return len(digests).to_bytes(_SIZE, "little") + digests + written


_CALL_FIELDS = tuple(one.name for one in fields(ModelCall))
_USAGE_FIELDS = tuple(one.name for one in fields(Usage))
_USAGE = _CALL_FIELDS.index("usage")
_call_values, _usage_values = attrgetter(*_CALL_FIELDS), attrgetter(*_USAGE_FIELDS)


def _row(record: Record) -> Sequence[Any]:
    """The values of a record, without their names: those of a remark are three."""
    if isinstance(record, Remark):
        return record.kind, record.about, record.text
    row = list(_call_values(record))
    if record.usage is not None:
        row[_USAGE] = _usage_values(record.usage)
    return row


def _record(row: list[Any]) -> Record:
    if len(row) == len(("kind", "about", "text")):
        return Remark(*row)
    if row[_USAGE] is not None:
        row[_USAGE] = Usage(**dict(zip(_USAGE_FIELDS, row[_USAGE], strict=True)))
    return ModelCall(*row)


def _message(content: bytes) -> bytes:
    return len(content).to_bytes(_SIZE, "little") + content


def _received(file: IO[bytes]) -> bytes:
    """The next message; raises `OSError` where nobody is there to send one."""
    size = file.read(_SIZE)
    message = file.read(int.from_bytes(size, "little"))
    if len(size) < _SIZE or len(message) < int.from_bytes(size, "little"):
        raise OSError("the other process has gone")
    return message
