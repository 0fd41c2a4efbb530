"""Groups findings for a reader: one hazard over many turns once, findings of several detectors together, and counts.

Takes findings and the catalogue's rows, gives groups, sentences, counts and a table of them; knows no output format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contextkit.lint.finding import CodePlace, Finding, RequestPlace
from contextkit.lint.hazard import Hazard, Severity
from contextkit.lint.own import OWN

Catalogue = Mapping[str, Hazard]
"""Code → row."""
PLACES_NAMED = 3
"""Places, or sessions, a sentence names before it counts the rest."""


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
    def turns(self) -> str:
        """`turns 12-40`, empty for code."""
        numbers = sorted({place.turn for place in _requests(self.findings)})
        return f"turn{'s' * (len(numbers) > 1)} {ranges(numbers)}" if numbers else ""

    @property
    def cost_tokens(self) -> int | None:
        """The sum of those that are known; None where none is."""
        costs = [finding.cost_tokens for finding in self.findings if finding.cost_tokens is not None]
        return sum(costs) if costs else None

    @property
    def cost_usd(self) -> float | None:
        """The sum for the findings whose tokens are known; None where a price is missing."""
        costs = [finding.cost_usd for finding in self.findings if finding.cost_tokens is not None]
        return sum(cost or 0.0 for cost in costs) if costs and None not in costs else None

    @property
    def is_cost_complete(self) -> bool:
        """Return whether the cost of every finding is known; otherwise the sum is a lower bound."""
        return all(finding.cost_tokens is not None for finding in self.findings)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """What the provider said, each word once."""
        return tuple(dict.fromkeys(finding.verdict for finding in self.findings if finding.verdict))


@dataclass(frozen=True, slots=True)
class Joined:
    """One hazard, told by more than one witness."""

    code: str
    """`CKS01`."""
    name: str
    """`clock-in-system`."""
    predicted: tuple[CodePlace, ...]
    """Where the code shows it."""
    seen: tuple[RequestPlace, ...]
    """Which requests show it."""
    confirmed: tuple[str, ...]
    """The provider's verdicts that agree with it."""
    other: tuple[str, ...]
    """The provider's verdicts on the same calls that say something else."""

    def __str__(self) -> str:
        words = (
            ("predicted by source at {}", _few([f"{place.file}:{place.line}" for place in self.predicted])),
            ("seen in {}", _sessions(self.seen)),
            ("confirmed by {}", _few(self.confirmed)),
            ("the provider said {}", _few(self.other)),
        )
        texts = ", ".join(sentence.format(what) for sentence, what in words if what)
        return f"{self.code} {self.name}: {texts}" if self.name else f"{self.code}: {texts}"


def severity(finding: Finding, catalogue: Catalogue) -> Severity:
    """How much it matters; an error where nobody knows the code."""
    row = catalogue.get(finding.code) or OWN.get(finding.code)
    return row.severity if row else "error"


def name(code: str, catalogue: Catalogue) -> str:
    """Of the hazard, empty for a code nobody knows."""
    row = catalogue.get(code) or OWN.get(code)
    return row.name if row else ""


def groups(findings: Iterable[Finding]) -> list[Group]:
    """Code by file and line, then requests by session: each hazard of a session once for each level it shows at."""
    code: list[Finding] = []
    gathered: dict[tuple[str, str, str, str], list[Finding]] = {}
    for finding in findings:
        if isinstance(finding.place, CodePlace):
            code.append(finding)
        else:
            key = (finding.place.session, finding.code, finding.place.level, finding.detector)
            gathered.setdefault(key, []).append(finding)
    alone = [Group((finding,)) for finding in sorted(code, key=lambda finding: (*_where(finding), finding.code))]
    return alone + [Group(tuple(sorted(together, key=_turn))) for together in gathered.values()]


def joined(findings: Iterable[Finding], catalogue: Catalogue) -> list[Joined]:
    """The hazards that more than one witness speaks of (code, requests, provider), by code."""
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    texts = (_join(code, by_code[code], catalogue) for code in sorted(by_code))
    return [one for one in texts if bool(one.predicted) + bool(one.seen) + bool(one.confirmed) > 1]


def _join(code: str, findings: Sequence[Finding], catalogue: Catalogue) -> Joined:
    row = catalogue.get(code)
    agreed = row.confirmed_by if row else ()
    verdicts = tuple(dict.fromkeys(finding.verdict for finding in findings if finding.verdict))
    places = dict.fromkeys(finding.place for finding in findings if isinstance(finding.place, CodePlace))
    confirmed, other = (
        tuple(word for word in verdicts if word in agreed),
        tuple(word for word in verdicts if word not in agreed),
    )
    return Joined(code, name(code, catalogue), tuple(places), tuple(_requests(findings)), confirmed, other)


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as few words.

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


def _requests(findings: Iterable[Finding]) -> list[RequestPlace]:
    return [finding.place for finding in findings if isinstance(finding.place, RequestPlace)]


def _turn(finding: Finding) -> int:
    return finding.place.turn if isinstance(finding.place, RequestPlace) else 0


def _where(finding: Finding) -> tuple[str, int, int]:
    place = finding.place
    return (place.file, place.line, place.column) if isinstance(place, CodePlace) else ("", 0, 0)


def _sessions(places: Sequence[RequestPlace]) -> str:
    turns: dict[str, list[int]] = {}
    for place in places:
        turns.setdefault(place.session, []).append(place.turn)
    if len(turns) == 1:
        [numbers] = turns.values()
        return f"request{'s' * (len(set(numbers)) > 1)} {ranges(numbers)}"
    return _few([f"requests {ranges(numbers)} of {session}" for session, numbers in turns.items()])


def _few(words: Sequence[str]) -> str:
    """The first of them, and how many more."""
    named = ", ".join(words[:PLACES_NAMED])
    return f"{named} and {len(words) - PLACES_NAMED} more" if len(words) > PLACES_NAMED else named


@dataclass(frozen=True, slots=True)
class Looked:
    """How much was looked at."""

    n_files: int | None = None
    """Python files; None where no code was asked about."""
    n_calls: int | None = None
    """Recorded calls with their bodies; None where no recording was given."""

    def __str__(self) -> str:
        costs = ((self.n_files, "file"), (self.n_calls, "call"))
        return ", ".join(counted(n, what) for n, what in costs if n is not None)

    @property
    def lacking(self) -> str:
        """What was asked for, where nothing of it was there; empty where something was looked at, or nothing asked."""
        costs = ((self.n_files, "Python file"), (self.n_calls, "call recorded with its body"))
        return "" if any(n for n, _ in costs) else ", ".join(f"no {what}" for n, what in costs if n is not None)


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
    costs = list(findings)
    total = Counter(finding.code for finding in costs)
    in_code = Counter(finding.code for finding in costs if isinstance(finding.place, CodePlace))
    fixable = Counter(finding.code for finding in costs if finding.fix is not None and finding.fix.is_safe)
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
    texts = counts(findings, catalogue)
    width = max((len(f"{count.n:,}") for count in texts), default=1)
    for count in texts:
        yield f"{count.n:>{width},}  {count.code}  [{'*' if count.n_fixable else ' '}]  {count.name}".rstrip()
