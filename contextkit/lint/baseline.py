"""Baselines: findings in code that were accepted, in a JSON file; of later ones only new ones are reported.

A finding is recognized by its code, its file and the text of its line, so that code may move; and as often as it was accepted.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from contextkit.errors import UsageError
from contextkit.lint.finding import CodePlace, Finding
from contextkit.private_files import replacing

VERSION = 1
"""Of the file's shape."""
Lines = Callable[[str], Sequence[str]]
"""File → its lines."""
Naming = Callable[[str], str]
"""File → its name in a baseline, with `/`, from a folder that stays."""


class FindingKey(NamedTuple):
    """What a finding is recognized by."""

    file: str
    """From the folder of the baseline, or the top of the repository, with `/`."""
    code: str
    """`CKS01`."""
    text: str
    """Of the line, each run of blanks one blank; empty where the file has no such line."""


def write_baseline(path: str, findings: Iterable[Finding], lines: Lines) -> int:
    """Write the findings in code to a file, the same findings as the same bytes; return how many.

    Raises `OSError` where nobody can write, `StorageError` where a link, or anything but a file of this user, stands there.
    """
    counts = finding_counts(findings, naming(path), lines)
    rows = [{**key._asdict(), "count": counts[key]} for key in sorted(counts)]
    text = json.dumps({"version": VERSION, "findings": rows}, ensure_ascii=True, indent=2)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())
    return counts.total()


def read_baseline(path: str) -> Counter[FindingKey]:
    """Return how often each was accepted; raise `UsageError` for a file that is not there, or is no baseline."""
    counts = Counter[FindingKey]()
    try:
        table = json.loads(Path(path).read_text("utf-8"))
        version = table["version"]
        if type(version) is int and version > VERSION:
            raise UsageError(
                f"{path}: a baseline of version {version}, this contextkit reads up to {VERSION}: upgrade contextkit"
            )
        if version != VERSION:
            raise ValueError(version)
        for row in table["findings"]:
            key = FindingKey(row["file"], row["code"], row["text"])
            if {*map(type, key)} != {str} or type(row["count"]) is not int:
                raise TypeError(row)
            counts[key] += row["count"]
    except FileNotFoundError:
        raise UsageError(f"{path}: no such baseline; make one with --write-baseline {path}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(
            f"{path}: no baseline of version {VERSION}; make it anew with --write-baseline {path}"
        ) from None
    return counts


def new(findings: Iterable[Finding], *, then: Counter[FindingKey], name: Naming, lines: Lines) -> list[Finding]:
    """Return the findings that are not among those of `then`; of more on a line than then, the last ones."""
    left, reported = then.copy(), list[Finding]()
    for finding, key in _keys(findings, name, lines):
        if key is not None and left[key] > 0:
            left[key] -= 1
        else:
            reported.append(finding)
    return reported


def finding_counts(findings: Iterable[Finding], name: Naming, lines: Lines) -> Counter[FindingKey]:
    """Count each finding in code."""
    return Counter(key for _, key in _keys(findings, name, lines) if key is not None)


def _keys(findings: Iterable[Finding], name: Naming, lines: Lines) -> Iterator[tuple[Finding, FindingKey | None]]:
    """Yield findings with their keys; None for one in requests: they are sent once, and never again."""
    read = lru_cache(maxsize=8)(lines)  # findings come file by file
    for finding in findings:
        place, key = finding.place, None
        if isinstance(place, CodePlace):
            text = "".join(read(place.file)[place.line - 1 : place.line])
            key = FindingKey(name(place.path), finding.code, " ".join(text.split()))
        yield finding, key


def naming(baseline: str) -> Naming:
    """Return what names a file from the folder of a baseline; whole where it is on another drive."""
    folder = Path(baseline).absolute().parent

    def name(file: str) -> str:
        whole = Path(file).absolute()
        try:
            return Path(os.path.relpath(whole, folder)).as_posix()
        except ValueError:
            return whole.as_posix()

    return name
