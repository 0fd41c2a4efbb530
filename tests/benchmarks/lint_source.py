"""How long linting a tree takes beside `ast.parse` alone over the same files.

    python tests/benchmarks/lint_source.py FOLDER [--rounds 3] [--jobs 1,2]

Prints one line a folder: files, megabytes, seconds of `ast.parse`, and of the lint for each number of processes with
the ratio; then how many folders keep the law, by their size, and the ratio of all together. Both read the files from
disk; turn by turn, and the best of each counts: what else the machine does only ever adds. The law holds for all cores.
Each folder is measured in a process of its own: what is left of one slows the next. `ast.parse` alone runs with garbage
collection as it comes; the lint turns it off while it reads, and that counts as its own."""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.files import source_files

LAW = 2.5
"""The ratio the lint must stay under."""
SIZES = (0, 1_000, 25_000, 100_000, 1_000_000, 10**12)
"""Bytes of source, to count trees by."""


def parse_alone(paths: Sequence[str]) -> int:
    """Parses every file, one after the other, in this process."""
    n_parsed = 0
    for path in paths:
        try:
            ast.parse(Path(path).read_bytes())
        except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
            continue
        n_parsed += 1
    return n_parsed


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Measured(NamedTuple):
    """One folder: how long each took at best."""

    name: str
    n_files: int
    n_bytes: int
    parsed: float
    """Seconds of `ast.parse`."""
    linted: dict[str, float]
    """Number of processes → seconds."""
    n_findings: int

    @property
    def ratio(self) -> float:
        """Of the faster lint to `ast.parse`; without anything to parse there is none."""
        return min(self.linted.values()) / self.parsed if self.n_bytes else float("inf")

    def line(self) -> str:
        """It as one line."""
        each = [
            f"{n} process{'es' * (n != '1')} {took:.3f} s = {took / self.parsed:.2f}x"
            for n, took in self.linted.items()
        ]
        verdict = "ok" if self.ratio <= LAW else f"over {LAW}"
        size = f"{self.n_files:,} files, {self.n_bytes / 1e6:.3f} MB, parse {self.parsed:.3f} s"
        return f"{self.name}: {size}, {', '.join(each)} ({verdict}), {self.n_findings} findings"


def measure(folder: Path, rounds: int, jobs: Sequence[int]) -> Measured:
    """Parsed and linted, turn by turn."""
    files = list(source_files([folder], LintConfig()))
    rows, paths = list(hazards()), [file.path for file in files]
    linted: dict[str, float] = {str(n): float("inf") for n in jobs}
    parsed, found = float("inf"), 0
    for _ in range(rounds):
        parsed = min(parsed, seconds(lambda: parse_alone(paths)))
        for n in jobs:
            start = time.perf_counter()
            found = sum(1 for _ in find_in_code([folder], LintConfig(), rows, jobs=n))
            linted[str(n)] = min(linted[str(n)], time.perf_counter() - start)
    return Measured(folder.name, len(files), sum(file.n_bytes for file in files), parsed, linted, found)


def measure_apart(folder: Path, rounds: int, jobs: str) -> Measured:
    """The same in a process of its own."""
    command = [sys.executable, __file__, str(folder), "--rounds", str(rounds), "--jobs", jobs, "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Measured(**json.loads(said))


def in_all(measured: Sequence[Measured]) -> Iterator[str]:
    """How many trees keep the law, by how much there is to parse, and all of them together."""
    for least, most in pairwise(SIZES):
        those = [one for one in measured if least <= one.n_bytes < most]
        kept = sum(one.ratio <= LAW for one in those)
        if those:
            slowest = max(one.ratio for one in those)
            yield f"{least / 1e3:,.0f} kB and more: {kept} of {len(those)} at most {LAW}x, the slowest {slowest:.2f}x"
    parsed, linted = sum(one.parsed for one in measured), sum(min(one.linted.values()) for one in measured)
    yield f"all {len(measured)} together: parse {parsed:.2f} s, lint {linted:.2f} s = {linted / parsed:.2f}x"


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("folders", nargs="+", type=Path)
    reader.add_argument("--rounds", type=int, default=3)
    reader.add_argument("--jobs", default=f"1,{os.cpu_count() or 1}", help="numbers of processes, separated by commas")
    reader.add_argument("--json", action="store_true", help="one object a folder")
    chosen = reader.parse_args()
    warnings.simplefilter("ignore")
    measured = []
    for folder in chosen.folders:
        is_alone = len(chosen.folders) == 1
        jobs = [*map(int, chosen.jobs.split(","))]
        measured.append(
            measure(folder, chosen.rounds, jobs) if is_alone else measure_apart(folder, chosen.rounds, chosen.jobs)
        )
        print(json.dumps(measured[-1]._asdict()) if chosen.json else measured[-1].line(), flush=True)
    if not chosen.json and len(measured) > 1:
        print(*in_all(measured), sep="\n")


if __name__ == "__main__":
    main()
