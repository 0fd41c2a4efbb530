"""The formats findings are told in.

Takes findings, the catalogue and its pages, gives the text of one format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from contextkit.lint.finding import Finding
from contextkit.lint.output.counts import Looked, as_table
from contextkit.lint.output.github import as_annotations
from contextkit.lint.output.group import Catalogue
from contextkit.lint.output.plain_json import as_json, statistics_as_json
from contextkit.lint.output.sarif import Page, as_sarif
from contextkit.lint.output.text import Lines, as_text, summary
from contextkit.lint.output.window import lines_of


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to tell."""

    findings: Sequence[Finding]
    """All of them."""
    catalogue: Catalogue
    """Code → row."""
    page: Page
    """Code → page."""
    version: str
    """Of contextkit."""
    n_fixed: int = 0
    """Findings that were mended and are not among these."""
    looked: Looked = field(default_factory=Looked)
    """How much was looked at."""
    lines: Lines = lines_of
    """File → its lines, for what is shown around a place."""


def _text(told: Told) -> str:
    return "\n".join(as_text(told.findings, told.catalogue, told.n_fixed, told.looked, told.lines))


FORMS: Mapping[str, Callable[[Told], str]] = {
    "text": _text,
    "json": lambda told: as_json(told.findings, told.catalogue, told.n_fixed, told.looked),
    "sarif": lambda told: as_sarif(told.findings, told.catalogue, told.page, told.version),
    "github": lambda told: "\n".join(as_annotations(told.findings, told.catalogue)),
}
"""Name of a format → its text."""


def statistics(told: Told) -> str:
    """Counts instead of findings."""
    return "\n".join([*as_table(told.findings, told.catalogue), summary(told.findings, told.n_fixed, told.looked)])


STATISTICS: Mapping[str, Callable[[Told], str]] = {
    "text": statistics,
    "json": lambda told: statistics_as_json(told.findings, told.catalogue),
}
"""Name of a format → counts instead of findings."""
