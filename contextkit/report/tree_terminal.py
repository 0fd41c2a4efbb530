"""The prefix tree on a terminal: about forty lines, in as many columns as there are, in ASCII where there is no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from contextkit.report.contents import Contents
from contextkit.report.partings import Line, chosen, figure, lines_of, more_text, notes
from contextkit.report.prefix_tree import PrefixTree
from contextkit.report.terminal import print_line
from contextkit.terminal import rich_console

if TYPE_CHECKING:
    from rich.console import Console

MOST_LINES = 32
"""Lines of the tree, those that only quote aside; the deep and the cheap ones are left out."""
MOST_BELOW = 8
"""Lines directly below another one."""
_CALLS, _FIGURE = 12, 22
"""Columns of the number of calls, and of what stands behind it."""
_SIGNS = (("├─ ", "└─ ", "│  "), ("|- ", "`- ", "|  "))
"""In front of a line, of the last one, and of what is below; the same in ASCII."""


def show_tree(tree: PrefixTree, contents: Contents, file: TextIO | None = None) -> None:
    """Print the tree of a report, on standard output by default."""
    draw_tree(tree, contents, rich_console(file=file, soft_wrap=False))


def tree_text(tree: PrefixTree, contents: Contents, width: int = 80, encoding: str = "utf-8") -> str:
    """Return what `show_tree` prints on a terminal of so many columns and this encoding, without colour."""
    page = TextIOWrapper(BytesIO(), encoding, newline="")
    options = {"width": width, "color_system": None, "force_terminal": False, "legacy_windows": False}
    draw_tree(tree, contents, rich_console(file=page, **options))
    page.seek(0)
    return page.read()


def draw_tree(tree: PrefixTree, contents: Contents, console: Console) -> None:
    """Print the tree of a report on a console of rich's."""
    if contents.title:
        print_line(console, contents.title)
    if contents.is_partial:
        print_line(console, "partial: reading was cut short, this is the tree of what was read", style="bold")
    print_line(console, str(contents.summary), style="bold")
    lines = lines_of(tree)
    shown = chosen(lines, MOST_LINES, MOST_BELOW)
    for i, text in enumerate(_drawn(lines, shown, max(50, console.width), _SIGNS[console.options.ascii_only])):
        if not i:
            print_line(console, "")
        print_line(console, text)
    for note in notes(tree, lines):
        print_line(console, "")
        print_line(console, note)


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
        yield f"{lead or ''}{'' if lead is None else last}{more_text(left)}"


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
    rest = (
        ""
        if n == 3
        else "  ".join(filter(None, (" · ".join(filter(None, ("" if n else size, line.whose))), line.detail)))
    )
    return _cut(head, room), rest


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
