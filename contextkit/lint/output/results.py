"""What there is to print: the findings of a run, grouped and counted, with the rows of their codes."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import CodePlace, Finding, RequestPlace
from contextkit.lint.hazard import Hazard
from contextkit.lint.own import OWN, Own
from contextkit.lint.source import notebook

_NEWLINE = re.compile(r"\r\n|\r|\n")
"""What Python counts as the end of a line; str.splitlines knows more."""
_NO_CONTENTS: Mapping[str, bytes] = MappingProxyType({})


def lines_of(file: str, contents: Mapping[str, bytes] = _NO_CONTENTS) -> Sequence[str]:
    """Return a source file's lines in its own encoding; none of a file that is gone, or that no encoding fits.

    Of a notebook those of a cell: `note.ipynb#cell3`. `contents` maps files that are not on the disk to what they hold.
    """
    file, _, number = file.partition(f"{notebook.SUFFIX}#cell")
    if number:
        file += notebook.SUFFIX
    try:
        if file not in contents and not Path(file).is_file():  # a pipe would be waited for
            return ()
        raw = contents[file] if file in contents else Path(file).read_bytes()
        if number:
            texts = [text.decode() for cell, text in notebook.code_cells(raw) if str(cell) == number]
            return _NEWLINE.split("".join(texts))
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return _NEWLINE.split(raw.decode(encoding))
    except (OSError, SyntaxError, ValueError, LookupError):
        return ()


@cache
def rules() -> Mapping[str, Hazard | Own]:
    """Return the row of each code."""
    return {**OWN, **{row.code: row for row in hazards()}}


@dataclass(frozen=True, slots=True)
class LintResults:
    """The findings of a run, and how much was looked at."""

    findings: Sequence[Finding]
    """All of them."""
    n_fixed: int = 0
    """Findings that were fixed and are not among these."""
    n_files: int | None = None
    """Python files looked at; None where no code was asked about."""
    n_calls: int | None = None
    """Recorded calls looked at; None where no recording was given."""
    lines: Callable[[str], Sequence[str]] = lines_of
    """File → its lines, for what is shown around a place."""
    is_incomplete: bool = False
    """Whether a recording was not read, or not to its end."""


@dataclass(frozen=True, slots=True)
class Group:
    """Findings that are one to a reader: a place in code, or the same hazard of a conversation in several turns."""

    findings: tuple[Finding, ...]
    """At least one, in order of turns."""

    @property
    def first(self) -> Finding:
        """The one that is shown."""
        return self.findings[0]

    @property
    def where(self) -> str:
        """Place of the first, with all turns: `agent.py:5:11`, `run-1 turns 12-14, 40 system[0] byte 812`."""
        place = self.first.place
        if isinstance(place, CodePlace):
            return str(place)
        turns = [finding.place.turn for finding in self.findings if isinstance(finding.place, RequestPlace)]
        path = (
            "" if place.path == "body" and self.first.cause else f" {place.path}"
        )  # the cause has no place in the body
        offset = f" byte {place.offset:,}" if place.offset else ""
        return f"{place.session} turn{'s' * (len(set(turns)) > 1)} {ranges(turns)}{path}{offset}"


def groups(findings: Iterable[Finding]) -> list[Group]:
    """Group code by place, then requests by session: each hazard of a session once for each level it shows at."""
    alone: list[tuple[str, int, int, str, Finding]] = []
    gathered: dict[tuple[str, str, str, str], list[tuple[int, Finding]]] = {}
    for finding in findings:
        place = finding.place
        if isinstance(place, CodePlace):
            alone.append((place.file, place.line, place.column, finding.code, finding))
        else:
            key = place.session, finding.code, place.level, finding.detector
            gathered.setdefault(key, []).append((place.turn, finding))
    together = [sorted(group, key=lambda one: one[0]) for group in gathered.values()]
    return [
        *(Group((one[-1],)) for one in sorted(alone, key=lambda one: one[:-1])),
        *(Group(tuple(finding for _, finding in group)) for group in together),
    ]


def ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers in few words.

    >>> ranges([12, 13, 14, 40])
    '12-14, 40'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


@dataclass(frozen=True, slots=True)
class Count:
    """One hazard of a run."""

    code: str
    """`CKS01`."""
    name: str
    """`clock-in-system`."""
    count: int
    """Findings."""
    fixable: int
    """Of these with a safe fix."""


def counts(results: LintResults) -> list[Count]:
    """Count the findings of each code, the most frequent first."""
    total = Counter(finding.code for finding in results.findings)
    safe = Counter(finding.code for finding in results.findings if finding.fix and finding.fix.is_safe)
    ordered = sorted(total, key=lambda code: (-total[code], code))
    return [Count(code, rules()[code].name, total[code], safe[code]) for code in ordered]
