"""What the demonstration of masks found: one row an endpoint and way, and the same in words.

Takes what ran, prints; readable without colour and in narrow terminals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from contextkit.canonical import Json, canonical, parse
from contextkit.cli.demos.masking import FAMILIES, OPENAI, WAYS, Ran
from contextkit.ledger.summary import dollars
from contextkit.terminal import rich_console

if TYPE_CHECKING:
    from rich.console import Console

Found = Mapping[str, Mapping[str, Ran]]
"""Endpoint → way → what ran."""


def show(found: Found, model: str, turns: int) -> None:
    """Print the table and what came of it, to standard output."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = rich_console()
    what = f"One agent, 60 tools, {len(FAMILIES)} phases, {turns} turns, on {model} (Messages) and {OPENAI}"
    _say(console, f"{what} (local provider, list prices, token counts estimated):", "bold")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(("", "way", "hit rate", "cost", "misses", "most tokens a change", "moved")):
        table.add_column(column, justify="left" if index < 2 else "right", overflow="fold")
    for endpoint, ways in found.items():
        for way, ran in ways.items():
            table.add_row(
                endpoint if way == WAYS[0] else "", way, *_cells(ran), style="green" if way == "masked" else ""
            )
    console.print(table)
    for endpoint, ways in found.items():
        _say(console, sentence(endpoint, ways))


def sentence(endpoint: str, ways: Mapping[str, Ran]) -> str:
    """What masks cost at one endpoint, and what removing the tools would have."""
    plain, masked, removed = (ways[way] for way in WAYS)
    apart, above = abs(_rate(plain) - _rate(masked)) * 100, (_rate(masked) - _rate(removed)) * 100
    changes = f"{masked.changes} changes of phase through {masked.mechanism}, {masked.most_tokens} tokens each at most"
    return f"{endpoint}: {changes}; {apart:.2f} points of hit rate from the run without masks, {above:.1f} above tools removed by phase."


def as_json(found: Found) -> str:
    """The figures as one JSON object."""
    return canonical(
        {endpoint: {way: _figures(ran) for way, ran in ways.items()} for endpoint, ways in found.items()}
    ).decode()


def _figures(ran: Ran) -> Json:
    return {
        "summary": parse(ran.summary.to_json()),
        "hit_rate": ran.summary.hit_rate,
        "changes": ran.changes,
        "most_tokens_a_change": ran.most_tokens,
        "segments_moved": ran.moved,
        "mechanism": ran.mechanism,
    }


def _cells(ran: Ran) -> tuple[str, ...]:
    cost = "unknown" if ran.summary.cost_usd is None else dollars(ran.summary.cost_usd)
    return f"{_rate(ran):.2%}", cost, f"{len(ran.summary.losses)}", f"{ran.most_tokens}", f"{ran.moved:,}"


def _rate(ran: Ran) -> float:
    return ran.summary.hit_rate or 0.0


def _say(console: Console, line: str, style: str = "") -> None:
    console.print(line, style=style, markup=False)
