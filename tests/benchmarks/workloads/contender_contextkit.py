"""contextkit. Every setting that a workload is run with stands in `contenders`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic

from contextkit import AnthropicMessages, Context, FileMemory, Phase, Phases, Tool
from contextkit.context.fan_out import FanOut
from contextkit.memory import Memory, Offload
from contextkit.memory.search.index import Index
from contextkit.tools.late import call_tool
from tests.benchmarks.workloads.workload import MODEL, Contender, Crash, Job, ToolSpec, Turn

PACKAGES = ("contextkit",)


# What a user writes
# -----------------------------------------------------------------------------------------------------------------------------


def loop(client, context, content):
    context.user(content)
    finish(client, context)


def finish(client, context):
    while not context.finished:
        for call in context.calls:
            context.result(call, call.run())
        context.receive(context.request().send(client))


def make(tools, system):
    provider = AnthropicMessages(MODEL, max_tokens=8_000)
    return Context(provider, system=system, tools=tools)


def make_auto(tools, system):
    provider = AnthropicMessages(MODEL, max_tokens=8_000, ttl="auto")
    return Context(provider, system=system, tools=tools)


def make_offloading(tools, system, folder):
    provider = AnthropicMessages(MODEL, max_tokens=8_000)
    files = FileMemory(folder)
    memory = Memory(files, todo=None, has_file_tool=False, index=Index(f"{folder}.db"))
    return Context(provider, system=system, tools=tools, memory=memory)


def compacting_loop(client, context, content, at_tokens):
    context.user(content)
    while not context.finished:
        for call in context.calls:
            context.result(call, call.run())
        if context.request().predicted.prompt > at_tokens:
            side = context.summarising()
            side.receive(side.request().send(client))
            context.compact(side)
        context.receive(context.request().send(client))


def make_phased(tools, system, prefixes):
    names = list(prefixes)
    phases = {}
    for name, following in zip(names, [*names[1:], None], strict=True):
        then = {f"{prefixes[name]}done": following} if following else {}
        phases[name] = Phase(allow=[f"{prefixes[name]}*"], then=then)
    provider = AnthropicMessages(MODEL, max_tokens=8_000)
    return Context(provider, system=system, tools=tools, phases=Phases(phases, start=names[0]))


def team(client, context, tasks):
    agents = [context.spawn(task) for task in tasks]
    FanOut(agents).send(client)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda agent: finish(client, agent), agents))


def make_durable(tools, system, folder):
    provider = AnthropicMessages(MODEL, max_tokens=8_000)
    return Context.open(folder, provider, system=system, tools=tools)


# The benchmark's wiring
# -----------------------------------------------------------------------------------------------------------------------------


def tool_of(job: Job, one: ToolSpec) -> Tool:
    definition = {"name": one.name, "description": one.description, "input_schema": one.parameters}
    return Tool.raw(definition, run=lambda arguments: job.run_tool(one.name, arguments))


def content_of(turn: Turn) -> Any:
    return turn.content[0] if len(turn.content) == 1 else [{"type": "text", "text": words} for words in turn.content]


def run_with(job: Job, **options: Any) -> None:
    """Run the turns with a context of these options, all at the server's clock."""
    run_turns(job, context_of(job, **options), loop)


def context_of(
    job: Job, *, ttl: str = "5m", memory: Memory | None = None, tools: tuple[Any, ...] = (), **options: Any
) -> Context:
    provider = AnthropicMessages(MODEL, max_tokens=8_000, ttl=ttl, **options.pop("provider_options", {}))
    own = [*(tool_of(job, one) for one in job.workload.tools), *tools]
    return Context(
        provider, system=job.workload.system, tools=own, memory=memory, clock=job.server.clock.now, **options
    )


def memory_of(job: Job, offload: Offload | None, *, has_index: bool = True) -> Memory:
    index = Index(job.folder / "index.db") if has_index else None
    return Memory(FileMemory(job.folder / "files"), offload=offload, todo=None, has_file_tool=False, index=index)


