"""Random recordings for the tests of the judge: conversations of one program, the changes that lose a cache, their bills."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.judge import Judge
from contextkit.ledger.prompts import read_body
from contextkit.ledger.verdict import Verdict
from contextkit.models import model_named

START = 1_800_000_000.0
ANTHROPIC, OPENAI = "anthropic", "openai"
MODELS = {ANTHROPIC: ("claude-sonnet-4-5", "claude-haiku-4-5"), OPENAI: ("gpt-5.1", "gpt-4.1")}
WORDS = (
    *("read", "write", "file", "test", "error", "server", "build", "path", "value", "model", "token", "cache", "block"),
    *("entry", "index", "state", "query", "table", "parse", "check", "merge", "order", "price", "limit", "start"),
    *("close", "fetch", "agent", "prompt", "result", "history", "message", "system", "tools"),
)
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MARK = {"type": "ephemeral"}


def words(rng: random.Random, n: int) -> str:
    return " ".join(rng.choices(WORDS, k=n))


@dataclass
class Talk:
    """One conversation as its program holds it, in Anthropic's form."""

    provider: str
    session: str
    lane: str
    tools: list[dict[str, Any]]
    system: list[str]
    messages: list[dict[str, Any]]
    model: str
    params: dict[str, Any] = field(default_factory=dict)
    marks: str = "last"
    """last, system, both, none, early."""
    ttl: str = "5m"
    has_images: bool = True
    account: str = ""

    def grow(self, rng: random.Random) -> None:
        """A reply and what follows it."""
        if rng.random() < 0.6:
            number = len(self.messages)
            call = {"type": "tool_use", "id": f"call_{number}", "name": "tool_0", "input": {"n": number}}
            reply = [{"type": "text", "text": words(rng, rng.randint(5, 60))}, call]
            result = {
                "type": "tool_result",
                "tool_use_id": f"call_{number}",
                "content": words(rng, rng.randint(20, 900)),
            }
            self.messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": [result]}]
            return
        text = "Go on." if rng.random() < 0.3 else words(rng, rng.randint(10, 300))
        content: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if self.has_images and self.provider == ANTHROPIC and rng.random() < 0.15:
            content.insert(0, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}})
        reply = [{"type": "text", "text": "Done." if rng.random() < 0.3 else words(rng, rng.randint(10, 200))}]
        self.messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": content}]

    def body(self) -> bytes:
        return orjson.dumps(self.anthropic_body() if self.provider == ANTHROPIC else self.openai_body())

    def anthropic_body(self) -> dict[str, Any]:
        tools, messages = deepcopy(self.tools), deepcopy(self.messages)
        system = [{"type": "text", "text": text} for text in self.system]
        mark = {**MARK, **({"ttl": self.ttl} if self.ttl != "5m" else {})}
        if self.marks in ("system", "both"):
            system[-1]["cache_control"] = mark
        if self.marks in ("last", "both"):
            messages[-1]["content"][-1]["cache_control"] = mark
        if self.marks == "early":
            messages[max(len(messages) - 3, 0)]["content"][-1]["cache_control"] = mark
        fields = {"tools": tools, "system": system, "messages": messages}
        params = self.params if tools else {}
        return {"model": self.model, "max_tokens": 100, **params, **{key: fields[key] for key in fields if fields[key]}}

    def openai_body(self) -> dict[str, Any]:
        tools = [
            {"type": "function", "function": {key.replace("input_schema", "parameters"): tool[key] for key in tool}}
            for tool in self.tools
        ]
        messages: list[dict[str, Any]] = [{"role": "system", "content": text} for text in self.system]
        for message in self.messages:
            results = [part for part in message["content"] if part["type"] == "tool_result"]
            if results:
                messages += [
                    {"role": "tool", "tool_call_id": part["tool_use_id"], "content": part["content"]}
                    for part in results
                ]
                continue
            text = " ".join(part["text"] for part in message["content"] if part["type"] == "text")
            calls = [
                {
                    "id": part["id"],
                    "type": "function",
                    "function": {"name": part["name"], "arguments": orjson.dumps(part["input"]).decode()},
                }
                for part in message["content"]
                if part["type"] == "tool_use"
            ]
            messages.append({"role": message["role"], "content": text, **({"tool_calls": calls} if calls else {})})
        return {"model": self.model, **({**self.params, "tools": tools} if tools else {}), "messages": messages}


