"""The prefix tree on a terminal: at most forty lines, in as many columns as there are, in ASCII where there is no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from contextkit.canonical import Json, canonical
from contextkit.ledger.figures import Share
from contextkit.report.contents import Contents
from contextkit.report.partings import Line, lines_of, lost_usd
from contextkit.report.prefix_tree import PrefixTree
from contextkit.report.terminal import print_line
from contextkit.terminal import rich_console

MOST_LINES = 40
"""Lines of the tree; the deep and the cheap ones are left out."""
MOST_BELOW = 8
"""Lines directly below another one."""
_CALLS, _FIGURE = 12, 22
"""Columns of the number of calls, and of what stands behind it."""
_SIGNS = (("├─ ", "└─ ", "│  "), ("|- ", "`- ", "|  "))
"""In front of a line, of the last one, and of what is below; the same in ASCII."""


def show_tree(tree: PrefixTree, contents: Contents, file: TextIO | None = None) -> None:
    """Print the tree of a report, on standard output by default."""
    console = rich_console(file=file, soft_wrap=True)
    if contents.title:
        print_line(console, contents.title)
    print_line(console, str(contents.summary), style="bold")
    lines = lines_of(tree)
    shown = _chosen(lines)
    signs = _SIGNS[console.options.ascii_only]
    if lines:
        print_line(console, "")
    for text in _drawn(lines, shown, max(50, console.width), signs):
        print_line(console, text)
    for note in notes(tree, lines):
        print_line(console, "")
        print_line(console, note)


def notes(tree: PrefixTree, lines: Sequence[Line]) -> Iterator[str]:
    """Yield what the tree leaves out, a line each."""
    if tree.n_without_prompt:
        n = tree.n_without_prompt
        yield (
            f"{n:,} call{'s' * (n != 1)} without recorded prompts {'is' if n == 1 else 'are'} not in the tree; "
            "`contextkit proxy --record` or `contextkit.watch(client, record=...)` records them"
        )
    if any(line.sums.lost for line in lines):
        yield "contextkit explain RECORDING CALL   why a call missed, with the changed text"


def _chosen(lines: Sequence[Line]) -> set[int]:
    """Choose the lines that are shown, by identity: those below the dearest line first."""
    shown, waiting = set[int](), [(-1.0, 0, 0, list(lines))]
    n, room = 0, MOST_LINES
    while waiting and room > 0:
        waiting.sort(key=lambda one: one[:3])
        below = waiting.pop(0)[3]
        for line in below[: min(MOST_BELOW, room)]:
            shown.add(id(line))
            room -= 1
            n += 1
            if line.lines:
                waiting.append((-line.sums.lost_usd, -line.sums.lost - line.sums.calls, n, line.lines))
        room -= len(below) > MOST_BELOW
    return shown


def _drawn(
    lines: Sequence[Line], shown: set[int], width: int, signs: tuple[str, str, str], lead: str | None = None
) -> Iterator[str]:
    """Yield the lines with what is below them, and one for those that are left out."""
    first, last, through = signs
    drawn = [line for line in lines if id(line) in shown]
    left = [line for line in lines if id(line) not in shown] if drawn else []
    for i, line in enumerate(drawn):
        is_last = i == len(drawn) - 1 and not left
        own = "" if lead is None else lead + (last if is_last else first)
        below = "" if lead is None else lead + ("   " if is_last else through)
        has_below = any(id(one) in shown for one in line.lines)
        yield from _texts(line, width, own, below + (through if has_below else "   "))
        yield from _drawn(line.lines, shown, width, signs, below)
    if left:
        yield f"{lead or ''}{'' if lead is None else last}{_more(left)}"


def _texts(line: Line, width: int, lead: str, lead_below: str) -> Iterator[str]:
    """Yield a line of the tree; what does not fit of a label follows on the next one."""
    n = line.sums.calls
    calls = f"call {line.sums.first + 1:,}" if n == 1 else f"{n:,} calls"
    tail = f"{calls:>{_CALLS}}  {figure(line):<{_FIGURE}}"
    room = width - len(lead) - len(tail) - 1
    head, rest = _fitted(line, room)
    yield f"{lead}{head:<{room}} {tail}".rstrip()
    if rest:
        yield f"{lead_below}{_cut(rest, width - len(lead_below))}"


def _fitted(line: Line, room: int) -> tuple[str, str]:
    """Return a label in so many columns, and what stands below it: its size, the sides of a difference, whose it is."""
    size = f"{line.tokens:,} tokens" if line.kind == "start" and line.tokens else ""
    for n in (3, 1, 0):
        head = " · ".join(filter(None, (line.label, size if n else "")))
        head = "  ".join(filter(None, (head, line.detail, line.whose))) if n == 3 else head
        if len(head) <= room:
            break
    rest = "" if n == 3 else "  ".join(filter(None, (" · ".join(filter(None, ("" if n else size, line.whose))), line.detail)))
    return _cut(head, room), rest


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def figure(line: Line) -> str:
    """Say the figure of a line that matters most: what was lost there, or below; else what was written in vain, or read."""
    sums = line.sums
    if line.lost.lost:
        return _lost(line.lost, "lost")
    if sums.lost:
        return _lost(sums, "lost below" if line.kind == "parting" else "lost")
    if line.unavoidable_usd:
        return f"${line.unavoidable_usd:,.2f}, no loss"
    if sums.unread and 2 * sums.unread >= sums.written:
        return f"wrote {sums.unread:,}, unread"
    if sums.n_unbilled == sums.calls or not sums.input:
        return "read unknown"
    return f"read {Share(sums.read / sums.input).spaced}"


def _lost(sums: object, word: str) -> str:
    usd = lost_usd(sums)  # type: ignore[arg-type]
    return f"{sums.lost:,} tokens {word}" if usd.value is None else f"{usd} {word}"  # type: ignore[attr-defined]


def _more(left: Sequence[Line]) -> str:
    n, lost, calls = len(left), sum(line.sums.lost for line in left), sum(line.sums.calls for line in left)
    usd = sum(line.sums.lost_usd for line in left)
    cost = f", ${usd:,.2f} lost" if usd else f", {lost:,} tokens lost" if lost else ""
    return f"and {n:,} more, {calls:,} call{'s' * (calls != 1)}{cost}"


MOST_IN_JSON = 20_000
"""Lines of a tree in JSON."""


def tree_json(tree: PrefixTree) -> str:
    """Return the tree as one JSON object, the cheap lines left out where there are too many."""
    room = [MOST_IN_JSON]
    return canonical(
        {
            "format": 1,
            "calls": tree.n_calls,
            "calls_without_prompt": tree.n_without_prompt,
            "starts": _as_json(lines_of(tree), room),
            "left_out": max(0, -room[0]),
        }
    ).decode()


def _as_json(lines: Sequence[Line], room: list[int]) -> list[Json]:
    rows: list[Json] = []
    for line in lines:
        room[0] -= 1
        if room[0] >= 0:
            sums, usd = line.sums, lost_usd(line.sums)
            rows.append(
                {
                    "kind": line.kind,
                    "label": line.label,
                    "detail": line.detail,
                    "whose": line.whose,
                    "calls": sums.calls,
                    "first_call": sums.first + 1,
                    "tokens": line.tokens or None,
                    "partings": line.n_runs,
                    "input": None if sums.n_unbilled else sums.input,
                    "read": None if sums.n_unbilled else sums.read,
                    "written": None if sums.n_unbilled else sums.written,
                    "written_unread": sums.unread,
                    "lost_tokens": sums.lost,
                    "lost_usd": usd.value,
                    "lost_here_tokens": line.lost.lost,
                    "lost_here_usd": lost_usd(line.lost).value,
                    "gap": asdict(line.gap) if line.gap else None,
                    "lines": _as_json(line.lines, room),
                }
            )
    return rows
