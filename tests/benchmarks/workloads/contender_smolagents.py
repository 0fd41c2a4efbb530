"""smolagents' ToolCallingAgent on LiteLLM, with LiteLLM's injection points: it documents no caching of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from smolagents import LiteLLMModel, LogLevel, ToolCallingAgent
from smolagents import Tool as SmolTool

from tests.benchmarks.workloads.contender_litellm import points
from tests.benchmarks.workloads.workload import MODEL, Contender, Job, ToolSpec

PACKAGES = ("smolagents", "litellm")


# What a user writes
# -----------------------------------------------------------------------------------------------------------------------------


def make(url, tools, system):
    model = LiteLLMModel(
        f"anthropic/{MODEL}", api_base=url, api_key="any", max_tokens=8_000, tool_choice="auto", **points(-1)
    )
    return ToolCallingAgent(tools, model, instructions=system, max_steps=10_000, verbosity_level=LogLevel.OFF)


def ask(agent, content, is_first):
    return agent.run(content, reset=is_first)


# The benchmark's wiring
# -----------------------------------------------------------------------------------------------------------------------------


def tool_of(job: Job, one: ToolSpec) -> SmolTool:
    def forward(self: Any, **arguments: Any) -> str:
        return job.run_tool(one.name, arguments)

    properties = one.parameters["properties"]
    members = {
        "name": one.name,
        "description": one.description,
        "inputs": {
            key: {"type": value["type"], "description": value["description"]} for key, value in properties.items()
        },
        "output_type": "string",
        "skip_forward_signature_validation": True,
        "forward": forward,
    }
    return type("Own", (SmolTool,), members)()


def run_turns(job: Job) -> None:
    agent = make(job.url, [tool_of(job, one) for one in job.workload.tools], job.workload.system)
    for number, turn in enumerate(job.turns()):
        for one in turn.late:
            agent.tools[one.name] = tool_of(job, one)
        ask(agent, "\n\n".join(turn.content), number == 0)


def run_parallel(job: Job) -> None:
    def one(task: str) -> None:
        ask(make(job.url, [tool_of(job, spec) for spec in job.workload.tools], job.workload.system), task, True)

    tasks = list(job.workload.subtasks)
    one(tasks.pop(0))
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, tasks))


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""
    if workload in {"overflow", "crash"}:
        return []  # neither compaction nor persistence
    run = run_parallel if workload == "parallel" else run_turns
    remark = "a turn is one text" if workload == "rag" else ""
    return [
        Contender("smolagents", "LiteLLMModel, injection points: system, −1", run, (make, ask), PACKAGES, remark=remark)
    ]
