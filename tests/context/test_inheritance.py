"""The table of `docs/guides/branches.md`: what each way to branch has from the conversation it leaves, held against branches
that are built."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contextkit import (
    AnthropicMessages,
    Budget,
    Compaction,
    Context,
    FileMemory,
    Phase,
    Phases,
    Tool,
    Variation,
)
from contextkit.cache.usage import Usage
from contextkit.memory import Memory, Residency
from contextkit.memory.search.index import Index
from contextkit.tools.late import call_tool
from tests.laws.wires import answer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "branches.md"
USAGE = Usage(10, 0, 0, 0, 5)
FORM = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
TABLE = Phases({"a": Phase(allow=["notes", "call_tool"], by_hand=True), "b": Phase()}, "b")


def tool(name: str) -> Tool:
    return Tool.raw({"name": name, "description": "T.", "parameters": {"type": "object"}}, run=lambda arguments: "ran")


class Family:
    """A conversation with everything in it, and one branch of each kind."""

    def __init__(self, folder: Path) -> None:
        self.budget = Budget(usd=100)
        memory = Memory(
            FileMemory(folder / "memory"),
            index=Index(folder / "index.sqlite"),
            residency=Residency(default="reference"),
        )
        self.context = context = Context.open(
            folder / "run",
            AnthropicMessages("claude-sonnet-5-5", max_tokens=256, ttl="1h", output=FORM),
            system="You lead.",
            tools=[call_tool, tool("notes"), tool("deploy")],
            phases=TABLE,
            memory=memory,
            variation=Variation(1),
            compact=Compaction(),
            budget=self.budget,
        )
        context.enter("a")
        context.late_tools([tool("late")])
        context.user("Go.")
        context.notice("The office is closed.")
        self.reply("r1", [("call", "c1", "todo", {"action": "add", "items": ["first"]}), ("call", "c2", "notes", {})])
        context.result("c1", context.calls[0].run())
        context.result("c2", "row\n" * 20_000)
        self.reply("r2", [("call", "c3", "notes", {})])
        spawned = context.spawn("Look.")
        spawned.close()
        self.branches: dict[str, Context] = {
            "agent": context.agent(spawned.lane),
            "delegate": context.delegate("c3", "line\n" * 20_000),
        }
        context.result("c3", "ran")
        self.branches |= {
            "spawn": context.spawn("Look."),
            "fork": context.fork(),
            "fan_out": context.fan_out(["Look."])[0],
            "summarising": context.summarising(),
        }

    def reply(self, name: str, content: list[Any]) -> None:
        self.context.receive(answer(self.context.provider.wire, name, content, USAGE), self.context.request())


def same(one: Any, other: Any) -> str:
    return "same" if one is other else "none" if one is None else "own"


def prompt_of(branch: Context) -> str:
    return branch.request().body.decode()


def plan(parent: Context, branch: Context) -> str:
    if branch.memory.todo.name == parent.memory.todo.name and branch.memory.todo.path == parent.memory.todo.path:
        return "same"
    return "copy" if branch.memory.todo.items else "own"


def log(parent: Context, branch: Context) -> str:
    kept = branch.log.storage.path
    return "in memory" if kept is None else "folder" if kept != parent.log.storage.path else "same"


FEATURES: dict[str, Callable[[Family, Context], str]] = {
    "system and tools": lambda f, b: (
        "same" if prompt_of(b).split('"messages"')[0] == prompt_of(f.context).split('"messages"')[0] else "own"
    ),
    "history": lambda f, b: "same" if '"Go."' in prompt_of(b) else "none",
    "table of phases": lambda f, b: "same" if b._phases.permit.phases is TABLE else "own",
    "present phase": lambda f, b: "same" if b.phase == "a" else "own",
    "tools denied for good": lambda f, b: "narrowed" if "deploy" in b._limits().denied else "same",
    "late tools": lambda f, b: "same" if "late" in {one.name for one in b._late.tools} else "none",
    "memory files": lambda f, b: same(b.memory.files, f.context.memory.files),
    "references": lambda f, b: same(b.memory.references, f.context.memory.references),
    "index": lambda f, b: same(b.memory.index, f.context.memory.index),
    "plan": lambda f, b: plan(f.context, b),
    "residency": lambda f, b: same(b.memory.residency, f.context.memory.residency),
    "variation": lambda f, b: same(b._memory.variation, f.context._memory.variation),
    "compaction policy": lambda f, b: same(b._compaction.policy, f.context._compaction.policy),
    "notices": lambda f, b: "same" if "The office is closed." in prompt_of(b) else "none",
    "output form": lambda f, b: same(b.provider.output, f.context.provider.output),
    "model, parameters, `ttl`": lambda f, b: same(b.provider, f.context.provider),
    "budget": lambda f, b: "same" if [one for one, _ in b._account.limits] == [f.budget] else "none",
    "limits of agents": lambda f, b: same(b._registry, f.context._registry),
    "ledger": lambda f, b: same(b.ledger, f.context.ledger),
    "lane": lambda f, b: "same" if b.lane == f.context.lane else "own",
    "log": lambda f, b: log(f.context, b),
}


def documented() -> dict[str, dict[str, str]]:
    """Feature → way to branch → word, as the page says; a row may name several features."""
    section = PAGE.read_text(encoding="utf-8").split("## What a branch has")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", section, re.MULTILINE)
    ]
    ways = [cell.strip("`") for cell in rows[0][1:]]
    return {feature: dict(zip(ways, row[1:], strict=True)) for row in rows[2:] for feature in row[0].split("; ")}


def test_the_table_says_what_branches_have(tmp_path: Path) -> None:
    family = Family(tmp_path)
    with family.context:
        built = {
            feature: {way: word(family, branch) for way, branch in family.branches.items()}
            for feature, word in FEATURES.items()
        }
    assert documented() == built