def tool(rng: random.Random, name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "description": words(rng, 8)}}}
    return {"name": name, "description": words(rng, rng.randint(20, 150)), "input_schema": schema}


def talk(rng: random.Random, provider: str, session: str, *, is_small: bool = False) -> Talk:
    n = rng.randint(50, 200) if is_small else rng.randint(900, 2500)
    system = [f"You are a careful agent. {words(rng, n)}"]
    if rng.random() < 0.4:
        system.append(f"Project notes: {words(rng, rng.randint(20, 200))}")
    tools = [tool(rng, f"tool_{number}") for number in range(rng.choice((1, 2, 4, 6)))]
    if rng.random() < 0.1:  # a document and a question, with neither tools nor system text
        content = [{"type": "text", "text": part} for part in (system[0], words(rng, 20))]
        return Talk(provider, session, "main", [], [], [{"role": "user", "content": content}], MODELS[provider][0])
    messages = [{"role": "user", "content": [{"type": "text", "text": words(rng, rng.randint(10, 400))}]}]
    marks = rng.choice(("last", "last", "last", "both", "system", "none", "early"))
    ttl = rng.choice(("5m", "5m", "1h"))
    return Talk(provider, session, "main", tools, system, messages, MODELS[provider][0], {}, marks, ttl)


def beside(rng: random.Random, first: Talk, session: str) -> Talk:
    """Another conversation of the same program, or of another one."""
    if rng.random() < 0.2:
        return talk(rng, first.provider, session)
    other = deepcopy(first)
    other.session = session
    if other.system and rng.random() < 0.2:
        other.session, other.lane = first.session, "reviewer"
        other.system[0] = f"You review. {words(rng, 1000)}"
    if rng.random() < 0.7:
        question = {"type": "text", "text": words(rng, rng.randint(10, 400))}
        is_document = not first.system
        other.messages = [{"role": "user", "content": [*first.messages[0]["content"][:is_document], question]}]
    if rng.random() < 0.3:
        other.tools = [tool(rng, "search"), *other.tools]
    return other


_EDITS = (
    *("clock", "late clock", "drop", "order", "add", "edit", "cut"),
    *("mark", "model", "parameter", "notes", "tail", "account"),
)


def edit(rng: random.Random, one: Talk, clock: int) -> None:
    """Change what need not change."""
    kind = rng.choice(_EDITS if one.system else ("edit", "cut", "model", "parameter", "tail"))
    if kind == "clock":
        rest = one.system[0].partition(" --- ")[2] or one.system[0]
        one.system[0] = f"Now {10 + clock // 60}:{clock % 60:02d}. --- {rest}"
    elif kind == "late clock":
        one.system[0] = f"{one.system[0].partition(' +++ ')[0]} +++ It is {10 + clock // 60}:{clock % 60:02d}."
    elif kind == "drop" and len(one.tools) > 1:
        del one.tools[rng.randrange(1, len(one.tools))]
    elif kind == "order":
        rng.shuffle(one.tools)
    elif kind == "add":
        one.tools.insert(rng.randint(0, len(one.tools)), tool(rng, f"more_{clock}"))
    elif kind == "edit":
        message = rng.choice(one.messages)
        part = next((part for part in message["content"] if "text" in part or "content" in part), None)
        if part is not None:
            key = "text" if "text" in part else "content"
            text = part[key].split(" ")
            text[rng.randrange(len(text))] = f"edited{clock}"
            part[key] = " ".join(text)
    elif kind == "cut" and len(one.messages) > 4:
        start = rng.randrange(1, len(one.messages) - 3, 2)
        del one.messages[start : start + 2]
    elif kind == "mark":
        one.marks = rng.choice(("last", "system", "both", "none", "early"))
    elif kind == "model":
        one.model = rng.choice(MODELS[one.provider])
    elif kind == "account":
        one.account = "" if one.account else "a1"
    elif kind == "parameter":
        choice = {"type": "any"} if one.provider == ANTHROPIC else "required"
        one.params = {} if one.params else {"tool_choice": choice}
    elif kind == "notes":
        one.system[1:] = [f"Project notes: {words(rng, rng.randint(20, 200))}"]
    elif kind == "tail" and one.messages[-1]["content"][-1].get("text"):
        one.messages[-1]["content"][-1]["text"] = f"Now {clock}. {one.messages[-1]['content'][-1]['text']}"


