"""pydantic-ai with its harness, on Anthropic with `anthropic_cache`."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider

from tests.benchmarks.workloads.workload import MODEL, Contender, Crash, Job, ToolSpec, Turn

PACKAGES = ("pydantic-ai-slim", "pydantic-ai-harness")


# What a user writes
# -----------------------------------------------------------------------------------------------------------------------------


def make(model, tools, system, ttl="5m", **more):
    settings = AnthropicModelSettings(
        max_tokens=8_000, anthropic_cache=ttl, anthropic_cache_instructions=ttl, anthropic_cache_tool_definitions=ttl
    )
    return Agent(model, tools=tools, instructions=system, model_settings=settings, **more)


def ask(agent, content, history):
    return agent.run_sync(content, message_history=history).all_messages()


def spilling(above_characters):
    from pydantic_ai.capabilities import LocalWorkspace
    from pydantic_ai_harness.tool_output_limits import Band, Spill, ToolOutputLimits

    return [LocalWorkspace("."), ToolOutputLimits(bands=[Band(over=above_characters, action=Spill())])]


def summarizing(tokens):
    from pydantic_ai_harness import ConversationSearch, StepPersistence, SummarizingCompaction
    from pydantic_ai_harness.conversation_search import SnapshotHistorySource
    from pydantic_ai_harness.step_persistence import InMemoryStepStore

    store = InMemoryStepStore()
    return [
        StepPersistence(store=store),
        ConversationSearch(SnapshotHistorySource(store), scope="conversation"),
        SummarizingCompaction(max_tokens=tokens, keep_messages=6),
    ]


async def ask_saved(build, model, tools, system, path, content, history):
    from pydantic_ai_harness import StepPersistence
    from pydantic_ai_harness.step_persistence import SqliteStepStore

    agent = build(model, tools, system, capabilities=[StepPersistence(store=SqliteStepStore(database=path))])
    run = await agent.run(content, message_history=history, conversation_id="one")
    return run.all_messages()


async def resume(path, store):
    from pydantic_ai_harness.step_persistence import continue_run

    last = (await store.list_runs(conversation_id="one"))[-1].run_id
    return await continue_run(store, run_id=last, include_interrupted=True)


# The benchmark's wiring
# -----------------------------------------------------------------------------------------------------------------------------


def tool_of(job: Job, one: ToolSpec) -> Tool[Any]:
    def run(**arguments: Any) -> str:
        return job.run_tool(one.name, arguments)

    return Tool.from_schema(run, one.name, one.description, one.parameters)


def model_of(job: Job) -> AnthropicModel:
    import anthropic

    client = anthropic.AsyncAnthropic(base_url=job.url, api_key="any", max_retries=0, timeout=120)
    return AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))


def content_of(turn: Turn) -> Any:
    return turn.content[0] if len(turn.content) == 1 else list(turn.content)


def run_turns(job: Job, ttl: str = "5m", **more: Any) -> None:
    asyncio.run(_turns(job, ttl, more))


async def _turns(job: Job, ttl: str, more: dict[str, Any]) -> None:
    from pydantic_ai.usage import UsageLimits

    model, specs, history = model_of(job), list(job.workload.tools), []
    for turn in job.turns():
        specs += turn.late
        agent = make(model, [tool_of(job, one) for one in specs], job.workload.system, ttl, **more)
        run = await agent.run(
            content_of(turn),
            message_history=history,
            usage_limits=UsageLimits(request_limit=None),
            **({"conversation_id": "one"} if "capabilities" in more else {}),
        )
        history = run.all_messages()


def run_filtered(job: Job) -> None:
    prefixes = dict(job.workload.phases)
    order = list(prefixes)
    state = {"phase": order[0]}
    inner = job.run_tool

    async def only_phase(context: Any, definitions: list[Any]) -> list[Any]:
        return [one for one in definitions if one.name.startswith(prefixes[state["phase"]])]

    def run_tool(name: str, arguments: Any, specs: Any = ()) -> str:
        if name == f"{prefixes[state['phase']]}done" and state["phase"] != order[-1]:
            state["phase"] = order[order.index(state["phase"]) + 1]
        return inner(name, arguments)

    from pydantic_ai.capabilities import PrepareTools

    job.run_tool = run_tool  # type: ignore[method-assign]
    run_turns(job, capabilities=[PrepareTools(only_phase)])


def run_resumed(job: Job) -> None:
    asyncio.run(_resumed(job))


async def _resumed(job: Job) -> None:
    from pydantic_ai_harness.step_persistence import SqliteStepStore

    path, history = str(job.folder / "steps.db"), None
    tools = [tool_of(job, one) for one in job.workload.tools]
    for turn in job.turns():
        try:
            history = await ask_saved(make, model_of(job), tools, job.workload.system, path, content_of(turn), history)
        except Crash:
            job.server.clock.advance(120)
            history = await resume(path, SqliteStepStore(database=path))
            history = await ask_saved(make, model_of(job), tools, job.workload.system, path, None, history)


def run_parallel(job: Job, *, is_staggered: bool) -> None:
    async def team() -> None:
        agent = make(model_of(job), [tool_of(job, one) for one in job.workload.tools], job.workload.system)
        tasks = list(job.workload.subtasks)
        if is_staggered:
            await agent.run(tasks.pop(0))
        await asyncio.gather(*(agent.run(task) for task in tasks))

    asyncio.run(team())


def run_spilling(job: Job, characters: int) -> None:
    from pydantic_ai.capabilities import LocalWorkspace
    from pydantic_ai_harness.tool_output_limits import Band, Spill, ToolOutputLimits

    limits = ToolOutputLimits(bands=[Band(over=characters, action=Spill())])
    run_turns(job, capabilities=[LocalWorkspace(str(job.folder)), limits])


def run_summarizing(job: Job) -> None:
    limit = round((job.workload.compact_at_tokens or 150_000) * 1.0)
    run_turns(job, capabilities=summarizing(limit))


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""

    def one(settings: str, run: Any, code: tuple[Any, ...] = (make, ask), **more: Any) -> Contender:
        return Contender("pydantic-ai", settings, run, code, PACKAGES, **more)

    plain = one("anthropic_cache 5m", run_turns)
    hour = one("the same, 1h", lambda job: run_turns(job, "1h"))
    spill = one("Spill above 16,000 characters", lambda job: run_spilling(job, 16_000), (make, ask, spilling))
    if workload.startswith("research"):
        return [plain, spill]
    if workload == "coding":
        return [plain, hour, spill]
    if workload.startswith("support"):
        return [plain, hour]
    if workload == "browser":
        filtered = one("PrepareTools by phase", run_filtered)
        return [one(plain.settings, plain.run, remark="no phase is enforced"), filtered]
    if workload == "parallel":
        return [
            one("started together", lambda job: run_parallel(job, is_staggered=False)),
            one("one run ahead", lambda job: run_parallel(job, is_staggered=True)),
        ]
    if workload == "overflow":
        return [one("SummarizingCompaction, ConversationSearch", run_summarizing, (make, ask, summarizing))]
    if workload == "crash":
        return [one("StepPersistence, continue_run", run_resumed, (make, ask_saved, resume))]
    return [plain]
