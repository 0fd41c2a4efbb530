"""What was found once and is known: of later findings in code only the new ones are told.

Takes findings and the lines of their files, gives a JSON file, and of later findings those that are not in it. A
finding is known again by its code, its file and the text of its line, so that code that moves stays known; as often as
it was found then.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from contextkit.errors import UsageError
from contextkit.lint.finding import CodePlace, Finding
from contextkit.private_files import replacing

VERSION = 1
"""Of the file's shape."""
Lines = Callable[[str], Sequence[str]]
"""File → its lines."""
Naming = Callable[[str], str]
"""File → the name it is known by, with `/`, from a folder that stays."""


class FindingKey(NamedTuple):
    """What a finding is known again by."""

    file: str
    """From the folder of the baseline, or the top of the repository, with `/`."""
    code: str
    """`CKS01`."""
    text: str
    """Of the line, each run of blanks one blank; empty where the file has no such line."""


def write_baseline(path: str, findings: Iterable[Finding], lines: Lines) -> int:
    """Write down findings in code.

    Gives how many. The same findings give the same bytes. Raises `OSError` where nobody can write, `StorageError` where
    a link, or anything but a file of this user, stands there.
    """
    counts = finding_counts(findings, naming(path), lines)
    rows = [{**key._asdict(), "count": counts[key]} for key in sorted(counts)]
    text = json.dumps({"version": VERSION, "findings": rows}, ensure_ascii=True, indent=2)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())
    return counts.total()


def read_baseline(path: str) -> Counter[FindingKey]:
    """How often each was found; raises `UsageError` for a file that is not there, or is no baseline."""
    try:
        told = json.loads(Path(path).read_text("utf-8"))
        if isinstance(told, dict) and type(told.get("version")) is int and told["version"] > VERSION:
            raise UsageError(
                f"{path}: a baseline of version {told['version']}, this contextkit reads up to {VERSION}: upgrade contextkit"
            )
        return _read(told)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such baseline; make one with --write-baseline {path}") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(
            f"{path}: no baseline of version {VERSION}; make it anew with --write-baseline {path}"
        ) from None


def _read(told: Any) -> Counter[FindingKey]:
    """Raises `KeyError`, `TypeError` or `ValueError` for another shape."""
    if told["version"] != VERSION:
        raise ValueError(told["version"])
    counts = Counter[FindingKey]()
    for row in told["findings"]:
        key = FindingKey(row["file"], row["code"], row["text"])
        if not all(isinstance(word, str) for word in key) or type(row["count"]) is not int:
            raise TypeError(row)
        counts[key] += row["count"]
    return counts


def new(findings: Iterable[Finding], *, then: Counter[FindingKey], name: Naming, lines: Lines) -> list[Finding]:
    """Those that were not found then.

    Where a line's finding is met more often than then, the last ones.
    """
    left, reported, read = then.copy(), list[Finding](), _read_once(lines)
    for finding in findings:
        key = _key(finding, name, read)
        if key is not None and left[key] > 0:
            left[key] -= 1
        else:
            reported.append(finding)
    return reported


def finding_counts(findings: Iterable[Finding], name: Naming, lines: Lines) -> Counter[FindingKey]:
    """How often each was found in code."""
    read = _read_once(lines)
    return Counter(key for finding in findings if (key := _key(finding, name, read)) is not None)


def _read_once(lines: Lines) -> Lines:
    """Findings come file by file."""
    return lru_cache(maxsize=8)(lines)


def _key(finding: Finding, name: Naming, lines: Lines) -> FindingKey | None:
    """None for what was found in requests: they are sent once, and never again."""
    place = finding.place
    if not isinstance(place, CodePlace):
        return None
    held = lines(place.file)
    text = held[place.line - 1] if 1 <= place.line <= len(held) else ""
    return FindingKey(name(place.path), finding.code, " ".join(text.split()))


def naming(baseline: str) -> Naming:
    """Names from the folder of the baseline at a path."""
    return partial(_from, baseline)


def _from(baseline: str, file: str) -> str:
    """A file's path from the folder of the baseline; whole where it is on another drive."""
    whole = Path(file).absolute()
    try:
        return Path(os.path.relpath(whole, Path(baseline).absolute().parent)).as_posix()
    except ValueError:
        return whole.as_posix()
