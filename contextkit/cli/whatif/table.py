"""A `WhatIf` on a terminal: calibration, a row a fix with its spread, what was assumed, and what stays unanswered and
why.

Takes the figures, prints them; readable without colour, in forty columns and in ASCII. rich is imported when something
is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from contextkit.analysis.counterfactual.answer import Answer, WhatIf
from contextkit.analysis.counterfactual.fix import ASSUMPTIONS
from contextkit.ledger.summary import dollars
from contextkit.terminal import rich_console, sanitize_for

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NARROW = 90
"""Columns; below, a fix is told in lines instead of cells."""
SESSIONS = 40
"""Sessions told in a table; the dearest ones where there are more."""


def show(found: WhatIf, file: TextIO | None = None) -> None:
    """Print `found` to `file`, standard output by default."""
    _draw(found, rich_console(file=file))


def text(found: WhatIf, width: int = 120) -> str:
    """What `show` prints, without colour, in `width` columns."""
    page = StringIO()
    _draw(found, rich_console(file=page, width=width, color_system=None, force_terminal=False, legacy_windows=False))
    return page.getvalue()


def _draw(found: WhatIf, console: Console) -> None:
    for line in _opening(found):
        _say(console, line)
    if not found.calls_with_price:
        return
    answered = [answer for answer in found.answers if answer.after_usd is not None]
    _answers(answered, console, "")
    sessions = sorted(found.groups.items(), key=lambda item: -(item[1][0].before_usd if item[1] else 0.0))
    for name, answers in sessions[:SESSIONS]:
        _say(console, "")
        _say(console, f"session {name}", style="bold")
        _answers([answer for answer in answers if answer.after_usd is not None], console, name)
    if len(sessions) > SESSIONS:
        _say(console, f"and {len(sessions) - SESSIONS:,} more sessions, less dear: --json has them all")
    for line in _closing(found, answered):
        _say(console, line)


def _opening(found: WhatIf) -> Iterable[str]:
    if not found.calls_with_price:
        yield f"{found.calls:,} calls, none with a bill, a price and a row in the model table: nothing to compare"
        yield from (answer.why_not for answer in found.answers[:1] if answer.why_not)
        return
    yield f"{found.calls_with_price:,} of {found.calls:,} calls have a bill and a price; they cost {dollars(found.recorded_usd)}"
    for one in found.calibrations:
        told = [
            (one.n_unexplained, "misses that nothing recorded explains"),
            (one.n_seeded, "reads longer than it remembers"),
        ]
        said = ", ".join(f"{n:,} {what}" for n, what in told if n)
        yield (
            f"calibration from {one.answered_from}: {one.calls:,} calls, recorded {dollars(one.recorded_usd)}, reference cache "
            f"{dollars(one.replayed_usd)}, difference {dollars(one.difference_usd)}"
            + (f" (it was told of {said})" if said else "")
        )


def _closing(found: WhatIf, answered: Sequence[Answer]) -> Iterable[str]:
    used = {name for answer in answered for reading, _ in answer.readings for name in reading}
    if used:
        yield ""
        yield "low..high is the spread over what no record says; the figure takes the first:"
        yield from (f"  {row.name}: {' | '.join(row.readings)}" for row in ASSUMPTIONS if row.name in used)
    silent = [answer for answer in found.answers if answer.after_usd is None]
    if silent:
        yield ""
        yield "not answered:"
        yield from (
            f"  {answer.fix} needs {answer.needs}: {answer.why_not or 'nothing of the kind was recorded'}"
            for answer in silent
        )
    partly = [answer for answer in answered if answer.why_not and answer.answered_from != "usage and times"]
    if partly:
        yield ""
        yield "answered in part:"
        yield from (f"  {answer.fix}: {answer.why_not}" for answer in partly)


# Rows
# ---------------------------------------------------------------------------------------------------------------------


def _answers(answers: Sequence[Answer], console: Console, group: str) -> None:
    if not answers:
        return
    if console.width < NARROW:
        for answer in answers:
            _say(console, "")
            for line in _lines(answer, is_whole=not group):
                _say(console, line)
        return
    console.print()
    console.print(_table(answers, console, is_whole=not group))


def _table(answers: Sequence[Answer], console: Console, *, is_whole: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading, is_number in (
        ("fix", False),
        ("from", False),
        ("before", True),
        ("after", True),
        ("low..high", True),
        ("saves", True),
    ):
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=is_number or heading == "fix")
    if is_whole:
        table.add_column("what to do", overflow="fold")
    for answer in answers:
        cells = [
            answer.fix,
            answer.answered_from,
            dollars(answer.before_usd),
            _after(answer),
            _spread(answer),
            _saves(answer),
        ]
        cells += ["; ".join(filter(None, (answer.to_do, _facts(answer))))] if is_whole else []
        table.add_row(*(Text(_plain(cell, console)) for cell in cells))
    return table


def _lines(answer: Answer, *, is_whole: bool) -> Iterable[str]:
    yield f"{answer.fix} (from {answer.answered_from})"
    yield f"  {dollars(answer.before_usd)} → {_after(answer)} ({_spread(answer)}), saves {_saves(answer)}"
    if is_whole:
        yield from (f"  {line}" for line in (answer.to_do, _facts(answer)) if line)


def _facts(answer: Answer) -> str:
    changed = "" if answer.changed_calls is None else f"changes {answer.changed_calls:,} of {answer.calls:,} calls"
    return "; ".join(filter(None, (changed, answer.note)))


def _after(answer: Answer) -> str:
    return "unknown" if answer.after_usd is None else dollars(answer.after_usd)


def _saves(answer: Answer) -> str:
    return "unknown" if answer.saves_usd is None else dollars(answer.saves_usd)


def _spread(answer: Answer) -> str:
    return (
        "unknown"
        if answer.low_usd is None or answer.high_usd is None
        else f"{dollars(answer.low_usd)}..{dollars(answer.high_usd)}"
    )


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(_plain(line, console), style=style, markup=False)


def _plain(line: str, console: Console) -> str:
    """`line` in characters the terminal has, and none that it obeys: a newline in a name begins no line."""
    return sanitize_for(console.encoding, line, keep="")
