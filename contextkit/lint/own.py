"""Codes that belong to no hazard: what the detectors report of themselves.

Takes nothing, gives the name and the severity of each; their pages are beside those of the hazards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contextkit.lint.hazard import Severity


@dataclass(frozen=True, slots=True)
class Own:
    """A code of the detectors themselves."""

    name: str
    """`unreadable`."""
    severity: Severity
    """How much it matters."""


UNREADABLE = "CK000"
"""Code of what cannot be read."""
OWN: Mapping[str, Own] = {
    UNREADABLE: Own("unreadable", "note"),
}
"""A file or request that cannot be read."""
