"""Formats findings for people: code, location, the lines around it, the path to it, the cost, the next step.

Plain text without colours. The lines around a place come from the source file, with the place underlined.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from contextkit.lint.finding import CodePlace, Finding, RequestPlace
from contextkit.lint.output.groups import Catalogue, Group, Looked, counted, groups, joined
from contextkit.lint.source import notebook
from contextkit.terminal import sanitize

WIDEST = 160
"""Characters of a line that are shown; of a longer one the part around the place."""
BEFORE = 30
"""Characters of a longer line that are shown in front of the place."""
_NEWLINE = re.compile(r"\r\n|\r|\n")
"""What Python counts as the end of a line; str.splitlines knows more."""
_NOTHING: Mapping[str, bytes] = MappingProxyType({})


def window(place: CodePlace, lines: Sequence[str], around: int = 1) -> list[str]:
    """The line, `around` lines before and behind it, numbered, carets under the expression.

    `lines` are those of the file.
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


def lines_of(file: str, contents: Mapping[str, bytes] = _NOTHING) -> Sequence[str]:
    """A source file's lines in its own encoding; none of a file that is gone, or that no encoding fits.

    Of a notebook those of a cell: `note.ipynb#cell3`. `contents` maps files to what they hold, where that does not stand
    on the disk.
    """
    file, _, number = file.partition(f"{notebook.SUFFIX}#cell")
    if number:
        file += notebook.SUFFIX
    try:
        if file not in contents and not Path(file).is_file():  # a pipe would be waited for
            return ()
        raw = contents[file] if file in contents else Path(file).read_bytes()
        if number:
            texts = [cell.text.decode() for cell in notebook.code_cells(raw) if str(cell.number) == number]
            return _NEWLINE.split("".join(texts))
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return _NEWLINE.split(raw.decode(encoding))
    except (OSError, SyntaxError, ValueError):
        return ()


Lines = Callable[[str], Sequence[str]]
"""File → its lines."""
_ANYTHING = Looked()
"""Where nobody counted."""


def as_text(
    findings: Sequence[Finding],
    catalogue: Catalogue,
    n_fixed: int = 0,
    looked: Looked = _ANYTHING,
    lines: Lines = lines_of,
) -> Iterator[str]:
    """Line by line: a paragraph for each group, then what several detectors agree on, then a count."""
    read = lru_cache(maxsize=8)(lines)  # no longer than this page: --fix changes files between two of them
    for group in groups(findings):
        yield from (sanitize(line, keep="\t") for line in _paragraph(group, read))
        yield ""
    together = joined(findings, catalogue)
    if together:
        yield from ("Told by more than one detector:", *(f"  {one}" for one in together), "")
    yield summary(findings, n_fixed, looked)


def summary(findings: Sequence[Finding], n_fixed: int = 0, looked: Looked = _ANYTHING) -> str:
    """One line that counts."""
    fixed = f"{counted(n_fixed, 'hazard')} mended. " if n_fixed else ""
    return fixed + (_counted(findings) if findings else _clean(looked))


def _counted(findings: Sequence[Finding]) -> str:
    """Places are told where they are fewer: a hazard of many turns stands in the text once."""
    n_code = sum(isinstance(finding.place, CodePlace) for finding in findings)
    n_safe = sum(finding.fix is not None and finding.fix.is_safe for finding in findings)
    n_places = len(groups(findings))
    places = f" in {counted(n_places, 'place')}" if n_places < len(findings) else ""
    finding_lines = (
        f"Found {counted(len(findings), 'hazard')}{places}: {n_code:,} in code, {len(findings) - n_code:,} in requests."
    )
    return finding_lines + (f" {n_safe:,} can be mended with --fix." if n_safe else "")


def _clean(looked: Looked) -> str:
    if looked.lacking:
        return f"Nothing to look at: {looked.lacking}."
    return f"No hazards found in {looked}." if str(looked) else "No hazards found."


def _paragraph(group: Group, read: Lines) -> Iterator[str]:
    place = group.first.place
    if isinstance(place, CodePlace):
        yield f"{place}: {group.first.code} {group.first.message}"
        yield from window(place, read(place.file))
        yield from _trail(place, group.first.trail)
    else:
        yield f"{place.session} {group.turns} {place.path}: {group.first.code} {group.first.message}"
        yield from _request(place)
        yield from _rest(group)
    yield from (f"  = help: {step}" for step in _help(group.first))


def _trail(place: CodePlace, trail: Sequence[CodePlace]) -> Iterator[str]:
    """The way there; nothing where it does not leave the place itself."""
    lead = "  = trail: "
    for step in trail if any(str(step) != str(place) for step in trail) else ():
        yield f"{lead}{step}  {step.note}".rstrip()
        lead = " " * len(lead)


def _request(place: RequestPlace) -> Iterator[str]:
    facts = [f"request {place.request}" if place.request else "", place.level, f"byte {place.offset} of the block"]
    yield "  | " + " · ".join(fact for fact in (*facts, f"sent by {place.caller}" if place.caller else "") if fact)
    for label, side_text in (("was", place.was), ("now", place.now)):
        if side_text:
            yield f"  | {label}: {side_text}"


def _rest(group: Group) -> Iterator[str]:
    """What adds up over the turns."""
    paths = {finding.place.path for finding in group.findings if isinstance(finding.place, RequestPlace)}
    if len(paths) > 1:
        yield f"  = shown: the first of {len(group.findings):,}, at {len(paths):,} places"
    if isinstance(group.first.place, RequestPlace):
        yield f"  = cost: {_cost(group)}"
    if group.verdicts:
        yield f"  = provider: {', '.join(group.verdicts)}"


def _cost(group: Group) -> str:
    if not group.cost_tokens:
        return "none beyond the other findings of the call" if group.is_cost_complete else "unknown"
    bound = "" if group.is_cost_complete else "at least "
    price = "" if group.cost_usd is None else f", ${group.cost_usd:.4f}"
    return f"{bound}{counted(group.cost_tokens, 'token')} billed again instead of read{price}"


def _help(finding: Finding) -> Iterator[str]:
    if finding.fix is not None:
        options = "--fix" if finding.fix.is_safe else "--fix --unsafe-fixes"
        yield f"{finding.fix.title} ({options} does it)"
    yield f"contextkit lint --explain {finding.code}"
