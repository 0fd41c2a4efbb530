"""A watched client behaves as it did, and tells of a broken prefix before anything is sent."""

from __future__ import annotations

import asyncio
import importlib.util
import pickle
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from contextkit import watch
from contextkit.errors import ContextKitError, PrefixBroken, UsageError
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.server import LocalServer
from contextkit.watcher import PrefixWarning
from tests.watcher.talk import GPT, HAZARDS, HEAD, Talk, Told


def claude(server: LocalServer, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0, **options)


def gpt(server: LocalServer, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0, **options)


def place_of(finding: Finding) -> RequestPlace:
    assert isinstance(finding.place, RequestPlace)
    return finding.place


def drained(events: Any) -> None:
    for _ in events:
        pass


Ask = Callable[[Any, Talk], object]
ENDPOINTS: dict[str, tuple[Callable[..., Any], Ask, Ask]] = {
    "messages": (
        claude,
        lambda client, talk: client.messages.create(**talk.claude()),
        lambda client, talk: drained(client.messages.create(**talk.claude(), stream=True)),
    ),
    "chat": (
        gpt,
        lambda client, talk: client.chat.completions.create(**talk.chat()),
        lambda client, talk: drained(
            client.chat.completions.create(**talk.chat(stream=True, stream_options={"include_usage": True}))
        ),
    ),
    "responses": (
        gpt,
        lambda client, talk: client.responses.create(**talk.responses()),
        lambda client, talk: drained(client.responses.create(**talk.responses(), stream=True)),
    ),
}


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_conversation_that_only_grows_is_left_in_peace_and_a_changed_head_is_told_with_both_sides(
    name: str, is_stream: bool, server: LocalServer, told: Told
) -> None:
    made, *asks = ENDPOINTS[name]
    client, talk = watch(made(server), on_break=told, hazards=HAZARDS), Talk()
    for _ in range(3):
        asks[is_stream](client, talk)
        talk.say()
    assert told == [] and len(server.ledger) == 3
    talk.head = HEAD.replace("careful", "cheerful", 1)
    asks[is_stream](client, talk)
    (found,) = [finding for finding in told if finding.detector == "guard"]
    place = place_of(found)
    assert (found.code, place.level, place.turn) == ("CKS10", "system", 4)
    assert "are careful." in place.was and "are cheerful." in place.now
    assert place.caller.startswith(f"{Path(__file__)}:")
    assert (found.cost_tokens or 0) > 1000
    client.close()


def test_an_old_message_mutated_in_place_is_seen_at_the_transport(server: LocalServer, told: Told) -> None:
    client, talk = watch(claude(server), on_break=told, hazards=HAZARDS), Talk()
    for _ in range(2):
        client.messages.create(**talk.claude())
        talk.say()
    talk.messages[0]["content"][0]["text"] = "[cleared]"
    client.messages.create(**talk.claude())
    (found,) = [finding for finding in told if finding.detector == "guard"]
    assert place_of(found).path == "messages[0].content[0]" and "[cleared]" in place_of(found).now
    client.close()


def ask_here(client: anthropic.Anthropic, talk: Talk) -> None:
    client.messages.create(**talk.claude())


def test_a_warning_points_at_the_line_that_made_the_call(server: LocalServer) -> None:
    client, talk = watch(claude(server), hazards=HAZARDS), Talk()
    ask_here(client, talk)
    talk.say().head = "Now " + HEAD
    with pytest.warns(
        PrefixWarning, match=r"CKS10 system text changed, 99 % of it stayed: system\[0\] byte \d+"
    ) as caught:
        ask_here(client, talk)
    assert (caught[0].filename, caught[0].lineno) == (__file__, ask_here.__code__.co_firstlineno + 1)
    assert __file__ not in str(caught[0].message)  # Python shows the line in front of it
    client.close()


@pytest.mark.parametrize(("action", "times"), [("default", 3), ("ignore", 0)])
def test_every_break_is_shown_by_default_and_filters_apply(action: Any, times: int, server: LocalServer) -> None:
    client, talk = watch(claude(server), hazards=HAZARDS), Talk()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action, PrefixWarning)
        for clock in ("10:30", "10:31") * 2:
            talk.head = f"{HEAD}It is {clock}."
            ask_here(client, talk.say())
    assert len(shown) == times
    client.close()


