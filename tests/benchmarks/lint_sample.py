"""Measures the source detector on packages that it was not developed on; docs/research/lint.md has the protocol.

    python -m tests.benchmarks.lint_sample FOLDER [--seed 1] [--count 60] [--out sample.json]
    python -m tests.benchmarks.lint_sample --verdicts FIRST.json SECOND.json
    python -m tests.benchmarks.lint_sample FOLDER --recall

The first lints every folder in FOLDER as a program of its own and draws the findings to judge. The second counts what
two readers said: lists of {"id", "letter", "costly"}. The third lints the releases before and after each fixed bug of
`docs/research/lint-recall.toml` (folders `package-version` in FOLDER) and says which are found. Nothing is installed or
downloaded."""

from __future__ import annotations

import argparse
import json
import random
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.own import UNREADABLE
from contextkit.lint.source.detect import find_in_code

BUGS: Final = Path(__file__).resolve().parents[2] / "docs" / "research" / "lint-recall.toml"
_NEAR: Final = 3
"""Lines around the place of a bug that a finding, or a step of its trail, may be at."""


def findings_of(folder: Path) -> list[Finding]:
    """The findings in a folder, without notes about what cannot be read."""
    return [one for one in find_in_code([folder], LintConfig(), hazards()) if one.code != UNREADABLE]


def row(number: int, package: str, finding: Finding, root: Path) -> dict[str, Any]:
    """A finding as it is judged."""
    place = finding.place
    assert isinstance(place, CodePlace)
    trail = [f"{Path(step.file).relative_to(root)}:{step.line} {step.note}" for step in finding.trail]
    file = str(Path(place.file).relative_to(root))
    return {
        "id": number, "package": package, "code": finding.code, "file": file, "line": place.line,
        "message": finding.message, "trail": trail,
    }  # fmt: skip


def sample(root: Path, seed: int, count: int) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Findings drawn from all programs under a folder, and how many there are of each code."""
    found = [(folder.name, one) for folder in sorted(root.iterdir()) if folder.is_dir() for one in findings_of(folder)]
    codes = Counter(one.code for _, one in found)
    random.Random(seed).shuffle(found)
    return [row(number, package, one, root) for number, (package, one) in enumerate(found[:count], 1)], codes


def verdicts(first: Path, second: Path) -> str:
    """What two readers said of the same findings."""
    readers = [{one["id"]: one for one in json.loads(path.read_text("utf-8"))} for path in (first, second)]
    ids = sorted(readers[0].keys() & readers[1].keys())
    lines = [f"{len(ids)} findings judged by both"]
    for word in ("letter", "costly"):
        counts = [sum(bool(reader[one][word]) for one in ids) for reader in readers]
        both = sum(all(reader[one][word] for reader in readers) for one in ids)
        lines.append(f"{word}: {counts[0]} and {counts[1]}, both {both} of {len(ids)} ({both / len(ids):.0%})")
    return "\n".join(lines)


def recall(root: Path) -> Iterator[str]:
    """For each fixed bug whose releases are there: whether the one before has a finding at the place, and the one after not."""
    for bug in tomllib.loads(BUGS.read_text("utf-8"))["bug"]:
        before, after = (root / f"{bug['package']}-{bug[version]}" for version in ("before", "after"))
        if not before.is_dir() or not after.is_dir():
            yield f"{bug['package']} {bug['before']}: not in the folder"
            continue
        near = {one.code for one in findings_of(before) if _is_near(one, bug)}
        left = {one.code for one in findings_of(after) if _is_near(one, bug)}
        found = f"found {' '.join(sorted(near - left))}" if near - left else "not found"
        yield f"{bug['package']} {bug['before']} {bug['hazard']}: {found}"


def _is_near(finding: Finding, bug: dict[str, Any]) -> bool:
    first, last = bug["lines"]
    places = [one for one in (finding.place, *finding.trail) if isinstance(one, CodePlace)]
    return any(
        Path(one.file).as_posix().endswith(bug["file"]) and first - _NEAR <= one.line <= last + _NEAR for one in places
    )


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lint_sample", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of unpacked packages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--out", type=Path, help="where the sample is written")
    parser.add_argument("--verdicts", nargs=2, type=Path, metavar=("FIRST", "SECOND"))
    parser.add_argument("--recall", action="store_true")
    given = parser.parse_args()
    if given.verdicts:
        print(verdicts(*given.verdicts))
    elif given.folder is None:
        parser.error("give a folder of unpacked packages, or --verdicts")
    elif given.recall:
        for line in recall(given.folder):
            print(line, flush=True)
    else:
        drawn, codes = sample(given.folder, given.seed, given.count)
        print(f"{codes.total()} findings: {', '.join(f'{code} {n}' for code, n in codes.most_common())}")
        if given.out:
            given.out.write_text(json.dumps(drawn, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
