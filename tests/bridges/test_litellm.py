"""LiteLLM's callback: real `acompletion` calls to the local provider, on the bridge without naming a client."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from contextkit import Budget, FileMemory
from contextkit.bridges.bridge import Bridge
from contextkit.bridges.contexts import ContextBridge
from contextkit.memory import Memory, Residency
from contextkit.server import LocalServer
from tests.bridges.research import CLAUDE, GPT, SYSTEM, fetch, script

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no request to anybody while it is imported
litellm = pytest.importorskip("litellm", reason="the callback needs the extra `litellm`")
pytest.importorskip("uvicorn", reason="the local provider needs the extra `server`")

from contextkit.bridges.litellm import callback, client, memory_tools, run_memory_tool  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning:pydantic"
)
MODELS = (f"anthropic/{CLAUDE}", f"openai/{GPT}")
PAGE = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
FETCH = {"type": "function", "function": {"name": "fetch", "description": "Get a page.", "parameters": PAGE}}


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _callbacks() -> Iterator[None]:
    yield
    litellm.callbacks = []
    for name in ("input", "success", "failure", "_async_success", "_async_failure"):
        setattr(litellm, f"{name}_callback", [])


def fields(server: LocalServer, model: str) -> dict[str, Any]:
    base = server.url if model.startswith("anthropic") else f"{server.url}/v1"
    return {"model": model, "api_base": base, "api_key": "any", "max_tokens": 500, "num_retries": 0}


async def answered(how: str, **more: Any) -> Any:
    """The message of one call."""
    if how == "async":
        return (await litellm.acompletion(**more)).choices[0].message
    chunks = [
        chunk async for chunk in await litellm.acompletion(stream=True, stream_options={"include_usage": True}, **more)
    ]
    return litellm.stream_chunk_builder(chunks).choices[0].message


async def research(server: LocalServer, bridge: ContextBridge, model: str, how: str) -> list[Any]:
    """Read pages until the model is done; the messages."""
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Read the pages."}]
    tools = [FETCH, *memory_tools(bridge)]
    while True:
        reply = await answered(how, messages=messages, tools=tools, **fields(server, model))
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return messages
        for call in reply.tool_calls:
            arguments = json.loads(call.function.arguments)
            text = run_memory_tool(bridge, call.function.name, arguments) or fetch(**arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def agree(bridge: ContextBridge, server: LocalServer) -> None:
    assert len(bridge.ledger) == len(server.ledger) > 0
    for ours, theirs in zip(bridge.ledger, server.ledger, strict=True):
        assert ours.usage is not None and ours.predicted is not None and theirs.usage is not None
        assert (ours.usage.read, ours.usage.fresh) == (theirs.usage.read, theirs.usage.fresh)
        assert ours.predicted.read == theirs.usage.read


@pytest.mark.parametrize("how", ["async", "stream"])
@pytest.mark.parametrize("model", MODELS)
def test_a_call_gains_residency_by_the_callback_alone(server: LocalServer, model: str, how: str) -> None:
    memory = Memory(
        FileMemory("memory://pages"), todo=None, has_file_tool=False, residency=Residency(drops_reasoning=True)
    )
    bridge = ContextBridge(memory=memory)
    litellm.callbacks = [callback(bridge)]
    server.script(script(6))
    messages = asyncio.run(research(server, bridge, model, how))
    agree(bridge, server)
    assert [message["role"] for message in messages][-1] == "assistant"
    assert len(bridge.contexts) == 1
    # the framework's list holds every page whole, what was sent does not
    whole = sum(len(message["content"]) for message in messages if message["role"] == "tool")
    prompts = [call.usage.prompt for call in bridge.ledger if call.usage and call.usage.prompt is not None]
    assert 0 < max(prompts) < whole / 9


def test_each_event_loop_has_its_own_connections(server: LocalServer) -> None:
    bridge = ContextBridge()
    litellm.callbacks = [callback(bridge)]
    ask = {"messages": [{"role": "user", "content": "Hello."}]}
    for _ in range(2):
        for model in MODELS:
            asyncio.run(answered("async", **ask, **fields(server, model)))
    assert len(bridge.ledger) == len(server.ledger) == 4


def test_a_model_given_by_position_and_a_router_are_on_the_bridge(server: LocalServer) -> None:
    bridge = ContextBridge()
    litellm.callbacks = [callback(bridge)]
    own = fields(server, MODELS[0])
    router = litellm.Router(model_list=[{"model_name": "ours", "litellm_params": own}])

    async def ask() -> None:
        messages = [{"role": "user", "content": "Hello."}]
        await litellm.acompletion(own["model"], messages, **{key: own[key] for key in own if key != "model"})
        await router.acompletion("ours", messages)

    asyncio.run(ask())
    assert len(bridge.ledger) == len(server.ledger) == 2


def test_a_call_that_names_a_client_keeps_it(server: LocalServer) -> None:
    named, registered = ContextBridge(), ContextBridge()
    litellm.callbacks = [callback(registered)]
    ask = {"messages": [{"role": "user", "content": "Hello."}], **fields(server, MODELS[0])}
    asyncio.run(answered("async", client=client(named, is_async=True), **ask))
    assert (len(named.ledger), len(registered.ledger)) == (1, 0)


def test_a_bridge_that_only_repairs_can_be_registered(server: LocalServer) -> None:
    bridge = Bridge()
    litellm.callbacks = [callback(bridge)]
    ask = {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Hello."}]}
    for model in MODELS:
        asyncio.run(answered("async", **ask, **fields(server, model)))
    assert len(bridge.ledger) == 2
    assert bridge.repaired["place-breakpoints"] == 2


@pytest.mark.parametrize("model", MODELS)
def test_what_could_exceed_the_budget_is_not_sent(server: LocalServer, model: str) -> None:
    litellm.callbacks = [callback(ContextBridge(budget=Budget(usd=1e-9)))]
    ask = {"messages": [{"role": "user", "content": "Hello."}], **fields(server, model)}
    with pytest.raises(litellm.InternalServerError, match="the budget is"):
        asyncio.run(answered("async", **ask))
    assert len(server.ledger) == 0


def test_a_call_of_completion_goes_as_it_was_and_is_warned_of(server: LocalServer) -> None:
    bridge = ContextBridge()
    litellm.callbacks = [callback(bridge)]
    ask = {"messages": [{"role": "user", "content": "Hello."}], **fields(server, MODELS[0])}
    with pytest.warns(UserWarning, match=r"only with client=client\(bridge\)"):
        litellm.completion(**ask)
    assert (len(bridge.ledger), len(server.ledger)) == (0, 1)
    litellm.completion(client=client(bridge), **ask)
    assert (len(bridge.ledger), len(server.ledger)) == (1, 2)


def test_another_provider_is_left_alone_and_warned_of(server: LocalServer) -> None:
    bridge = ContextBridge()
    litellm.callbacks = [callback(bridge)]
    ask = {"messages": [{"role": "user", "content": "Hello."}], **fields(server, "deepseek/deepseek-chat")}
    with pytest.warns(UserWarning, match="deepseek models through LiteLLM are not on the bridge"):
        asyncio.run(answered("async", **ask))
    assert len(bridge.ledger) == 0
