"""The prefix tree on the page: an icicle chart whose cells can be pointed at and walked by keys, and a table of the same.

Takes a `PrefixTree`, gives HTML that needs no script to be read. A cell is as wide as the tokens that its calls sent; the
strip below it says what part of them was read, written and fresh. Everything from a recording is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contextkit.ledger.figures import Count, Share
from contextkit.report.html.markup import Html, table_html
from contextkit.report.partings import Line, chosen, figure, lines_of, lost_usd, notes
from contextkit.report.prefix_tree import PrefixTree, Sums
from contextkit.report.tables import Cell, Column, Table
from contextkit.terminal import sanitize_html

WIDTH = 1088
"""Pixels of the chart on a page of 1,280: narrower cells than one of them are not drawn."""
MOST_CELLS, MOST_ROWS, MOST_BELOW = 400, 120, 24
"""Cells that are drawn, rows of the table, and rows directly below another."""
ROW, STRIP = 44, 6
"""Pixels of a level, and of the strip at its foot."""
CHARACTER = 6.4
"""Pixels of a character, about; the script measures them."""
_INDENTS = 8
"""Levels that a table indents."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """A line of the tree at its place in the chart."""

    line: Line
    level: int
    left: float
    """Share of the chart's width."""
    width: float


def section(tree: PrefixTree) -> Iterator[str]:
    """Yield the section of the tree; nothing where a recording has no call."""
    if not tree.n_calls and not tree.n_without_prompt:
        return
    yield '<section id="prefixes" aria-labelledby="h-prefixes"><h2 id="h-prefixes">Where prompts part</h2>\n'
    lines = lines_of(tree)
    told = "".join(f'<p class="note">{_coded(note)}.</p>\n' for note in notes(tree, []))
    if not lines:
        yield f"{told}</section>\n"
        return
    cells, n_pruned = _laid_out(lines)
    pruned = f" {n_pruned:,} cells are not drawn: narrower than a pixel, or the cheapest." if n_pruned else ""
    yield (
        '<p class="note" id="prefixes-help">All prompts as one tree: a cell is what its calls share, the cells below it are the '
        "ways on which they went on. It is as wide as the tokens that its calls sent; the strip at its foot is what of them was "
        "read, written and fresh. A dashed frame: calls lost tokens there. Arrow keys walk: down to what stands below, up, and "
        f"sideways.{pruned}</p>\n{told}"
        f"{_legend()}"
    )
    yield _chart(cells)
    yield '<p class="told" id="prefixes-told" role="status"><span>Point at a cell, or walk with the arrow keys.</span></p>\n'
    yield f"<details open><summary>The same as a table</summary>{_table(lines)}</details></section>\n"


