"""A report as Markdown, for a pull request or a ticket: the line that matters, the sums, the misses with their fixes.

Takes `Contents`, gives text. What came from a recording is escaped: a name is never a link, an image or a tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from contextkit.ledger.summary import Row, dollars, spent
from contextkit.report.contents import Contents, dearest_misses, dearest_rows, losses, notes, unknowns
from contextkit.report.fixes import fix_of, provider_says
from contextkit.terminal import sanitize

ROWS, MISSES = 30, 30
"""Listed in full; the dearest ones where there are more."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&@:])")


def markdown(contents: Contents) -> str:
    """The whole text."""
    return "\n".join(_lines(contents)) + "\n"


def escaped(text: str) -> str:
    r"""`text` as Markdown shows it letter by letter, and a terminal too: what it would obey is an escape.

    >>> print(escaped("a|b [c](d)"))
    a\|b \[c\]\(d\)
    """
    return _SPECIAL.sub(r"\\\1", sanitize(" ".join(text.split())))


def _lines(contents: Contents) -> Iterator[str]:
    summary = contents.summary
    yield f"### Prompt cache: {escaped(contents.title)}"
    yield ""
    yield f"**{escaped(str(summary))}**" + (" (partial: reading was cut short)" if contents.is_partial else "")
    if not summary.calls:
        return
    yield from ["", f"Counted: {escaped(contents.counted)}"] if contents.counted else []
    yield from (part for line in (*notes(summary), *unknowns(contents)) for part in ("", escaped(line)))
    kinds = [("model", summary.models), *([(contents.by, summary.groups)] if contents.by not in ("", "model") else [])]
    for kind, rows in kinds:
        yield from _sums(kind, rows, summary.total)
    yield from _causes(contents)
    yield from _misses(contents)
    if contents.n_faults:
        yield from ["", f"{contents.n_faults:,} faults in the recordings, such as:", ""]
        yield from (
            f"* {escaped(file)}{f' line {line}' if line else ''}: {escaped(what)}"
            for file, line, what in contents.faults
        )


def _sums(kind: str, rows: Sequence[Row], total: Row) -> Iterator[str]:
    yield from [
        "",
        f"| {kind} | calls | read | input | output | spent | saved | misses |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    listed = dearest_rows(rows, ROWS)
    for row in [*listed, *([total] if len(rows) > 1 else [])]:
        has_bill = bool(row.calls_with_usage)
        cells = [
            "**all**" if row is total else escaped(row.name),
            f"{row.calls:,}",
            _rate(row.hit_rate),
            _count(row.usage.prompt if has_bill else None),
            _count(row.usage.output if has_bill else None),
            spent(row),
            _money(row.saved_usd),
            f"{row.n_misses:,}",
        ]
        yield f"| {' | '.join(cells)} |"
    if len(rows) > len(listed):
        yield f"\nand {len(rows) - len(listed):,} more"


def _causes(contents: Contents) -> Iterator[str]:
    causes = losses(contents.summary)
    if causes:
        yield from ["", "| cause | misses | lost tokens | fixing it saves up to | fix |", "|---|--:|--:|--:|---|"]
    for loss in causes:
        fix = fix_of(loss.cause)
        yield f"| `{loss.cause}` | {loss.n:,} | {loss.lost_tokens:,} | {_money(loss.cost_usd if fix.saves else None)} | {fix.text} |"


def _misses(contents: Contents) -> Iterator[str]:
    lost = contents.summary.losses
    if not lost:
        return
    yield from ["", "| call | cause | where | provider | lost tokens | cost |", "|--:|---|---|---|--:|--:|"]
    for miss in dearest_misses(lost, MISSES):
        verdict = escaped(provider_says(miss.cause, contents.verdicts.get(miss.index, "")))
        where = escaped(miss.where) + ("" if miss.certain or miss.cause == "unknown" else " (assumed)")
        yield f"| {miss.index + 1} | `{miss.cause}` | {where} | {verdict} | {miss.lost_tokens:,} | {_money(miss.cost_usd)} |"
    if len(lost) > MISSES:
        yield f"\nand {len(lost) - MISSES:,} more, smaller ones"


def _rate(rate: float | None) -> str:
    return "unknown" if rate is None else f"{rate:.1%}"


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def _money(amount: float | None) -> str:
    return "unknown" if amount is None else dollars(amount)
