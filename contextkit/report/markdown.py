"""A report as Markdown, for a pull request or a ticket: the line that matters, the sums, the misses with their fixes.

Takes `Contents`, gives text. What came from a recording is escaped: a name is never a link, an image or a tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from contextkit.ledger.summary import Row, dollars, spent
from contextkit.report.contents import (
    Contents,
    count_text,
    dearest_losses,
    dearest_misses,
    dearest_parts,
    dearest_rows,
    lost_money,
    notes,
    project_names,
    rank,
    session_names,
    unknowns,
)
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
    yield from (part for line in notes(contents) for part in ("", escaped(line)))
    yield from _parts(contents)
    yield from _causes(contents)
    lines = unknowns(contents)
    yield from ["", "Cannot be determined:", ""] if lines else []
    yield from (f"* {escaped(line)}" for line in lines)
    by, sessions = contents.by, session_names(contents)
    kinds = [("model", summary.models), *([(by, summary.groups)] if by not in ("", "model") else [])]
    for kind, rows in kinds:
        names = {"session": sessions, "project": project_names(row.name for row in rows)}.get(kind, {})
        yield from _sums(kind, rows if kind in ("model", "day") else sorted(rows, key=rank), summary.total, names)
    yield from _misses(contents, sessions)
    if contents.n_faults:
        yield from ["", f"{contents.n_faults:,} faults in the recordings, such as:", ""]
        yield from (
            f"* {escaped(file)}{f' line {line}' if line else ''}: {escaped(what)}"
            for file, line, what in contents.faults
        )


def _parts(contents: Contents) -> Iterator[str]:
    parts = dearest_parts(contents.parts)
    if len(parts) < 2 and not any(part.program for part in parts):
        return
    names = project_names(part.project for part in parts)
    yield from [
        "",
        "| project | program | calls | spent | misses | lost tokens | they cost |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for part in parts[:ROWS]:
        row = part.row
        named = [escaped(names[part.project]), escaped(part.program or "unknown")]
        cells = [*named, f"{row.calls:,}", spent(row), row.misses_text, part.lost_tokens_text, part.lost_text]
        yield f"| {' | '.join(cells)} |"
    if len(parts) > ROWS:
        yield f"\nand {len(parts) - ROWS:,} more"


def _sums(kind: str, rows: Sequence[Row], total: Row, names: Mapping[str, str]) -> Iterator[str]:
    yield from [
        "",
        f"| {kind} | calls | read | input | output | spent | saved | misses |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    listed = dearest_rows(rows, ROWS)
    for row in [*listed, *([total] if len(rows) > 1 else [])]:
        cells = [
            "**all**" if row is total else escaped(names.get(row.name, row.name)),
            f"{row.calls:,}",
            _rate(row.hit_rate),
            count_text(row, row.usage_or_unknown.prompt),
            count_text(row, row.usage_or_unknown.output),
            spent(row),
            _money(row.saved_usd),
            row.misses_text,
        ]
        yield f"| {' | '.join(cells)} |"
    if len(rows) > len(listed):
        yield f"\nand {len(rows) - len(listed):,} more"


def _causes(contents: Contents) -> Iterator[str]:
    causes = dearest_losses(contents.summary)
    if causes:
        yield from [
            "",
            "| cause | misses | lost tokens | they cost | fixing it saves up to | fix |",
            "|---|--:|--:|--:|--:|---|",
        ]
    for loss in causes:
        fix, cost = fix_of(loss), lost_money(loss)
        cells = [
            f"`{loss.cause}`",
            f"{loss.n:,}",
            f"{loss.lost_tokens:,}",
            cost,
            cost if fix.saves else "unknown",
            fix.text,
        ]
        yield f"| {' | '.join(cells)} |"


def _misses(contents: Contents, names: Mapping[str, str]) -> Iterator[str]:
    lost = contents.summary.losses
    if not lost:
        return
    yield from [
        "",
        "| call | session | cause | where | provider | lost tokens | cost |",
        "|--:|---|---|---|---|--:|--:|",
    ]
    for miss in dearest_misses(lost, MISSES):
        verdict = escaped(provider_says(miss.cause, contents.verdicts.get(miss.index, "")))
        where = escaped(miss.where) + (" (assumed)" if miss.basis == "assumed" else "")
        session = contents.sessions.get(miss.index, "")
        cells = [f"{miss.index + 1}", escaped(names.get(session, session)), f"`{miss.cause}`", where, verdict]
        yield f"| {' | '.join(cells)} | {miss.lost_tokens:,} | {_money(miss.cost_usd)} |"
    if len(lost) > MISSES:
        yield f"\nand {len(lost) - MISSES:,} more, smaller ones"


def _rate(rate: float | None) -> str:
    return "unknown" if rate is None else f"{rate:.1%}"


def _money(amount: float | None) -> str:
    return "unknown" if amount is None else dollars(amount)
