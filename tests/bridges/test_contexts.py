"""`ContextBridge`: conversations of a loop that knows nothing of it, through the SDKs' own clients to the local provider."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, ClassVar

import anthropic
import openai
import pytest

from contextkit import Budget
from contextkit.bridges.contexts import ContextBridge, digest_of
from contextkit.bridges.hook import tool_text
from contextkit.bridges.openai_agents import model_provider
from contextkit.canonical import parse
from contextkit.errors import BudgetExceeded
from contextkit.ledger.summary import summarise
from contextkit.memory.reference import ID_DIGITS
from contextkit.server import LocalServer
from tests.bridges.research import CLAUDE, GPT, LOOPS, SYSTEM, billed, bridge_for, fetch, is_installed, script

pytest.importorskip("uvicorn", reason="the local provider needs the extra `server`")

Json = Any
TOOL = {
    "name": "fetch",
    "description": "Get a page.",
    "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}},
}


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server
        while Loop.clients:
            Loop.clients.pop().close()


def tools_of(bridge: ContextBridge) -> list[Json]:
    own = [{"name": one.name, "description": one.description, "input_schema": one.parameters} for one in bridge.tools]
    return [TOOL, *own]


class Loop:
    """A loop of one's own over Anthropic's client: it keeps its message list, and runs what the model calls."""

    clients: ClassVar[list[anthropic.Anthropic]] = []
    """To be closed with the server: one that is collected closes its connections too late or in time, as it happens."""

    def __init__(self, server: LocalServer, bridge: ContextBridge, **more: Json) -> None:
        self.server, self.bridge = server, bridge
        self.client = bridge.client(anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0))
        self.clients.append(self.client)
        self.fields = {"model": CLAUDE, "max_tokens": 200, "system": SYSTEM, "tools": tools_of(bridge), **more}
        self.messages: list[Json] = []

    def say(self, text: str, replies: list[Json] | None = None) -> None:
        self.server.script(replies if replies is not None else [{"parts": [{"type": "text", "text": "Yes."}]}])
        self.messages.append({"role": "user", "content": text})
        self.run()

    def run(self) -> None:
        while True:
            reply = self.client.messages.create(messages=self.messages, **self.fields)
            self.messages.append(
                {"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in reply.content]}
            )
            calls = [one for one in reply.content if one.type == "tool_use"]
            if not calls:
                return
            self.messages.append({"role": "user", "content": [self.result(one) for one in calls]})

    def result(self, call: Any) -> Json:
        tools = {tool.name: tool for tool in self.bridge.tools}
        text = tool_text(tools[call.name], call.input) if call.name in tools else fetch(**call.input)
        return {"type": "tool_result", "tool_use_id": call.id, "content": text}


def agree(bridge: ContextBridge, server: LocalServer) -> None:
    """Every bill is the one that was predicted, and both ledgers hold the same calls."""
    assert len(bridge.ledger) == len(server.ledger) > 0
    for ours, theirs in zip(bridge.ledger, server.ledger, strict=True):
        assert ours.usage is not None and ours.predicted is not None and theirs.usage is not None
        assert (ours.usage.read, ours.usage.fresh) == (theirs.usage.read, theirs.usage.fresh)
        assert (ours.predicted.read, ours.predicted.fresh) == (theirs.usage.read, theirs.usage.fresh)


def anthropic_run(server: LocalServer, bridge: ContextBridge, way: str) -> None:
    fields: Json = {"model": CLAUDE, "max_tokens": 200, "system": SYSTEM, "tools": tools_of(bridge)}
    messages: list[Json] = [{"role": "user", "content": "Read the pages."}]

    def keep(reply: Any) -> bool:
        messages.append({"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in reply.content]})
        results = [
            {"type": "tool_result", "tool_use_id": one.id, "content": fetch(**one.input)}
            for one in reply.content
            if one.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})
        return bool(results)

    async def run() -> None:
        async with bridge.client(anthropic.AsyncAnthropic(base_url=server.url, api_key="any")) as client:
            while keep(await client.messages.create(messages=messages, **fields)):
                pass

    if way == "async":
        asyncio.run(run())
        return
    with bridge.client(anthropic.Anthropic(base_url=server.url, api_key="any")) as client:
        while True:
            if way == "sync":
                reply = client.messages.create(messages=messages, **fields)
            else:
                with client.messages.stream(messages=messages, **fields) as stream:
                    reply = stream.get_final_message()
            if not keep(reply):
                return


def responses_run(server: LocalServer, bridge: ContextBridge, way: str) -> None:
    tools = [
        {"type": "function", "name": one["name"], "parameters": one["input_schema"], "strict": False, "description": ""}
        for one in tools_of(bridge)
    ]
    items: list[Json] = [{"role": "user", "content": "Read the pages."}]
    with bridge.client(openai.OpenAI(base_url=f"{server.url}/v1", api_key="any")) as client:
        while True:
            fields: Json = {"model": GPT, "instructions": SYSTEM, "tools": tools, "input": items}
            if way == "stream":
                with client.responses.stream(**fields) as stream:
                    reply = stream.get_final_response()
            else:
                reply = client.responses.create(**fields)
            items += [one.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for one in reply.output]
            calls = [one for one in reply.output if one.type == "function_call"]
            if not calls:
                return
            items += [
                {"type": "function_call_output", "call_id": one.call_id, "output": fetch(**parse(one.arguments))}
                for one in calls
            ]


def chat_run(server: LocalServer, bridge: ContextBridge, way: str) -> None:
    tools = [
        {"type": "function", "function": {"name": one["name"], "parameters": one["input_schema"], "description": ""}}
        for one in tools_of(bridge)
    ]
    messages: list[Json] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Read the pages."}]
    with bridge.client(openai.OpenAI(base_url=f"{server.url}/v1", api_key="any")) as client:
        while True:
            fields: Json = {"model": GPT, "tools": tools, "messages": messages}
            if way == "stream":
                with client.chat.completions.stream(**fields, stream_options={"include_usage": True}) as stream:
                    reply = stream.get_final_completion()
            else:
                reply = client.chat.completions.create(**fields)
            said = reply.choices[0].message
            messages.append(said.model_dump(exclude_none=True, exclude={"parsed"}))
            if not said.tool_calls:
                return
            messages += [
                {"role": "tool", "tool_call_id": one.id, "content": fetch(**parse(one.function.arguments))}
                for one in said.tool_calls
            ]


RUNS: dict[str, Callable[[LocalServer, ContextBridge, str], None]] = {
    "anthropic": anthropic_run,
    "responses": responses_run,
    "chat": chat_run,
}


@pytest.mark.parametrize(
    ("wire", "way"),
    [
        ("anthropic", "sync"),
        ("anthropic", "async"),
        ("anthropic", "stream"),
        ("responses", "sync"),
        ("responses", "stream"),
        ("chat", "sync"),
        ("chat", "stream"),
    ],
)
def test_results_pass_once_and_every_bill_is_predicted(server: LocalServer, wire: str, way: str) -> None:
    server.script(script(4))
    bridge = bridge_for()
    RUNS[wire](server, bridge, way)
    agree(bridge, server)
    [context] = bridge.contexts
    assert [entry.kind for entry in context.log] == ["opened", "user", *["assistant", "result"] * 4, "assistant"]
    body = context.request().body.decode()
    assert "row 2000: 4000000" not in body and "read_reference" in body
    first = next(entry for entry in context.log if entry.kind == "result")
    assert context.restore(first)[0]["text"] == fetch("https://example.com/0")


def test_a_result_that_stands_as_a_preview_is_read_back_through_the_loop(server: LocalServer) -> None:
    bridge = bridge_for("reference")
    loop = Loop(server, bridge)
    loop.say("Read the page.", script(1))
    [reference] = [
        reference for entry in bridge.contexts[0].log for reference in parse(entry.body).get("references", [])
    ]
    arguments = {"id": reference["digest"][:ID_DIGITS], "find": "row 2000:"}
    asks = {"parts": [{"type": "call", "name": "read_reference", "arguments": arguments}]}
    loop.say("And row 2000?", [asks, {"parts": [{"type": "text", "text": "4000000."}]}])
    assert "row 2000: 4000000" in str(loop.messages[-2])
    agree(bridge, server)


def test_each_request_begins_as_the_one_before(server: LocalServer) -> None:
    bridge = bridge_for("reference")
    loop = Loop(server, bridge)
    for text in ("One?", "Two?", "Three?"):
        loop.say(text)
    for older, newer in pairwise(bridge.ledger):
        assert older.usage is not None and newer.usage is not None
        assert (newer.usage.read or 0) >= (older.usage.read or 0) + (older.usage.write_5m or 0)
    assert bridge.summary().hit_rate == summarise(server.ledger).hit_rate


def test_tools_in_another_order_are_no_change(server: LocalServer) -> None:
    bridge = ContextBridge()
    other = {**TOOL, "name": "note"}
    loop = Loop(server, bridge, tools=[TOOL, other])
    loop.say("One?")
    loop.fields["tools"] = [other, {**TOOL, "input_schema": dict(reversed(TOOL["input_schema"].items()))}]
    assert len(TOOL["input_schema"]) > 1
    loop.say("Two?")
    assert len(bridge.conversations) == 1 and not epochs(bridge.contexts[0])
    agree(bridge, server)


def epochs(context: Any) -> list[str]:
    return [parse(entry.body)["reason"] for entry in context.log if entry.kind == "epoch"]


def test_a_summary_in_place_of_the_beginning_is_a_declared_reset(server: LocalServer) -> None:
    bridge = bridge_for("reference")
    loop = Loop(server, bridge)
    loop.say("Read the page.", script(1))
    for text in ("One?", "Two?", "Three?"):
        loop.say(text)
    loop.messages[:-4] = [{"role": "user", "content": "Summary: a page of squares was read."}]
    loop.say("Four?")
    [context] = bridge.contexts
    assert epochs(context) == ["compaction"]
    body = context.request().body.decode()
    assert "Summary: a page" in body and "Two?" in body and "One?" not in body
    assert "read_reference" in body.split("Summary: a page")[1]  # the references of what was left out are listed
    agree(bridge, server)
    loop.say("Five?")
    assert epochs(context) == ["compaction"]


def test_a_changed_history_is_a_fork(server: LocalServer) -> None:
    bridge = ContextBridge()
    loop = Loop(server, bridge)
    for text in ("One?", "Two?", "Three?"):
        loop.say(text)
    del loop.messages[3:]  # regenerate from the second question on
    loop.say("Other?")
    first, fork = bridge.contexts
    assert fork.log[0].kind == "opened" and not epochs(fork)
    assert "Other?" in fork.request().body.decode() and "Three?" not in fork.request().body.decode()
    assert "Three?" in first.messages()["messages"][-2]["content"][0]["text"]
    agree(bridge, server)
    last = bridge.ledger[-1].usage
    assert last is not None and (last.read or 0) > 0


def test_a_request_that_is_sent_again_is_asked_again(server: LocalServer) -> None:
    bridge = ContextBridge()
    loop = Loop(server, bridge)
    loop.say("One?")
    del loop.messages[1:]
    server.script([{"parts": [{"type": "text", "text": "No."}]}])
    loop.run()
    assert len(bridge.conversations) == 2
    loop.say("Two?")
    assert "No." in bridge.contexts[-1].request().body.decode()
    agree(bridge, server)


def test_another_system_prompt_is_a_declared_reset_of_a_fork(server: LocalServer) -> None:
    bridge = ContextBridge()
    loop = Loop(server, bridge)
    loop.say("One?")
    loop.fields["system"] = "Terse. " + SYSTEM
    loop.say("Two?")
    assert [epochs(context) for context in bridge.contexts] == [[], ["resystem"]]
    loop.fields["system"] = SYSTEM
    loop.say("Three?")
    agree(bridge, server)


def test_conversations_are_told_apart(server: LocalServer) -> None:
    bridge = ContextBridge()
    one, other = Loop(server, bridge), Loop(server, bridge)
    for number in range(3):
        one.say(f"One {number}?")
        other.say(f"Other {number}?")
    assert [len(conversation.digests) for conversation in bridge.conversations] == [6, 6]
    agree(bridge, server)


def test_a_history_that_somebody_else_began_is_adopted_as_it_is(server: LocalServer) -> None:
    first = bridge_for("reference")
    loop = Loop(server, first)
    loop.say("Read the page.", script(1))
    second = bridge_for("reference")
    again = Loop(server, second)
    again.messages = list(loop.messages)
    again.say("And now?")
    body = second.contexts[0].request().body.decode()
    assert "row 2000: 4000000" in body  # what a reply was made of stays: its reasoning may be bound to it


def test_a_refused_call_is_in_the_ledger_and_the_next_goes_on(server: LocalServer) -> None:
    bridge = ContextBridge()
    loop = Loop(server, bridge)
    loop.say("One?")
    server.script([{"fault": {"kind": "status", "status": 529}}])
    loop.messages.append({"role": "user", "content": "Two?"})
    with pytest.raises(anthropic.APIStatusError):
        loop.run()
    assert bridge.ledger[-1].error
    server.script([{"parts": [{"type": "text", "text": "Two."}]}])
    loop.run()
    assert len(bridge.conversations) == 1


def test_a_budget_stops_the_loop_before_a_call_is_sent(server: LocalServer) -> None:
    bridge = ContextBridge(budget=Budget(tokens=30_000))
    loop = Loop(server, bridge)

    def talk() -> None:
        for number in range(50):
            loop.say(f"{number}?")

    with pytest.raises(BudgetExceeded):
        talk()
    assert 0 < sum((one.usage.prompt or 0) + (one.usage.output or 0) for one in bridge.ledger if one.usage) <= 30_000


def test_a_budget_counts_what_the_framework_sends_of_its_own(server: LocalServer) -> None:
    """A field that no table lists is followed like others; a call that cannot be followed is counted all the same."""
    bridge = ContextBridge(budget=Budget(tokens=10))
    with bridge.client(openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)) as client:
        with pytest.raises(BudgetExceeded):
            client.responses.create(model=GPT, input="One?", extra_body={"colour": "red"})
        with pytest.warns(UserWarning, match="as the framework made it"), pytest.raises(BudgetExceeded):
            client.responses.create(model=GPT, input="Two?", previous_response_id="resp_1")
        with pytest.raises(BudgetExceeded):
            client.post("/batches", body={}, cast_to=object)
    assert not len(server.ledger)
    bridge = ContextBridge()
    with warnings.catch_warnings(), bridge.client(openai.OpenAI(base_url=f"{server.url}/v1", api_key="any")) as client:
        warnings.simplefilter("error")
        client.responses.create(model=GPT, input="One?", extra_body={"colour": "red"})
    assert len(bridge.conversations) == 1


def test_what_cannot_be_followed_is_sent_as_it_is(server: LocalServer) -> None:
    bridge = ContextBridge()
    with bridge.client(openai.OpenAI(base_url=f"{server.url}/v1", api_key="any")) as client:
        first = client.responses.create(model=GPT, input="One?")
        with pytest.warns(UserWarning, match="as the framework made it"):
            client.responses.create(model=GPT, input="Two?", previous_response_id=first.id)
    assert len(server.ledger) == 2 and len(bridge.ledger) == 1


def test_a_reply_is_recognised_without_its_thinking_and_ids() -> None:
    call = {"id": "1", "name": "f", "arguments": {"b": 1, "a": 2}}
    one = {"text": "Hi ", "calls": [call], "native": {"body": [1]}}
    assert digest_of("assistant", one) == digest_of("assistant", {"text": "Hi", "calls": [call]})
    assert digest_of("assistant", one) != digest_of("assistant", {"text": "Ho", "calls": [call]})


@pytest.mark.parametrize("name", LOOPS)
def test_a_framework_gains_residency(name: str) -> None:
    if not is_installed(name):
        pytest.skip(f"{name} is not installed: {', '.join(LOOPS[name][0])}")
    bridge = bridge_for()
    ours = billed(name, 6, bridge)
    own = billed(name, 6, None)
    assert [one.usage.read for one in ours if one.usage] == [
        one.predicted.read for one in bridge.ledger if one.predicted
    ]
    assert len(bridge.conversations) == 1 and not epochs(bridge.contexts[0])
    assert "row 2000: 4000000" not in bridge.contexts[0].request().body.decode()
    assert summarise(ours).cost_usd < summarise(own).cost_usd


def test_the_agents_sdk_is_asked_over_the_configured_default_client() -> None:
    agents = pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed")
    bridge = ContextBridge()
    provider = model_provider(bridge)  # made before the client is configured, as a module does

    async def run(url: str) -> str:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any") as client:
            agents.set_default_openai_client(client, use_for_tracing=False)
            config = agents.RunConfig(model_provider=provider, tracing_disabled=True)
            agent = agents.Agent(name="one", model=GPT, instructions=SYSTEM)
            return str((await agents.Runner.run(agent, "Hello?", run_config=config)).final_output)

    with LocalServer([{"parts": [{"type": "text", "text": "Hello."}]}]) as server:
        assert asyncio.run(run(server.url)) == "Hello."
        agree(bridge, server)
