"""How long linting a tree takes beside `ast.parse` alone over the same files.

    python tests/benchmarks/lint_source.py FOLDER [--rounds 3] [--jobs 1,2]

Prints one line a folder: files, megabytes, seconds of `ast.parse`, and of the lint for each number of processes with the ratio. Both read
the files from disk; turn by turn, and the best of each counts: what else the machine does only ever adds. The law holds for all cores.
Each folder is measured in a process of its own: what is left of one slows the next.
`ast.parse` alone runs with garbage collection as it comes; the lint turns it off while it reads, and that counts as its own.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.reading.files import source_files

LAW = 2.5
"""The ratio the lint must stay under."""


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


def measure(folder: Path, rounds: int, jobs: Sequence[int]) -> str:
    """One line about a folder."""
    files = list(source_files([folder], LintConfig()))
    rows, paths = list(hazards()), [file.path for file in files]
    linted: dict[int, float] = dict.fromkeys(jobs, float("inf"))
    parsed, found = float("inf"), 0
    for _ in range(rounds):
        parsed = min(parsed, seconds(lambda: parse_alone(paths)))
        for n in jobs:
            start = time.perf_counter()
            found = sum(1 for _ in find_in_code([folder], LintConfig(), rows, jobs=n))
            linted[n] = min(linted[n], time.perf_counter() - start)
    n_bytes = sum(file.n_bytes for file in files)
    ratios = ", ".join(f"{n} process{'es' * (n > 1)} {took:.2f} s = {took / parsed:.2f}x" for n, took in linted.items())
    verdict = "ok" if min(linted.values()) <= LAW * parsed else f"over {LAW}"
    return f"{folder.name}: {len(files):,} files, {n_bytes / 1e6:.1f} MB, parse {parsed:.2f} s, {ratios} ({verdict}), {found} findings"


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("folders", nargs="+", type=Path)
    reader.add_argument("--rounds", type=int, default=3)
    reader.add_argument("--jobs", default=f"1,{os.cpu_count() or 1}", help="numbers of processes, separated by commas")
    chosen = reader.parse_args()
    warnings.simplefilter("ignore")
    if len(chosen.folders) == 1:
        print(measure(chosen.folders[0], chosen.rounds, [*map(int, chosen.jobs.split(","))]))
    else:
        for folder in chosen.folders:
            subprocess.run([sys.executable, __file__, folder, "--rounds", str(chosen.rounds), "--jobs", chosen.jobs], check=True)


if __name__ == "__main__":
    main()
