"""The pieces a page is made of: tables that screen readers can walk and narrow screens can show, bars.

Takes plain values, gives HTML in which everything that came from a recording is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contextkit.ledger.figures import UNKNOWN, Share
from contextkit.report.tables import Cell, Column, Table, Words, text_of
from contextkit.terminal import sanitize_html


@dataclass(frozen=True, slots=True)
class Html:
    """Text that is HTML already; what is not is escaped."""

    text: str
    """Safe to stand in the page."""


def table_html(table: Table[Any], *, is_cards: bool = False) -> str:
    """Return a table with a caption for screen readers, in a box that scrolls sideways, and a note on the rows that were
    left out.

    `is_cards`: on narrow screens each row is a card.

    The roles repeat what the elements mean, which browsers forget where rows are laid out as cards.
    """
    visible = table.in_format("page")
    head = "".join(
        f'<th scope="col" role="columnheader"{_classes(column)}>{sanitize_html(column.heading)}</th>'
        for column in visible.columns
    )
    body = "".join(_row(visible.columns, cells, is_cards) for cells in visible.cells())
    kind, name = ' class="cards"' if is_cards else "", sanitize_html(table.name)
    note = f'<p class="note">{sanitize_html(table.more)}.</p>\n' if table.more else ""
    return (
        f'<div class="box" role="region" tabindex="0" aria-label="{name}"><table role="table"{kind}>'
        f"<caption>{name}</caption>"
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table></div>\n{note}'
    )


def _row(columns: Sequence[Column[Any]], row: Sequence[Cell], is_card: bool) -> str:
    opening, closing = ("<div>", "</div>") if is_card else ("", "")
    label = sanitize_html(columns[0].heading)
    first = f'<th scope="row" role="rowheader" data-label="{label}"{_classes(columns[0])}>{cell_html(row[0])}</th>'
    rest = "".join(
        f'<td role="cell" data-label="{sanitize_html(column.heading)}"{_classes(column)}>{opening}{cell_html(cell)}{closing}</td>'
        for column, cell in zip(columns[1:], row[1:], strict=True)
    )
    return f'<tr role="row">{first}{rest}</tr>\n'


def _classes(column: Column[Any]) -> str:
    names = [name for name, is_so in (("n", column.is_number), ("extra", column.is_extra)) if is_so]
    return f' class="{" ".join(names)}"' if names else ""


def cell_html(cell: Cell) -> str:
    """Return a cell as HTML; what is neither HTML nor our own words is escaped."""
    if isinstance(cell, Share):
        return bar(cell).text
    if isinstance(cell, Words):
        return coded(cell.text).text
    return cell.text if isinstance(cell, Html) else sanitize_html(text_of(cell))


def coded(text: str) -> Html:
    """Our own words, what stands in backticks as code.

    >>> coded("run `make`").text
    'run <code>make</code>'
    """
    parts = sanitize_html(text).split("`")
    return Html("".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts)))


def bar(share: Share) -> Html:
    """A share of 1 as a number and a bar beside it; the bar is for eyes only."""
    if share.value is None:
        return Html(f'<span class="share">{UNKNOWN}</span>')
    width = f"{max(0.0, min(1.0, share.value)) * 100:.1f}"
    drawn = f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width="{width}" height="10"/></svg>'
    return Html(f'<span class="share">{share.spaced}</span>{drawn}')