def test_raise_stops_the_request_before_it_is_sent_and_its_correction_passes(server: LocalServer) -> None:
    client, talk = watch(claude(server).with_options(max_retries=2), on_break="raise", hazards=HAZARDS), Talk()
    client.messages.create(**talk.claude())
    talk.say().head = "Now " + HEAD
    for _ in range(2):
        with pytest.raises(PrefixBroken, match="CKS10") as caught:
            client.messages.create(**talk.claude())
        assert isinstance(caught.value, ContextKitError) and caught.value.finding.code == "CKS10"  # type: ignore[attr-defined]
        assert len(server.ledger) == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    talk.head = HEAD
    client.messages.create(**talk.claude())
    client.close()


def test_a_callable_that_raises_stops_the_request(server: LocalServer) -> None:
    def stop(finding: Finding) -> None:
        raise RuntimeError("no")

    client, talk = watch(claude(server), on_break=stop, hazards=HAZARDS), Talk()
    client.messages.create(**talk.claude())
    talk.head = "Now " + HEAD
    with pytest.raises(PrefixBroken) as caught:
        client.messages.create(**talk.say().claude())
    assert isinstance(caught.value.__cause__, RuntimeError) and len(server.ledger) == 1
    client.close()


@pytest.mark.filterwarnings("error")
def test_a_warning_made_an_error_stops_the_request(server: LocalServer) -> None:
    client, talk = watch(claude(server), hazards=HAZARDS), Talk()
    client.messages.create(**talk.claude())
    talk.say().head = "Now " + HEAD
    with pytest.raises(PrefixWarning):
        client.messages.create(**talk.claude())
    assert len(server.ledger) == 1
    client.close()


def test_the_original_client_is_left_alone_and_copies_of_the_watched_one_are_watched(
    server: LocalServer, told: Told
) -> None:
    original = claude(server)
    client, talk = watch(original, on_break=told, hazards=HAZARDS), Talk()
    assert type(client) is type(original)
    client.messages.create(**talk.claude())
    other = Talk(head="Now " + HEAD).say()
    original.messages.create(**other.claude())
    assert told == []
    client.with_options(timeout=5).copy().messages.create(**other.claude())
    assert [finding.code for finding in told if finding.detector == "guard"] == ["CKS10"]
    client.close()


def test_the_connections_outlive_either_client(server: LocalServer) -> None:
    original = claude(server)
    client = watch(original)
    del original
    client.messages.create(**Talk().claude())
    again = claude(server)
    watch(again).messages.create(**Talk().claude())
    again.messages.create(**Talk().claude())
    assert [call.error for call in server.ledger][-3:] == [None] * 3
    again.close()
    client.close()


def test_a_retry_is_the_same_request_again(server: LocalServer, told: Told) -> None:
    server.script([{"fault": {"kind": "status", "status": 529}}])
    client = watch(claude(server).with_options(max_retries=2), on_break=told, hazards=HAZARDS)
    client.messages.create(**Talk().claude())
    assert told == []
    client.close()


def test_a_custom_transport_keeps_its_mounts_and_is_watched(told: Told) -> None:
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.host)
        return httpx2.Response(
            200, json={"id": "c", "object": "chat.completion", "created": 1, "model": GPT, "choices": []}
        )

    mock = httpx2.MockTransport(answer)
    http = httpx2.Client(transport=mock, mounts={"https://mounted.example": mock})
    client = watch(
        openai.OpenAI(base_url="https://mounted.example/v1", api_key="any", http_client=http),
        on_break=told,
        hazards=HAZARDS,
    )
    talk = Talk()
    client.chat.completions.create(**talk.chat())
    talk.head = "Now " + HEAD
    client.chat.completions.create(**talk.say().chat())
    assert seen == ["mounted.example"] * 2 and [finding.code for finding in told] == ["CKS10"]
    client.close()


def test_other_endpoints_are_none_of_its_business(server: LocalServer, told: Told) -> None:
    client = watch(claude(server), on_break=told, hazards=HAZARDS)
    fields = {key: value for key, value in Talk().claude().items() if key != "max_tokens"}
    assert client.messages.count_tokens(**fields).input_tokens
    assert told == []
    client.close()


def test_what_is_behind_the_last_marker_may_change(server: LocalServer, told: Told) -> None:
    client, talk = watch(claude(server), on_break=told, hazards=HAZARDS), Talk()
    unmarked = {**talk.claude(), "messages": talk.messages}
    client.messages.create(**unmarked)
    changed = [{"role": "user", "content": "hello there"}, *talk.say().messages[1:]]
    client.messages.create(**{**unmarked, "messages": changed})
    assert told == []
    client.close()