def client_of(job: Job) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=job.url, api_key="any", max_retries=0, timeout=120)


def run_turns(job: Job, context: Context, step: Callable[..., None]) -> None:
    with client_of(job) as client, context:
        for turn in job.turns():
            if turn.late:
                context.late_tools([tool_of(job, one) for one in turn.late])
            step(client, context, content_of(turn))


def run_compacting(job: Job, offload: Offload | None) -> None:
    limit = job.workload.compact_at_tokens or 150_000
    context = context_of(job, memory=memory_of(job, offload))
    run_turns(job, context, lambda *arguments: compacting_loop(*arguments, limit))


def run_phased(job: Job) -> None:
    prefixes = dict(job.workload.phases)
    names = list(prefixes)
    rows = {
        name: Phase(allow=[f"{prefixes[name]}*"], then={f"{prefixes[name]}done": following} if following else {})
        for name, following in zip(names, [*names[1:], None], strict=True)
    }
    run_with(job, phases=Phases(rows, start=names[0]))


def run_parallel(job: Job) -> None:
    with client_of(job) as client, context_of(job) as context:
        team(client, context, job.workload.subtasks)


def run_durable(job: Job) -> None:
    own = [tool_of(job, one) for one in job.workload.tools]
    options: dict[str, Any] = {"system": job.workload.system, "tools": own, "clock": job.server.clock.now}
    provider = AnthropicMessages(MODEL, max_tokens=8_000)
    folder = job.folder / "run"
    with client_of(job) as client:
        context = Context.open(folder, provider, **options)
        for turn in job.turns():
            try:
                loop(client, context, content_of(turn))
            except Crash:
                context.close()
                job.server.clock.advance(120)
                context = Context.open(folder, provider, **options)
                finish(client, context)
        context.close()


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""

    def one(settings: str, run: Callable[[Job], None], code: tuple[Any, ...], **more: Any) -> Contender:
        return Contender("contextkit", settings, run, code, PACKAGES, is_own=True, **more)

    basic = (loop, finish)
    plain = one("defaults", run_with, (*basic, make))
    auto = one('ttl="auto"', lambda job: run_with(job, ttl="auto"), (*basic, make_auto))
    if workload.startswith("research"):
        small = Offload(above_tokens=250, preview_tokens=100)
        return [
            plain,
            one(
                "offload above 4,000",
                lambda job: run_with(job, memory=memory_of(job, Offload())),
                (*basic, make_offloading),
            ),
            one(
                "offload above 250", lambda job: run_with(job, memory=memory_of(job, small)), (*basic, make_offloading)
            ),
        ]
    if workload == "coding":
        offloading = lambda job: run_with(job, ttl="auto", memory=memory_of(job, Offload(), has_index=False))  # noqa: E731
        return [plain, auto, one('ttl="auto", offload above 4,000', offloading, (*basic, make_offloading))]
    if workload.startswith("support"):
        return [plain, auto]
    if workload == "browser":
        return [one("phases", run_phased, (*basic, make_phased), remark="phases enforced"), plain]
    if workload == "parallel":
        return [one("spawn, FanOut", run_parallel, (team, finish, make))]
    if workload == "overflow":
        code = (compacting_loop, make_offloading)
        return [
            one("compact(summarising()), index", lambda job: run_compacting(job, None), code),
            one("offload above 4,000, compact(summarising()), index", lambda job: run_compacting(job, Offload()), code),
        ]
    if workload == "late tools":
        bridged = one("late_tools, call_tool", lambda job: run_with(job, tools=(call_tool,)), (*basic, make))
        inline = {"provider_options": {"betas": ["inline-tools-2026-09-15"]}}
        return [bridged, one("late_tools, inline-tools beta", lambda job: run_with(job, **inline), (*basic, make))]
    if workload == "crash":
        return [one("Context.open", run_durable, (*basic, make_durable))]
    return [plain]
