"""Draws `demo.svg`: every call of `contextkit demo` as one bar, for the three ways of building its requests.

    python docs/figures/demo.py contextkit/

Takes the folder the demonstration works in; the figures on the page are those of the run that drew it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import anthropic

from contextkit.cli.demo_agent import careful, careless, with_contextkit
from contextkit.cli.demo_agent import replies
from contextkit.cli.demo_agent import Workspace
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import Summary, summarise
from contextkit.server.local import LocalServer

MODEL, TURNS = "claude-sonnet-5-5", 28
WAYS = (
    ("careless", "clock in the system prompt, tools reordered,", "old results cut short", careless),
    ("automatic caching", "append-only list, top-level cache_control", "", careful),
    ("contextkit", "Context: head, bridge and tail breakpoints", "", with_contextkit),
)
READ, WRITTEN, INK, MUTED, RULE = "#2f9e8f", "#e8743b", "#1f2933", "#5f6c7b", "#d9dee4"
WIDTH, HEIGHT, PANEL, GAP, LEFT, TOP, BAR, STEP = 960, 452, 280, 32, 28, 142, 7, 9


def ran(way: object, workspace: Workspace) -> Ledger:
    """The bills of one way."""
    with LocalServer(replies=replies(workspace, TURNS), is_frozen=True) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0)
        way(client, MODEL, workspace, server.clock.now, lambda: None)  # type: ignore[operator]
        return server.ledger


def text(x: float, y: float, words: str, size: int, fill: str = INK, weight: int = 400, anchor: str = "start") -> str:
    """One line of text."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" font-weight="{weight}" text-anchor="{anchor}">{words}</text>'


def bar(x: float, y: float, width: float, fill: str) -> str:
    """One part of a call."""
    return f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{BAR}" fill="{fill}"/>' if width >= 0.05 else ""


def panel(x: float, names: Sequence[str], ledger: Ledger, summary: Summary, scale: float) -> list[str]:
    """One way: its heading, then a bar a call, the first call on top."""
    hit = f"{(summary.hit_rate or 0):.1%} read from cache"
    lines = [text(x, 66, names[0], 15, INK, 700), text(x, 84, names[1], 11, MUTED), text(x, 98, names[2], 11, MUTED)]
    lines += [text(x, 126, f"${summary.cost_usd:.2f}", 20, INK, 700), text(x + PANEL, 126, hit, 12, MUTED, 400, "end")]
    for turn, exchange in enumerate(ledger):
        usage, y = exchange.usage, TOP + turn * STEP
        read, rest = (usage.read or 0) * scale, ((usage.prompt or 0) - (usage.read or 0)) * scale
        lines += [bar(x, y, read, READ), bar(x + read, y, rest, WRITTEN)]
    return [*lines, f'<path d="M{x} {TOP - 4}V{TOP + TURNS * STEP}" stroke="{RULE}" stroke-width="1"/>']


def drawn(folder: str) -> str:
    """The picture."""
    workspace = Workspace(Path(folder))
    ledgers = [ran(way, workspace) for *_, way in WAYS]
    scale = PANEL / max(exchange.usage.prompt or 0 for ledger in ledgers for exchange in ledger)
    heading = f"One agent, {TURNS} model calls, three ways to build the requests: one bar a call, the first on top"
    lines = [text(LEFT, 30, heading, 16, INK, 700)]
    for index, (*names, _) in enumerate(WAYS):
        lines += panel(LEFT + index * (PANEL + GAP), names, ledgers[index], summarise(ledgers[index]), scale)
    foot, unit = TOP + TURNS * STEP + 34, 20_000 * scale
    lines += [bar(LEFT, foot - 7, 14, READ), text(LEFT + 20, foot, "tokens read from cache", 12)]
    lines += [bar(LEFT + 180, foot - 7, 14, WRITTEN), text(LEFT + 200, foot, "tokens written to cache, at 1.25 times the input price", 12)]
    end = LEFT + 3 * PANEL + 2 * GAP
    lines += [f'<path d="M{end - unit:.1f} {foot - 4}H{end}" stroke="{INK}" stroke-width="1.5"/>']
    lines += [text(end - unit - 8, foot, "20,000 tokens", 12, MUTED, 400, "end")]
    font = "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\""
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" {font} role="img">'
    title = "<title>Tokens of each call, read and written, for three ways to build the same requests</title>"
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff"/>'
    return "\n".join([opening, title, ground, *filter(None, lines), "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawn(sys.argv[1]), encoding="utf-8", newline="\n")
