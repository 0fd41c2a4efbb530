"""How often each hazard was found, and in how much.

Takes findings and the catalogue's rows, gives counts and a table of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.output.group import Catalogue, name


@dataclass(frozen=True, slots=True)
class Looked:
    """How much was looked at."""

    n_files: int | None = None
    """Python files; None where no code was asked about."""
    n_calls: int | None = None
    """Recorded calls with their bodies; None where no recording was given."""

    def __str__(self) -> str:
        known = ((self.n_files, "file"), (self.n_calls, "call"))
        return ", ".join(counted(n, what) for n, what in known if n is not None)

    @property
    def lacking(self) -> str:
        """What was asked for, where nothing of it was there; empty where something was looked at, or nothing asked."""
        known = ((self.n_files, "Python file"), (self.n_calls, "call recorded with its body"))
        return "" if any(n for n, _ in known) else ", ".join(f"no {what}" for n, what in known if n is not None)


@dataclass(frozen=True, slots=True)
class Count:
    """One hazard of a run."""

    code: str
    """`CKS01`."""
    name: str
    """`clock-in-system`."""
    n: int
    """Findings."""
    n_code: int
    """Of these in source files."""
    n_requests: int
    """Of these in requests."""
    n_fixable: int
    """Of these with a safe change."""


def counts(findings: Iterable[Finding], catalogue: Catalogue) -> list[Count]:
    """The most frequent first."""
    known = list(findings)
    total = Counter(finding.code for finding in known)
    in_code = Counter(finding.code for finding in known if isinstance(finding.place, CodePlace))
    fixable = Counter(finding.code for finding in known if finding.fix is not None)
    ordered = sorted(total, key=lambda code: (-total[code], code))
    return [
        Count(code, name(code, catalogue), total[code], in_code[code], total[code] - in_code[code], fixable[code])
        for code in ordered
    ]


def counted(n: int, what: str) -> str:
    """A number and its word.

    >>> counted(1, "hazard"), counted(2000, "hazard")
    ('1 hazard', '2,000 hazards')
    """
    return f"{n:,} {what}{'s' * (n != 1)}"


def as_table(findings: Sequence[Finding], catalogue: Catalogue) -> Iterator[str]:
    """A line for each code, `[*]` where --fix can mend some of it."""
    told = counts(findings, catalogue)
    width = max((len(f"{count.n:,}") for count in told), default=1)
    for count in told:
        yield f"{count.n:>{width},}  {count.code}  [{'*' if count.n_fixable else ' '}]  {count.name}".rstrip()
