"""Models that a command's user names."""

from __future__ import annotations

from contextkit.cli.terminal.streams import complain
from contextkit.models import Model, assumption

REGISTERING = "To give its own, add a [[models]] row to a TOML file and name the file with --models"
"""What to do about an assumed model, for who typed a command."""


def say_assumed(*rows: Model) -> None:
    """Print one line on standard error for each model whose rules are assumed."""
    for row in rows:
        if row.is_assumed:
            complain(f"contextkit: {assumption(row, REGISTERING)}")
