"""Real conversations as captured requests on three wires: a coding session of 484 calls, and 200 customer-service runs.

Nothing is invented but what the recordings lack: tool definitions (a name and the parameters that were used), and times
of the customer-service runs, which get a call every 15 seconds. The coding session is rendered by `tests.benchmarks.replay`
without HTTP, once a process and wire (about 2 to 4 seconds); the runs are rendered here, in microseconds."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from contextkit.ledger.calls import Bodies, ModelCall

Json = Any
WIRES = ("anthropic_messages", "openai_chat", "openai_responses")
_REPLAYED = {"anthropic_messages": "anthropic", "openai_chat": "openai-chat", "openai_responses": "openai-responses"}
_ASKED = {
    "anthropic_messages": ("anthropic", "claude-opus-4-8"),
    "openai_chat": ("openai", "gpt-4o"),
    "openai_responses": ("openai", "gpt-5.1"),
}
_FIRST_AT, _SECONDS_A_CALL = 1_715_800_000.0, 15.0


BEGINNING = 68
"""Calls of the coding session that stand in the first 150 lines of its file."""


@cache
def beginning_of_the_coding_session(shared: Path, wire: str) -> tuple[ModelCall, ...]:
    """Its first calls, in a tenth of the time."""
    whole = (shared / "data" / "pi" / "before-compaction.jsonl").read_bytes().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "beginning.jsonl"
        path.write_bytes(b"".join(whole[:150]))
        calls = _rendered(path, wire)
    assert len(calls) == BEGINNING
    return calls


@cache
def coding_session(shared: Path, wire: str) -> tuple[ModelCall, ...]:
    """All 484 calls of the coding session, two compactions and the changes of its thinking level among them."""
    return _rendered(shared / "data" / "pi" / "before-compaction.jsonl", wire)


def _rendered(path: Path, wire: str) -> tuple[ModelCall, ...]:
    from tests.benchmarks.replay import replayed

    bodies: list[bytes] = []
    name = _REPLAYED[wire]
    _, ledger = replayed(path, name, observe=lambda request: bodies.append(request.body))
    return tuple(replace(call, prompt=Bodies(body)) for call, body in zip(ledger, bodies, strict=True))


@cache
def service_runs(shared: Path, wire: str, most: int = 200) -> tuple[tuple[ModelCall, ...], ...]:
    """The first `most` customer-service runs, each a conversation of 5 to 40 calls."""
    with gzip.open(shared / "data" / "tau-bench" / "gpt-4o-airline.json.gz") as file:
        runs = json.load(file)[:most]
    tools = _tools(runs)
    return tuple(tuple(_calls(run["traj"], wire, f"run-{number}", tools)) for number, run in enumerate(runs))


def sessions(shared: Path, wire: str, most_runs: int = 40) -> list[tuple[ModelCall, ...]]:
    """Everything on one wire, the coding session first."""
    return [coding_session(shared, wire), *service_runs(shared, wire, most_runs)]


def spelled(body: Json) -> bytes:
    """A body as the SDKs write it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def with_body(call: ModelCall, body: Json) -> ModelCall:
    """The same call with another body."""
    return replace(call, prompt=Bodies(spelled(body)))


def body_of(call: ModelCall) -> Json:
    """The body of a call, parsed; a value of its own, free to change."""
    assert isinstance(call.prompt, Bodies)
    return json.loads(call.prompt.request)


def _tools(runs: list[Json]) -> list[Json]:
    """Name and parameters of every tool that was called, in order of name."""
    seen: dict[str, dict[str, Json]] = {}
    for run in runs:
        for call in (call for message in run["traj"] for call in message.get("tool_calls") or ()):
            arguments = json.loads(call["function"]["arguments"])
            seen.setdefault(call["function"]["name"], {}).update({name: {} for name in arguments})
    schemas = {name: {"type": "object", "properties": dict(sorted(seen[name].items()))} for name in sorted(seen)}
    return [
        {"name": name, "description": f"The tool {name} of the airline.", "schema": schemas[name]} for name in schemas
    ]


def _calls(said: list[Json], wire: str, session: str, tools: list[Json]) -> Iterator[ModelCall]:
    """One call before every reply of the model."""
    (provider, model), render = _ASKED[wire], _RENDER[wire]
    for number, place in enumerate(index for index, message in enumerate(said) if message["role"] == "assistant"):
        at = _FIRST_AT + number * _SECONDS_A_CALL
        body = Bodies(spelled(render(model, said[:place], tools)))
        yield ModelCall(
            f"{session}-{number}", session, "main", at, at + 1, at + 4, provider, model, body, None, None, None
        )


def _chat(model: str, said: list[Json], tools: list[Json]) -> Json:
    functions = [
        {"name": tool["name"], "description": tool["description"], "parameters": tool["schema"]} for tool in tools
    ]
    return {
        "messages": said,
        "model": model,
        "tools": [{"type": "function", "function": function} for function in functions],
    }


def _anthropic(model: str, said: list[Json], tools: list[Json]) -> Json:
    """Marks on the system block and on the last block, as the documentation shows it."""
    marker = {"type": "ephemeral"}
    messages = _turns(said[1:])
    last = messages[-1]["content"]
    last[-1] = {**last[-1], "cache_control": marker}
    return {
        "model": model,
        "max_tokens": 4096,
        "system": [{"type": "text", "text": said[0]["content"], "cache_control": marker}],
        "tools": [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["schema"]} for tool in tools
        ],
        "messages": messages,
    }


def _turns(said: list[Json]) -> list[Json]:
    turns: list[Json] = []
    for message in said:
        role = "assistant" if message["role"] == "assistant" else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _BLOCKS[message["role"]](message)
    return turns


def _replied(message: Json) -> list[Json]:
    text = [{"type": "text", "text": message["content"]}] if message.get("content") else []
    calls = message.get("tool_calls") or ()
    return text + [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        for call in calls
    ]


_BLOCKS: dict[str, Callable[[Json], list[Json]]] = {
    "user": lambda message: [{"type": "text", "text": message["content"]}],
    "tool": lambda message: [
        {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
    ],
    "assistant": _replied,
}


def _responses(model: str, said: list[Json], tools: list[Json]) -> Json:
    functions = [
        {"type": "function", "name": tool["name"], "description": tool["description"], "parameters": tool["schema"]}
        for tool in tools
    ]
    items = [item for message in said[1:] for item in _ITEMS[message["role"]](message)]
    return {"model": model, "store": False, "instructions": said[0]["content"], "tools": functions, "input": items}


def _output(message: Json) -> list[Json]:
    text = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": message["content"]}]}]
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"]} for call in message.get("tool_calls") or ()
    ]
    return (text if message.get("content") else []) + calls


_ITEMS: dict[str, Callable[[Json], list[Json]]] = {
    "user": lambda message: [{"role": "user", "content": [{"type": "input_text", "text": message["content"]}]}],
    "tool": lambda message: [
        {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
    ],
    "assistant": _output,
}
_RENDER: dict[str, Callable[[str, list[Json], list[Json]], Json]] = {
    "anthropic_messages": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
}
