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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
    """The processes, each served by a thread: what one has read is taken from it at once, and the next file given."""

    def __init__(self, files: Sequence[str], faults: Faults, n: int) -> None:
        self._files, self._faults = files, faults
        self._changed = threading.Condition()
        self._next = self._asked = 0
        self._read: dict[int, bytes | None] = {}
        """File → what a process says of it; None where it is to be read here."""
        self._met: list[bytes] = []
        """Calls that processes have met, as digests one behind the other: a piece for each file."""
        self._is_closed = False
        self._workers = [_Worker() for _ in range(n)]  # all of them before the first thread
        self._threads = [threading.Thread(target=self._serve, args=(worker,), daemon=True) for worker in self._workers]
        for thread in self._threads:
            thread.start()

    def _serve(self, worker: _Worker) -> None:
        n_told = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or self._next < self._asked + MOST_AHEAD)
                if self._is_closed or self._next >= len(self._files):
                    return
                index, self._next = self._next, self._next + 1
                news, n_told = b"".join(self._met[n_told:]), len(self._met)
            file = self._files[index]
            # what comes by a pipe comes once
            answer = worker.ask(file, news) if file != STDIN and Path(file).is_file() else None
            with self._changed:
                if answer is not None:
                    n_digests = int.from_bytes(answer[:_SIZE], "little")
                    self._met.append(answer[_SIZE : _SIZE + n_digests])
                self._read[index] = answer
                self._changed.notify_all()

    def records(self, file: str) -> Iterator[Record]:
        """The records of the next file."""
        index = self._asked
        with self._changed:
            self._changed.wait_for(lambda: index in self._read)
            answer = self._read.pop(index)
            self._asked += 1
            self._changed.notify_all()
        result = None if answer is None else self._accepted(answer)
        if result is None:
            return remarked_records_at(file, self._faults)
        self._faults.n_files += 1
        for line, what in result["faults"]:
            self._faults.add(file, line, what)
        self._faults.add_counts(result["counts"])
        self._faults.is_incomplete |= result["is_incomplete"]
        return map(_record, result["records"])

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
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for worker, thread in zip(self._workers, self._threads, strict=True):
            worker.kill()
            thread.join()
            worker.close()


class _Worker:
    """One process, and what is said to it."""

    def __init__(self) -> None:
        (told, tell), (heard, hear) = os.pipe(), os.pipe()
        self._process = os.fork()
        if not self._process:
            os.close(tell)
            os.close(heard)
            _work(os.fdopen(told, "rb"), os.fdopen(hear, "wb"))
        os.close(told)
        os.close(hear)
        self._tell, self._heard = os.fdopen(tell, "wb"), os.fdopen(heard, "rb")

    def ask(self, file: str, met: bytes) -> bytes | None:
        """What is in a file: the digests of its calls that `met` and what it was told before do not hold, and the rest as
        JSON.

        None where it is none for this, or the process is gone.
        """
        try:
            _send(self._tell, os.fsencode(file))
            _send(self._tell, met)
            return _received(self._heard) or None
        except (OSError, ValueError):
            return None

    def kill(self) -> None:
        """It is not needed any more: who waits for its answer gets none."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)

    def close(self) -> None:
        """Close both pipes; it is dead, and nobody waits for it."""
        for file in (self._tell, self._heard):
            with suppress(OSError):
                file.close()


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
            _send(hear, _answer(file, met))
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
            "records": list(ProgramRemarks(known.program).added(records)),
            "faults": [(fault.line, fault.what) for fault in faults.kept],
            "counts": {what: n - Faults.MOST for what, n in faults.counts.items() if n > Faults.MOST},
            "is_incomplete": faults.is_incomplete,
        }
        written = orjson.dumps(rest)
    except (UnreadableLog, TypeError, OSError):  # read here, which says what is wrong
        return b""
    digests = b"".join(met.here)
    return len(digests).to_bytes(_SIZE, "little") + digests + written


def _record(row: dict[str, Any]) -> Record:
    if "kind" in row:
        return Remark(**row)
    usage = row["usage"]
    if usage is not None:
        row["usage"] = Usage(**usage)
    return ModelCall(**row)


def _send(file: IO[bytes], message: bytes) -> None:
    file.write(len(message).to_bytes(_SIZE, "little") + message)
    file.flush()


def _received(file: IO[bytes]) -> bytes:
    """The next message; raises `OSError` where nobody is there to send one."""
    size = file.read(_SIZE)
    message = file.read(int.from_bytes(size, "little"))
    if len(size) < _SIZE or len(message) < int.from_bytes(size, "little"):
        raise OSError("the other process has gone")
    return message
