"""Measures an agent of 60 tools and 6 phases: with no masks, with masks, and with its tools removed phase by phase.

Each way is billed by the local provider through the real SDK clients; a row shows the bill of one endpoint and way, and
what changed between its requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from contextkit.canonical import Json, canonical, parse
from contextkit.context import Context
from contextkit.ledger.summary import Summary, dollars, summarise
from contextkit.providers.anthropic.messages import AnthropicMessages
from contextkit.providers.openai.chat import OpenAIChat
from contextkit.providers.openai.responses import OpenAIResponses
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request
from contextkit.server.local import LocalServer
from contextkit.terminal import rich_console
from contextkit.tools.phases import Phase, Phases
from contextkit.tools.tool import Tool

FAMILIES = ("browser", "files", "shell", "notes", "mail", "report")
VERBS = ("open", "list", "read", "find", "write", "move", "copy", "check", "undo", "finish")
STAY = 8
"""Turns in each phase; the last of them calls `…_finish`, which leads to the next one."""
OPENAI = "gpt-6.1-sol"
"""The model at both of OpenAI's endpoints."""
SECONDS = 8.0
"""How long each reply takes on the demonstration's clock."""
WAYS = ("no masks", "masked", "tools removed")
SYSTEM = (
    "You work on one task for a long time, with many tools, a few of them at a time. Explain each step in one sentence. "
    * 20
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint the agent runs at."""

    name: str
    """As the table says it."""
    provider: Callable[[], Provider]
    """What the contexts are made with."""
    sdk: str
    """`anthropic` or `openai`."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One way at one endpoint."""

    summary: Summary
    """What was billed."""
    changes: int
    """Changes of phase after the first."""
    most_tokens: int
    """Most tokens a change cost."""
    moved: int
    """Segments of a request, other than a notice at its end, that the next request has not at the same place with the
    same bytes."""
    mechanism: str
    """What carried the mask."""


def endpoints(model: str) -> list[Endpoint]:
    """Messages with `model`, and both of OpenAI's."""
    return [
        Endpoint("Messages", lambda: AnthropicMessages(model, max_tokens=1024), "anthropic"),
        Endpoint("Chat", lambda: OpenAIChat(OPENAI, max_tokens=1024), "openai"),
        Endpoint("Responses", lambda: OpenAIResponses(OPENAI, max_output_tokens=1024), "openai"),
    ]


def tools() -> list[Tool]:
    """Ten tools a family."""
    return [_tool(family, verb) for family in FAMILIES for verb in VERBS]


def phases() -> Phases:
    """Each family in turn; `…_finish` leads to the next."""
    following = dict(zip(FAMILIES, (*FAMILIES[1:], FAMILIES[0]), strict=True))
    return Phases(
        {family: Phase(allow=[f"{family}_*"], then={f"{family}_finish": following[family]}) for family in FAMILIES},
        start=FAMILIES[0],
    )


def run(way: str, endpoint: Endpoint, turns: int) -> Ran:
    """`turns` calls of the model, one of the `WAYS`, against a local provider of its own."""
    with LocalServer(replies=list(islice(_replies(), turns)), now=0.0, is_frozen=True) as server:
        context = _context(way, endpoint, server.clock.now)
        context.user("Do the whole task.")
        with _client(endpoint.sdk, server) as client:
            requests = [_turn(context, client, way) for _ in range(turns)]
        return Ran(
            summarise(server.ledger), *_changed(requests), _moved(requests, context), requests[-1].mask.mechanism
        )


def _turn(context: Context, client: Any, way: str) -> Request:
    request = context.request()
    context.receive(request.send(client), request)
    names = [call.name for call in context.calls]
    for call in context.calls:
        context.result(call, call.run())
    if way == "tools removed" and names and names[-1].endswith("_finish"):
        family = names[-1].partition("_")[0]
        context.retool(
            [tool for tool in tools() if tool.name.startswith(FAMILIES[(FAMILIES.index(family) + 1) % len(FAMILIES)])]
        )
    return request


def _context(way: str, endpoint: Endpoint, clock: Callable[[], float]) -> Context:
    offered = tools() if way != "tools removed" else [tool for tool in tools() if tool.name.startswith(FAMILIES[0])]
    table = phases() if way == "masked" else None
    return Context(endpoint.provider(), system=SYSTEM, tools=offered, phases=table, clock=clock)


def _client(sdk: str, server: LocalServer) -> Any:
    if sdk == "anthropic":
        import anthropic

        return anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0)
    import openai

    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)


