"""The rules of the source detector."""

from __future__ import annotations

from typing import Final

from contextkit.lint.source.analysis import Rule
from contextkit.lint.source.rules import breakpoints, history, text, tools, usage

RULES: Final[tuple[Rule, ...]] = (text.find, tools.find, history.find, breakpoints.find, usage.find)
CODES: Final = text.CODES | tools.CODES | history.CODES | breakpoints.CODES | usage.CODES
"""What the source detector can find."""
