"""What was typed behind `contextkit lint`, and what of it does not go together.

Takes click's values, gives `Options`; a combination of which one part would be ignored is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import click

FORMATS = ("text", "json", "sarif", "github")
"""What `--format` takes."""
_MODES: Mapping[str, tuple[str, ...]] = {
    "--explain": ("text", "json"),
    "--statistics": ("text", "json"),
    "--diff": ("text",),
    "--write-baseline": ("text",),
}
"""What is told instead of findings → the formats there are of it."""
_APART = (("--fix", "--diff"), ("--fix", "--explain"), ("--baseline", "--write-baseline"), ("--baseline", "--explain"))
"""Pairs of which one would be ignored, besides two modes."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was typed."""

    paths: tuple[str, ...]
    recordings: tuple[str, ...]
    stdin_filename: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    form: str
    as_json: bool
    is_fixing: bool
    is_diff: bool
    has_statistics: bool
    explain: str | None
    baseline: str | None
    write_baseline: str | None
    exit_zero: bool
    config: str | None
    tests: bool
    jobs: int | None

    @property
    def told_in(self) -> str:
        """The format that is wanted."""
        return "json" if self.as_json else self.form

    def check(self) -> None:
        """Raises a usage error for what does not go together."""
        typed = self._typed()
        modes = [name for name in _MODES if name in typed]
        pairs = [*([tuple(modes[:2])] if len(modes) > 1 else []), *(pair for pair in _APART if typed.issuperset(pair))]
        for one, other in pairs:
            raise click.UsageError(f"{one} and {other} do not go together; give one of them")
        if self.as_json and self.form not in ("text", "json"):
            raise click.UsageError(f"--json and --format {self.form} do not go together; give one of them")
        for mode in modes:
            if self.told_in not in _MODES[mode]:
                raise click.UsageError(
                    f"{mode} has no format {self.told_in}; it is told as {' or '.join(_MODES[mode])}"
                )

    def _typed(self) -> set[str]:
        given = {
            "--explain": self.explain is not None,
            "--statistics": self.has_statistics,
            "--diff": self.is_diff,
            "--fix": self.is_fixing,
            "--baseline": self.baseline is not None,
            "--write-baseline": self.write_baseline is not None,
        }
        return {name for name, is_given in given.items() if is_given}