def test_a_string_that_becomes_a_block_for_its_marker_is_the_same_to_anthropic(server: LocalServer) -> None:
    """Each turn wraps the newest text for the marker and leaves the older ones strings: no prefix is lost, nothing may
    be raised."""
    client, talk = watch(claude(server), on_break="raise"), Talk(HEAD)
    for turn in range(4):
        body = talk.claude()
        body["messages"] = [
            *({**one, "content": one["content"][0]["text"]} for one in body["messages"][:-1]),
            body["messages"][-1],
        ]
        usage = client.messages.create(**body).usage
        assert turn == 0 or (usage.cache_read_input_tokens or 0) > 1_000
        talk.say()
    client.close()


def test_a_parameter_that_keys_the_prefix_is_told(server: LocalServer, told: Told) -> None:
    client, talk = watch(gpt(server), on_break=told, hazards=HAZARDS), Talk()
    client.chat.completions.create(**talk.chat())
    client.chat.completions.create(**talk.say().chat(parallel_tool_calls=False))
    (found,) = told
    assert (found.code, place_of(found).path, place_of(found).now) == ("CKP04", "parallel_tool_calls", "false")
    client.close()


def test_siblings_branches_and_other_conversations_break_nothing(server: LocalServer, told: Told) -> None:
    client = watch(claude(server), on_break=told, hazards=HAZARDS)
    talk = Talk("Compare the offers.")
    client.messages.create(**talk.claude())
    branches = [Talk("Compare the offers.").say(f"Look at offer {number}.") for number in range(3)]
    for branch in branches:
        client.messages.create(**branch.claude())
    for branch in branches:
        client.messages.create(**branch.say("Go on.").claude())
    client.messages.create(**Talk("Something else").claude())
    client.messages.create(**Talk("Compare the offers.", head="You translate.").claude())
    assert told == []
    client.close()


def test_agents_given_the_same_words_keep_their_own_conversations(server: LocalServer, told: Told) -> None:
    make, ask, _ = ENDPOINTS["messages"]
    client = watch(make(server), on_break=told, hazards=HAZARDS)
    agents = [
        Talk("Mend bug 12.", head="You plan what others do. " * 400),
        Talk("Mend bug 12.", head="A coder writes code only. " * 400),
    ]
    for _ in range(3):
        for agent in agents:
            ask(client, agent)
            agent.say("Go on.")
    assert told == []
    client.close()


def test_users_who_say_the_same_are_told_apart_by_their_prompts(server: LocalServer, told: Told) -> None:
    make, ask, _ = ENDPOINTS["responses"]
    client = watch(make(server), on_break=told, hazards=HAZARDS)
    users = [Talk("Hi.", head=f"{HEAD}You talk to {user}.") for user in ("Alice", "Bob")]
    for turn in range(4):
        for user in users:
            ask(client, user)
            user.say("Go on.")
        assert len(told) == 1, turn  # what both begin with could have been read by the second, and is told once
    client.close()


def test_many_threads_keep_their_conversations_apart(server: LocalServer, told: Told) -> None:
    client = watch(gpt(server), on_break=told, hazards=HAZARDS)

    def talk(number: int) -> None:
        mine = Talk(f"I am number {number}")
        for turn in range(5):
            client.chat.completions.create(**mine.chat())
            mine.say(f"{turn}")

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [] and len(server.ledger) == 30
    client.close()


def test_async_clients_are_watched_too(server: LocalServer, told: Told) -> None:
    async def ask(client: Any, talk: Talk) -> None:
        async for _ in await client.messages.create(**talk.claude(), stream=True):
            pass

    async def run() -> None:
        client = watch(anthropic.AsyncAnthropic(base_url=server.url, api_key="any"), on_break=told, hazards=HAZARDS)
        assert isinstance(client, anthropic.AsyncAnthropic)
        talk = Talk()
        await ask(client, talk)
        await ask(client, talk.say())
        assert told == []
        talk.head = "Now " + HEAD
        await ask(client, talk.say())
        await client.close()

    asyncio.run(run())
    (found,) = [finding for finding in told if finding.detector == "guard"]
    assert found.code == "CKS10" and place_of(found).caller.startswith(f"{Path(__file__)}:")


async def _gathered(client: Any, talk: Talk) -> None:
    await asyncio.gather(client.messages.create(**talk.claude()))  # gathered


async def _as_a_task(client: Any, talk: Talk) -> None:
    await asyncio.create_task(client.messages.create(**talk.claude()))  # a task


