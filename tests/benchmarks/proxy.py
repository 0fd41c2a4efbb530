"""What the proxy adds to a stream, event by event: the same fake provider, first directly, then through `contextkit
proxy`.

`python -m tests.benchmarks.proxy` runs 20 streams for 5 s each way; `--full` 200 streams for 60 s; with `--faults`
every tenth stream is killed by the provider half way and another tenth of the clients reads nothing for half of the
time. Provider, proxy (which records) and clients are processes of their own and share the machine. Added is the
percentile through the proxy less the same one without it, and beside it what the whole way took. Exit code 1 where a
byte changed, a stream was cut, a row is missing or a limit is passed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contextkit.ledger.ledger import Ledger

LOAD = [sys.executable, "-m", "tests.benchmarks.proxy_load"]
PROXY = [sys.executable, "-m", "contextkit.cli.main", "proxy", "--json"]
LIMITS_MS = {50: 3.0, 99: 15.0}
"""Percentile → what may be added."""
SIZES = {False: (20, 5.0), True: (200, 60.0)}
"""Whether `--full` was given → streams, seconds."""


@contextmanager
def started(command: list[str]) -> Iterator[str]:
    """A process, and the first line it prints."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def heard(port: int, streams: int, seconds: float, *, has_faults: bool = False) -> dict[str, Any]:
    """What the clients say of one run."""
    command = [*LOAD, "clients", str(port), str(streams), str(seconds), *(["faults"] if has_faults else [])]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 120)
    return dict(json.loads(said.stdout))


def percentile(values: list[int], share: int) -> float:
    """In milliseconds."""
    return sorted(values)[min(len(values) * share // 100, len(values) - 1)] / 1e6


def measured(streams: int, seconds: float, *, has_faults: bool) -> dict[str, Any]:
    """Both runs, and the rows that were recorded."""
    with tempfile.TemporaryDirectory() as folder, started([*LOAD, "upstream"]) as line:
        port, record = int(line), Path(folder) / "runs.jsonl"
        direct = heard(port, streams, seconds, has_faults=has_faults)
        with started(
            [*PROXY, "--upstream", f"http://127.0.0.1:{port}", "--port", "0", "--record", str(record)]
        ) as told:
            through = heard(int(json.loads(told)["url"].rpartition(":")[2]), streams, seconds, has_faults=has_faults)
        rows = Ledger.read(record)
    return {
        "direct": direct,
        "through": through,
        "rows": len(rows),
        "failed": sum(row.error is not None for row in rows),
        "killed": sum(row.error == "cut" for row in rows),
    }


def main(*, is_full: bool, has_faults: bool = False) -> bool:
    """Run, print, and say whether everything held."""
    streams, seconds = SIZES[is_full]
    found = measured(streams, seconds, has_faults=has_faults)
    direct, through = found["direct"], found["through"]
    holds = not through["cut"] and not through["changed"] and not direct["cut"]
    n_events = len(through["events"])
    print(f"{streams} streams × {seconds:g} s: {n_events} events, {through['bytes']} bytes")
    print(f"{through['changed']} events changed, {through['cut']} streams cut")
    print(f"{through['killed']} streams killed by the provider, {through['slow']} heard late and whole")
    print(f"recorded: {found['rows']} rows, {found['failed']} of them with an error, {found['killed']} of those `cut`")
    n_killed = sum(number % 10 == 3 for number in range(streams)) if has_faults else 0
    holds &= (n_events, found["rows"], found["failed"]) == (len(direct["events"]), streams, n_killed)
    holds &= (through["killed"], through["slow"], found["killed"]) == (n_killed, n_killed, n_killed)
    for what in ("events", "firsts"):
        for share, limit in LIMITS_MS.items():
            before, after = percentile(direct[what], share), percentile(through[what], share)
            holds &= after - before < limit
            added = f"added {after - before:6.2f} ms (limit {limit:g})"
            print(f"{what:>7} p{share}: direct {before:6.2f} ms, through the proxy {after:6.2f} ms, {added}")
    return holds


if __name__ == "__main__":
    sys.exit(0 if main(is_full="--full" in sys.argv[1:], has_faults="--faults" in sys.argv[1:]) else 1)
