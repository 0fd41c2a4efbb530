"""The text of a test that fails for its prompts: what is lost, where, at what price, and which line builds it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from contextkit.cache_guard.judgement import Loss, lost_tokens, lost_usd
from contextkit.cache_guard.source import line_that_builds
from contextkit.ledger.figures import dollars
from contextkit.redact import redact_text
from contextkit.terminal import sanitize
from contextkit.whatif.actions import fix_of

_MOST_LOSSES = 3
_BEFORE, _AFTER = 28, 20
"""Characters of a snippet in front of a change, and from it on."""
_LINE = 60
"""Characters of a source line."""
_VALUES = ("clock", "date", "id", "environment")
"""Kinds of change that another process makes by itself, whatever its hash seed: a fixture of the session runs there again."""
_STEPS = {"minute": "one minute", "day": "one day"}


def described(losses: Sequence[Loss], root: Path) -> str:
    """Describe the losses of a test, the largest first; those that recur at one place once."""
    together: dict[tuple[str, str], list[Loss]] = {}
    for loss in sorted(losses, key=lambda loss: (loss.variant != "first", -loss.gap.tokens)):
        together.setdefault((loss.kind, _field(loss.gap.place)), []).append(loss)
    ranked = sorted(together.values(), key=lambda same: -max(loss.gap.tokens for loss in same))
    lines = [_headline(losses)]
    for same in ranked[:_MOST_LOSSES]:
        lines += _lines(same, root)
    if len(ranked) > _MOST_LOSSES:
        lines.append(f"  and {len(ranked) - _MOST_LOSSES} more")
    return sanitize("\n".join(lines))


def _headline(losses: Sequence[Loss]) -> str:
    tokens = lost_tokens(losses)
    if tokens:
        return f"prompt cache: {tokens:,} tokens lost"
    if all(loss.gap.kind == loss.code for loss in losses):
        return "prompt cache: a provider refuses a request"
    return "prompt cache: the prefix changes (too short to be cached here; a longer prompt pays again)"


def _lines(same: Sequence[Loss], root: Path) -> list[str]:
    loss = max(same, key=lambda one: one.gap.tokens)
    gap, sent_from = loss.gap, loss.sent.sent_from
    times = f" ({len(same)} times)" if len(same) > 1 else ""
    lines = [f"  {_which(loss)}{times}"] if loss.number else []
    place = gap.place.replace(" byte ", ", byte ")
    lines.append(f"  {place}:  {_sides(gap.was, gap.now)}" if gap.was or gap.now else f"  {_evidence(loss)}")
    cost = lost_usd(same)
    if cost and gap.tokens:
        each = cost / lost_tokens(same) * 1_000_000
        lines.append(f"  at ${each:.2f} a million above the price of a read: {dollars(cost)} a run")
    is_built = gap.cause in ("system_changed", "tools_changed")  # a history holds what tools and models said
    sender = sent_from.rpartition(":")[0]
    built = line_that_builds(_text_before(gap.was, gap.now), root, sender) if is_built else None
    if built is not None:
        lines.append(
            f"  {_relative(built.path, root)}:{built.line}   {_around(redact_text(built.text), _text_before(gap.was, gap.now))}"
        )
    elif sent_from:
        lines.append(f"  sent from {_relative_text(sent_from, root)}")
    fix = _fix(loss)
    if fix:
        lines.append(f"  fix: {fix}")
    if loss.code:
        lines.append(f"  why: contextkit lint --explain {loss.code}")
    lines.append(f'  accept with  @pytest.mark.cache_guard(allow="{loss.kind}", reason=…)')
    return lines


def _fix(loss: Loss) -> str:
    if loss.variant == "seed" and loss.kind not in _VALUES:
        return "sort what comes from a set: its order is another one in each process"
    return fix_of(loss.gap.cause)


def _which(loss: Loss) -> str:
    call = f"call {loss.number} of {loss.n_calls}"
    if loss.earlier:
        between = f"{_STEPS[loss.variant]} " if loss.variant in _STEPS and loss.earlier == loss.number - 1 else ""
        with_seed = ", with another hash seed" if loss.variant == "seed" else ""
        return f"{call}, {between}after call {loss.earlier}{with_seed}"
    if loss.variant == "seed":
        return f"{call}, with another hash seed"
    return f"{call}, {_STEPS[loss.variant]} later" if loss.variant in _STEPS else call


def _sides(was: str, now: str) -> str:
    """Show both snippets around the change.

    >>> print(_sides("Today is 2026-11-27, 10:31", "Today is 2026-11-27, 10:32"))
    “Today is 2026-11-27, 10:31” became “Today is 2026-11-27, 10:32”
    """
    if not was or not now:
        return f"“{_cut(now, 0)}” came" if now else f"“{_cut(was, 0)}” left"
    same = _n_common(was, now)
    return f"“{_cut(was, same)}” became “{_cut(now, same)}”"


def _cut(text: str, same: int) -> str:
    start, end = max(same - _BEFORE, 0), same + _AFTER
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _n_common(was: str, now: str) -> int:
    return next(
        (i for i, (one, other) in enumerate(zip(was, now, strict=False)) if one != other), min(len(was), len(now))
    )


def _text_before(was: str, now: str) -> str:
    """Return the text in front of the change, as a program writes it."""
    text = was[: _n_common(was, now)]
    try:
        return str(json.loads(f'"{text.lstrip(chr(34))}"'))
    except ValueError:
        return text


def _around(line: str, before: str) -> str:
    """Cut a long line to the part that builds a text."""
    if len(line) <= _LINE:
        return line
    tail = next((before[-n:] for n in range(24, 3, -1) if before[-n:] in line), "")
    at = line.rfind(tail) if tail else 0
    start = max(0, min(at - 20, len(line) - _LINE))
    return f"{'…' if start else ''}{line[start : start + _LINE]}{'…' if start + _LINE < len(line) else ''}"


def _evidence(loss: Loss) -> str:
    gap = loss.gap
    place = f"{gap.place}: " if gap.place else ""
    return f"{place}{gap.evidence or gap.cause.replace('_', ' ')}"


def _field(place: str) -> str:
    return place.partition(" byte ")[0].partition("[")[0]


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _relative_text(place: str, root: Path) -> str:
    path, _, line = place.rpartition(":")
    return f"{_relative(Path(path), root)}:{line}"
