"""Rules of the source detector that need code, by the codes they report."""

from __future__ import annotations

from typing import Final

from contextkit.lint.source.analysis import Rule
from contextkit.lint.source.rules import breakpoints, history, marked_text, tools, usage

RULES: Final[tuple[tuple[frozenset[str], Rule], ...]] = (
    (breakpoints.CODES, breakpoints.find),
    (history.CODES, history.find),
    (marked_text.CODES, marked_text.find),
    (tools.CODES, tools.find),
    (usage.CODES, usage.find),
)
"""Codes that a rule reports, and the rule."""