def _coded(text: str) -> str:
    parts = sanitize_html(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _legend() -> str:
    signs = (
        ("read from cache", '<rect class="read" width="18" height="12"/>'),
        ("written to cache", '<rect fill="url(#strip-write)" width="18" height="12"/>'),
        ("fresh", '<rect fill="url(#strip-fresh)" width="18" height="12"/>'),
        ("tokens lost there", '<rect class="lost" x="1" y="1" width="16" height="10"/>'),
    )
    items = "".join(
        f'<li><svg width="18" height="12" aria-hidden="true">{sign}</svg><span>{name}</span></li>'
        for name, sign in signs
    )
    return f'<ul class="legend">{items}</ul>\n'


# The chart
# ---------------------------------------------------------------------------------------------------------------------


def _laid_out(lines: Sequence[Line]) -> tuple[list[_Cell], int]:
    """Give each line its place, depth first; return the cells that are wide enough, and how many are not."""
    whole = sum(line.sums.sent for line in lines) or 1
    shown, cells, n_pruned = chosen(lines, MOST_CELLS, MOST_CELLS), list[_Cell](), 0
    waiting = [(line, 0, left) for line, left in reversed(_side_by_side(lines, 0.0, whole))]
    while waiting:
        line, level, left = waiting.pop()
        width = line.sums.sent / whole
        if width * WIDTH < 1 or id(line) not in shown:
            n_pruned += 1 + _n_below(line)
            continue
        cells.append(_Cell(line, level, left, width))
        waiting += [(one, level + 1, at) for one, at in reversed(_side_by_side(_below(line), left, whole))]
    return cells, n_pruned


def _side_by_side(lines: Sequence[Line], left: float, whole: int) -> list[tuple[Line, float]]:
    placed = []
    for line in lines:
        placed.append((line, left))
        left += line.sums.sent / whole
    return placed


def _below(line: Line) -> list[Line]:
    """Return the lines whose calls make up those of a line; causes where all of them went on."""
    return [one for one in line.lines if one.kind != "cause"] or line.lines


def _n_below(line: Line) -> int:
    return sum(1 + _n_below(below) for below in line.lines)


_PATTERNS = (
    '<defs><pattern id="strip-write" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="write" width="6" height="6"/>'
    '<path class="stripe" d="M-1 7L7 -1M-4 4L4 -4M2 10L10 2" stroke-width="1.4"/></pattern>'
    '<pattern id="strip-fresh" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="fresh" width="6" height="6"/>'
    '<circle class="dot" cx="3" cy="3" r="1.1"/></pattern></defs>'
)
"""What tells the parts of a strip apart without colour, as in the chart of calls."""


def _chart(cells: Sequence[_Cell]) -> str:
    height = ROW * (1 + max(cell.level for cell in cells))
    drawn = "".join(map(_cell, cells))
    return (
        f'<div class="chart icicle" id="prefixes-chart"><svg width="100%" height="{height}" role="group" '
        f'aria-label="Prefix tree, {len(cells):,} cells" aria-describedby="prefixes-help">{_PATTERNS}{drawn}</svg></div>\n'
    )


def _cell(cell: _Cell) -> str:
    """Return a cell as an SVG of its own, so that its parts are shares of its width."""
    line, sums = cell.line, cell.line.sums
    room = int((cell.width * WIDTH - 12) / CHARACTER)
    both = f"{line.label}  {line.detail}".strip()
    texts = "".join(
        f'<text x="6" y="{y}" class="{name}" data-text="{sanitize_html(text)}">{sanitize_html(fitted(text, room))}</text>'
        for y, name, text in ((16, "", both), (31, "figure", f"{_calls(sums)} · {figure(line)}"))
        if cell.width * WIDTH >= 24
    )
    sides = _sides(line)
    quoted = f' data-was="{sanitize_html(sides[0])}" data-now="{sanitize_html(sides[1])}"' if sides else ""
    kinds = {one.kind for one in line.lines}
    has_lost = line.lost.lost or ("cause" in kinds and len(kinds) > 1)  # causes beside partings have no cell
    frame = '<rect class="lost" width="100%" height="38"/>' if has_lost else ""
    return (
        f'<svg class="cell" x="{100 * cell.left:.3f}%" y="{ROW * cell.level}" width="{100 * cell.width:.3f}%" height="{ROW}" role="img" '
        f'tabindex="-1" data-level="{cell.level}" aria-label="{sanitize_html(in_words(line))}"{quoted}>'
        f'<rect class="ground" width="100%" height="{ROW - 1}"/>{_strip(sums)}{frame}{texts}</svg>\n'
    )


def _strip(sums: Sums) -> str:
    """Return the shares of what was read, written and fresh, one beside the other."""
    if not sums.input:
        return ""
    left, drawn = 0.0, ""
    fresh = max(0, sums.input - sums.read - sums.written)
    for name, tokens in (("read", sums.read), ("write", sums.written), ("fresh", fresh)):
        share = 100 * tokens / sums.input
        if share >= 0.05:
            fill = 'class="read"' if name == "read" else f'fill="url(#strip-{name})"'
            drawn += f'<rect {fill} x="{left:.1f}%" y="{ROW - STRIP - 1}" width="{share:.1f}%" height="{STRIP}"/>'
        left += share
    return drawn


def fitted(text: str, room: int) -> str:
    """Return as many whole words of a text as fit into so many characters.

    >>> fitted("tools[2] tracker__list went", 20), fitted("tools[2]", 4)
    ('tools[2]…', '')
    """
    if len(text) <= room:
        return text
    words = text[:room].rpartition(" ")[0].rstrip(" ·+:→")
    return f"{words}…" if words else ""


def _calls(sums: Sums) -> str:
    return f"call {sums.first + 1:,}" if sums.calls == 1 else f"{sums.calls:,} calls"


def _sides(line: Line) -> tuple[str, str] | None:
    """Return both sides of the difference where the program changed bytes and they are kept."""
    gap = line.gap
    return (gap.was, gap.now) if gap and gap.whose == "program_bytes" and (gap.was or gap.now) else None


def in_words(line: Line) -> str:
    """Say everything of a line in sentences."""
    sums, first = line.sums, f", the first is call {line.sums.first + 1:,}" if line.sums.calls > 1 else ""
    parts = [f"{line.label}: {_calls(sums)}{first}"]
    if line.whose:
        parts.append(line.whose)
    if line.gap and line.gap.evidence:
        parts.append(line.gap.evidence)
    if line.tokens:
        parts.append(f"{line.tokens:,} tokens long")
    if sums.input:
        share = Share(sums.read / sums.input).spaced
        parts.append(f"{share} of {sums.input:,} input tokens read, {sums.written:,} written")
    if sums.n_unbilled:
        parts.append(f"{sums.n_unbilled:,} do not say what they read")
    if sums.unread:
        parts.append(f"{sums.unread:,} of the written tokens never read")
    if line.lost.lost:
        parts.append(f"lost there: {line.lost.lost:,} tokens, {lost_usd(line.lost)}")
    if line.lost_below:
        parts.append(f"lost in all: {sums.lost:,} tokens, {lost_usd(sums)}")
    if line.unavoidable_usd:
        parts.append(f"${line.unavoidable_usd:,.2f} for starting anew, no loss")
    return ". ".join(parts) + "."


# The table
# ---------------------------------------------------------------------------------------------------------------------


def _table(lines: Sequence[Line]) -> str:
    shown = chosen(lines, MOST_ROWS, MOST_BELOW)
    rows = list(_rows(lines, shown, 0))
    n_left = sum(1 + _n_below(line) for line in lines) - len(rows)
    columns: tuple[Column[tuple[Line, int]], ...] = (
        Column("where", _where, is_number=False),
        Column("calls", lambda row: row[0].sums.calls),
        Column("first call", lambda row: row[0].sums.first + 1, is_extra=True),
        Column("length in tokens", lambda row: Count(row[0].tokens) if row[0].tokens else "", is_extra=True),
        Column("read", lambda row: Share(_read_share(row[0].sums)), is_number=False),
        Column("written, never read", lambda row: Count(row[0].sums.unread) if row[0].sums.unread else ""),
        Column("lost tokens", lambda row: Count(row[0].sums.lost) if row[0].sums.lost else ""),
        Column("lost", lambda row: lost_usd(row[0].sums) if row[0].sums.lost else ""),
    )
    more = f"and {n_left:,} more, cheaper or deeper" if n_left else ""
    return table_html(Table("Where prompts part, and what each parting cost", columns, rows, more), is_cards=True)


def _rows(lines: Sequence[Line], shown: set[int], level: int) -> Iterator[tuple[Line, int]]:
    for line in lines:
        if id(line) in shown:
            yield line, level
            yield from _rows(line.lines, shown, level + 1)


def _where(row: tuple[Line, int]) -> Cell:
    line, level = row
    texts = [sanitize_html(" · ".join(filter(None, (line.label, line.whose))))]
    sides = _sides(line)
    if sides:
        was, now = map(_quoted, sides)
        texts += [f'<span class="sides"><span>was {was}</span> <span>now {now}</span></span>']
    elif line.detail:
        texts += [f'<span class="sides">{sanitize_html(line.detail)}</span>']
    return Html(f'<span class="in in{min(level, _INDENTS)}">{"".join(texts)}</span>')


def _quoted(text: str) -> str:
    return f"<code>{sanitize_html(text)}</code>" if text else "nothing"


def _read_share(sums: Sums) -> float | None:
    return sums.read / sums.input if sums.input and sums.n_unbilled < sums.calls else None