def _changed(requests: list[Request]) -> tuple[int, int]:
    """Changes of phase after the first, and the most tokens one of all cost."""
    costs = {request.mask.entry: request.mask.cost_tokens for request in requests if request.mask.entry >= 0}
    return max(len(costs) - 1, 0), max(costs.values(), default=0)


def _moved(requests: list[Request], context: Context) -> int:
    """Segments that stand in one request and not in the next.

    The columns is shared within an epoch, so equal tracks need no look.
    """
    return sum(
        _lost(one, other, context)
        for one, other in pairwise(requests)
        if one.layout.columns is not other.layout.columns
    )


def _lost(one: Request, other: Request, context: Context) -> int:
    before, after = one.layout.blocks, other.layout.blocks
    n_firm = len(before)
    while n_firm and before[n_firm - 1].entry >= 0 and context.log[before[n_firm - 1].entry].kind == "phase":
        n_firm -= 1
    unchanged = next(
        (index for index in range(n_firm) if before[index : index + 1] != after[index : index + 1]), n_firm
    )
    return n_firm - unchanged


def _tool(family: str, verb: str) -> Tool:
    parameters = {
        "type": "object",
        "properties": {
            "target": {"type": "string", "description": f"What to {verb}, as {family} names it."},
            "note": {"type": "string", "description": "Why, in one sentence."},
        },
        "required": ["target"],
    }
    description = (
        f"{verb.capitalize()} something in {family}. Use it when the task asks for it; the answer is text. " * 2
    )
    return Tool.raw({"name": f"{family}_{verb}", "description": description, "parameters": parameters}, run=_answer)


def _answer(arguments: dict[str, Json]) -> str:
    return (
        f"{arguments['target']}: done. "
        + "The answer of a tool is a paragraph, as a rule, with a few facts in it. " * 8
    )


def _replies() -> Iterator[Json]:
    """One call a reply, through the families in turn, for as long as anybody asks."""
    for number in range(100_000):
        family, step = FAMILIES[number // STAY % len(FAMILIES)], number % STAY
        verb = VERBS[-1] if step == STAY - 1 else VERBS[step]
        call = {
            "type": "call",
            "name": f"{family}_{verb}",
            "arguments": {"target": f"item {number}", "note": "It is the next one."},
        }
        yield {"parts": [{"type": "text", "text": f"Step {number}."}, call], "seconds": SECONDS}


if TYPE_CHECKING:
    from rich.console import Console

Results = Mapping[str, Mapping[str, Ran]]
"""Endpoint → way → what ran."""


def show(results: Results, model: str, turns: int) -> None:
    """Print the table and what came of it, to standard output."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = rich_console()
    what = f"One agent, 60 tools, {len(FAMILIES)} phases, {turns} turns, on {model} (Messages) and {OPENAI}"
    _print(console, f"{what} (local provider, list prices, token counts estimated):", "bold")
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(("", "way", "hit rate", "cost", "misses", "most tokens a change", "moved")):
        table.add_column(column, justify="left" if index < 2 else "right", overflow="fold")
    for endpoint, ways in results.items():
        for way, ran in ways.items():
            table.add_row(
                endpoint if way == WAYS[0] else "", way, *_cells(ran), style="green" if way == "masked" else ""
            )
    console.print(table)
    for endpoint, ways in results.items():
        _print(console, sentence(endpoint, ways))


def sentence(endpoint: str, ways: Mapping[str, Ran]) -> str:
    """What masks cost at one endpoint, and what removing the tools would have."""
    plain, masked, removed = (ways[way] for way in WAYS)
    apart, above = abs(_rate(plain) - _rate(masked)) * 100, (_rate(masked) - _rate(removed)) * 100
    changes = f"{masked.changes} changes of phase through {masked.mechanism}, {masked.most_tokens} tokens each at most"
    return f"{endpoint}: {changes}; {apart:.2f} points of hit rate from the run without masks, {above:.1f} above tools removed by phase."


def as_json(results: Results) -> str:
    """The figures as one JSON object."""
    return canonical(
        {endpoint: {way: _figures(ran) for way, ran in ways.items()} for endpoint, ways in results.items()}
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


def _print(console: Console, line: str, style: str = "") -> None:
    console.print(line, style=style, markup=False)
