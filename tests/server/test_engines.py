"""`serve --cache`: the real client against a self-hosted engine's cache, and its ledger replayed through the same
engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from contextkit.cache.usage import Usage
from contextkit.cli.main import cli, main
from contextkit.engines.registry import ENGINES, engine
from contextkit.engines.simulate import simulate
from contextkit.engines.vllm import BlockCache
from contextkit.engines.vllm_engine import Shape
from contextkit.errors import LogCorrupt, UsageError
from contextkit.ledger.calls import ModelCall, Tokens, encode
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.server import LocalServer
from contextkit.server.answer import answer
from contextkit.server.endpoints.table import CHAT, RESPONSES
from contextkit.server.state import Clock, State

HEAD = "You are careful. " * 40
SMALL: dict[str, dict[str, Any]] = {
    "vllm": {"block_size": 4, "capacity_tokens": 600},
    "sglang": {"block_size": 2, "capacity_tokens": 600},
    "llamacpp": {"slots": 2, "host_tokens": 600, "cache_reuse": 8},
    "transformers": {"block_size": 4, "capacity_tokens": 600},
    "tiered": {"block_size": 8, "capacity_tokens": 100, "host_tokens": 300, "disk_tokens": 500},
}
"""Sizes at which a few conversations do not fit."""
ALL = tuple(ENGINES)
Said = list[dict[str, Any]]


@contextmanager
def serving(name: str, replies: Any = None, **options: Any) -> Iterator[tuple[LocalServer, openai.OpenAI]]:
    with (
        LocalServer(replies, now=0.0, cache=engine(name, **options)) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):
        yield server, client


def asked(client: openai.OpenAI, *words: str, **more: Any) -> Any:
    messages: Any = [{"role": "system", "content": HEAD}, *({"role": "user", "content": word} for word in words)]
    return client.chat.completions.create(model="my/own-model", messages=messages, **more)


def cached(reply: Any) -> int:
    return int(reply.usage.prompt_tokens_details.cached_tokens)


def bills(ledger: Ledger) -> list[Usage | None]:
    return [call.usage and replace(call.usage, estimated=False) for call in ledger]


# What the engines report
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "unit"), [("llamacpp", 1), ("transformers", 256), ("tiered", 256)])
def test_an_identical_prompt_computes_its_last_token_again(name: str, unit: int) -> None:
    with serving(name) as (_, client):
        first, second = asked(client, "hello " * 200), asked(client, "hello " * 200)
        size = first.usage.prompt_tokens
        assert cached(first) == 0
        assert cached(second) == (size - (name != "tiered")) // unit * unit
        assert second.usage.prompt_tokens == size and second.model == "my/own-model"


def test_a_conversation_over_responses_reads_its_calls_and_reasoning_too() -> None:
    parts = [
        {"type": "thinking", "thinking": "Let me see."},
        {"type": "call", "name": "f", "arguments": {"a": [1, "é"]}},
    ]
    with serving("sglang", [{"parts": parts}]) as (_, client):
        said: Any = [{"role": "user", "content": HEAD}]
        first: Any = client.responses.create(model="m", input=said)
        said += [item.model_dump(exclude_none=True) for item in first.output]
        said.append({"type": "function_call_output", "call_id": first.output[1].call_id, "output": "4"})
        second = client.responses.create(model="m", input=said).usage
        assert second and second.input_tokens_details.cached_tokens == first.usage.total_tokens - 1


def test_thinking_that_chat_does_not_show_is_where_the_next_prompt_parts() -> None:
    parts = [{"type": "thinking", "thinking": "Let me see."}, {"type": "text", "text": "Four."}]
    with serving("sglang", [{"parts": parts}]) as (_, client):
        first = asked(client, "2+2")
        assert first.usage.completion_tokens_details.reasoning_tokens > 0
        said: Any = [
            {"role": "system", "content": HEAD},
            {"role": "user", "content": "2+2"},
            {"role": "assistant", "content": "Four."},
        ]
        second: Any = client.chat.completions.create(model="m", messages=[*said, {"role": "user", "content": "Sure?"}])
        assert cached(second) == 0, "another model's name shares nothing"
        third: Any = client.chat.completions.create(
            model="my/own-model", messages=[*said, {"role": "user", "content": "Sure?"}]
        )
        assert cached(third) == first.usage.prompt_tokens


def test_usage_of_a_stream_and_what_each_engine_calls_it() -> None:
    with serving("llamacpp") as (_, client):
        asked(client, "hello")
        *_, last = asked(client, "hello", stream=True, stream_options={"include_usage": True})
        assert last.usage.prompt_tokens_details.model_dump(exclude_none=True) == {
            "cached_tokens": last.usage.prompt_tokens - 1
        }
        assert last.timings == {"cache_n": last.usage.prompt_tokens - 1, "prompt_n": 1}
        assert cached(asked(client, "hello", extra_body={"cache_prompt": False})) == 0
    with serving("llamacpp", cache_reuse=8) as (_, client):
        asked(client, "the first sentence, which goes. " + "What stays is long enough to be turned. " * 20)
        turned = asked(client, "What stays is long enough to be turned. " * 20)
        assert cached(turned) == turned.timings["cache_n"] > turned.usage.prompt_tokens / 3
    with serving("vllm") as (_, client):
        first, skipping, second = (
            asked(client, "a"),
            asked(client, "a", extra_body={"prompt_logprobs": 1}),
            asked(client, "a"),
        )
        assert (cached(skipping), not hasattr(first, "timings"), cached(second) > 0) == (0, True, True)


@pytest.mark.parametrize(
    ("name", "field", "is_apart"),
    [
        ("vllm", "cache_salt", True),
        ("vllm", "extra_key", False),
        ("sglang", "extra_key", True),
        ("llamacpp", "cache_salt", False),
        ("transformers", "cache_salt", False),
    ],
)
def test_salts_separate_where_the_engine_has_them(name: str, field: str, is_apart: bool) -> None:
    with serving(name) as (server, client):
        asked(client, "hello " * 300)
        salted, again = (asked(client, "hello " * 300, extra_body={field: "tenant-9"}) for _ in range(2))
        assert (cached(salted) == 0) is is_apart
        assert cached(again) > 0
        assert b"tenant-9" not in encode(server.ledger[1])
        assert bills(simulate(server.ledger, engine(name).cache)) == bills(server.ledger)


def test_transformers_ignores_the_choice_of_a_tool_and_keeps_pages_free() -> None:
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    with serving("transformers", block_size=16) as (_, client):
        first, second = (asked(client, "a", tools=tools, tool_choice=choice) for choice in ("required", "nonsense"))
        size = first.usage.prompt_tokens
        assert cached(second) == (size - 1) // 16 * 16
    for margin, expected in ((0.15, cached(second)), (0.6, 0)):
        options = {"block_size": 16, "capacity_tokens": 2 * size, "safety_margin": margin}
        with serving("transformers", **options) as (_, client):
            assert [cached(asked(client, "a", tools=tools)) for _ in range(2)] == [0, expected]


def test_a_salt_vllm_would_refuse() -> None:
    with serving("vllm") as (server, client):
        for salt in ("", "a@b", "x" * 129, 7):
            with pytest.raises(openai.BadRequestError, match="cache_salt"):
                asked(client, "hello", extra_body={"cache_salt": salt})
        assert not len(server.ledger)


def test_a_body_without_shape_is_still_refused_and_fields_nobody_knows_are_not() -> None:
    with serving("sglang") as (_, client):
        bad: Any = [{"role": "king", "content": "a"}]
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="m", messages=bad)
        assert caught.value.param == "messages[0].role"
        assert asked(client, "a", extra_body={"regex": "a+", "top_k": 4, "separate_reasoning": True}).usage


def test_what_a_template_reads_and_an_image_change_the_prompt() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBOR" * 400}}
    with serving("sglang") as (_, client):
        plain = asked(client, "a")
        assert cached(asked(client, "a", extra_body={"chat_template_kwargs": {"enable_thinking": False}})) == 0
        assert cached(asked(client, "a", temperature=0.3, seed=4)) == plain.usage.prompt_tokens - 1
        seen: Any = [{"role": "user", "content": [{"type": "text", "text": "see"}, picture]}]
        first: Any = client.chat.completions.create(model="m", messages=seen)
        assert 765 < first.usage.prompt_tokens < 800


def test_other_endpoints_and_a_reset() -> None:
    import anthropic

    with serving("sglang") as (server, client):
        with anthropic.Anthropic(base_url=server.url, api_key="any") as claude:
            head: Any = [{"type": "text", "text": HEAD * 10, "cache_control": {"type": "ephemeral"}}]
            for _ in range(2):
                last = claude.messages.create(
                    model="claude-sonnet-5-5", max_tokens=9, system=head, messages=[{"role": "user", "content": "a"}]
                )
        assert last.usage.cache_read_input_tokens
        asked(client, "a")
        server.reset()
        assert cached(asked(client, "a")) == 0 and len(server.ledger) == 1


def test_clients_at_once_are_billed_as_if_in_turn() -> None:
    async def together(url: str) -> list[int]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
            messages: Any = [{"role": "user", "content": HEAD}]
            replies = await asyncio.gather(
                *(client.chat.completions.create(model="m", messages=messages) for _ in range(8))
            )
        return sorted(cached(reply) for reply in replies)

    with serving("sglang") as (server, _):
        first, *rest = asyncio.run(together(server.url))
        assert first == 0 and len(set(rest)) == 1 and rest[0] > 0
        assert bills(simulate(server.ledger, engine("sglang").cache)) == bills(server.ledger)


# The law: what the server bills is what `simulate` bills for its ledger
# ---------------------------------------------------------------

WORDS = st.sampled_from(["a", "on and on " * 5, "é🙂", "if (x) { y(); }\n" * 3, "4096 8192", HEAD])
FAULTS = st.sampled_from(
    [None] * 8 + [{"kind": "never"}, {"kind": "cut", "after_parts": 0}, {"kind": "error_event", "after_parts": 1}]
)
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6), WORDS, st.integers(0, 2), st.sampled_from("xy"), FAULTS),
    max_size=14,
)
"""(conversation, messages of it to keep: an edit or a fork where they are fewer, what is said next, salt, model,
fault)."""


def script(words: str, fault: Any) -> dict[str, Any]:
    call = {"type": "call", "name": "look", "arguments": {"at": words[:5]}}
    return {
        "parts": [{"type": "text", "text": f"As for {words}"}, *([call] if len(words) > 20 else [])],
        "seconds": 3,
        "fault": fault,
    }


def replayed(state: State, steps: Any, wire: Any = CHAT) -> None:
    said: dict[int, Said] = {}
    for number, kept, words, salt, model, fault in steps:
        state.replies.extend([script(words, fault)])
        turns = [
            *said.get(number, [{"role": "system", "content": f"{HEAD} {number % 2}"}])[: 1 + kept],
            {"role": "user", "content": words},
        ]
        more = {"cache_salt": f"tenant {salt}"} if salt else {}
        outcome = answer(state, wire, {}, json.dumps({"model": model, "messages": turns, **more}).encode())
        if outcome.status == 200 and outcome.is_whole:
            message = json.loads(outcome.chunks[0])["choices"][0]["message"]
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": "4"} for call in message.get("tool_calls", [])
            ]
            said[number] = [*turns, message, *results]


@pytest.mark.parametrize("name", ALL)
@given(steps=STEPS)
def test_the_ledger_replayed_through_the_same_engine_is_billed_the_same(name: str, steps: Any) -> None:
    for options in ({}, SMALL[name]):
        state = State(Clock(0.0, is_frozen=True), None, engine(name, **options))
        replayed(state, steps)
        assert len(state.ledger) == len(steps)
        again = engine(name, **options).cache
        assert bills(simulate(state.ledger, again)) == bills(state.ledger)
        stats = again.stats()
        assert not stats.get("running") and not stats.get("tokens_held") and not stats.get("tokens_locked")


def prompts(ledger: Ledger) -> Iterator[tuple[ModelCall, list[int], tuple[int, ...]]]:
    """What the docs say a row of tokens is, worked out by hand."""
    left: dict[tuple[str, str], list[int]] = {}
    for call in ledger:
        row, lane = call.prompt, (call.session, call.lane)
        assert isinstance(row, Tokens)
        ids = [*left.get(lane, [])[: row.keep], *row.ids]
        left[lane] = [*ids, *row.generated]
        yield call, ids, row.generated


@pytest.mark.parametrize(("name", "unit"), [("vllm", 16), ("sglang", 1), ("transformers", 256)])
@given(steps=STEPS)
def test_with_room_for_all_the_longest_shared_prefix_is_read(name: str, unit: int, steps: Any) -> None:
    state = State(Clock(0.0, is_frozen=True), None, engine(name))
    replayed(state, [(*step[:5], None) for step in steps])
    seen: list[tuple[Any, list[int]]] = []
    for call, ids, generated in prompts(state.ledger):
        space = (call.model, call.prompt.space)  # type: ignore[union-attr]
        usable = [other[: len(other) // unit * unit] for of, other in seen if of == space]
        longest = max((common(ids[:-1], other) for other in usable), default=0)
        assert call.usage and call.usage.read == longest // unit * unit and call.usage.prompt == len(ids)
        seen.append((space, [*ids, *generated][:-1]))


def common(one: list[int], other: list[int]) -> int:
    return next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def test_a_ledger_on_disk_says_the_same_and_grows_by_the_turn(tmp_path: Path) -> None:
    name = "vllm"
    state = State(Clock(0.0, is_frozen=True), None, engine(name))
    replayed(state, [(0, 999, "on and on", 0, "x", None)] * 30)
    with Ledger.open(tmp_path / "ledger.jsonl") as ledger:
        for call in state.ledger:
            ledger.append(call)
    sizes = [len(line) for line in (tmp_path / "ledger.jsonl").read_bytes().splitlines()]
    assert max(sizes[3:]) < min(sizes[3:]) + 64, "a row holds what its turn added"
    read = Ledger.read(tmp_path / "ledger.jsonl")
    assert bills(simulate(read, engine(name).cache)) == bills(state.ledger)
    assert summarise(read).hit_rate == summarise(state.ledger).hit_rate
    assert simulate(read).calls == []


def test_responses_and_chat_of_one_engine_share_a_cache_object_and_a_ledger() -> None:
    state = State(Clock(0.0, is_frozen=True), None, engine("sglang"))
    for _ in range(2):
        answer(state, RESPONSES, {}, json.dumps({"model": "m", "input": HEAD, "cache_salt": "a"}).encode())
        answer(state, CHAT, {}, json.dumps({"model": "m", "messages": [{"role": "user", "content": HEAD}]}).encode())
    assert [bool(usage and usage.read) for usage in bills(state.ledger)] == [False, False, True, True]
    assert {call.provider for call in state.ledger} == {"sglang"}


# Overlapping calls
# --------------------------------------------------------------------------------------------------------------------------


def a_trace(*rows: tuple[int, ...], size: int = 16, seconds: float = 1.0) -> Ledger:
    ledger = Ledger()
    for at, ids in enumerate(rows):
        usage, tokens = (
            Usage(None, None, None, None, 10),
            Tokens(0, tuple(block for block in ids for _ in range(size)), ()),
        )
        ledger.append(ModelCall(str(at), "s", "main", at, at + 0.5, at + seconds, "p", "m", tokens, usage, None, None))
    return ledger


@pytest.mark.parametrize(("seconds", "read"), [(1.0, [0, 0, 16]), (9.0, [0, 0, 0])])
def test_a_request_that_has_not_ended_holds_what_it_uses(seconds: float, read: list[int]) -> None:
    three_blocks = BlockCache(Shape(n_blocks=4))
    trace = a_trace((1, 2), (5, 6), (5, 6), seconds=seconds)
    assert [usage and usage.read for usage in bills(simulate(trace, three_blocks))] == read


def test_a_cache_that_does_not_read_what_was_recorded() -> None:
    from contextkit.cache.breakpoint_cache import BreakpointCache

    state = State(Clock(0.0, is_frozen=True))
    answer(
        state,
        CHAT,
        {"authorization": "any"},
        json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "a"}]}).encode(),
    )
    with pytest.raises(UsageError, match=r"BlockCache does not read what call 'chatcmpl_0+1' recorded \(Outline\)"):
        simulate(state.ledger, engine("vllm").cache)
    with pytest.raises(UsageError, match=r"BreakpointCache does not read what call '0' recorded \(Tokens\)"):
        simulate(a_trace((1,)), BreakpointCache(1024))
    broken = Ledger()
    broken.append(replace(a_trace((1,))[0], prompt=Tokens(5, (1,), ())))
    with pytest.raises(LogCorrupt, match="keeps 5 tokens of a lane that has 0"):
        simulate(broken, engine("vllm").cache)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("tgi", {}, "there is no engine 'tgi': choose one of vllm, sglang, llamacpp, transformers, tiered"),
        (
            "vllm",
            {"slots": 2},
            "vllm has no slots: it takes block_size, capacity_tokens, window, retention, engine_version",
        ),
        ("sglang", {"block_size": 0}, "block_size is 0: sglang takes a whole number of 1 or more"),
        ("vllm", {"capacity_tokens": 31}, "an engine with 1 blocks"),
        ("vllm", {"retention": 24, "window": 64}, "retention 24 is no multiple of the block size"),
        ("transformers", {"capacity_tokens": 8}, "0 pages"),
        ("transformers", {"safety_margin": 1.01}, "safety_margin is 1.01"),
        ("vllm", {"engine_version": "new"}, "engine_version is 'new': name a release, as in vllm 0.33.0"),
        ("sglang", {"policy": "oldest"}, "no eviction policy 'oldest'"),
        ("llamacpp", {"memory": "half"}, "memory is 'half': choose one of full, window, recurrent"),
        ("llamacpp", {"similarity": 2}, "similarity is 2: llamacpp takes a share from 0 to 1"),
        ("llamacpp", {"idle_slots": 1}, "idle_slots is 1: llamacpp takes True or False"),
        ("llamacpp", {"slots": 0}, "slots is 0: llamacpp takes a whole number of 1 or more"),
    ],
)
def test_an_engine_there_is_not(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        engine(name, **options)
    switched_off = {"host_tokens": 0, "window": 0, "similarity": 0, "idle_slots": False, "checkpoints": 0}
    assert engine("llamacpp", slots=None, **switched_off).name == "llamacpp"


def test_the_command_names_an_engine_and_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("contextkit.server.local.serve", lambda **named: given.update(named))
    CliRunner().invoke(cli, ["serve", "--cache", "vllm", "--block-size", "32", "--capacity-tokens", "4096"])
    with (
        LocalServer(now=0.0, cache=given["cache"]) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as client,
    ):
        first, second = asked(client, "hello"), asked(client, "hello")
    assert cached(second) == (first.usage.prompt_tokens - 1) // 32 * 32


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cache", "tgi"], "there is no engine 'tgi'"),
        (["--cache", "llamacpp", "--block-size", "4"], "llamacpp has no block_size"),
        (["--capacity-tokens", "4"], "--capacity-tokens is an engine's: name it with --cache"),
    ],
)
def test_a_command_that_names_none(
    arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("sys.argv", ["contextkit", "serve", "--port", "0", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 2 and says in said.err and "Traceback" not in said.err and not said.out
