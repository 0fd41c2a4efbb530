"""Work shared among processes: each takes the next chunk as soon as it is free, and the process that asks works as
well.

Takes a function and chunks, gives a result for each; knows nothing of what the work is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection, wait
from typing import Any

MOST_CHUNKS = 4096
"""More numbers than that may not fit into a pipe, which would wait for a reader."""
_MOST_PROCESSES = 61
"""More processes than Windows can wait for are of no use."""
_NUMBER = 4  # bytes
_ROOM = 1 << 20  # bytes of results that may wait for the parent

Work = Callable[[Any], Any]


def can_fork() -> bool:
    """Whether new processes begin as copies of this one here, which takes milliseconds and no import.

    A copy of a process with several threads has one of them, and the locks of all.
    """
    return get_context().get_start_method() == "fork" and threading.active_count() == 1


def n_processors() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shared(
    work: Work, chunks: Sequence[Any], n_processes: int, begin: Callable[..., None], *given: Any
) -> Iterator[Any]:
    """`work(chunk)` for each chunk, in the order they are done, by at most `n_processes` processes.

    Each of them calls `begin(*given)` before its first chunk, unless it is a copy of this one, where it was called
    already. A process that ends in the midst of a chunk leaves it to this one, where an error of the work is raised.
    """
    n_processes = min(n_processes, len(chunks), _MOST_PROCESSES)
    if n_processes <= 1 or current_process().daemon:  # a daemon may have no children
        yield from map(work, chunks)
    elif can_fork() and len(chunks) <= MOST_CHUNKS:
        yield from _forked(work, chunks, n_processes - 1)
    else:
        with ProcessPoolExecutor(n_processes, initializer=begin, initargs=given) as pool:
            yield from pool.map(work, chunks)


def _forked(work: Work, chunks: Sequence[Any], n_helpers: int) -> Iterator[Any]:
    """By copies of this process, and by itself."""
    numbers, left = _numbers(len(chunks)), set(range(len(chunks)))
    helpers: dict[Connection, Any] = {}
    try:
        for _ in range(n_helpers):
            helpers.update([_helper(work, chunks, numbers, [*helpers])])
        while (number := _next(numbers)) is not None:
            left.discard(number)
            yield work(chunks[number])
            yield from _arrived(helpers, left, 0)
        while helpers and left:
            yield from _arrived(helpers, left, None)
        yield from (work(chunks[number]) for number in sorted(left))
        _ending.extend(helpers.values())
    finally:
        os.close(numbers)
        for results, process in helpers.items():
            results.close()
            process.kill()
            if process not in _ending:
                process.join()


_ending: list[Any] = []
"""Helpers that have no more to do: what they held takes the system a moment to take back, which nobody need wait for at
once."""


@contextmanager
def ended() -> Iterator[None]:
    """No helper is left behind where this ends."""
    try:
        yield
    finally:
        while _ending:
            _ending.pop().join()


def _numbers(n: int) -> int:
    """The reading end of a pipe that holds the numbers of all chunks: whoever reads one has taken it."""
    numbers, end = os.pipe()
    os.write(end, b"".join(number.to_bytes(_NUMBER, "little") for number in range(n)))
    os.close(end)
    return numbers


def _next(numbers: int) -> int | None:
    """The next chunk nobody has taken, None when all are taken."""
    said = os.read(numbers, _NUMBER)
    return int.from_bytes(said, "little") if said else None


def _helper(work: Work, chunks: Sequence[Any], numbers: int, others: Sequence[Connection]) -> tuple[Connection, Any]:
    """A process that takes chunks, and where its results arrive.

    `others` are where those of the processes before it do.
    """
    context = get_context("fork")
    results, sender = context.Pipe(duplex=False)
    _widen(sender)
    process = context.Process(target=_help, args=(work, chunks, numbers, sender, [*others, results]), daemon=True)
    process.start()
    sender.close()
    return results, process


def _widen(sender: Connection) -> None:
    """Room for results in the pipe, where the system has a word for it, so that a helper need not wait until they are
    fetched.
    """
    with suppress(ImportError, AttributeError, OSError):
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(sender.fileno(), F_SETPIPE_SZ, _ROOM)


def _help(work: Work, chunks: Sequence[Any], numbers: int, sender: Connection, unread: Sequence[Connection]) -> None:
    """Takes chunks until none is left.

    Whatever goes wrong ends this process, and its chunk is done where the error can be raised.

    It lets go of the ends that are not its own to read: held open here, they would keep it waiting for a reader that
    was killed.
    """
    with suppress(BaseException):
        for results in unread:
            results.close()
        while (number := _next(numbers)) is not None:
            sender.send((number, work(chunks[number])))


def _arrived(helpers: dict[Connection, Any], left: set[int], seconds: float | None) -> Iterator[Any]:
    """Results that helpers sent; a helper that sends no more is let go."""
    ready = wait(helpers, seconds)
    for results in [one for one in helpers if one in ready]:
        try:
            number, result = results.recv()
        except (EOFError, OSError):
            helpers.pop(results).join()
            results.close()
            continue
        left.discard(number)
        yield result
