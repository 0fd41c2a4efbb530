"""How long linting a tree takes beside `ast.parse` alone over the same files.

    python tests/benchmarks/lint_source.py FOLDER [--rounds 3] [--jobs 2]

Prints one line a folder: files, megabytes, seconds of each, their ratio. Both read the files from disk; turn by turn, the medians count.
"""

from __future__ import annotations

import argparse
import ast
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.files import source_files

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


def measure(folder: Path, rounds: int, jobs: int | None) -> str:
    """One line about a folder."""
    files = list(source_files([folder], LintConfig()))
    rows, paths, found = list(hazards()), [file.path for file in files], 0

    def lint() -> None:
        nonlocal found
        found = sum(1 for _ in find_in_code([folder], LintConfig(), rows, jobs=jobs))

    pairs = [(seconds(lambda: parse_alone(paths)), seconds(lint)) for _ in range(rounds)]
    parsed, linted = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    n_bytes = sum(file.n_bytes for file in files)
    verdict = "ok" if linted <= LAW * parsed else f"over {LAW}"
    return (
        f"{folder.name}: {len(files):,} files, {n_bytes / 1e6:.1f} MB, parse {parsed:.2f} s, lint {linted:.2f} s, "
        f"ratio {linted / parsed:.2f} ({verdict}), {found} findings"
    )


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("folders", nargs="+", type=Path)
    reader.add_argument("--rounds", type=int, default=3)
    reader.add_argument("--jobs", type=int, default=None)
    chosen = reader.parse_args()
    warnings.simplefilter("ignore")
    for folder in chosen.folders:
        print(measure(folder, chosen.rounds, chosen.jobs))


if __name__ == "__main__":
    main()