async def _in_time(client: Any, talk: Talk) -> None:
    await asyncio.wait_for(client.messages.create(**talk.claude()), 9)  # in time


@pytest.mark.parametrize(
    ("ask", "word"), [(_gathered, "# gathered"), (_as_a_task, "# a task"), (_in_time, "# in time")]
)
def test_an_async_call_shows_the_line_that_waits_for_it(ask: Any, word: str, server: LocalServer, told: Told) -> None:
    async def talked() -> None:
        client = watch(anthropic.AsyncAnthropic(base_url=server.url, api_key="any"), on_break=told, hazards=HAZARDS)
        talk = Talk()
        await ask(client, talk)
        talk.head = "Now " + HEAD
        await ask(client, talk.say())
        await client.close()

    asyncio.run(talked())
    (found,) = told
    file, _, line = place_of(found).caller.rpartition(":")
    assert not file or (file == __file__ and word in Path(file).read_text("utf-8").splitlines()[int(line) - 1])
    assert file or word == "# in time"  # before Python 3.12 nothing says who waits


def test_a_callers_own_package_may_have_the_name_of_a_framework(
    server: LocalServer, tmp_path: Path, told: Told
) -> None:
    loop = tmp_path / "agents.py"
    loop.write_text("def ask(client, request):\n    return client.messages.create(**request)\n", "utf-8")
    spec = importlib.util.spec_from_file_location("agents.loop", loop)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    client, talk = watch(claude(server), on_break=told, hazards=HAZARDS), Talk()
    module.ask(client, talk.claude())
    talk.head = "Now " + HEAD
    module.ask(client, talk.say().claude())
    assert [place_of(found).caller for found in told] == [f"{loop}:2"]
    client.close()


def test_a_stream_is_passed_on_as_it_comes(server: LocalServer) -> None:
    client = watch(claude(server))
    with client.messages.stream(**Talk().claude()) as stream:
        words = "".join(stream.text_stream)
    assert words == "You said: hello" and stream.get_final_message().usage.output_tokens
    with client.messages.with_streaming_response.create(**Talk().claude()) as response:
        raw = b"".join(response.iter_bytes())
    assert b"You said: hello" in raw
    client.close()


async def _awaited(finding: Finding) -> None:
    raise AssertionError("nobody awaits it")


class _Async:
    async def __call__(self, finding: Finding) -> None:
        await _awaited(finding)


def test_an_async_on_break_is_refused_at_once_since_nobody_would_await_it() -> None:
    for on_break in (_awaited, partial(_awaited), _Async()):
        with pytest.raises(UsageError, match=r"on_break cannot be async.*pass a plain def"):
            watch(anthropic.AsyncAnthropic(api_key="any"), on_break=on_break)


def test_the_whole_catalogue_finds_nothing_in_a_conversation_that_only_grows(server: LocalServer, told: Told) -> None:
    from contextkit import AnthropicMessages, Context, OpenAIResponses, tool

    @tool
    def price(item: str) -> float:
        """The price of an item."""
        return 0.5

    script = [
        {"parts": [{"type": "call", "name": "price", "arguments": {"item": "pear"}}] * 2},
        {"parts": [{"type": "text", "text": "0.5"}]},
    ]
    for provider, made in (
        (AnthropicMessages("claude-sonnet-5-5", max_tokens=99), claude),
        (OpenAIResponses(GPT), gpt),
    ):
        server.script(script * 3)
        client, context = watch(made(server), on_break=told), Context(provider, system=HEAD, tools=[price])
        for question in ("What is a pear?", "And an apple?", "And both?"):
            context.user(question)
            while not context.finished:
                context.receive(context.request().send(client))
                for call in context.calls:
                    context.result(call, call.run())
        client.close()
    assert told == [] and len(server.ledger) == 12


def test_a_reminder_that_is_gone_is_told_though_the_user_spoke_twice(server: LocalServer, told: Told) -> None:
    client, talk = watch(claude(server), on_break=told), Talk().say("Go on.")
    talk.messages[-1]["content"].append({"type": "text", "text": "<reminder>Two files changed.</reminder>"})
    client.messages.create(**talk.claude())
    talk.messages[-1]["content"].pop()
    talk.messages.append({"role": "user", "content": [{"type": "text", "text": "And be quick."}]})
    client.messages.create(**talk.claude())
    assert [finding.code for finding in told] == ["CKM09"]
    client.close()
