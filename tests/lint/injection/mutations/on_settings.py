"""Hazards of parameters, cache keys, routes and side calls, as they show in requests."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

from contextkit.cache.usage import Usage
from tests.lint.injection.mutations.mutation import CHAT, CLAUDE, EVERY, OPENAI, Mutation
from tests.lint.injection.tape import Call, Tape, inner, part, system, texts

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
    """A faster lane, or a beta, for some calls."""
    way = rng.choice(("speed", "betas")) if tape.wire == CLAUDE else "service_tier"
    value = {"speed": "fast", "betas": ["context-1m-2025-08-07"], "service_tier": rng.choice(("priority", "flex"))}[way]
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


def salt(tape: Tape, turn: int, rng: Random) -> int | None:
    """A salt that is drawn for each request, on an engine of one's own."""
    _on_own_engine(tape)
    name = rng.choice(("cache_salt", "lora_path"))
    for i, call in enumerate(tape.calls):
        drawn = f"{rng.getrandbits(64):016x}" if name == "cache_salt" else "adapters/b"
        call.body[name] = drawn if i >= turn else "adapters/a"
    return turn


def key_minted_anew(tape: Tape, turn: int, rng: Random) -> int | None:
    """The key is made when the process starts, and it starts again."""
    one, other = (f"{rng.getrandbits(128):032x}" for _ in range(2))
    for i, call in enumerate(tape.calls):
        call.body["prompt_cache_key"] = other if i >= turn else one
    return turn


def other_region(tape: Tape, turn: int, rng: Random) -> int | None:
    """A balancer takes another region or platform."""
    model = tape.calls[0].body["model"]
    places: Json = {
        CLAUDE: ("us.anthropic.{}-v1:0", "eu.anthropic.{}-v1:0"),
        CHAT: ("openai", "azure"),
        "openai_responses": ("openai", "azure"),
    }[tape.wire]
    changed = [one.call.id for one in _while(tape, turn, rng)]
    for taped in tape.calls:
        place = places[taped.call.id in changed]
        if taped.wire == CLAUDE:
            taped.body["model"] = place.format(model)
            taped.call = replace(taped.call, model=taped.body["model"])
        else:
            taped.call = replace(taped.call, provider=place)
    return turn


def other_host(tape: Tape, turn: int, rng: Random) -> int | None:
    """The client asks an aggregator for another host first, by price or by load."""
    hosts = rng.sample(("Together", "Fireworks", "DeepInfra", "Novita"), 2)
    changed = [one.call.id for one in _while(tape, turn, rng)]
    for taped in tape.calls:
        host = hosts[taped.call.id in changed]
        taped.body["model"] = "deepseek/deepseek-chat-v3.1"
        taped.body["session_id"] = "run-7"
        taped.body["provider"] = {"order": [host]}
        taped.call = replace(taped.call, provider="openrouter", model="deepseek/deepseek-chat-v3.1")
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


def _told(tape: Tape, missing: list[int]) -> None:
    """Bills of a cache that reads what the call before sent, but for some calls."""
    before = 0
    for i, taped in enumerate(tape.calls):
        size = len(json.dumps(taped.body)) // 4
        got = 0 if i in missing or not i else before // 128 * 128
        taped.call = replace(taped.call, usage=Usage(size - got, got, 0, 0, 100))
        before = size


def no_key(tape: Tape, turn: int, rng: Random) -> int | None:
    """No key says where the prefix lies; now and then another machine answers and reads nothing."""
    if turn < 2 or len(tape.calls) < 5:
        return None
    later = [i for i in range(turn + 2, len(tape.calls)) if rng.random() < 0.2]
    for taped in tape.calls:
        taped.body["model"] = "gpt-4.1"
        taped.call = replace(taped.call, model="gpt-4.1")
    _told(tape, [turn, *later])
    return turn


def streamed_apart(tape: Tape, turn: int, rng: Random) -> int | None:
    """Some calls stream and some do not, and one of the two never reads; the last of those is the one to name."""
    if len(tape.calls) < 8:
        return None
    deaf = rng.random() < 0.5
    flags = [bool(i % 2) for i in range(len(tape.calls))]
    for call, flag in zip(tape.calls, flags, strict=True):
        call.body["stream"] = flag
    _told(tape, [i for i, flag in enumerate(flags) if flag is deaf])
    return max(i for i, flag in enumerate(flags) if flag is deaf)


