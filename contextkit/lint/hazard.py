"""One hazard: a cause of a cache miss with its code, the grade of its evidence, and what shows it.

`catalogue` makes one from each row of `hazards.toml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    "A": "accounting",
}
"""The letter behind `CK` → the level, in cache order where there is one."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A row of the catalogue. Its page is `docs/reference/rules/<code>.md`."""

    code: str
    """`CKS01`."""
    name: str
    """`clock-in-system`."""
    grade: Grade
    """How sure the evidence is."""
    severity: Severity
    """How much it matters."""
    in_source: bool = False
    """Whether the source detector finds it."""
    requests: tuple[str, ...] = ()
    """What of a request it stands for: kinds of change and settings, causes of the judge, checks of one request; empty where
    requests cannot show the hazard."""
    confirmed_by: tuple[str, ...] = ()
    """The provider's verdicts that agree with it: `tools_changed`, `system_changed`, `messages_changed`,
    `model_changed`."""
    merged: tuple[str, ...] = ()
    """Codes that were merged into it, and that no hazard has any more."""

    @property
    def level(self) -> str:
        """The level of the prompt or the request it is about.

        >>> Hazard("CKS01", "clock-in-system", "A", "error").level
        'system'
        """
        return LEVELS[self.code[2]]
