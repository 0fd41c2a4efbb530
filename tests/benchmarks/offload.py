"""Recorded sessions said twice, with every result in the window and with large ones in files: `python -m
tests.benchmarks.offload DATA`.

DATA holds `pi/`, `agent-traces/` and `tau-bench/`. For each group and each threshold: how many sessions had a large
result, their windows summed over all calls, their bills and misses both ways, and how many results came back as they
were, byte for byte, out of how many. The sessions that had none are a line of their own: they pay for one tool
definition. The replies are the recorded ones; see `tests/benchmarks/replay.py` for what that means. The last
table says what is left of it where the model reads results back: every fourth, every second, or each one, whole and at
once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from contextkit.context import Context
from contextkit.importers.recording import Recording
from contextkit.ledger.ledger import Ledger
from contextkit.memory import Memory
from tests.benchmarks.recordings import reading_back, recordings
from tests.benchmarks.replay import (
    Offloading,
    Replay,
    ReplayClock,
    compared,
    direct,
    memory_above,
    provider_of,
    windows,
)

MODEL = "claude-sonnet-5-5"
THRESHOLDS = (250, 1_000, 4_000)


def said(recording: Recording, memory: Memory | None) -> tuple[Context, Ledger]:
    build = provider_of("anthropic")
    with direct("anthropic_messages") as road:
        return Replay(recording, lambda level: build(MODEL, level), road, ReplayClock(), memory=memory).run()


def sessions(data: Path, threshold: int) -> Iterator[tuple[str, Offloading]]:
    for group, recording in recordings(data):
        with memory_above(threshold) as memory:
            yield group, compared(said(recording, None), said(recording, memory))


def row(name: str, threshold: int, found: Iterable[Offloading]) -> str:
    each = list(found)
    window, kept = (sum(getattr(one, side).window_tokens for one in each) for side in ("plain", "offloaded"))
    bill, less = (sum(getattr(one, side).cost_usd for one in each) for side in ("plain", "offloaded"))
    lost, more = (sum(getattr(one, side).n_misses for one in each) for side in ("plain", "offloaded"))
    worse = sum(one.offloaded.n_misses > one.plain.n_misses for one in each)
    n, restored, n_kept = (
        sum(getattr(one, name) for one in each) for name in ("n_results", "n_restored", "n_offloaded")
    )
    windows = f"{window:>12,}{kept:>12,}{kept / window - 1:>8.1%}"
    bills = f"{bill:>9.2f}{less:>9.2f}{less / bill - 1:>8.1%}"
    return f"{name:<22}{threshold:>6}{len(each):>5}{windows}{bills}{f'{lost}/{more}':>8}{worse:>6}{n_kept:>7}{f'{restored}/{n}':>12}"


def say_reading(data: Path, threshold: int) -> None:
    _, recording = next(recordings(data))
    plain = windows(said(recording, None)[1])
    print(f"\npi, above {threshold} tokens in files, and read back:{'calls':>9}{'window':>14}{'bill $':>9}")
    print(f"{'in the window as recorded':<52}{plain.calls:>5}{plain.window_tokens:>14,}{plain.cost_usd:>9.2f}")
    for name, every in (("none", 0), ("every fourth", 4), ("every second", 2), ("each", 1)):
        with memory_above(threshold) as memory:
            found = windows(said(reading_back(recording, threshold, every) if every else recording, memory)[1])
        print(f"{name:<52}{found.calls:>5}{found.window_tokens:>14,}{found.cost_usd:>9.2f}", flush=True)


def main() -> None:
    data = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    if not data.is_dir():
        sys.exit(f"no folder {data}")
    print(
        f"{'':<22}{'above':>6}{'runs':>5}{'window':>12}{'offloaded':>12}{'':>8}{'bill $':>9}{'':>17}{'misses':>8}{'worse':>6}",
        end="",
    )
    print(f"{'files':>7}{'restored':>12}")
    for threshold in THRESHOLDS:
        groups: dict[str, list[Offloading]] = {}
        for group, found in sessions(data, threshold):
            groups.setdefault(group if found.n_offloaded else f"{group}, none large", []).append(found)
        for name in sorted(groups):
            print(row(name, threshold, groups[name]), flush=True)
    for threshold in THRESHOLDS:
        say_reading(data, threshold)


if __name__ == "__main__":
    main()
