"""A loop of one's own on the `anthropic` SDK, with the caching its documentation shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic

from tests.benchmarks.workloads.workload import MODEL, Contender, Crash, Job, ToolSpec, Turn

INSTRUCTION = "Write a summary of this conversation: what was asked, what is done, what is still to do. Call no tool."
PACKAGES = ("anthropic",)


# What a user writes
# -----------------------------------------------------------------------------------------------------------------------------


def loop(client, request, messages, content, run_tool):
    messages.append({"role": "user", "content": content})
    while True:
        reply = client.messages.create(messages=messages, **request)
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": one.id, "content": run_tool(one.name, one.input)} for one in calls
        ]
        messages.append({"role": "user", "content": results})


def automatic(system, ttl):
    return {
        "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral", "ttl": ttl}}],
        "cache_control": {"type": "ephemeral", "ttl": ttl},
    }


def compacting_loop(client, request, messages, content, run_tool, at_tokens):
    messages.append({"role": "user", "content": content})
    while True:
        reply = client.messages.create(messages=messages, **request)
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": one.id, "content": run_tool(one.name, one.input)} for one in calls
        ]
        messages.append({"role": "user", "content": results})
        usage = reply.usage
        used = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        if used + sum(len(one["content"]) for one in results) // 4 > at_tokens:
            results.append({"type": "text", "text": INSTRUCTION})
            summary = client.messages.create(messages=messages, **request)
            text = "".join(block.text for block in summary.content if block.type == "text")
            messages[:] = [{"role": "user", "content": f"{content}\n\nWhat happened so far:\n{text}"}]


def shown_once_loop(client, request, messages, content, run_tool, above_characters=16_000, preview_characters=800):
    messages.append({"role": "user", "content": content})
    whole = None
    while True:
        sent = [*messages[:-1], whole] if whole else messages
        marked = len(messages) - 1 - (whole is not None)
        reply = client.messages.create(messages=[*sent[:marked], mark(sent[marked]), *sent[marked + 1 :]], **request)
        whole = None
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": one.id, "content": run_tool(one.name, one.input)} for one in calls
        ]
        short = [{**one, "content": preview(one["content"], above_characters, preview_characters)} for one in results]
        if short != results:
            whole = {"role": "user", "content": results}
        messages.append({"role": "user", "content": short})


def preview(text, above_characters, preview_characters):
    if len(text) <= above_characters:
        return text
    return f"{text[:preview_characters]}\n[…]\n{text[-preview_characters:]}"


def mark(message):
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    last = blocks[-1] if isinstance(blocks[-1], dict) else blocks[-1].model_dump(exclude_none=True)
    return {**message, "content": [*blocks[:-1], {**last, "cache_control": {"type": "ephemeral"}}]}


def saved_loop(client, request, path, content, run_tool):
    messages = json.loads(path.read_text()) if path.exists() else []
    is_new = not messages or (messages[-1]["role"] == "assistant" and not calls_of(messages[-1]))
    if is_new:
        messages.append({"role": "user", "content": content})
    while True:
        if messages[-1]["role"] == "user":
            reply = client.messages.create(messages=messages, **request)
            messages.append(
                {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in reply.content]}
            )
            path.write_text(json.dumps(messages))
        calls = calls_of(messages[-1])
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": run_tool(one["name"], one["input"])}
            for one in calls
        ]
        messages.append({"role": "user", "content": results})
        path.write_text(json.dumps(messages))


def calls_of(message):
    return [block for block in message["content"] if block["type"] == "tool_use"]


def staggered(first, others):
    with ThreadPoolExecutor(16) as pool:
        first()
        list(pool.map(lambda one: one(), others))


# The benchmark's wiring
# -----------------------------------------------------------------------------------------------------------------------------


def definition(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def content_of(turn: Turn) -> Any:
    return turn.content[0] if len(turn.content) == 1 else [{"type": "text", "text": words} for words in turn.content]


def client_of(job: Job) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=job.url, api_key="any", max_retries=0, timeout=120)


def request_of(job: Job, ttl: str, tools: list[ToolSpec], **more: Any) -> dict[str, Any]:
    request = {"model": MODEL, "max_tokens": 8_000, **automatic(job.workload.system, ttl), **more}
    if tools:
        request["tools"] = [definition(tool) for tool in tools]
    return request


def run_turns(job: Job, ttl: str = "5m", **more: Any) -> None:
    with client_of(job) as client:
        messages: list[Any] = []
        tools = list(job.workload.tools)
        for turn in job.turns():
            tools += turn.late
            loop(client, request_of(job, ttl, tools, **more), messages, content_of(turn), job.run_tool)


def run_filtered(job: Job) -> None:
    """Sends the tools of the present phase only."""
    phases = dict(job.workload.phases)
    state = {"phase": next(iter(phases))}
    order = list(phases)

    request = request_of(job, "5m", [])

    class Filtering(Mapping):  # the tools of a request follow the phase
        def __iter__(self):
            return iter([*request, "tools"])

        def __len__(self):
            return len(request) + 1

        def __getitem__(self, key):
            if key == "tools":
                return [definition(one) for one in job.workload.tools if one.name.startswith(phases[state["phase"]])]
            return request[key]

    def run_tool(name: str, arguments: dict[str, Any]) -> str:
        if name == f"{phases[state['phase']]}done" and state["phase"] != order[-1]:
            state["phase"] = order[order.index(state["phase"]) + 1]
        return job.run_tool(name, arguments)

    with client_of(job) as client:
        for turn in job.turns():
            loop(client, Filtering(), [], content_of(turn), run_tool)


def run_compacting(job: Job) -> None:
    limit = job.workload.compact_at_tokens or 150_000
    with client_of(job) as client:
        messages: list[Any] = []
        request = request_of(job, "5m", job.workload.tools)
        for turn in job.turns():
            compacting_loop(client, request, messages, content_of(turn), job.run_tool, limit)


def run_clearing(job: Job) -> None:
    limit = job.workload.compact_at_tokens or 150_000
    edit = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": limit}}
    edit["clear_at_least"] = {"type": "input_tokens", "value": limit // 2}
    run_turns(
        job,
        extra_body={"context_management": {"edits": [edit]}},
        extra_headers={"anthropic-beta": "context-management-2025-06-27"},
    )


def run_shown_once(job: Job) -> None:
    with client_of(job) as client:
        messages: list[Any] = []
        request = request_of(job, "5m", job.workload.tools)
        del request["cache_control"]
        for turn in job.turns():
            shown_once_loop(client, request, messages, content_of(turn), job.run_tool)


def run_parallel(job: Job, *, is_staggered: bool) -> None:
    request = request_of(job, "5m", job.workload.tools)
    with client_of(job) as client:
        agents = [lambda task=task: loop(client, request, [], task, job.run_tool) for task in job.workload.subtasks]
        if is_staggered:
            staggered(agents[0], agents[1:])
        else:
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda one: one(), agents))


def run_saved(job: Job) -> None:
    path = Path(job.folder, "messages.json")
    request = request_of(job, "5m", job.workload.tools)
    with client_of(job) as client:
        for turn in job.turns():
            try:
                saved_loop(client, request, path, content_of(turn), job.run_tool)
            except Crash:
                job.server.clock.advance(120)
                saved_loop(client, request, path, content_of(turn), job.run_tool)


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""

    def one(settings: str, run: Any, code: tuple[Any, ...], **more: Any) -> Contender:
        return Contender("SDK loop", settings, run, code, PACKAGES, **more)

    plain = one("system marked, automatic caching 5m", run_turns, (loop, automatic))
    if workload.startswith("research"):
        by_hand = one("results shown once by hand", run_shown_once, (shown_once_loop, preview, mark), is_compared=False)
        return [plain, by_hand]
    if workload.startswith("support") or workload == "coding":
        return [plain, one("the same, 1h", lambda job: run_turns(job, "1h"), (loop, automatic))]
    if workload == "browser":
        remark = "no phase is enforced"
        filtered = one(
            "tools filtered by phase", run_filtered, (loop, automatic), remark="lines of the filter not counted"
        )
        return [one(plain.settings, run_turns, plain.code, remark=remark), filtered]
    if workload == "parallel":
        at_once = one("started together", lambda job: run_parallel(job, is_staggered=False), (loop, automatic))
        by_turn = one(
            "one ahead, as the documentation says",
            lambda job: run_parallel(job, is_staggered=True),
            (loop, automatic, staggered),
        )
        return [at_once, by_turn]
    if workload == "overflow":
        return [
            one(
                "no compaction",
                run_turns,
                (loop, automatic),
                remark="exceeds the window it is allowed",
                is_compared=False,
            ),
            one("summary over the cached prefix", run_compacting, (compacting_loop, automatic)),
            one("context editing: clear_tool_uses", run_clearing, (loop, automatic)),
        ]
    if workload == "crash":
        return [one("messages saved as JSON", run_saved, (saved_loop, calls_of, automatic))]
    return [plain]
