"""One cause of a broken prefix: its code, how sure the evidence is, and who can see it.

Takes the rules of the detectors, gives the row that stands at the end of every page in `rules/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from contextkit.lint.requests.rule import RequestRule
from contextkit.lint.source.rule import Flow, Pattern

Grade = Literal["A", "B", "C", "D", "I"]
"""A measured or fixed in a public tracker; B reported; C another tool's rule; D provider documentation; I inferred."""
Severity = Literal["error", "warning", "note"]
"""error: breaks every request it touches; warning: breaks some, or depends on the model; note: counting, or never seen
in the wild."""
LEVELS = {
    "T": "tools",
    "S": "system",
    "M": "messages",
    "B": "breakpoints",
    "P": "parameters",
    "R": "routing",
    "L": "lifetime",
    "E": "engine",
    "A": "accounting",
}
"""The letter behind `CK` → the folder of `rules/`."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A row of the catalogue. The docstring of the module it stands in is its page."""

    code: str
    """`CKS01`."""
    name: str
    """`clock-in-system`: the page's file is named for it."""
    grade: Grade
    """How sure the evidence is."""
    severity: Severity
    """How much it matters."""
    source: tuple[Flow | Pattern, ...] = ()
    """What the source detector looks for; empty where code cannot show it."""
    requests: tuple[RequestRule, ...] = ()
    """What the request detector and the guard look for; empty where requests cannot show it."""
    confirmed_by: tuple[str, ...] = ()
    """The provider's verdicts that agree with it: `tools_changed`, `system_changed`, `messages_changed`,
    `model_changed`."""

    @property
    def level(self) -> str:
        """The folder it stands in.

        >>> Hazard("CKS01", "clock-in-system", "A", "error").level
        'system'
        """
        return LEVELS[self.code[2]]
