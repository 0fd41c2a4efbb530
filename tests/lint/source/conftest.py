"""Small trees of source files that are linted with all hazards."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import Finding
from contextkit.lint.source.detect import find_in_code

Lint = Callable[..., list[Finding]]


def named(table: Iterable[str], gaps: Iterable[str] = ()) -> list[ParameterSet]:
    """Return the names of a table of programs as parameters; those of `gaps` are known to be judged wrong."""
    gap = pytest.mark.xfail(strict=True, reason="the source detector does not tell this yet")
    names = list(table)
    assert {*gaps} <= {*names}, {*gaps} - {*names}
    return [pytest.param(name, marks=gap if name in gaps else ()) for name in names]


@pytest.fixture
def lint(tmp_path: Path) -> Lint:
    """Return a function that writes files and lints them; its positional argument is `app.py`."""

    def run(app: str = "", config: LintConfig | None = None, **files: str) -> list[Finding]:
        for name, text in {"app": app, **files}.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return list(find_in_code([tmp_path], config or LintConfig(), hazards()))

    return run
