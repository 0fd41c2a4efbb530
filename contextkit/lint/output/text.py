"""Formats findings for people: place, code and message, the lines around it, what it cost, what to do.

Plain text without colours. The lines around a place come from the source file, with the place underlined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from contextkit.ledger.figures import Count, Dollars, counted
from contextkit.lint.finding import CodePlace
from contextkit.lint.output.results import Group, LintResults, counts, groups
from contextkit.terminal import sanitize

WIDEST = 160
"""Characters of a line that are shown; of a longer one the part around the place."""
BEFORE = 30
"""Characters of a longer line that are shown in front of the place."""


def as_text(results: LintResults) -> str:
    """Write a paragraph for each group, then the summary."""
    read = lru_cache(maxsize=8)(results.lines)  # no longer than this text: --fix changes files between two of them
    paragraphs = [[*_headline(group), *_details(group, read), ""] for group in groups(results.findings)]
    return "\n".join([*(sanitize(line, keep="\t") for lines in paragraphs for line in lines), summary(results)])


def statistics(results: LintResults) -> str:
    """Write a line for each code, `[*]` where --fix fixes some of it, then the summary."""
    rows = counts(results)
    width = max((len(f"{row.count:,}") for row in rows), default=1)
    table = [f"{row.count:>{width},}  {row.code}  [{'*' if row.fixable else ' '}]  {row.name}" for row in rows]
    return "\n".join([*table, summary(results)])


def summary(results: LintResults) -> str:
    """Write the lines that count: what was fixed and found, or looked at, and what --fix can fix."""
    n, n_places = len(results.findings), len(groups(results.findings))
    fixed = f"Fixed {counted(results.n_fixed, 'hazard')}. " if results.n_fixed else ""
    if not n:
        sizes = [
            (size, what)
            for size, what in ((results.n_files, "Python file"), (results.n_calls, "recorded call"))
            if size is not None
        ]
        if sizes and not any(size for size, _ in sizes):
            return f"{fixed}Nothing to look at: no {' and no '.join(what for _, what in sizes)}."
        where = ", ".join(counted(size, what) for size, what in sizes)
        return f"{fixed}No hazards found{f' in {where}' if where else ''}."
    places = f" in {counted(n_places, 'place')}" if n_places < n else ""
    n_safe = sum(row.fixable for row in counts(results))
    fixable = f"\n[*] {n_safe:,} fixable with --fix." if n_safe else ""
    return f"{fixed}Found {counted(n, 'hazard')}{places}.{fixable}"


def _headline(group: Group) -> Iterator[str]:
    finding = group.first
    mark = " [*]" if finding.fix and finding.fix.is_safe else ""
    yield f"{group.where}: {finding.code}{mark} {finding.message}"


def _details(group: Group, read: Callable[[str], Sequence[str]]) -> Iterator[str]:
    finding, place = group.first, group.first.place
    if isinstance(place, CodePlace):
        yield from window(place, read(place.file))
        steps = finding.trail if any(str(step) != str(place) for step in finding.trail) else ()
        for step in steps:
            yield f"  = {'from' if step is steps[0] else 'then'}: {step}  {step.note}".rstrip()
    else:
        yield from (f"  | {side}: {text}" for side, text in (("was", place.was), ("now", place.now)) if text)
        yield from _loss(group)
        if place.caller:
            yield f"  = sent by: {place.caller}"
        diagnoses = dict.fromkeys(one.verdict for one in group.findings if one.verdict)
        if diagnoses:
            yield f"  = provider: {', '.join(diagnoses)}"
    if finding.fix is not None:
        yield f"  = fix: {finding.fix.title}{'' if finding.fix.is_safe else ' (--fix --unsafe-fixes)'}"
    elif finding.advice:
        yield f"  = fix: {finding.advice}"
    yield f"  = help: contextkit lint --explain {finding.code}"


def _loss(group: Group) -> Iterator[str]:
    """Sum up what the findings of a group lost; nothing where none of it is known."""
    priced = [finding for finding in group.findings if finding.cost_tokens is not None]
    tokens, is_partial = sum(finding.cost_tokens or 0 for finding in priced), len(priced) < len(group.findings)
    if not tokens:
        if not is_partial:
            yield "  = lost: nothing beyond the other findings of the call"
        return
    costs = [finding.cost_usd for finding in priced]
    usd = None if None in costs else sum(cost or 0.0 for cost in costs)
    price = "price unknown" if usd is None else str(Dollars(usd, is_partial))
    about = "about " if any(finding.is_estimated for finding in priced) else ""
    yield f"  = lost: {about}{Count(tokens, is_partial)} tokens, {price} ({group.first.cause})"


def window(place: CodePlace, lines: Sequence[str], around: int = 1) -> list[str]:
    """Return the line, `around` lines before and behind it, numbered, carets under the expression; `lines` are those of the
    file.
    """
    if not 1 <= place.line <= len(lines):
        return []
    numbers = range(max(1, place.line - around), min(len(lines), place.line + around) + 1)
    margin = len(str(numbers[-1]))
    cut = max(0, place.column - 1 - BEFORE) if len(lines[place.line - 1]) > WIDEST else 0
    output = [f"{' ' * margin} |"]
    for number in numbers:
        line = lines[number - 1]
        output.append(f"{number:>{margin}} | {sanitize(line[cut : cut + WIDEST], keep=chr(9))}".rstrip())
        if number == place.line:
            output.append(f"{' ' * margin} | {_carets(line, place, cut)}")
    return [*output, f"{' ' * margin} |"]


def _carets(line: str, place: CodePlace, cut: int) -> str:
    """Under the expression, to the end of the line where it goes on in the next; tabs stay tabs, so that they line up."""
    start = min(place.column - 1, len(line))
    end = place.end_column - 1 if place.end_line == place.line else len(line)
    end = min(max(end, start + 1), max(len(line), start + 1), cut + WIDEST)
    lead = sanitize(line[cut:start], keep="\t")
    return re.sub(r"[^\t]", " ", lead) + "^" * max(1, len(sanitize(line[start:end], keep="")))
