"""OpenAI Agents SDK on a Claude model through its LitellmModel extension."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, FunctionTool, ModelSettings, Runner, SQLiteSession, set_tracing_disabled
from agents.extensions.models.litellm_model import LitellmModel

from tests.benchmarks.workloads.contender_litellm import points
from tests.benchmarks.workloads.workload import MODEL, Contender, Crash, Job, ToolSpec, Turn

PACKAGES = ("openai-agents", "litellm")
set_tracing_disabled(True)


# What a user writes
# -----------------------------------------------------------------------------------------------------------------------------


def make(model, tools, system):
    settings = ModelSettings(max_tokens=8_000, extra_args=points(-1))
    return Agent(name="agent", model=model, tools=tools, instructions=system, model_settings=settings)


def ask(agent, content, session):
    return Runner.run(agent, content, session=session, max_turns=10_000)


# The benchmark's wiring
# -----------------------------------------------------------------------------------------------------------------------------


def tool_of(job: Job, one: ToolSpec) -> FunctionTool:
    async def invoke(context: Any, arguments: str) -> str:
        return job.run_tool(one.name, json.loads(arguments or "{}"))

    return FunctionTool(one.name, one.description, one.parameters, invoke, strict_json_schema=False)


def content_of(turn: Turn) -> Any:
    if len(turn.content) == 1:
        return turn.content[0]
    return [{"role": "user", "content": [{"type": "input_text", "text": words} for words in turn.content]}]


def agent_of(job: Job, specs: list[ToolSpec]) -> Agent[Any]:
    model = LitellmModel(f"anthropic/{MODEL}", base_url=job.url, api_key="any")
    return make(model, [tool_of(job, one) for one in specs], job.workload.system)


def run_turns(job: Job) -> None:
    async def turns() -> None:
        session, specs = SQLiteSession("one", job.folder / "session.db"), list(job.workload.tools)
        for turn in job.turns():
            specs += turn.late
            agent = agent_of(job, specs)
            try:
                await ask(agent, content_of(turn), session)
            except Crash:
                job.server.clock.advance(120)
                session = SQLiteSession("one", job.folder / "session.db")
                await ask(agent_of(job, specs), content_of(turn), session)

    asyncio.run(turns())


def run_parallel(job: Job) -> None:
    async def team() -> None:
        agent, tasks = agent_of(job, job.workload.tools), list(job.workload.subtasks)
        await ask(agent, tasks.pop(0), None)
        await asyncio.gather(*(ask(agent, task, None) for task in tasks))

    asyncio.run(team())


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""
    settings = "LitellmModel, injection points: system, −1"
    if workload == "overflow":
        return []  # its compaction session is for OpenAI's models
    if workload == "parallel":
        return [Contender("OpenAI Agents SDK", f"{settings}; one run ahead", run_parallel, (make, ask), PACKAGES)]
    if workload == "crash":
        return [Contender("OpenAI Agents SDK", f"{settings}; SQLiteSession", run_turns, (make, ask), PACKAGES)]
    return [Contender("OpenAI Agents SDK", settings, run_turns, (make, ask), PACKAGES)]
