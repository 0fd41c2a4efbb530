"""A derived cache key: one for a head, as many shards as the traffic needs, the same after a resume, none where it
chooses nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from contextkit import Context, OpenAIChat, OpenAICompatible, OpenAIResponses
from contextkit.canonical import parse
from contextkit.errors import UsageError
from contextkit.providers.routing_key import PER_KEY, CacheKey
from contextkit.server import LocalServer
from tests.context.desk import WIRES, Desk, bill, honest, says
from tests.context.head import SYSTEM, add, shout
from tests.providers.strict import faults

MAKES: dict[str, Any] = {
    "chat": lambda key: OpenAIChat("gpt-5.4", max_tokens=1024, prompt_cache_key=key),
    "responses": lambda key: OpenAIResponses("gpt-5.4", max_output_tokens=1024, prompt_cache_key=key),
}
PARAMS: dict[str, Any] = {"chat": CompletionCreateParamsNonStreaming, "responses": ResponseCreateParamsNonStreaming}
CLOCK: Iterator[int] = count(1_000)


@pytest.fixture(params=MAKES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def begun(
    wire: str = "responses", key: Any = "auto", system: str = SYSTEM, tools: Any = (add, shout), **options: Any
) -> Context:
    """A conversation that begins at a time of its own."""
    context = Context(MAKES[wire](key), system=system, tools=tools, **{"clock": lambda: float(next(CLOCK)), **options})
    context.user("Go.")
    return context


def key_of(context: Context) -> str:
    return str(context.request()["prompt_cache_key"])


def test_conversations_that_share_a_head_share_a_key_and_others_do_not(wire: str) -> None:
    keys = {key_of(begun(wire)) for _ in range(5)}
    other = {key_of(begun(wire, system=SYSTEM + "More.")), key_of(begun(wire, tools=[add]))}
    assert len(keys) == 1 and len(other) == 2 and not keys & other
    assert re.fullmatch(r"ck-[0-9a-f]{24}", *keys), "it holds nothing of the prompt"
    assert faults(PARAMS[wire], parse(begun(wire).request().body)) == []


def test_a_busy_head_is_spread_and_a_conversation_keeps_its_shard() -> None:
    asked = CacheKey(4 * PER_KEY)
    made = [begun(key=asked) for _ in range(60)]
    keys = [key_of(context) for context in made]
    assert len(set(keys)) == asked.n_shards == 4
    for context, key in zip(made, keys, strict=True):
        context.user("And then?")
        assert key_of(context) == key


def test_a_resume_a_fork_a_fan_out_and_a_sub_agent_find_the_same_machine(tmp_path: Path) -> None:
    asked = CacheKey(100 * PER_KEY)
    with Context.open(tmp_path / "run", MAKES["responses"](asked), system=SYSTEM, tools=[add, shout]) as context:
        context.user("Go.")
        key = key_of(context)
        kept = context.fork(folder=tmp_path / "branch")
        branches = [*context.fan_out(["one", "two", "three"]), context.fork(), kept, context.spawn("four")]
        assert {key_of(branch) for branch in branches} == {key}
    with Context.open(tmp_path / "run", MAKES["responses"](asked), system=SYSTEM, tools=[add, shout]) as again:
        assert key_of(again) == key
    kept.close()
    with Context.open(tmp_path / "branch", MAKES["responses"](asked)) as branch:
        assert key_of(branch) == key


def test_another_head_is_another_prefix_and_has_another_key() -> None:
    context = begun()
    before = key_of(context)
    context.compact("What was said.")
    assert key_of(context) == before
    context.resystem("You are brief.")
    assert key_of(context) != before


def test_without_a_head_the_key_is_the_conversations_own() -> None:
    keys = {key_of(begun(system=None, tools=())) for _ in range(3)}
    assert len(keys) == 3


def test_the_reference_cache_reads_across_conversations_by_key(running: LocalServer) -> None:
    running.reset()
    desk = Desk(WIRES["responses"], running)
    shards: dict[str, list[int]] = {}
    for _ in range(12):
        context = begun(key=CacheKey(2 * PER_KEY))
        request = desk.ask(context, says())
        billed = context.ledger[-1].usage
        assert bill(billed) == bill(desk.server.ledger[-1].usage)
        shards.setdefault(request["prompt_cache_key"], []).append(billed.read if billed else -1)
        running.clock.advance(1)
    assert len(shards) == 2
    for reads in shards.values():
        assert reads[0] == 0 and all(read > 1_000 for read in reads[1:])


def test_what_is_billed_is_what_was_predicted_with_a_key(wire: str, running: LocalServer) -> None:
    running.reset()
    desk = Desk(WIRES[wire], running)
    context = begun(wire, clock=running.clock.now)
    for text in ("one", "two", "three"):
        request = desk.ask(context, says())
        assert bill(context.ledger[-1].usage) == bill(request.predicted)
        context.user(text)
    honest(desk, context)
    context.switch(MAKES[wire]("auto"))
    assert context.request().predicted.read


@pytest.mark.parametrize("make", [OpenAIChat, OpenAIResponses])
def test_from_5_6_on_none_is_sent_and_the_plan_says_why(make: Any) -> None:
    context = Context(make("gpt-6.1-sol", prompt_cache_key="auto"), system=SYSTEM)
    context.user("Go.")
    assert "prompt_cache_key" not in context.request()
    assert "cache key: none: gpt-6.1-sol finds caches by prefix" in context.plan.explain()
    assert Context(make("gpt-6.1-sol", prompt_cache_key="mine"), system=SYSTEM).plan.key == "mine"


def test_one_call_may_carry_another_key_or_none() -> None:
    context = begun()
    assert context.request(prompt_cache_key="mine")["prompt_cache_key"] == "mine"
    assert "prompt_cache_key" not in context.request(prompt_cache_key=None)


@pytest.mark.parametrize(
    ("host", "model", "place"),
    [
        ("xai", "grok-4.7", "x-grok-conv-id"),
        ("fireworks", "GLM-5.3", "x-session-affinity"),
        ("openrouter", "grok-4.7", "session_id"),
        ("mistral", "mistral-large-4", "prompt_cache_key"),
    ],
)
def test_other_hosts_take_it_in_their_own_field(host: str, model: str, place: str) -> None:
    def found(context: Context) -> Any:
        request = context.request()
        return request.headers.get(place) or parse(request.body).get(place)

    made = [
        Context(
            OpenAICompatible(model, host=host, session="auto", max_tokens=64),
            system=SYSTEM,
            clock=lambda: float(next(CLOCK)),
        )
        for _ in range(2)
    ]
    for context in made:
        context.user("Go.")
    keys = [found(context) for context in made]
    assert all(isinstance(key, str) and key.startswith("ck-") for key in keys)
    assert (keys[0] == keys[1]) is (place == "prompt_cache_key")
    assert found(made[0].fork()) == keys[0] and keys[0] in made[0].plan.explain()


def test_what_has_no_such_field_or_number_says_so() -> None:
    with pytest.raises(UsageError, match="whole number"):
        OpenAICompatible("a-model", host="llamacpp", session=CacheKey())
    with pytest.raises(UsageError, match="no field"):
        OpenAICompatible("deepseek-v4-pro", host="deepseek", session="auto")
    for wrong in (0, 1.5, True):
        with pytest.raises(UsageError, match="requests_per_minute"):
            CacheKey(wrong)  # type: ignore[arg-type]
