"""What it costs to say the plan again over a run of 200 turns: `python -m tests.benchmarks.recitation [MODEL …]`.

The same run each time: a call a turn, whose result of 500 tokens comes back, and a plan of twenty items of which one is
done every ten turns. It is recited never, every ten turns or every turn; *stays*, where what was recited remains a part
of the history and later requests read it from cache, or *passes*, where it stands behind the last breakpoint for one
reply and is billed as new input each time. Beside the bill of a provider that sees only the bytes stands what the
formulas of docs/guides/memory.md say the recitations cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from contextkit import Context
from contextkit.cache.usage import Usage
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import Summary, summarise
from contextkit.memory import FileMemory, Memory, Recitation
from contextkit.prices import cost_usd
from tests.benchmarks.conversations import SYSTEM, TOOLS
from tests.benchmarks.replay import direct, provider_of

MODELS = ("claude-opus-5", "claude-sonnet-5")
"""Models that do not bind their thinking to what stood before it: the others take no words that pass."""
TURNS, ITEMS, SECONDS, RESULT = 200, 20, 20.0, "a line of what was read, 40 characters.\n" * 50
MODEL_TURN = {"output_tokens": 80, "stop": "calls", "fault": None}
RULES = {
    "never": None,
    "every 10, stays": Recitation(10, None, None, on_change=False),
    "every 10, passes": Recitation(10, None, None, on_change=False, stays=False),
    "every turn, stays": Recitation(1, None, None, on_change=False),
    "every turn, passes": Recitation(1, None, None, on_change=False, stays=False),
}


def plan() -> list[str]:
    return [f"read the module number {number} and write down what it depends on" for number in range(ITEMS)]


def ran(model: str, rule: Recitation | None) -> tuple[Ledger, list[tuple[int, int]]]:
    """Every call with its bill, and (calls sent before, bytes) of each recitation."""
    with TemporaryDirectory() as folder, direct("anthropic_messages") as road:
        memory = Memory(FileMemory(folder), offload=None, recitation=rule, has_file_tool=False)
        assert memory.todo is not None
        memory.todo.add(plan())
        now = [1_000.0]
        context = Context(
            provider_of("anthropic")(model, "off"), system=SYSTEM, tools=TOOLS, memory=memory, clock=lambda: now[0]
        )
        context.user("Find out what depends on what.")
        ledger, recited = Ledger(), []
        for turn in range(TURNS):
            recited += [(turn, len(entry.body)) for entry in context.log if b'"recitation"' in entry.body][
                len(recited) :
            ]
            call = {
                "type": "call",
                "id": f"call_{turn}",
                "name": "read",
                "arguments": {"path": f"src/module_{turn}.py"},
            }
            ledger.append(road.send(context, context.request(), {"parts": [call], **MODEL_TURN}, now[0]))
            now[0] += SECONDS
            if turn % 10 == 9:
                memory.todo.mark([turn // 10 + 1], "done")
            context.result(f"call_{turn}", f"{turn}\n{RESULT}")
        return ledger, recited


def price(model: str, **tokens: int) -> float:
    counted = {"fresh": 0, "read": 0, "write_5m": 0, "write_1h": 0, "output": 0, **tokens}
    return cost_usd("anthropic", model, Usage(**counted)) or 0.0


def worked_out(model: str, rule: Recitation | None, recited: list[tuple[int, int]], size: float) -> float:
    """What the recitations cost: new input once each, or a write and a read by every later call.

    `size` is tokens a byte.
    """
    if rule is None:
        return 0.0
    if not rule.stays:
        return price(model, fresh=round(sum(n * size for _, n in recited)))
    reads = sum(n * size * (TURNS - 1 - turn) for turn, n in recited)
    return price(model, write_5m=round(sum(n * size for _, n in recited)), read=round(reads))


def rows(model: str) -> Iterator[str]:
    plain: Summary | None = None
    base = 0
    for name, rule in RULES.items():
        ledger, recited = ran(model, rule)
        summary, used = summarise(ledger), summarise(ledger).usage
        prompt = used.prompt or 0
        plain, base = plain or summary, base or prompt
        more = (summary.cost_usd or 0) - (plain.cost_usd or 0)
        n_bytes = sum(n * (TURNS - turn if rule is not None and rule.stays else 1) for turn, n in recited)
        said = worked_out(model, rule, recited, (prompt - base) / n_bytes if n_bytes else 0)
        counts = f"{used.fresh:>9,}{used.read:>12,}{used.write_5m:>9,}"
        yield f"{model:<16}{name:<20}{len(recited):>5}{counts}{summary.cost_usd:>9.3f}{more:>9.3f}{said:>9.3f}{len(summary.losses):>7}"


def main() -> None:
    print(
        f"{'':<16}{'':<20}{'said':>5}{'fresh':>9}{'read':>12}{'written':>9}{'bill $':>9}{'more $':>9}{'formula':>9}{'misses':>7}"
    )
    for model in sys.argv[1:] or MODELS:
        for line in rows(model):
            print(line, flush=True)


if __name__ == "__main__":
    main()
