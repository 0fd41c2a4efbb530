"""contextkit. Every setting that a workload is run with stands in `contenders`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import anthropic

from contextkit import AnthropicMessages, Context, FileMemory, Phase, Phases, Tool
from contextkit.context.fan_out import FanOut
from contextkit.memory import Memory, Offload, Residency
from contextkit.memory.search.index import Index
from contextkit.tools.late import call_tool
from tests.benchmarks.workloads.workload import MODEL, Contender, Crash, Job, ToolSpec, Turn

PACKAGES = ("contextkit",)
LARGE = Offload()
ONCE = Residency("pass", drops_reasoning=True)
WHOLE = Residency(shows_whole=True, drops_reasoning=True)
"""Chosen for each result, and each is shown whole once at least."""
DELEGATED = Residency("delegate")
ANY = Residency(drops_reasoning=True)
"""Chosen for each result; some are shown as previews only."""


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
    provider = AnthropicMessages(MODEL, max_tokens=8_000, ttl="auto")
    files = FileMemory(folder)
    memory = Memory(files, todo=None, has_file_tool=False, index=Index(f"{folder}.db"))
    return Context(provider, system=system, tools=tools, memory=memory)


def make_residing(tools, system, folder, residency):
    provider = AnthropicMessages(MODEL, max_tokens=8_000, ttl="auto")
    memory = Memory(FileMemory(folder), todo=None, has_file_tool=False, residency=residency)
    return Context(provider, system=system, tools=tools, memory=memory)


def delegating_loop(client, context, content):
    context.user(content)
    while not context.finished:
        for call in context.calls:
            value = call.run()
            if context.residency(call, value) == "delegate":
                side = context.delegate(call, value)
                side.receive(side.request().send(client))
                value = side
            context.result(call, value)
        context.receive(context.request().send(client))


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
    provider = AnthropicMessages(MODEL, max_tokens=8_000, ttl="auto")
    return Context(provider, system=system, tools=tools, phases=Phases(phases, start=names[0]))


def team(client, context, tasks):
    agents = [context.spawn(task) for task in tasks]
    FanOut(agents).send(client)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda agent: finish(client, agent), agents))


def make_durable(tools, system, folder):
    provider = AnthropicMessages(MODEL, max_tokens=8_000, ttl="auto")
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


def memory_of(
    job: Job, offload: Offload | None, *, residency: Residency | None = None, has_index: bool = False
) -> Memory:
    index = Index(job.folder / "index.db") if has_index else None
    files = FileMemory(job.folder / "files")
    return Memory(files, offload=offload, todo=None, has_file_tool=False, index=index, residency=residency)


def client_of(job: Job) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=job.url, api_key="any", max_retries=0, timeout=120)


def run_turns(job: Job, context: Context, step: Callable[..., None]) -> None:
    with client_of(job) as client, context:
        for turn in job.turns():
            if turn.late:
                context.late_tools([tool_of(job, one) for one in turn.late])
            step(client, context, content_of(turn))


def run_compacting(job: Job, offload: Offload | None, residency: Residency | None = None) -> None:
    limit = job.workload.compact_at_tokens or 150_000
    memory = memory_of(job, offload, residency=residency, has_index=True)
    context = context_of(job, ttl="auto", memory=memory)
    run_turns(job, context, lambda *arguments: compacting_loop(*arguments, limit))


def run_phased(job: Job) -> None:
    prefixes = dict(job.workload.phases)
    names = list(prefixes)
    rows = {
        name: Phase(allow=[f"{prefixes[name]}*"], then={f"{prefixes[name]}done": following} if following else {})
        for name, following in zip(names, [*names[1:], None], strict=True)
    }
    run_with(job, ttl="auto", phases=Phases(rows, start=names[0]))


def run_parallel(job: Job, ttl: str) -> None:
    with client_of(job) as client, context_of(job, ttl=ttl) as context:
        team(client, context, job.workload.subtasks)


def run_durable(job: Job) -> None:
    own = [tool_of(job, one) for one in job.workload.tools]
    options: dict[str, Any] = {"system": job.workload.system, "tools": own, "clock": job.server.clock.now}
    provider = AnthropicMessages(MODEL, max_tokens=8_000, ttl="auto")
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
    auto = one('ttl="auto"', lambda job: run_with(job, ttl="auto"), (*basic, make_auto), is_recommended=True)
    advised = 'ttl="auto", residency chosen, shown whole'

    def residing(
        settings: str, residency: Residency | None, *, ttl: str = "5m", offload: Offload = LARGE, **more: Any
    ) -> Contender:
        def run(job: Job) -> None:
            run_with(job, ttl=ttl, memory=memory_of(job, offload, residency=residency))

        return one(settings, run, (*basic, make_residing), **more)

    def delegating(job: Job) -> None:
        run_turns(job, context_of(job, memory=memory_of(job, LARGE, residency=DELEGATED)), delegating_loop)

    if workload.startswith("research"):
        remark = "side calls see the pages, the agent extracts"
        return [
            plain,
            residing(advised, WHOLE, ttl="auto", is_recommended=True),
            residing("residency pass", ONCE),
            residing("residency chosen, shown whole, read_tokens=8,000", WHOLE, offload=Offload(read_tokens=8_000)),
            one("residency delegate", delegating, (delegating_loop, make_residing), is_compared=False, remark=remark),
            residing("residency chosen", ANY),
            residing("offload above 4,000", None),
            residing("offload above 250", None, offload=Offload(above_tokens=250, preview_tokens=100)),
        ]
    if workload == "coding":
        offloading = residing('ttl="auto", offload above 4,000', None, ttl="auto")
        listed = replace(auto, is_recommended=False)
        return [plain, listed, residing(advised, WHOLE, ttl="auto", is_recommended=True), offloading]
    if workload == "browser":
        phased = one(
            'ttl="auto", phases', run_phased, (*basic, make_phased), remark="phases enforced", is_recommended=True
        )
        return [phased, plain]
    if workload == "parallel":
        return [
            one(
                'ttl="auto", spawn, FanOut',
                lambda job: run_parallel(job, "auto"),
                (team, finish, make_auto),
                is_recommended=True,
            ),
            one("spawn, FanOut", lambda job: run_parallel(job, "5m"), (team, finish, make)),
        ]
    if workload == "overflow":
        code = (compacting_loop, make_offloading)

        def compacting(
            settings: str, offload: Offload | None, residency: Residency | None = None, **more: Any
        ) -> Contender:
            words = f"{settings}, compact(summarising()), index"
            return one(words, lambda job: run_compacting(job, offload, residency), code, **more)

        return [
            compacting('ttl="auto"', None),
            compacting(advised, LARGE, WHOLE, is_recommended=True),
            compacting('ttl="auto", residency pass', LARGE, ONCE),
            compacting('ttl="auto", offload above 4,000', LARGE),
        ]
    if workload == "late tools":
        bridged = one(
            'ttl="auto", late_tools, call_tool',
            lambda job: run_with(job, ttl="auto", tools=(call_tool,)),
            (*basic, make_auto),
            is_recommended=True,
        )
        inline: dict[str, Any] = {"provider_options": {"betas": ["inline-tools-2026-09-15"]}}
        beta = one("late_tools, inline-tools beta", lambda job: run_with(job, **inline), (*basic, make))
        return [bridged, beta]
    if workload == "crash":
        return [one('ttl="auto", Context.open', run_durable, (*basic, make_durable), is_recommended=True)]
    return [plain, auto]
