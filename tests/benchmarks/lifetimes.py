"""`python -m tests.benchmarks.lifetimes [--sessions N] [--provider NAME] [--seeded LABEL]`.

Prints what `ttl="auto"` costs against the best lifetime that is given, on sessions with pauses: the table of
`docs/explanation/planner.md`. A session is 30 turns of a support agent (a question, one look-up, an answer) over a system prompt of
20,000 tokens. Real SDK clients, the local provider's bill, its clock. `auto` is run three times: with the rule of mixed
lifetimes (`contextkit/facts/rules.toml`), with a provider at which it does not hold, and with one at which it does not
hold and a `Context` that knows. The first session of a law has the pauses of `tests.benchmarks.workloads`.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import anthropic
import boto3
import openai

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses, Tool
from contextkit.facts import load
from contextkit.ledger.summary import summarise
from contextkit.providers.bedrock.converse import BedrockConverse
from contextkit.providers.provider import Provider
from contextkit.server import LocalServer
from tests.benchmarks.workloads.scenarios import PAUSES
from tests.benchmarks.workloads.text import instructions, page
from tests.benchmarks.workloads.workload import START, call, text

N_TURNS = 30
CLAUDE, GPT = "claude-sonnet-5-5", "gpt-6.1-sol"
PROVIDERS: dict[str, tuple[Callable[[str], Provider], tuple[str, ...]]] = {
    "Claude": (lambda ttl: AnthropicMessages(CLAUDE, max_tokens=8_000, ttl=ttl), ("5m", "1h")),
    "Claude on Bedrock": (lambda ttl: BedrockConverse(f"anthropic.{CLAUDE}", max_tokens=8_000, ttl=ttl), ("5m", "1h")),
    "OpenAI Responses": (lambda ttl: OpenAIResponses(GPT, max_output_tokens=8_000, ttl=ttl), ("30m", "12h")),
    "OpenAI Chat": (lambda ttl: OpenAIChat(GPT, max_tokens=8_000, ttl=ttl), ("30m",)),
}
"""Name → adapter with a `ttl`, and the lifetimes that can be given."""
RULE_OFF = '[[rules]]\nname = "mixed_lifetimes"\nholds = false\n'


def client_of(name: str, server: LocalServer) -> Any:
    if name == "Claude":
        return anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)
    if name == "Claude on Bedrock":
        keys = {"region_name": "us-east-1", "aws_access_key_id": "any", "aws_secret_access_key": "any"}
        return boto3.client("bedrock-runtime", endpoint_url=server.url, **keys)
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)


def pauses_of(law: str, number: int) -> list[float]:
    """Pauses before each turn of session `number`; the first session is that of the workload benchmark."""
    rng = random.Random(f"support/{law}" if number == 0 else f"support/{law}/{number}")
    draw = PAUSES[law][1]
    return [0.0 if turn == 0 else draw(rng) for turn in range(N_TURNS)]


def session_usd(name: str, ttl: str, pauses: list[float], server: LocalServer) -> float:
    """Dollars that the local provider bills for one session."""
    server.reset()
    orders = iter(range(1, 1_000))
    tool = Tool.raw(
        {
            "name": "look_up",
            "description": "Look up an order.",
            "input_schema": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
        },
        run=lambda arguments: page(f"o{next(orders):03d}", 600),
    )
    client = client_of(name, server)
    system = instructions("support", 20_000)
    context = Context(PROVIDERS[name][0](ttl), system=system, tools=[tool], clock=server.clock.now)
    for number, pause in enumerate(pauses):
        server.clock.advance(pause)
        server.script([call("look_up", order=f"A-{number}"), text("This is the state of your order.")])
        context.user(f"Question {number}: {page(f'q{number:03d}', 300)}")
        while not context.finished:
            for open_call in context.calls:
                context.result(open_call, open_call.run())
                server.clock.advance(1.0)
            request = context.request()
            context.receive(request.send(client), request)
            server.clock.advance(4.0)
    client.close()
    cost = summarise(server.ledger).cost_usd
    assert cost is not None
    return cost


def run(names: list[str], laws: list[str], n_sessions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rule_off = Path(folder) / "rule_off.toml"
        rule_off.write_text(RULE_OFF)
        with LocalServer(now=START) as server, LocalServer(now=START, mixed_lifetimes=False) as separate:
            for name in names:
                given = PROVIDERS[name][1]
                ways = (*given, "auto", "auto, rule wrong", "auto, rule off")
                print(f"\n| {name} | {' | '.join(ways)} | auto / best given | rule wrong / best | rule off / best |")
                print("|---" * (len(ways) + 4) + "|")
                for law in laws:
                    costs: dict[str, list[float]] = {way: [] for way in ways}
                    for number in range(n_sessions):
                        pauses = pauses_of(law, number)
                        for way in ways:
                            ttl = way.partition(",")[0]
                            if way == "auto, rule off":
                                os.environ[load.VARIABLE] = str(rule_off)
                            host = separate if "rule" in way else server
                            costs[way].append(session_usd(name, ttl, pauses, host))
                            os.environ.pop(load.VARIABLE, None)
                    print(row_of(PAUSES[law][0], costs, given), flush=True)


def row_of(law: str, costs: dict[str, list[float]], given: tuple[str, ...]) -> str:
    """Mean dollars of each way; mean ratio to the given lifetime that is best in each session, with the worst session."""
    cells = [f"{fmean(values):.3f}" for values in costs.values()]
    best = [min(values) for values in zip(*(costs[way] for way in given), strict=True)]
    for way in list(costs)[len(given) :]:
        ratios = [cost / least for cost, least in zip(costs[way], best, strict=True)]
        cells.append(f"{fmean(ratios):.3f} ({max(ratios):.3f})")
    return f"| {law} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lifetimes", description=__doc__)
    parser.add_argument("--sessions", type=int, default=1, help="sessions for each law of pauses")
    parser.add_argument("--provider", action="append", choices=list(PROVIDERS), help="only these providers")
    parser.add_argument("--pauses", action="append", choices=list(PAUSES), help="only these laws of pauses")
    options = parser.parse_args()
    run(options.provider or list(PROVIDERS), options.pauses or list(PAUSES), options.sessions)


if __name__ == "__main__":
    main()
