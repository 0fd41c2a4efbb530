"""Holds a conversation whose large results go to files until it is killed; says what is safe once it is."""

from __future__ import annotations

import random
import sys
from typing import Any

from contextkit import AnthropicMessages, Context, tool
from contextkit.memory import FileMemory, Memory, Offload

SIZES = [20, 900, 5_000, 60_000, 400_000]


@tool
def fetch(n: int) -> str:
    """Get a page."""
    return page(n)


def page(n: int) -> str:
    """What call `n` returns: text that no other call returns."""
    size = SIZES[n % len(SIZES)]
    line = f"call {n}: é \r\n" * (size // 10)
    return line[:size] + f"the end of {n}"


def opened(folder: str) -> Context:
    memory = Memory(FileMemory(f"{folder}/memory"), offload=Offload(above_tokens=500, preview_tokens=50))
    return Context.open(
        folder, AnthropicMessages("claude-opus-5", max_tokens=1024), system="Read on.", tools=[fetch], memory=memory
    )


def reply(calls: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5", "usage": usage}
    return {**said, "content": calls, "stop_reason": "tool_use"}


def asks(n: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"call-{n}", "name": "fetch", "input": {"n": n}}


def work(folder: str, seed: str) -> None:
    chance = random.Random(seed)
    with opened(folder) as context:
        memory = context.memory
        assert memory is not None and memory.todo is not None
        while True:
            for call in context.calls:  # also those the last one left open
                assert call.tool is not None
                entry = context.result(call, call.tool.run(call.arguments))  # again, where it had begun
                print("result", entry.sequence, call.arguments["n"], flush=True)
            n = len(context.log)
            act = chance.choice(["call", "call", "call", "plan", "shrink", "summary"])
            if act == "plan":
                memory.todo.add([f"step {n}"])
            elif act == "shrink":
                context.compact_results(before=len(context.log) - 1, above_tokens=100)
            elif act == "summary":
                context.compact(f"So far, up to {n}.")
            context.user("On.")
            context.receive(reply([asks(2 * n), asks(2 * n + 1)]), context.request())


if __name__ == "__main__":
    work(*sys.argv[1:])
