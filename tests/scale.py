"""How much of a long test runs: reduced by default, whole with `--full`.

Nothing else is imported here: processes that tests start read the modules that use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
_run = {"is_full": False}


def set_full(is_full: bool) -> None:
    """Take the option over: pytest reads it before it imports any test."""
    _run["is_full"] = is_full


def n_examples(few: int, many: int) -> int:
    """Choose how often a long test repeats: `few` by default, `many` with `--full`."""
    return many if _run["is_full"] else few


def cases(few: Iterable[T], every: Iterable[T]) -> list[T]:
    """Choose what a test is tried on: `few` by default, `every` with `--full`."""
    return list(every if _run["is_full"] else few)
