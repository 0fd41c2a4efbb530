"""Made-up recordings for the report's tests and pictures: one long session, and many short ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import Bodies, ModelCall, Record, Remark
from contextkit.ledger.misses import analyzed_calls
from contextkit.report.contents import Contents, Gathering
from contextkit.report.html.columns import Columns
from contextkit.whatif.what_if import Replays

START = 1_775_696_400.0
"""2026-04-09, 01:00 UTC."""
OPUS, SONNET, GPT = "claude-opus-4-5", "claude-sonnet-4-5", "gpt-5.1"


def one_session(
    turns: int, session: str = "gpu-prices", start: float = START, model: str = OPUS, seed: int = 7
) -> Iterator[Record]:
    """A growing prompt that is compacted now and then, left alone too long now and then, and once in a while forgotten."""
    random, cached, at = Random(seed), 0, start
    yield Remark("project", session, f"/home/ada/{session.partition('/')[0]}")
    for turn in range(turns):
        name, grown, lost = f"{session}-{turn}", random.randint(200, 2_400), False
        if cached > 150_000:
            yield Remark("compaction", name, "auto")
            cached, lost = 22_000, True
        elif turn and random.random() < 0.008:
            at, lost = at + random.choice((400, 900, 2_000)), True
        elif turn and random.random() < 0.006:
            yield Remark("verdict", name, random.choice(("system_changed", "messages_changed")))
            lost = True
        usage = Usage(3, 0, cached + grown, 0, 350) if lost or not turn else Usage(3, cached, grown, 0, 350)
        yield ModelCall(name, session, "main", at, at + 1, at + 6, "anthropic", model, None, usage, None, None)
        cached, at = cached + grown, at + random.uniform(8, 40)


def many_sessions(sessions: int, turns: int = 12) -> Iterator[Record]:
    """A session every three hours, of three models and four projects, every fourth with a sub-agent."""
    for number in range(sessions):
        name, start = f"{('shop', 'billing', 'docs', 'ops')[number % 4]}/{number:04}", START + number * 10_800
        yield from one_session(turns + number % 9, name, start, (OPUS, SONNET, GPT)[number % 3], number)
        if number % 4 == 0:
            yield Remark("agent", f"{name}/a1", "researcher")
            for turn in range(4):
                usage = Usage(2, 9_000 * (turn > 0), 9_000 if turn == 0 else 700, 0, 90)
                at = start + 30 + 20 * turn
                yield ModelCall(
                    f"{name}-a{turn}", name, "a1", at, at + 1, at + 4, "anthropic", SONNET, None, usage, None, None
                )


def with_bodies(turns: int = 8, session: str = "clock") -> Iterator[Record]:
    """A session whose bodies were recorded: the clock in its system text moves at every call, a key stands beside it."""
    for turn in range(turns):
        said = [{"role": ("user", "assistant")[n % 2], "content": f"turn {n} <b>&"} for n in range(2 * turn + 1)]
        text = f"{RULES} key {KEY} It is 10:{30 + turn}."
        system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        body = json.dumps({"model": OPUS, "max_tokens": 9, "system": system, "messages": said}).encode()
        at, usage = START + 20 * turn, Usage(20 + 9 * turn, 0, 9_000, 0, 50)
        yield ModelCall(
            f"{session}-{turn}", session, "main", at, at + 1, at + 3, "anthropic", OPUS, Bodies(body), usage, None, None
        )


RULES, KEY = "You are careful. " * 1_800, "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFy"


def gathered(records: Iterator[Record], title: str = "made-up.jsonl", by: str = "") -> tuple[Contents, Columns]:
    """What the page is made of."""
    columns, replays = Columns(), Replays()
    gathering = Gathering(by, also=[columns, replays.add])
    gathering.add_all(analyzed_calls(gathering.adding_remarks(records)))
    return gathering.contents(title, what_if=replays.result()), columns
