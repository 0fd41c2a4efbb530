"""LangChain's `create_agent` and deepagents' `create_deep_agent`, on ChatAnthropic with their prompt caching middleware."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from deepagents.middleware import FilesystemMiddleware
from deepagents.middleware.summarization import SummarizationMiddleware as DeepSummarization
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from tests.benchmarks.workloads.workload import MODEL, Contender, Crash, Job, ToolSpec, Turn

LANGCHAIN = ("langchain", "langchain-anthropic")
DEEPAGENTS = ("deepagents",)


# What a user writes
# -----------------------------------------------------------------------------------------------------------------------------


def make(model, tools, system):
    return create_agent(model, tools, system_prompt=system, middleware=[AnthropicPromptCachingMiddleware()])


def make_deep(model, tools, system):
    return create_deep_agent(model, tools, system_prompt=system)


def make_evicting(model, tools, system, tokens):
    files = FilesystemMiddleware(backend=StateBackend(), tool_token_limit_before_evict=tokens)
    return create_deep_agent(model, tools, system_prompt=system, middleware=[files])


def make_summarizing(model, tools, system, tokens):
    summarizing = SummarizationMiddleware(
        model, trigger=("tokens", tokens), keep=("messages", 6), trim_tokens_to_summarize=None
    )
    return create_agent(
        model, tools, system_prompt=system, middleware=[summarizing, AnthropicPromptCachingMiddleware()]
    )


def make_filtered(model, tools, system, is_allowed):
    class Filter(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=[tool for tool in request.tools if is_allowed(tool)]))

    return create_agent(model, tools, system_prompt=system, middleware=[Filter(), AnthropicPromptCachingMiddleware()])


def ask(agent, messages, content):
    return agent.invoke({"messages": [*messages, {"role": "user", "content": content}]}, {"recursion_limit": 10_000})


def ask_saved(agent, content, thread):
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 10_000}
    state = {"messages": [{"role": "user", "content": content}]} if content is not None else None
    agent.invoke(state, config)


# The benchmark's wiring
# -----------------------------------------------------------------------------------------------------------------------------


def tool_of(job: Job, one: ToolSpec) -> StructuredTool:
    return StructuredTool.from_function(
        lambda **arguments: job.run_tool(one.name, arguments),
        name=one.name,
        description=one.description,
        args_schema=one.parameters,
    )


def model_of(job: Job) -> ChatAnthropic:
    return ChatAnthropic(model=MODEL, max_tokens=8_000, base_url=job.url, api_key="any", max_retries=0, timeout=120)


def content_of(turn: Turn) -> Any:
    return turn.content[0] if len(turn.content) == 1 else [{"type": "text", "text": words} for words in turn.content]


def run_turns(job: Job, build: Any, *, late: bool = True) -> None:
    """Turns of one agent; it is built again where tools have come."""
    model, specs = model_of(job), list(job.workload.tools)
    state: dict[str, Any] = {"messages": []}
    agent = build(model, [tool_of(job, one) for one in specs], job.workload.system)
    for turn in job.turns():
        if turn.late:
            specs += turn.late
            agent = build(model, [tool_of(job, one) for one in specs], job.workload.system)
        content = content_of(turn)
        message = {"role": "user", "content": content}
        state = agent.invoke({**state, "messages": [*state["messages"], message]}, {"recursion_limit": 10_000})


def run_threaded(job: Job, build: Any) -> None:
    """Turns of one agent whose state is kept by a checkpointer, as deepagents keeps its files."""
    saver = InMemorySaver()
    agent = build(model_of(job), [tool_of(job, one) for one in job.workload.tools], job.workload.system)
    agent.checkpointer = saver
    for turn in job.turns():
        ask_saved(agent, content_of(turn), "1")


def run_filtered(job: Job) -> None:
    prefixes = dict(job.workload.phases)
    order = list(prefixes)
    state = {"phase": order[0]}

    def is_allowed(tool: Any) -> bool:
        return tool.name.startswith(prefixes[state["phase"]])

    inner = job.run_tool

    def run_tool(name: str, arguments: Any, specs: Any = ()) -> str:
        if name == f"{prefixes[state['phase']]}done" and state["phase"] != order[-1]:
            state["phase"] = order[order.index(state["phase"]) + 1]
        return inner(name, arguments)

    job.run_tool = run_tool  # type: ignore[method-assign]
    run_turns(job, lambda model, tools, system: make_filtered(model, tools, system, is_allowed))


def run_parallel(job: Job, *, is_staggered: bool, build: Any = make) -> None:
    agent = build(model_of(job), [tool_of(job, one) for one in job.workload.tools], job.workload.system)
    tasks = list(job.workload.subtasks)
    if is_staggered:
        ask(agent, [], tasks.pop(0))
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda task: ask(agent, [], task), tasks))


def run_resumed(job: Job) -> None:
    saver = InMemorySaver()  # stands for a saver on disk: it outlives the agent, as the database would

    def build() -> Any:
        agent = make(model_of(job), [tool_of(job, one) for one in job.workload.tools], job.workload.system)
        agent.checkpointer = saver
        return agent

    agent = build()
    for turn in job.turns():
        try:
            ask_saved(agent, content_of(turn), "1")
        except Crash:
            job.server.clock.advance(120)
            agent = build()
            ask_saved(agent, None, "1")


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""

    def chain(settings: str, run: Any, code: tuple[Any, ...], **more: Any) -> Contender:
        return Contender("LangChain", settings, run, code, LANGCHAIN, **more)

    def deep(settings: str, run: Any, code: tuple[Any, ...], **more: Any) -> Contender:
        return Contender("deepagents", settings, run, code, DEEPAGENTS, **more)

    def with_ttl(ttl: str) -> Any:
        def build(model: Any, tools: Any, system: str) -> Any:
            return create_agent(
                model, tools, system_prompt=system, middleware=[AnthropicPromptCachingMiddleware(ttl=ttl)]
            )

        return build

    def evicting(tokens: int) -> Any:
        return lambda model, tools, system: make_evicting(model, tools, system, tokens)

    plain = chain("AnthropicPromptCachingMiddleware 5m", lambda job: run_turns(job, make), (make, ask))
    hour = chain("the same, 1h", lambda job: run_turns(job, with_ttl("1h")), (make, ask))
    whole = deep("defaults (evicts above 20,000)", lambda job: run_threaded(job, make_deep), (make_deep, ask_saved))
    small = deep("evicts above 4,000", lambda job: run_threaded(job, evicting(4_000)), (make_evicting, ask_saved))
    if workload.startswith("research"):
        return [plain, whole, small]
    if workload == "coding":
        return [plain, hour, whole, small]
    if workload.startswith("support"):
        return [plain, hour]
    if workload == "browser":
        filtered = chain("tools filtered by middleware", run_filtered, (make_filtered, ask))
        return [chain(plain.settings, plain.run, plain.code, remark="no phase is enforced"), filtered]
    if workload == "parallel":
        return [
            chain("started together", lambda job: run_parallel(job, is_staggered=False), (make, ask)),
            chain("one run ahead", lambda job: run_parallel(job, is_staggered=True), (make, ask)),
        ]
    if workload == "overflow":
        return [*_overflow(chain, deep)]
    if workload == "crash":
        return [chain("checkpointer", run_resumed, (make, ask_saved))]
    return [plain]


def _overflow(chain: Any, deep: Any) -> list[Contender]:
    def limit(job: Job) -> int:
        # Their estimate is four characters a token, the provider counts 2.5 here.
        return round((job.workload.compact_at_tokens or 150_000) * 2.5 / 4)

    def summarizing(job: Job) -> None:
        run_threaded(job, lambda model, tools, system: make_summarizing(model, tools, system, limit(job)))

    def trimming(job: Job) -> None:
        def build(model: Any, tools: Any, system: str) -> Any:
            summary = SummarizationMiddleware(model, trigger=("tokens", limit(job)))
            return create_agent(
                model, tools, system_prompt=system, middleware=[summary, AnthropicPromptCachingMiddleware()]
            )

        run_threaded(job, build)

    def clearing(job: Job) -> None:
        def build(model: Any, tools: Any, system: str) -> Any:
            tokens = limit(job)
            edits = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=tokens, clear_at_least=tokens // 2)])
            return create_agent(
                model, tools, system_prompt=system, middleware=[edits, AnthropicPromptCachingMiddleware()]
            )

        run_threaded(job, build)

    def deep_with(evict: int | None) -> Any:
        def run(job: Job) -> None:
            def build(model: Any, tools: Any, system: str) -> Any:
                backend = StateBackend()
                summary = DeepSummarization(
                    model,
                    backend=backend,
                    trigger=("tokens", limit(job)),
                    keep=("messages", 6),
                    trim_tokens_to_summarize=None,
                )
                middleware: list[Any] = [summary]
                if evict is not None:
                    middleware.append(FilesystemMiddleware(backend=backend, tool_token_limit_before_evict=evict))
                return create_deep_agent(model, tools, system_prompt=system, middleware=middleware, backend=backend)

            run_threaded(job, build)

        return run

    return [
        chain("SummarizationMiddleware, defaults", trimming, (make_summarizing, ask_saved)),
        chain("SummarizationMiddleware, keep 6 messages, trim off", summarizing, (make_summarizing, ask_saved)),
        chain("ContextEditingMiddleware, clear_at_least half", clearing, (make_summarizing, ask_saved)),
        deep("SummarizationMiddleware, evicts above 20,000", deep_with(None), (make_evicting, ask_saved)),
        deep("SummarizationMiddleware, evicts above 4,000", deep_with(4_000), (make_evicting, ask_saved)),
    ]
