"""A body read beside earlier ones gives what it gives alone, whatever has changed between them, and leaves them as they were."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from contextkit.ledger import judge, prompts
from contextkit.ledger.body_json import continued_body, whole_body
from contextkit.ledger.judge import Judge, Ruler
from contextkit.ledger.misses import complete_usage
from contextkit.ledger.prompts import Read, read_body
from contextkit.models import model_named
from contextkit.prompt.prompt import PromptColumns
from contextkit.providers.body_items import n_leading, spelled
from tests.judge.recordings import billed, recording
from tests.server.bodies import BODIES

CLIENTS = ("claude-code-2.1.197", "codex-0.169.0", "gemini-cli-0.61.0", "opencode-1.18.33", "pi-0.74.2", "qwen-code")
MARK = {"type": "ephemeral"}
SPELLINGS: list[Callable[[Any], bytes]] = [
    lambda body: json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(),
    lambda body: json.dumps(body).encode(),
    lambda body: json.dumps(body, indent=1).encode(),
]
LISTS = ("messages", "input", "contents")


def values(read: Read | None) -> Any:
    """Everything that a body was read as, to compare."""
    if read is None:
        return None
    prompt, layout = read.prompt, read.layout
    return (
        {name: getattr(layout.columns, name) for name in PromptColumns.__slots__},
        (layout.n, layout.breakpoints),
        (prompt.namespaces, prompt.level_ends, prompt.breakpoints, prompt.n),
        (list(prompt.digests), list(prompt.ends_tokens), list(prompt.positions)),
        dict(read.settings),
        ([b"" if key.startswith(b"?") else key for key in read.items.keys], list(read.items.ends), read.items.markers),
        (read.body.fields, json.dumps(read.body.fields)),
    )


def check(raws: list[bytes], provider: str, model: str) -> int:
    """Read each body beside a few earlier ones and alone; return how many shared something."""
    earlier: list[tuple[Read, Any]] = []
    n_shared = 0
    rng = random.Random(len(raws))
    for raw in raws:
        alone = read_body(raw, provider, model)
        near = [read for read, _ in rng.sample(earlier[-4:], rng.randint(0, len(earlier[-4:])))]
        read = read_body(raw, provider, model, near)
        assert values(read) == values(alone)
        for one, was in earlier[-4:]:
            assert values(one) == was
        if read is not None:
            n_shared += any(n_leading(read.items.keys, one.items.keys) for one in near)
            earlier.append((read, deepcopy(values(read))))
    return n_shared


# Edits
# --------------------------------------------------------------------------------------------------------------


def messages_of(body: Any) -> list[Any]:
    return next((body[name] for name in LISTS if isinstance(body.get(name), list)), [])


def objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from objects(one)
    elif isinstance(value, list):
        for one in value:
            yield from objects(one)


def change_text(rng: random.Random, body: Any) -> None:
    texts = [one for one in objects(messages_of(body)) if isinstance(one.get("text"), str)]
    if texts:
        rng.choice(texts)["text"] = f"edited {rng.random()}"


def cut(rng: random.Random, body: Any) -> None:
    del messages_of(body)[rng.randint(1, 9) :]


def drop_one(rng: random.Random, body: Any) -> None:
    if len(messages_of(body)) > 2:
        del messages_of(body)[rng.randrange(1, len(messages_of(body)))]


def grow(rng: random.Random, body: Any) -> None:
    messages = messages_of(body)
    messages.extend(deepcopy(messages[-rng.randint(1, 3) :]))


def say(rng: random.Random, body: Any) -> None:
    if "contents" in body:
        body["contents"].append({"role": "user", "parts": [{"text": f"said {rng.random()}"}]})
    else:
        role = rng.choice(["user", "assistant", "user", "system"])
        messages_of(body).append({"role": role, "content": f"said {rng.random()}"})


def move_marker(rng: random.Random, body: Any) -> None:
    for one in objects(messages_of(body)):
        one.pop("cache_control", None)
    blocks = [one for one in objects(messages_of(body)) if one.get("type") in ("text", "tool_result", "tool_use")]
    for one in rng.sample(blocks, min(len(blocks), 2)):
        one["cache_control"] = rng.choice([MARK, {**MARK, "ttl": "1h"}])


def add_tool(rng: random.Random, body: Any) -> None:
    tools = body.get("tools")
    if tools:
        tools.insert(rng.randint(0, len(tools)), deepcopy(tools[0]))


def strip_thinking(rng: random.Random, body: Any) -> None:
    for message in messages_of(body):
        if isinstance(message, dict) and isinstance(message.get("content"), list):
            left = [one for one in message["content"] if not (isinstance(one, dict) and one.get("type") == "thinking")]
            message["content"] = left or message["content"]


def add_thinking(rng: random.Random, body: Any) -> None:
    if "max_tokens" in body:
        thought = {"type": "thinking", "thinking": f"{rng.random()}", "signature": "s"}
        messages_of(body).append({"role": "assistant", "content": [thought, {"type": "text", "text": "so"}]})
        messages_of(body).append({"role": "user", "content": rng.choice(["next", [{"type": "text", "text": "next"}]])})


def reorder_keys(rng: random.Random, body: Any) -> None:
    inputs = [one for one in objects(messages_of(body)) if len(one) > 1]
    if inputs:
        one = rng.choice(inputs)
        turned = dict(reversed(one.items()))
        one.clear()
        one.update(turned)


def change_kind(rng: random.Random, body: Any) -> None:
    """A value that equals another one in Python and is another one in JSON."""
    calls = [one["input"] for one in objects(messages_of(body)) if isinstance(one.get("input"), dict)]
    if calls:
        rng.choice(calls)["n"] = rng.choice([1, 1.0, True, 10**20, 1e20])


def set_clear_at(rng: random.Random, body: Any) -> None:
    if "max_tokens" in body and messages_of(body):
        messages_of(body)[-1]["clear_at"] = rng.choice(["next_user_message", "never"])


def change_settings(rng: random.Random, body: Any) -> None:
    body["tool_choice"] = {"type": rng.choice(["auto", "any"])}
    body["temperature"] = rng.random()


def change_system(rng: random.Random, body: Any) -> None:
    for name in ("system", "instructions"):
        if isinstance(body.get(name), str):
            body[name] += " More."
        elif isinstance(body.get(name), list) and body[name]:
            body[name].append({"type": "text", "text": f"x-anthropic-billing-header: cc_version={rng.random()};"})


def change_model(rng: random.Random, body: Any) -> None:
    name = "modelId" if "modelId" in body else "model"
    own = str(body.get(name))
    others = ("claude-opus-4-5", "claude-sonnet-4-5") if "claude" in own else ("gpt-5.1", "gpt-6.1-sol")
    body[name] = rng.choice([own, *others])


EDITS = (
    change_text,
    cut,
    drop_one,
    grow,
    say,
    say,
    move_marker,
    add_tool,
    strip_thinking,
    add_thinking,
    reorder_keys,
    change_kind,
    set_clear_at,
    change_settings,
    change_system,
    change_model,
)


def edited(rng: random.Random, body: Any, n: int) -> list[bytes]:
    """A body, and what it becomes by edits one behind the other; now and then an older one comes again."""
    versions, raws = [body], list[bytes]()
    for _ in range(n):
        one = deepcopy(versions[-1] if rng.random() < 0.8 else rng.choice(versions))
        for change in rng.sample(EDITS, rng.randint(1, 2)):
            change(rng, one)
        versions.append(one)
        raws.append(SPELLINGS[0 if rng.random() < 0.7 else rng.randrange(3)](one))
    return raws


# Tests
# --------------------------------------------------------------------------------------------------------------


def requests(shared: Path, name: str) -> list[Any]:
    lines = gzip.decompress((shared / "data" / "client-requests" / name).read_bytes()).splitlines()
    return [one.get("request", one) for one in map(json.loads, lines)]


def sides(body: Any) -> tuple[str, str]:
    model = str(body.get("model") or body.get("modelId") or "gemini-2.5-pro")
    provider = next((one for name, one in (("claude", "anthropic"), ("gemini", "google")) if name in model), "openai")
    return provider, model


@pytest.mark.filterwarnings("ignore::contextkit.models.AssumedModelWarning")
@pytest.mark.parametrize("client", CLIENTS)
def test_bodies_of_clients(shared: Path, client: str) -> None:
    bodies = requests(shared, f"{client}.jsonl.gz")
    raws = [SPELLINGS[0](body) for body in bodies]
    assert check(raws, *sides(bodies[0])) or len(bodies) < 3


@pytest.mark.filterwarnings("ignore::contextkit.models.AssumedModelWarning")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("seed", range(2))
def test_edited_bodies_of_clients(shared: Path, client: str, seed: int) -> None:
    bodies = requests(shared, f"{client}.jsonl.gz")
    rng = random.Random(seed)
    body = bodies[-1]
    for name in LISTS:
        if isinstance(body.get(name), list):
            body[name] = body[name][:30]
    assert check(edited(rng, body, 12), *sides(body))


@pytest.mark.filterwarnings("ignore::contextkit.models.AssumedModelWarning")
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("seed", range(4))
def test_edited_bodies_of_every_endpoint(name: str, seed: int) -> None:
    body = deepcopy(BODIES[name][1])
    if messages_of(body):
        check(edited(random.Random(seed), body, 25), *sides(body))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize("seed", range(6))
def test_random_recordings(provider: str, seed: int) -> None:
    calls = recording(seed, provider)
    check([call.prompt.request for call in calls], provider, calls[0].model)  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(4))
def test_a_judge_that_reads_on_says_what_one_says_that_reads_anew(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = billed(recording(seed))

    def told(one: Judge) -> list[Any]:
        result = []
        for call in calls:
            verdict = one.feed(call, model_named(call.model), complete_usage(call), {})
            result.append(verdict)
            last = one._conversations.get((call.session, call.lane))
            sent = last.recent[-1] if last and last.recent else None
            if verdict is not None and sent is not None and sent.anchors and sent.call.id == call.id:
                alone = read_body(call.prompt.request, call.provider, call.model)  # type: ignore[union-attr]
                assert alone is not None
                ruler = Ruler(alone.prompt.ends_tokens, alone.prompt.n, sent.anchors)
                assert list(sent.prompt.ends_tokens) == [ruler.at(n + 1) for n in range(alone.prompt.n)]
        return result

    read_on = told(Judge())
    monkeypatch.setattr(Judge, "_near", lambda *_: [])
    assert read_on == told(Judge())


@pytest.mark.parametrize("most_bytes", [0, 20_000, judge.MOST_BYTES])
def test_a_judge_counts_the_bodies_that_it_keeps(most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "MOST_BYTES", most_bytes)
    one = Judge()
    for call in billed(recording(3)):
        one.feed(call, model_named(call.model), complete_usage(call), {})
        kept = list(one._kept.values())
        assert one._n_bytes == sum(map(judge._n_bytes, kept))
        assert one._n_bytes <= most_bytes or len(kept) == 1
        assert all(sent.read is None for talk in one._conversations.values() for sent in list(talk.recent)[:-1])


def test_what_a_body_begins_with_is_neither_read_nor_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": "Be brief.", "messages": []}
    body["messages"] = [{"role": ("user", "assistant")[n % 2], "content": f"text {n}"} for n in range(99)]
    first = read_body(SPELLINGS[0](body), "anthropic", "claude-sonnet-4-5")
    assert first is not None
    body["messages"] += [{"role": "assistant", "content": "more"}, {"role": "user", "content": "and more"}]
    n_bytes, blocks = list[int](), list[bytes]()
    read, append = prompts.parse, PromptColumns.append
    monkeypatch.setattr(prompts, "parse", lambda data: (n_bytes.append(len(data)), read(data))[1])
    monkeypatch.setattr(
        PromptColumns, "append", lambda columns, block: (blocks.append(block.body), append(columns, block))[1]
    )
    second = read_body(SPELLINGS[0](body), "anthropic", "claude-sonnet-4-5", [first])
    assert second is not None
    assert second.layout.n == first.layout.n + 2
    assert [json.loads(block)["text"] for block in blocks] == ["more", "and more"]
    assert len(n_bytes) == 1
    assert n_bytes[0] < 300


def test_a_name_of_the_messages_that_stands_twice_is_read_whole() -> None:
    start = b'{"messages":[{"role":"user","content":"a"}'
    before = whole_body(start + b"]}", json.loads(start + b"]}"), "messages")
    assert list(before.ends) == [len(start)]
    raw = start + b'],"messages":[{"role":"user","content":"b"}]}'
    assert continued_body(raw, before, json.loads) is None


def test_the_order_of_keys_and_the_kind_of_numbers_count() -> None:
    assert spelled({"a": 1, "b": 2}) != spelled({"b": 2, "a": 1})
    assert len({spelled(one) for one in (1, 1.0, True)}) == 3
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    assert spelled(deep) != spelled(deep)
    assert spelled(10**30) != spelled(10**30)
