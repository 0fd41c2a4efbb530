"""A small tree of source files, linted with a few hazards of our own."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.source.detect import find_in_code
from contextkit.lint.source.rule import Flow, Kind, Sink

Seen = list[tuple[str, str]]
"""Code and the line that is pointed at, in order."""


def hazard(code: str, kinds: tuple[Kind, ...], sinks: tuple[Sink, ...], *, in_loop_only: bool = False) -> Hazard:
    return Hazard(
        code, code.lower(), "A", "error", source=(Flow(kinds, sinks, "{source} reaches {sink}", in_loop_only),)
    )


PREFIX: tuple[Sink, ...] = ("system", "front")
HAZARDS = (
    hazard("CKS01", ("clock",), PREFIX),
    hazard("CKS02", ("date",), PREFIX),
    hazard("CKS03", ("id",), PREFIX),
    hazard("CKS04", ("place",), PREFIX),
    hazard("CKS05", ("recall",), PREFIX),
    hazard("CKS11", ("person",), PREFIX),
    hazard("CKT01", ("unordered", "paths"), ("tools",)),
    hazard("CKT03", ("user",), ("tools",)),
    hazard("CKT08", ("clock", "place"), ("tool",)),
    hazard("CKT09", ("listing",), ("tool", "system")),
    hazard("CKM14", ("unsorted_json",), PREFIX),
    hazard("CKR06", ("id",), ("cache_key",)),
    hazard("CKP02", ("flag",), ("effort",), in_loop_only=True),
)


@pytest.fixture
def lint(tmp_path: Path) -> Callable[..., list[Finding]]:
    """Writes files and lints them; the only positional argument is `app.py`."""

    def run(
        app: str = "", config: LintConfig | None = None, hazards: tuple[Hazard, ...] = HAZARDS, **files: str
    ) -> list[Finding]:
        for name, text in {"app": app, **files}.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return list(find_in_code([tmp_path], config or LintConfig(), hazards))

    return run


@pytest.fixture
def seen(lint: Callable[..., list[Finding]]) -> Callable[..., Seen]:
    """The same, as codes and the text each points at."""

    def run(app: str, **files: str) -> Seen:
        return [(finding.code, text_at(finding.place)) for finding in lint(app, **files)]

    return run


def text_at(place: object) -> str:
    """What stands at a place."""
    assert isinstance(place, CodePlace)
    lines = Path(place.file).read_text(encoding="utf-8").splitlines()
    assert place.line == place.end_line
    return lines[place.line - 1][place.column - 1 : place.end_column - 1]
