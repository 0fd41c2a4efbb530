"""LiteLLM's `completion` with `cache_control_injection_points`, in a loop of one's own."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import litellm

from tests.benchmarks.workloads.workload import MODEL, Contender, Crash, Job, ToolSpec, Turn

PACKAGES = ("litellm",)


# What a user writes
# -----------------------------------------------------------------------------------------------------------------------------


def loop(request, messages, content, run_tool):
    messages.append({"role": "user", "content": content})
    while True:
        reply = litellm.completion(messages=messages, **request).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return
        for one in reply.tool_calls:
            result = run_tool(one.function.name, json.loads(one.function.arguments))
            messages.append({"role": "tool", "tool_call_id": one.id, "content": result})


def points(*places):
    return {
        "cache_control_injection_points": [
            {"location": "message", "role": "system"},
            *({"location": "message", "index": place} for place in places),
        ]
    }


# The benchmark's wiring
# -----------------------------------------------------------------------------------------------------------------------------


def definition(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def content_of(turn: Turn) -> Any:
    return turn.content[0] if len(turn.content) == 1 else [{"type": "text", "text": words} for words in turn.content]


def request_of(job: Job, tools: list[ToolSpec], places: tuple[int, ...]) -> dict[str, Any]:
    request = {
        "model": f"anthropic/{MODEL}",
        "max_tokens": 8_000,
        "api_base": job.url,
        "api_key": "any",
        "num_retries": 0,
    }
    if tools:
        request["tools"] = [definition(one) for one in tools]
    return {**request, **points(*places)}


def run_turns(job: Job, places: tuple[int, ...] = (-1,)) -> None:
    messages: list[Any] = [{"role": "system", "content": job.workload.system}]
    tools = list(job.workload.tools)
    for turn in job.turns():
        tools += turn.late
        request = request_of(job, tools, places)
        try:
            loop(request, messages, content_of(turn), job.run_tool)
        except Crash:
            raise RuntimeError("keeps nothing: saving is the loop's business, as in the SDK loop") from None


def run_parallel(job: Job, *, is_staggered: bool) -> None:
    request = request_of(job, job.workload.tools, (-1,))
    tasks = list(job.workload.subtasks)

    def ask(task: str) -> None:
        loop(request, [{"role": "system", "content": job.workload.system}], task, job.run_tool)

    if is_staggered:
        ask(tasks.pop(0))
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, tasks))


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""
    code = (loop, points)
    if workload in {"crash", "overflow"}:
        return []  # neither persistence nor compaction of its own
    if workload == "parallel":
        return [Contender("LiteLLM", "one run ahead", lambda job: run_parallel(job, is_staggered=True), code, PACKAGES)]
    found = [Contender("LiteLLM", "injection points: system, −1", run_turns, code, PACKAGES)]
    if workload == "rag":
        wide = Contender(
            "LiteLLM", "injection points: system, −1, −2, −3", lambda job: run_turns(job, (-1, -2, -3)), code, PACKAGES
        )
        found.append(wide)
    return found