def recording(seed: int, provider: str | None = None) -> list[ModelCall]:
    """The calls of one to three conversations, sorted by start, without bills."""
    rng = random.Random(seed)
    provider = provider or rng.choice((ANTHROPIC, OPENAI))
    talks = [talk(rng, provider, "s0", is_small=rng.random() < 0.15)]
    for number in range(1, rng.choice((1, 1, 2, 3))):
        talks.append(beside(rng, talks[0], f"s{number}"))
    calls, at, wild = list[ModelCall](), START, rng.choice((0.0, 0.2, 0.5))
    for number in range(rng.randint(2, 12)):
        one = rng.choice(talks)
        is_resend = rng.random() < 0.06
        if not is_resend and any(call.session == one.session and call.lane == one.lane for call in calls):
            one.grow(rng)
            if rng.random() < 0.1:
                one.grow(rng)
        for _ in range(rng.choice((1, 1, 2)) if rng.random() < wild else 0):
            edit(rng, one, number + rng.randint(0, 400))
        calls.append(_call(rng, number, one, at))
        at += rng.choice((0.5, 2.5, 20.0, 20.0, 20.0, 60.0, 60.0, 200.0, 400.0, 4_000.0, 100_000.0))
    return calls


def _call(rng: random.Random, number: int, one: Talk, at: float) -> ModelCall:
    wait = rng.choice((0.4, 1.0, 2.0, 3.0))
    first: float | None = at + wait
    ended: float | None = at + wait + rng.choice((0.5, 5.0))
    error = None
    fate = rng.random()
    if fate < 0.04:
        error, first, ended = "529 overloaded_error", None, at + wait
    elif fate < 0.07:
        error, first, ended = "aborted", None, at + wait
    elif fate < 0.1:
        first = None
    return ModelCall(
        f"c{number}",
        one.session,
        one.lane,
        at,
        first,
        ended,
        provider=one.provider,
        model=one.model,
        prompt=Bodies(one.body()),
        error=error,
        account=one.account,
    )


def prompt_of(call: ModelCall) -> Prompt:
    assert isinstance(call.prompt, Bodies)
    read = read_body(call.prompt.request, call.provider, call.model)
    assert read is not None
    return read.prompt


def began_at(call: ModelCall) -> float | None:
    """When its writes became readable."""
    if call.first_byte_at is not None:
        return call.first_byte_at
    return None if call.error else call.ended_at


def billed(calls: Iterable[ModelCall]) -> list[ModelCall]:
    """The calls, sorted by start, with what the reference cache bills; a call that failed has no bill."""
    caches: dict[tuple[str, str], PrefixCache[Prompt]] = {}
    pending: list[tuple[float, PrefixCache[Prompt], Lease]] = []
    result = []
    for call in calls:
        for one in sorted((one for one in pending if one[0] <= call.at), key=lambda one: one[0]):
            one[1].publish(one[2], one[0])
        pending = [one for one in pending if one[0] > call.at]
        began = began_at(call)
        if began is None:
            result.append(call)
            continue
        row = model_named(call.model, call.provider)
        cache = caches.setdefault((call.account, row.name), reference_cache(row))
        lease = cache.begin(prompt_of(call), call.at)
        pending.append((began, cache, lease))
        result.append(replace(call, usage=lease.usage.with_output(10)))
    return result


def unlucky(calls: Iterable[ModelCall], seed: int) -> list[ModelCall]:
    """The calls, some of which read less than the reference cache held."""
    rng, result = random.Random(seed), list[ModelCall]()
    for call in calls:
        usage = call.usage
        if usage is not None and usage.read and rng.random() < 0.4:
            read = rng.choice((0, usage.read // 256 * 128))
            lost = usage.read - read
            if call.provider == ANTHROPIC:
                writes = dict(usage.writes or ())
                usage = replace(usage, read=read, writes=tuple({**writes, 300: (writes.get(300) or 0) + lost}.items()))
            else:
                usage = replace(usage, read=read, fresh=(usage.fresh or 0) + lost)
        result.append(replace(call, usage=usage))
    return result


def verdicts(
    calls: Sequence[ModelCall], remarks: Mapping[str, Mapping[str, str]] | None = None
) -> list[Verdict | None]:
    """The verdicts of a new judge; `remarks` by the id of a call."""
    judge = Judge()
    return [
        judge.feed(call, model_named(call.model, call.provider), call.usage, (remarks or {}).get(call.id, {}))
        for call in calls
    ]


def reads(usage: Usage | None) -> int:
    return 0 if usage is None else usage.read or 0
