"""A small tree of source files, linted with the hazards that values flow into."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.flows import rules

Seen = list[tuple[str, str]]
"""Code and the text that is pointed at, in order."""
HAZARDS = tuple(row for row in hazards() if row.code in {rule.code for rule in rules()})
"""Those that are rows of `rules.toml`."""
EVERYTHING = LintConfig(select=("CK", *(row.code for row in HAZARDS)))
"""With the codes that are off by default."""


def named(table: Iterable[str], gaps: Iterable[str] = ()) -> list[ParameterSet]:
    """The names of a table of programs as parameters; of `gaps` it is known that they are judged wrong."""
    gap = pytest.mark.xfail(strict=True, reason="the source detector does not tell this yet")
    names = list(table)
    assert {*gaps} <= {*names}, {*gaps} - {*names}
    return [pytest.param(name, marks=gap if name in gaps else ()) for name in names]


@pytest.fixture
def lint(tmp_path: Path) -> Callable[..., list[Finding]]:
    """Writes files and lints them; the only positional argument is `app.py`."""

    def run(
        app: str = "", config: LintConfig | None = None, hazards: Iterable[Hazard] = HAZARDS, **files: str
    ) -> list[Finding]:
        for name, text in {"app": app, **files}.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return list(find_in_code([tmp_path], config or LintConfig(), hazards))

    return run


@pytest.fixture
def seen(lint: Callable[..., list[Finding]]) -> Callable[..., Seen]:
    """The same, as codes and the text each points at, those off by default too."""

    def run(app: str, **files: str) -> Seen:
        return [(finding.code, text_at(finding.place)) for finding in lint(app, EVERYTHING, **files)]

    return run


def text_at(place: object) -> str:
    """What stands at a place."""
    assert isinstance(place, CodePlace)
    lines = Path(place.file).read_text(encoding="utf-8").splitlines()
    assert place.line == place.end_line
    return lines[place.line - 1][place.column - 1 : place.end_column - 1]
