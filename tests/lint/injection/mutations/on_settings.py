"""Hazards of parameters, cache keys, routes and side calls, as they show in requests."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.lint.injection.mutations.mutation import CHAT, CLAUDE, OPENAI, Mutation
from tests.lint.injection.tape import Call, Tape, inner

Json = Any


def _while(tape: Tape, turn: int, rng: Random) -> list[Call]:
    """The calls that are other than before: one, a few, or all to the end."""
    return tape.calls[turn : turn + rng.choice((1, 2, 4, 99))]


def other_model(tape: Tape, turn: int, rng: Random) -> int | None:
    """A fallback answers."""
    name = rng.choice(("claude-sonnet-4-5", "claude-haiku-4-5") if tape.wire == CLAUDE else ("gpt-4.1", "gpt-5-mini"))
    for taped in _while(tape, turn, rng):
        taped.body["model"] = name
        taped.call = replace(taped.call, model=name)
    return turn


def effort(tape: Tape, turn: int, rng: Random) -> int | None:
    """Somebody turns the effort up or down."""
    was, now = rng.sample(("low", "medium", "high"), 2)
    changed = _while(tape, turn, rng)
    for call in tape.calls:
        value = now if any(call is one for one in changed) else was
        if call.wire == CLAUDE:
            call.body.setdefault("output_config", {})["effort"] = value
        elif call.wire == CHAT:
            call.body["reasoning_effort"] = value
        else:
            call.body["reasoning"] = {"effort": value}
    return turn


def thinking(tape: Tape, turn: int, rng: Random) -> int | None:
    """Thinking is switched on or off, or gets another budget."""
    budgets: list[Json] = [{"type": "enabled", "budget_tokens": budget} for budget in (4096, 16_000)]
    was, now = rng.sample([{"type": "disabled"}, *budgets], 2)
    changed = _while(tape, turn, rng)
    for call in tape.calls:
        call.body["thinking"] = now if any(call is one for one in changed) else was
        call.body["max_tokens"] = 20_000
    return turn


def tool_choice(tape: Tape, turn: int, rng: Random) -> int | None:
    """A tool is forced, or calls in parallel are forbidden, for one call or some."""
    name = inner(rng.choice(tape.calls[0].body["tools"]))["name"]
    one_by_one = {"type": "auto", "disable_parallel_tool_use": True}
    choice = rng.choice(({"type": "tool", "name": name}, {"type": "any"}, one_by_one, {"type": "none"}))
    for call in _while(tape, turn, rng):
        if call.wire == CLAUDE:
            call.body["tool_choice"] = choice
        else:
            call.body["parallel_tool_calls"] = False
    return turn


def schema_of_the_answer(tape: Tape, turn: int, rng: Random) -> int | None:
    """The answer has to have a form, from a call on or for one."""
    names = rng.sample(("summary", "score", "next_step", "risk"), 2)
    properties = {name: {"type": "string"} for name in names}
    schema = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    for call in _while(tape, turn, rng):
        if call.wire == CLAUDE:
            call.body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": schema}
        elif call.wire == CHAT:
            call.body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema, "strict": True},
            }
        else:
            call.body["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}}
    return turn


def speed(tape: Tape, turn: int, rng: Random) -> int | None:
    """A faster lane for some calls."""
    way, value = ("speed", "fast") if tape.wire == CLAUDE else ("service_tier", rng.choice(("priority", "flex")))
    for call in _while(tape, turn, rng):
        call.body[way] = value
    return turn


def _on_own_engine(tape: Tape) -> None:
    for taped in tape.calls:
        taped.body["model"] = "Qwen/Qwen3-32B"
        taped.call = replace(taped.call, model="Qwen/Qwen3-32B", provider="vllm")


def template(tape: Tape, turn: int, rng: Random) -> int | None:
    """A switch of the chat template, on an engine of one's own."""
    _on_own_engine(tape)
    name = rng.choice(("enable_thinking", "reasoning_effort", "add_vision_id"))
    for call in tape.calls:
        call.body["chat_template_kwargs"] = {"enable_thinking": True}
    for call in _while(tape, turn, rng):
        call.body["chat_template_kwargs"] = {
            "enable_thinking": True,
            name: False if name != "reasoning_effort" else "high",
        }
    return turn


def other_platform(tape: Tape, turn: int, rng: Random) -> int | None:
    """A balancer takes another platform."""
    for taped in _while(tape, turn, rng):
        taped.call = replace(taped.call, provider="azure")
    return turn


def isolated(tape: Tape, turn: int, rng: Random) -> int | None:
    """Credentials of several accounts are used in turn."""
    accounts = rng.sample(range(100_000_000_000, 999_999_999_999), 2)
    changed = [one.call.id for one in _while(tape, turn, rng)]
    for taped in tape.calls:
        is_other = taped.call.id in changed
        if taped.wire == CLAUDE:
            name = f"arn:aws:bedrock:us-east-1:{accounts[is_other]}:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
            taped.body["model"] = name
            taped.call = replace(taped.call, model=name)
        else:
            taped.body["prompt_cache_isolation_key"] = f"tenant-{accounts[is_other]}"
    return turn


def edits_without_floor(tape: Tape, turn: int, rng: Random) -> int | None:
    """The server is asked to clear results, however little that is."""
    edit: Json = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": rng.randint(5, 60) * 1000},
    }
    for call in tape.calls[turn:]:
        call.body["context_management"] = {"edits": [edit]}
    return turn


MUTATIONS = (
    Mutation("CKP01", "another model answers", other_model),
    Mutation("CKP02", "the effort changes", effort),
    Mutation("CKP02", "thinking or its budget changes", thinking, (CLAUDE,)),
    Mutation("CKP04", "a tool is forced", tool_choice),
    Mutation("CKP05", "the answer gets a schema", schema_of_the_answer),
    Mutation("CKP06", "a faster lane", speed),
    Mutation("CKP07", "a switch of the chat template", template, (CHAT,)),
    Mutation("CKR08", "another platform", other_platform, OPENAI),
    Mutation("CKR08", "accounts or tenants in turn", isolated),
    Mutation("CKM28", "results cleared by the server without a floor", edits_without_floor, (CLAUDE,)),
)
