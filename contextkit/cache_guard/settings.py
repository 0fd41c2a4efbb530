"""What a project and its tests accept: the mark `cache_guard`, and `cache_budget` in pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from contextkit.errors import UsageError
from contextkit.pyproject import read_value

if TYPE_CHECKING:
    import pytest

    from contextkit.cache_guard.judgement import Loss

MARK = "cache_guard"
_ALL = "all"
_BUDGET = "cache_budget"
_DOLLARS = re.compile(r"\$\s*(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the mark of a test accepts."""

    kinds: frozenset[str] = frozenset()
    """Kinds, causes and codes; `all` for every one."""
    reruns: bool = True
    """Whether the test may run more than once."""

    def left(self, losses: Iterable[Loss]) -> list[Loss]:
        """Return the losses that it does not accept."""
        if _ALL in self.kinds:
            return []
        return [loss for loss in losses if not self.kinds & {loss.gap.kind, loss.gap.cause, loss.code}]


def accepted(item: pytest.Item) -> Accepted:
    """Read the nearest mark of a test. Raises `UsageError` for a wrong one."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return Accepted()
    where = f"{item.nodeid}: @pytest.mark.{MARK}"
    unknown = sorted(mark.kwargs.keys() - {"allow", "reason", "rerun"})
    if mark.args or unknown:
        what = repr(mark.args[0]) if mark.args else unknown[0]
        raise UsageError(f"{where} takes allow=, reason= and rerun=, not {what}")
    allow, reason, rerun = mark.kwargs.get("allow"), mark.kwargs.get("reason"), mark.kwargs.get("rerun", True)
    if not isinstance(rerun, bool):
        raise UsageError(f"{where}: rerun is True or False, not {rerun!r}")
    kinds = [] if allow is None else [allow] if isinstance(allow, str) else allow
    if not isinstance(kinds, Sequence) or not all(isinstance(kind, str) for kind in kinds):
        raise UsageError(f"{where}: allow is a kind or a list of kinds, not {allow!r}")
    _check_kinds(where, kinds)
    if kinds and not (isinstance(reason, str) and reason.strip()):
        raise UsageError(f'{where}: say why, as in reason="the prompt is meant to change here"')
    return Accepted(frozenset(kinds), rerun)


def _check_kinds(where: str, kinds: Sequence[str]) -> None:
    from contextkit.cache_guard.judgement import accepted_kinds

    known = {*accepted_kinds(), _ALL}
    for kind in kinds:
        if kind not in known:
            near = get_close_matches(kind, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            names = ", ".join(sorted(name for name in known if not name.startswith("CK")))
            raise UsageError(f"{where}: no kind {kind!r}{meant} Known: {names}, and the codes of contextkit lint")


@dataclass(frozen=True, slots=True)
class CacheBudget:
    """What a test may lose before it fails."""

    tokens: int | None = None
    """Tokens; None where it is no number of tokens."""
    usd: float | None = None
    """Dollars; None where it is no amount."""

    def is_exceeded(self, losses: Sequence[Loss]) -> bool:
        """Return whether losses exceed it; without a budget, any does. A loss without a price exceeds one in dollars."""
        from contextkit.cache_guard.judgement import lost_tokens, lost_usd

        if not losses:
            return False
        if self.tokens is not None:
            return lost_tokens(losses) > self.tokens
        if self.usd is not None:
            usd = lost_usd([loss for loss in losses if loss.gap.tokens])
            return usd is None or usd > self.usd
        return True


def read_budget(root: Path) -> CacheBudget:
    """Read `cache_budget` of a project's pyproject.toml. Raises `UsageError` for a wrong one."""
    file = root / "pyproject.toml"
    value = read_value(file, _BUDGET) if file.is_file() else None
    if value is None:
        return CacheBudget()
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return CacheBudget(tokens=value)
    amount = _DOLLARS.fullmatch(value.strip()) if isinstance(value, str) else None
    if amount is None:
        raise UsageError(
            f'{file}: {_BUDGET} is {value!r}: give tokens, such as {_BUDGET} = 2000, or dollars, such as {_BUDGET} = "$0.01"'
        )
    return CacheBudget(usd=float(amount[1]))