def _aside(tape: Tape, turn: int, body: Json) -> int:
    """A call of its own in front of call number `turn`, in the same session."""
    beside = tape.calls[turn]
    made = Call(tape.wire, replace(beside.call, id=f"{beside.call.id}-side", usage=None), body)
    tape.calls.insert(turn, made)
    later = made.call.at
    made.call = replace(made.call, at=later - 0.5, first_byte_at=None, ended_at=None)
    return turn


def _asking(call: Call, instruction: str, text: str) -> Json:
    """A body that asks one question."""
    said = [{"role": "user", "content": [part(call, text)]}]
    if call.wire == CLAUDE:
        return {
            "model": call.body["model"],
            "max_tokens": 2048,
            "system": [{"type": "text", "text": instruction}],
            "messages": said,
        }
    if call.wire == CHAT:
        return {"model": call.body["model"], "messages": [{"role": "system", "content": instruction}, *said]}
    return {"model": call.body["model"], "instructions": instruction, "input": said, "store": False}


def told_again(tape: Tape, turn: int, rng: Random) -> int | None:
    """A summary is asked for with a system text of its own and the conversation as one text."""
    before = tape.calls[turn - 1]
    lines = [f"{role.upper()}: {slot.text}" for role in ("user", "assistant") for slot in texts(before, role)]
    text = "Conversation:\n\n" + "\n\n".join(lines)
    if turn < 2 or len(text) < 9000:
        return None
    return _aside(
        tape,
        turn,
        _asking(before, rng.choice(("You summarize conversations.", "You judge whether the agent did well.")), text),
    )


def same_key_for_a_title(tape: Tape, turn: int, rng: Random) -> int | None:
    """A title is asked for under the key, or with the marker, of the conversation."""
    if turn < 2:
        return None
    before = tape.calls[turn - 1]
    body = _asking(
        before, "You write titles of at most five words.", f"Write a title for: {texts(before, 'user')[0].text[:2000]}"
    )
    if tape.wire == CLAUDE:
        examples = (f"Example {n}: a request about matter {n} gets the title Matter {n}." for n in range(400))
        body["system"][0]["text"] += "\n" + "\n".join(examples)
        body["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    else:
        body["prompt_cache_key"] = "conversation-1"
        for call in tape.calls:
            call.body["prompt_cache_key"] = "conversation-1"
    return _aside(tape, turn, body)


def one_key_for_all(tape: Tape, turn: int, rng: Random) -> int | None:
    """Many conversations at once, all under one key."""
    made: list[Call] = []
    n, start = rng.randint(4, 8), tape.calls[0].call.at
    count = min(len(tape.calls), 6)
    for number, taped in ((number, taped) for taped in tape.calls[:count] for number in range(n)):
        body = json.loads(json.dumps(taped.body))
        one = Call(taped.wire, taped.call, {**body, "prompt_cache_key": "assistant", "model": "gpt-4.1"})
        slot = system(one)
        slot.text = f"{slot.text}\nYou speak with customer {number}."
        name = f"{taped.call.session}-{number}"
        at = start + len(made) * 1.5
        one.call = replace(
            taped.call,
            id=f"{taped.call.id}-{number}",
            session=name,
            at=at,
            first_byte_at=None,
            ended_at=None,
            model="gpt-4.1",
        )
        made.append(one)
    tape.calls = made
    return 15 if len(made) > 15 else None


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
    Mutation("CKP03", "thinking or its budget changes", thinking, (CLAUDE,)),
    Mutation("CKP04", "a tool is forced", tool_choice),
    Mutation("CKP05", "the answer gets a schema", schema_of_the_answer),
    Mutation("CKP06", "a faster lane or a beta", speed),
    Mutation("CKP07", "a switch of the chat template", template, (CHAT,)),
    Mutation("CKE03", "a salt or adapter of its own", salt, (CHAT,)),
    Mutation("CKR01", "another region or platform", other_region, EVERY),
    Mutation("CKR03", "another host behind an aggregator", other_host, (CHAT,)),
    Mutation("CKR04", "no cache key", no_key, OPENAI),
    Mutation("CKR05", "one cache key for all", one_key_for_all, OPENAI),
    Mutation("CKR06", "cache key minted at each start", key_minted_anew, OPENAI),
    Mutation("CKR08", "accounts or tenants in turn", isolated),
    Mutation("CKR09", "streams read and others do not", streamed_apart, OPENAI),
    Mutation("CKM25", "the conversation told again for a summary", told_again),
    Mutation("CKM26", "a title asked for in the conversation's lane", same_key_for_a_title),
    Mutation("CKM28", "results cleared by the server without a floor", edits_without_floor, (CLAUDE,)),
)
