"""Work shared among processes: each chunk is done once, whatever becomes of a helper."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.lint.source import workers
from contextkit.lint.source.workers import ended, n_processors, shared

pytestmark = pytest.mark.skipif(
    multiprocessing.get_start_method() != "fork", reason="processes do not begin as copies here"
)


@pytest.fixture(autouse=True)
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever threads other tests have left."""
    monkeypatch.setattr(workers, "can_fork", lambda: True)


def nothing() -> None:
    """What every process does first."""


def where(number: int) -> tuple[int, int]:
    """A chunk, and the process that did it; long enough for the others to begin."""
    time.sleep(0.02)
    return number, os.getpid()


def only_here(parent: int) -> Callable[[int], int]:
    """Work that kills every process but this one in its midst."""

    def work(number: int) -> int:
        if os.getpid() != parent:
            os._exit(3)
        time.sleep(0.01)
        return number

    return work


def test_every_chunk_is_done_once_and_this_process_works_too() -> None:
    done = list(shared(where, range(40), 3, nothing))
    assert sorted(number for number, _ in done) == [*range(40)]
    processes = {process for _, process in done}
    assert os.getpid() in processes and len(processes) > 1


def test_results_longer_than_a_pipe_arrive() -> None:
    sizes = [len(text) for text in shared(bytes, [3_000_000] * 6, 2, nothing)]
    assert sizes == [3_000_000] * 6


def test_a_process_that_ends_in_the_midst_leaves_its_chunk_to_this_one() -> None:
    assert sorted(shared(only_here(os.getpid()), range(20), 3, nothing)) == [*range(20)]


def test_an_error_of_the_work_is_raised_where_it_was_asked_for() -> None:
    with pytest.raises(ZeroDivisionError):
        list(shared(lambda number: 1 // (number - 7), range(20), 2, nothing))
    assert multiprocessing.active_children() == []


def test_nobody_is_left_where_all_have_ended() -> None:
    with ended():
        assert sum(1 for _ in shared(where, range(10), 3, nothing)) == 10
    assert multiprocessing.active_children() == []


def test_nobody_is_left_when_the_results_are_not_wanted_any_more() -> None:
    results = shared(where, range(1000), 3, nothing)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


KILLED = """
import os, signal, sys
from contextkit.lint.source.workers import shared

def work(number):
    if os.getpid() == parent:
        os.kill(parent, signal.SIGKILL)
    return bytes(3_000_000)

parent = os.getpid()
for _ in shared(work, range(1000), 4, print):
    pass
"""


def test_nobody_waits_for_a_process_that_was_killed() -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, timeout=30, check=False
    )  # reads until all have ended
    assert killed.returncode == -signal.SIGKILL


def test_a_daemon_works_alone() -> None:
    context = multiprocessing.get_context("fork")
    results, sender = context.Pipe(duplex=False)
    daemon = context.Process(target=lambda: sender.send(sorted(shared(abs, range(-5, 0), 3, nothing))), daemon=True)
    daemon.start()
    daemon.join()
    assert results.recv() == [1, 2, 3, 4, 5]


def test_one_chunk_needs_one_process(tmp_path: Path) -> None:
    assert list(shared(where, [5], 8, nothing)) == [(5, os.getpid())]
    assert 1 <= n_processors() <= (os.cpu_count() or 1)
